"""`toolcrib doctor` for servers that require a sign-in: each step of the discovery, and the stored tokens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.cli.kit import in_background, run_cli, write_settings
from tests.faults.http_kit import closed_port
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree
from toolcrib.config import MASK
from toolcrib.oauth.account import Account

OTHER = "https://other.example"


def doctor(folder: Path, server: AuthorizationServer, **entry: Any) -> dict[str, dict[str, Any]]:
    write_settings(folder, {"web": {"url": server.url, **entry}})
    (report,) = [each for each in run_cli("doctor", "--json", cwd=folder).json["servers"] if each["server"] == "web"]
    return {each["step"]: each for each in report["steps"]}


def test_each_step_of_the_discovery_is_shown(tmp_path: Path) -> None:
    with in_background(AuthorizationServer()) as server:
        found = doctor(tmp_path, server)

    assert found["connects"]["verdict"] == "error"
    assert found["resource"] == {
        "step": "resource",
        "verdict": "ok",
        "text": f"{server.resource}; scopes: mcp:read mcp:write",
    }
    assert found["issuer"]["text"] == f"{server.issuer}: registers clients"
    assert found["sign-in"] == {"step": "sign-in", "verdict": "skipped", "text": "no tokens are stored"}
    assert not server.counters["register"]


@pytest.mark.parametrize(
    "behaviour, entry, step, verdict, text, fix",
    [
        ({"resource": "https://other.example/mcp"}, {}, "resource", "error", "expected the resource", "operator"),
        ({"authorization_servers": ()}, {}, "resource", "error", "names no authorization_servers", "add them"),
        (
            {},
            {"oauth": {"issuer": OTHER}},
            "resource",
            "error",
            f"choose the issuer {OTHER}",
            "correct issuer in oauth",
        ),
        ({"claimed_issuer": "https://x.example"}, {}, "issuer", "error", "expected the issuer", "correct"),
        ({"server_metadata": "none"}, {}, "issuer", "error", "publishes no metadata", "correct"),
        ({"metadata_answer": "unavailable"}, {}, "issuer", "error", "not available (HTTP 503)", "try again later"),
        ({"pkce": "none"}, {}, "issuer", "error", "does not state that it supports PKCE", "assume_pkce = true"),
        ({"pkce": "none"}, {"oauth": {"assume_pkce": True}}, "issuer", "ok", "registers clients", ""),
        (
            {"registration": False},
            {},
            "issuer",
            "error",
            "does not support client registration",
            "set client_id in oauth",
        ),
        ({"registration": False}, {"oauth": {"client_id": "a"}}, "issuer", "ok", "the client_id of the settings", ""),
    ],
)
def test_a_step_that_fails_has_a_fix(
    behaviour: dict[str, Any], entry: dict[str, Any], step: str, verdict: str, text: str, fix: str, tmp_path: Path
) -> None:
    with in_background(AuthorizationServer(**behaviour)) as server:
        steps = doctor(tmp_path, server, **entry)
    found, connects = steps[step], steps["connects"]

    assert found["verdict"] == verdict
    assert text in found["text"]
    assert fix in found.get("fix", "")
    expected = f"see the step {step}" if verdict == "error" else "`toolcrib auth login web` signs you in"
    assert expected in connects["fix"]


@pytest.mark.parametrize(
    "resource, url, named",
    [
        ("{base}/mcp", "http://localhost:{port}/mcp", "{base}/mcp"),
        ("{base}/mcp/v1", "{base}/mcp", "{base}/mcp/v1"),
        ("{base}", "http://localhost:{port}/mcp", "{base}/mcp"),
        ("https://other.example/v2?key=s3cret", "{base}/mcp", f"https://other.example/v2?key={MASK}"),
    ],
    ids=["another name of the host", "without a part of the path", "the parent of the server", "with a secret"],
)
def test_the_fix_for_metadata_of_another_resource_names_its_url(
    resource: str, url: str, named: str, tmp_path: Path
) -> None:
    with in_background(AuthorizationServer(resource=resource)) as server:
        given = url.format(base=server.base, port=server.port)
        found = doctor(tmp_path, server, url=given)
        expected = server.expand(named)

    meant = f"use url = {expected} if that is the server that you mean"
    assert found["resource"]["fix"] == f"{meant}, or ask its operator to correct the resource metadata"


@pytest.mark.parametrize("resource", ["notes", "http://other.example/mcp", "{base}/mcp/v1#part"])
def test_the_fix_for_metadata_without_a_usable_url_names_none(resource: str, tmp_path: Path) -> None:
    with in_background(AuthorizationServer(resource=resource)) as server:
        found = doctor(tmp_path, server)

    assert found["resource"]["fix"] == "ask its operator to correct the resource metadata"


TOKENS = Path(".config/toolcrib/tokens")


async def _sign_in(url: str, folder: Path) -> None:
    async with tc.Client(url, auth=tc.OAuth(interact=agree, store=tc.FileTokenStore(folder))):
        pass


async def _expire(url: str, folder: Path) -> None:
    account = Account(url, "", tc.FileTokenStore(folder))
    stored = await account.load()
    await account.save(replace(stored, token_sets=tuple(replace(each, expires_at=1.0) for each in stored.token_sets)))


def test_a_sign_in_that_the_server_accepts_is_shown(tmp_path: Path) -> None:
    with in_background(AuthorizationServer()) as server:
        asyncio.run(_sign_in(server.url, tmp_path / TOKENS))
        found = doctor(tmp_path, server)

    assert found["connects"]["verdict"] == found["sign-in"]["verdict"] == "ok"
    assert f"signed in at {server.issuer}; scopes: mcp:read; the token expires in " in found["sign-in"]["text"]
    assert "resource" not in found


def test_a_sign_in_that_is_turned_off_is_not_used(tmp_path: Path) -> None:
    with in_background(AuthorizationServer()) as server:
        asyncio.run(_sign_in(server.url, tmp_path / TOKENS))
        found = doctor(tmp_path, server, oauth=False)

    assert found["connects"]["verdict"] == "error" and "sign-in" not in found
    assert "the sign-in is turned off in .mcp.json:1: turn it on there" in found["connects"]["fix"]


def test_an_authorization_header_that_is_rejected_is_to_be_corrected(tmp_path: Path) -> None:
    with in_background(AuthorizationServer()) as server:
        found = doctor(tmp_path, server, headers={"Authorization": "Bearer wrong"})

    assert "it rejects these credentials (HTTP 401)" in found["connects"]["text"]
    assert found["connects"]["fix"] == (
        "correct the Authorization header of web in .mcp.json:1, or remove it and run `toolcrib auth login web`"
    )


def test_a_server_without_resource_metadata_can_be_signed_in_to(tmp_path: Path) -> None:
    with in_background(AuthorizationServer(resource_metadata="none")) as server:
        found = doctor(tmp_path, server)

    assert "it requires an OAuth sign-in" in found["connects"]["text"]
    assert "`toolcrib auth login web` signs you in" in found["connects"]["fix"]
    assert (found["resource"]["verdict"], found["issuer"]["verdict"]) == ("warning", "ok")


def test_an_issuer_with_a_slash_at_the_end_can_be_signed_in_to_without_resource_metadata(tmp_path: Path) -> None:
    with in_background(AuthorizationServer(resource_metadata="none", claimed_issuer="{base}/")) as server:
        found = doctor(tmp_path, server)

    assert "it requires an OAuth sign-in" in found["connects"]["text"]
    assert found["issuer"]["verdict"] == "ok", found["issuer"]["text"]
    assert "`toolcrib auth login web` signs you in" in found["connects"]["fix"]


def test_an_issuer_of_the_settings_is_examined_if_the_metadata_names_none(tmp_path: Path) -> None:
    with in_background(AuthorizationServer(authorization_servers=())) as server:
        found = doctor(tmp_path, server, oauth={"issuer": server.issuer})

    assert (found["resource"]["verdict"], found["issuer"]["verdict"]) == ("ok", "ok")
    assert found["issuer"]["text"].startswith(f"{server.issuer}: ")
    assert "`toolcrib auth login web` signs you in" in found["connects"]["fix"]


def test_only_the_issuer_of_the_settings_is_examined(tmp_path: Path) -> None:
    with in_background(AuthorizationServer()) as server:
        server.change(authorization_servers=(f"{server.base}/none", server.issuer))
        found = doctor(tmp_path, server, oauth={"issuer": server.issuer})
        asked = [each.path for each in server.requests if each.path.endswith("/none")]

    assert found["issuer"]["text"].startswith(f"{server.issuer}: ") and not asked


def test_one_usable_issuer_of_several_is_enough(tmp_path: Path) -> None:
    with in_background(AuthorizationServer()) as server:
        server.change(authorization_servers=(f"{server.base}/none", server.issuer))
        found = doctor(tmp_path, server)

    assert "`toolcrib auth login web` signs you in" in found["connects"]["fix"]


def test_a_stored_sign_in_that_cannot_be_read_has_the_fix_that_the_store_names(tmp_path: Path) -> None:
    folder = tmp_path / TOKENS
    with in_background(AuthorizationServer()) as server:
        asyncio.run(_sign_in(server.url, folder))
        (stored,) = folder.glob("*.json")
        stored.write_text("{")
        corrupt = doctor(tmp_path, server)
        folder.chmod(0o755)
        public = doctor(tmp_path, server)
        folder.chmod(0o700)
        stored.rename(folder / "elsewhere")
        stored.symlink_to(folder / "elsewhere")
        linked = doctor(tmp_path, server)

    problems = [(found["sign-in"]["text"], found["sign-in"]["fix"]) for found in (corrupt, public, linked)]
    assert problems == [
        (f"{stored}: expected a JSON object", "remove the file and sign in again"),
        (f"{folder}: expected a folder that only its owner can use (mode 0700)", f"run: chmod 700 {folder}"),
        (f"{stored}: expected a file, not a link or anything else", f"correct or remove {stored}, and sign in again"),
    ]
    assert corrupt["connects"]["fix"] == "see the step sign-in"


def test_a_sign_in_that_cannot_be_stored_has_a_fix_for_the_store(tmp_path: Path) -> None:
    folder = tmp_path / TOKENS
    with in_background(AuthorizationServer()) as server:
        asyncio.run(_sign_in(server.url, folder))
        asyncio.run(_expire(server.url, folder))
        (lock,) = (each.with_suffix(".lock") for each in folder.glob("*.json"))
        lock.unlink()
        lock.mkdir()
        found = doctor(tmp_path, server)

    assert found["connects"]["text"].startswith(f"{lock}: expected a file that can be locked, not a link, got ")
    assert found["connects"]["fix"] == f"correct or remove {lock}, and sign in again"


@pytest.mark.parametrize("is_from_file", [True, False])
def test_the_fix_is_a_command_that_works(is_from_file: bool, tmp_path: Path) -> None:
    with in_background(AuthorizationServer(refresh_tokens="none")) as server:
        asyncio.run(_sign_in(server.url, tmp_path / TOKENS))
        asyncio.run(_expire(server.url, tmp_path / TOKENS))
        write_settings(tmp_path, {"web": {"url": server.url}}, "one.json")
        words = ("-c", "one.json") if is_from_file else (server.url,)
        ran = run_cli("doctor", *words, "--json", cwd=tmp_path)

    found = {each["step"]: each for each in ran.json["servers"][0]["steps"]}
    command = f"toolcrib auth login {'web -c one.json' if is_from_file else server.url}"
    assert found["connects"]["fix"].startswith(f"`{command}` signs you in")
    assert found["sign-in"]["text"] == "the stored token has expired"
    assert found["sign-in"]["fix"] == f"run `{command}`"


async def _stop_issuer(url: str, folder: Path) -> None:
    """Let the stored tokens be renewed at a port where nothing listens."""
    account = Account(url, "", tc.FileTokenStore(folder))
    stored = await account.load()
    endpoint = f"http://127.0.0.1:{closed_port()}/token"
    token_sets = tuple(replace(each, expires_at=1.0, token_endpoint=endpoint) for each in stored.token_sets)
    await account.save(replace(stored, token_sets=token_sets))


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "failing"])
def test_an_authorisation_server_that_does_not_answer_is_not_blamed_on_the_mcp_server(
    is_stopped: bool, tmp_path: Path
) -> None:
    with in_background(AuthorizationServer()) as server:
        asyncio.run(_sign_in(server.url, tmp_path / TOKENS))
        if is_stopped:
            asyncio.run(_stop_issuer(server.url, tmp_path / TOKENS))
        else:
            asyncio.run(_expire(server.url, tmp_path / TOKENS))
            server.fail_next("token", times=99, status=503)
        found = doctor(tmp_path, server)

    assert found["issuer"]["verdict"] == "error"
    assert ("/token: " if is_stopped else "not available (HTTP 503)") in found["issuer"]["text"]
    assert found["issuer"]["fix"] == "the authorisation server does not answer: try again later, or check the network"
    assert found["connects"]["fix"] == "see the step issuer"
    assert "the authorisation server does not answer" in found["connects"]["text"]
