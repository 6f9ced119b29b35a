"""The sign-in of an entry in the spellings of all programs, read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings.files import entry, load
from toolcrib.config.secrets_scan import placeholders, written_plainly
from toolcrib.diagnostics.sign_in_state import obstacle_to_sign_in
from toolcrib.settings import parse_settings
from toolcrib.settings.edit.convert import OWN, PROGRAMS, ConvertedEntry, convert_entry
from toolcrib.settings.edit.validate import check_values

URL = "https://h/mcp"
CALLBACK = "http://localhost:3118/callback"
OURS: dict[str, Any] = {
    "client_id": "me",
    "client_secret": "${SECRET}",
    "scopes": ["read", "write"],
    "redirect_uri": CALLBACK,
    "issuer": "https://login.example",
}


def options(folder: Path, values: dict[str, Any], *, name: str = ".mcp.json") -> dict[str, Any] | None:
    found = entry(folder, {"url": URL, **values}, name=name)
    assert found.error is None and found.config is not None
    oauth = found.config.oauth  # type: ignore[union-attr]
    return None if oauth is None else dict(oauth)


@pytest.mark.parametrize(
    "name, values, expected",
    [
        # Claude Code
        (
            ".mcp.json",
            {"oauth": {"clientId": "me", "callbackPort": 3118, "scopes": "a b"}},
            {"client_id": "me", "redirect_uri": CALLBACK, "scopes": ("a", "b")},
        ),
        # VS Code
        (".vscode/mcp.json", {"oauth": {"clientId": "me"}}, {"client_id": "me"}),
        # Cursor
        (
            ".cursor/mcp.json",
            {"auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "${env:TOKEN}", "scopes": ["a", "b"]}},
            {"client_id": "me", "client_secret": "t0ken", "scopes": ("a", "b")},
        ),
        # opencode
        (
            "any.json",
            {"oauth": {"clientId": "me", "clientSecret": "s", "scope": "a b", "redirectUri": CALLBACK}},
            {"client_id": "me", "client_secret": "s", "scopes": ("a", "b"), "redirect_uri": CALLBACK},
        ),
        ("any.json", {"oauth": False}, None),
        # Gemini CLI
        (
            ".gemini/settings.json",
            {"oauth": {"enabled": True, "clientId": "me", "clientSecret": "$TOKEN", "scopes": ["a"]}},
            {"client_id": "me", "client_secret": "t0ken", "scopes": ("a",)},
        ),
        (".gemini/settings.json", {"oauth": {"enabled": False, "clientId": "me"}}, None),
        # FastMCP
        ("any.json", {"auth": "oauth"}, {}),
        # Toolcrib
        ("any.json", {"oauth": True}, {}),
        ("any.json", {"oauth": {}}, {}),
        ("any.json", {"oauth": None}, None),
        ("any.json", {}, None),
        (
            "any.json",
            {"oauth": {"client_id": "${TOKEN}", "scopes": ["x:${TOKEN}"], "assume_pkce": True, "issuer": None}},
            {"client_id": "t0ken", "scopes": ("x:t0ken",), "assume_pkce": True},
        ),
        ("any.json", {"oauth": {"resource": None}}, {"resource": None}),
        ("any.json", {"oauth": {"resource": False}}, {"resource": None}),
        ("any.json", {"oauth": {"callbackPort": "${PORT:-3118}"}}, {"redirect_uri": CALLBACK}),
        ("any.json", {"oauth": {"callbackPort": 1, "redirectUri": CALLBACK}}, {"redirect_uri": CALLBACK}),
    ],
)
def test_every_programs_spelling_is_read(
    tmp_path: Path, name: str, values: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    assert options(tmp_path, values, name=name) == expected


def test_toml_has_the_same_options(tmp_path: Path) -> None:
    text = '[servers.s]\nurl = "https://h/mcp"\noauth = { client_id = "me", scopes = "a b", resource = false }\n'
    config = load(tmp_path / "toolcrib.toml", text).servers["s"]
    assert dict(config.oauth) == {"client_id": "me", "scopes": ("a", "b"), "resource": None}  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize(
    "values, said",
    [
        ({"oauth": 5}, "oauth: expected a table of sign-in options, true or false"),
        ({"oauth": {"clientId": ["x"]}}, "oauth.clientId: expected a non-empty string"),
        ({"oauth": {"scope": ['"']}}, "oauth.scope[0]: expected a scope"),
        ({"oauth": {"redirectUri": "nowhere"}}, "oauth.redirectUri: expected"),
        ({"oauth": {"callbackPort": "many"}}, "oauth.callbackPort: expected a port number"),
        ({"oauth": {"callbackPort": 70000}}, "oauth.callbackPort: expected a port number"),
        ({"oauth": {"enabled": "yes"}}, "oauth.enabled: expected true or false"),
        ({"oauth": {"clientId": "a", "client_id": "b"}}, "oauth.client_id: another name of clientId"),
        ({"auth": {"CLIENT_ID": ""}}, "auth.CLIENT_ID: expected"),
        ({"auth": {"CLIENT_ID": "${MISSING}"}}, "auth.CLIENT_ID: MISSING is not set"),
        ({"auth": {}, "oauth": {}}, "auth is another name of oauth"),
    ],
)
def test_errors_name_the_key_as_it_is_written(tmp_path: Path, values: dict[str, Any], said: str) -> None:
    found = entry(tmp_path, {"url": URL, **values})
    assert found.error is not None and said in str(found.error)


def test_an_error_names_the_line_of_the_option(tmp_path: Path) -> None:
    text = '{"mcpServers": {"s": {\n"url": "https://h",\n"oauth": {\n"redirectUri": "x"}}}}'
    (found,) = load(tmp_path / ".mcp.json", text).entries
    assert found.error is not None and ".mcp.json:4:" in str(found.error)


@pytest.mark.parametrize(
    "values, warning",
    [
        (
            {"oauth": {"authServerMetadataUrl": "https://x"}},
            "oauth.authServerMetadataUrl: has no effect here; authorisation servers are discovered",
        ),
        ({"oauth": {"tokenUrl": "https://x"}}, "oauth.tokenUrl: has no effect here; endpoints are discovered"),
        ({"oauth": {"clientIdd": "x"}}, "oauth.clientIdd: unknown key, has no effect; did you mean 'clientId'?"),
        ({"auth": "Bearer some-token"}, "auth: has no effect as text; put a token into headers"),
    ],
)
def test_options_without_effect_are_reported(tmp_path: Path, values: dict[str, Any], warning: str) -> None:
    settings = load(tmp_path / ".mcp.json", {"mcpServers": {"s": {"url": URL, **values}}})
    assert settings.entries[0].error is None
    assert warning in settings.warnings[0] and "some-token" not in settings.warnings[0]


def test_a_local_server_has_no_sign_in(tmp_path: Path) -> None:
    settings = load(tmp_path / ".mcp.json", {"mcpServers": {"s": {"command": "x", "oauth": {"clientId": "x"}}}})
    assert "oauth: has no effect on a server of type stdio" in settings.warnings[0]


# ---- writing


def convert(oauth: Any, program: str, *, only_known: bool = True, format: str = "json") -> ConvertedEntry:
    (found,) = parse_settings({"mcpServers": {"s": {"url": URL, "oauth": oauth}}}, format=format).entries
    return convert_entry(found, format, OWN if program == "own" else PROGRAMS[program], only_known=only_known)


@pytest.mark.parametrize(
    "program, key, values, omitted",
    [
        (
            "claude",
            "oauth",
            {"clientId": "me", "callbackPort": 3118, "scopes": "read write"},
            {"oauth.client_secret", "oauth.issuer"},
        ),
        (
            "vscode",
            "oauth",
            {"clientId": "me"},
            {"oauth.client_secret", "oauth.issuer", "oauth.redirect_uri", "oauth.scopes"},
        ),
        (
            "cursor",
            "auth",
            {"CLIENT_ID": "me", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["read", "write"]},
            {"oauth.issuer", "oauth.redirect_uri"},
        ),
        (
            "gemini",
            "oauth",
            {"clientId": "me", "clientSecret": "${SECRET}", "scopes": ["read", "write"], "redirectUri": CALLBACK},
            {"oauth.issuer"},
        ),
        ("own", "oauth", OURS, set()),
    ],
)
def test_options_are_exported_in_each_programs_spelling(
    program: str, key: str, values: dict[str, Any], omitted: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    converted = convert(OURS, program)
    assert converted.values[key] == values and set(converted.omitted) == omitted
    known = OWN if program == "own" else PROGRAMS[program]
    section = "servers" if program == "own" else "mcpServers"
    settings = parse_settings({section: {"s": converted.values}}, format=known.format)
    assert not settings.warnings and settings.servers["s"].oauth["client_id"] == "me"  # type: ignore[union-attr,index]


@pytest.mark.parametrize("program", [*PROGRAMS, "own"])
def test_a_sign_in_without_options_needs_none_elsewhere(program: str) -> None:
    converted = convert(True, program)
    assert converted.values.get("oauth") == (True if program == "own" else None) and not converted.omitted


@pytest.mark.parametrize("oauth", [False, {"enabled": False, "clientId": "me"}])
@pytest.mark.parametrize("program", [*PROGRAMS, "own"])
def test_a_sign_in_that_is_off_stays_off_in_every_file_that_toolcrib_reads(program: str, oauth: Any) -> None:
    converted = convert(oauth, program, only_known=False)
    assert not converted.omitted and converted.values["oauth"] == ({"enabled": False} if program == "gemini" else False)
    known = OWN if program == "own" else PROGRAMS[program]
    section = "servers" if program == "own" else "mcpServers"
    (entry,) = parse_settings({section: {"s": converted.values}}, format=known.format).entries
    assert obstacle_to_sign_in(entry) == "off"


def test_an_export_says_which_programs_cannot_turn_a_sign_in_off() -> None:
    assert convert(False, "own").values["oauth"] is False
    assert convert(False, "gemini").values["oauth"] == {"enabled": False}
    for program in ("claude", "vscode", "cursor"):
        converted = convert(False, program)
        assert converted.omitted == ("oauth = false, which turns the sign-in off",)
        assert not converted.values.keys() & {"oauth", "auth"}


def test_an_import_keeps_what_only_toolcrib_reads() -> None:
    converted = convert(OURS, "claude", only_known=False)
    assert not converted.omitted and converted.values["oauth"] == {
        "clientId": "me",
        "client_secret": "${SECRET}",
        "scopes": "read write",
        "callbackPort": 3118,
        "issuer": "https://login.example",
    }


def test_a_client_secret_in_plain_text_is_found_under_every_name() -> None:
    for key, name in (("oauth", "client_secret"), ("oauth", "clientSecret"), ("auth", "CLIENT_SECRET")):
        (found,) = written_plainly({"url": URL, key: {name: "abcdef", "clientId": "me"}})
        assert found == (f"{key}.{name}", "CLIENT_SECRET", "${CLIENT_SECRET}")
    assert placeholders({"url": URL, "oauth": {"clientId": "<YOUR CLIENT ID>"}}) == ["oauth.clientId"]


def test_variables_of_a_sign_in_that_are_not_set_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISSING", raising=False)
    assert check_values("s", {"url": URL, "oauth": {"clientSecret": "${MISSING}"}}, "json").unset == ("MISSING",)
