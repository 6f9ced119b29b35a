from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from toolcrib.config import secrets_of
from toolcrib.config.secrets_scan import placeholders, written_plainly
from toolcrib.diagnostics.report import ServerReport, Verdict
from toolcrib.diagnostics.settings_entry import examine_entry, examine_files, missing_variables
from toolcrib.settings import ServerEntry, load_settings


def entry_of(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> ServerEntry:
    file = folder / ".mcp.json"
    file.write_text('{"mcpServers": {"one": ' + text + "}}")
    return load_settings(file, environ=environ or {}).entries[0]


def checked(entry: ServerEntry, environ: Mapping[str, str] | None = None) -> ServerReport:
    checkup = ServerReport(entry.name)
    examine_entry(checkup, entry, environ or {})
    return checkup


def test_every_variable_that_stands_for_nothing_is_named_with_its_place(tmp_path: Path) -> None:
    text = '{"command": "x", "args": ["${A}", "${B:-b}"], "env": {"C": "${C}", "D": "${E}", "E": "5"}}'
    (finding,) = [each for each in checked(entry_of(tmp_path, text)).findings if each.step == "variables"]
    assert finding.verdict is Verdict.BROKEN
    assert finding.text.startswith("not set: A, C; used in args[0], env.C of ")
    assert "export A=... C=..." in finding.fix


def test_variables_that_are_set_are_not_reported(tmp_path: Path) -> None:
    environ = {"A": "1"}
    entry = entry_of(tmp_path, '{"url": "https://example.com/${A}"}', environ)
    assert [(each.step, each.verdict) for each in checked(entry, environ).findings] == [("settings", Verdict.FINE)]


def test_an_entry_that_only_lacks_a_variable_could_be_read(tmp_path: Path) -> None:
    steps = {each.step: each.verdict for each in checked(entry_of(tmp_path, '{"command": "${A}"}')).findings}
    assert steps == {"settings": Verdict.FINE, "variables": Verdict.BROKEN}


def test_an_entry_that_is_wrong_is_reported_with_file_line_and_what_was_expected(tmp_path: Path) -> None:
    (finding,) = checked(entry_of(tmp_path, '\n{"command": "x", "args": "y"}')).findings
    assert finding.verdict is Verdict.BROKEN
    assert ".mcp.json:2" in finding.text
    assert ".mcp.json:2, use" in finding.fix


def test_a_wrong_entry_with_a_missing_variable_reports_both(tmp_path: Path) -> None:
    entry = entry_of(tmp_path, '{"command": "x", "url": "https://example.com", "env": {"A": "${A}"}}')
    assert [(each.step, each.verdict) for each in checked(entry).findings] == [
        ("settings", Verdict.BROKEN),
        ("variables", Verdict.BROKEN),
    ]


def test_text_that_only_looks_like_a_variable_is_not_a_variable() -> None:
    assert missing_variables({"args": ["$A", "$${A}", "${A"], "env": {"B": 1}}, {}) == []


@pytest.mark.parametrize(
    "raw, places",
    [
        ({"env": {"GITHUB_TOKEN": "abcdef"}}, [("env.GITHUB_TOKEN", "GITHUB_TOKEN", "${GITHUB_TOKEN}")]),
        ({"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "MODE": "abcdef", "API_KEY": ""}}, []),
        ({"env": {"MONKEY": "banana", "KEYBOARD": "de", "TOKENS_MAX": "10000"}}, []),
        ({"env": {"ANY": "ghp_" + "0123456789abcdef"}}, [("env.ANY", "ANY", "${ANY}")]),
        ({"headers": {"Authorization": "Bearer abc"}}, [("headers.Authorization", "TOKEN", "Bearer ${TOKEN}")]),
        ({"headers": {"Authorization": "abcdef"}}, [("headers.Authorization", "AUTHORIZATION", "${AUTHORIZATION}")]),
        (
            {"headers": {"X-Api-Key": "abcdef", "Accept": "text/plain"}},
            [("headers.X-Api-Key", "X_API_KEY", "${X_API_KEY}")],
        ),
        ({"args": ["--token", "abcdef", "--verbose"]}, [("args[1]", "TOKEN", "${TOKEN}")]),
        ({"args": ["--api-key=abcdef", "--port=80000"]}, [("args[0]", "API_KEY", "--api-key=${API_KEY}")]),
        ({"args": ["sk-" + "0123456789abcdef"]}, [("args[0]", "TOKEN", "${TOKEN}")]),
        ({"args": ["--token", "--verbose", "file"]}, []),
        ({"url": "https://user:abcdef@example.com/"}, [("url", "PASSWORD", "${PASSWORD}")]),
        ({"httpUrl": "https://example.com/?api_key=abcdef&x=longer"}, [("httpUrl", "API_KEY", "${API_KEY}")]),
        ({"env": 3, "args": [5], "url": "https://[broken"}, []),
    ],
)
def test_secrets_in_plain_text_are_found_by_name_or_by_look(raw: dict[str, Any], places: list[Any]) -> None:
    assert written_plainly(raw) == places


def test_a_secret_in_plain_text_is_reported_and_never_shown(tmp_path: Path) -> None:
    entry = entry_of(tmp_path, '{"command": "x", "env": {"TOKEN": "do-not-show"}}')
    (finding,) = [each for each in checked(entry).findings if each.step == "secrets"]
    assert (finding.verdict, finding.fix) == (Verdict.WARNING, "write ${TOKEN} there, and export TOKEN=...")
    assert "do-not-show" not in str(finding)


def test_whatever_can_be_secret_in_a_config_is_masked_in_a_servers_words() -> None:
    stdio = tc.StdioServer("x", ["--token=of-args"], env={"A": "of-env", "B": "no"})
    web = tc.HttpServer("https://u:of-url@example.com/?key=of-query", headers={"Authorization": "Bearer of-header"})
    for config, secrets in ((stdio, ["of-env", "of-args"]), (web, ["of-header", "of-url", "of-query"])):
        checkup = ServerReport(secrets=secrets_of(config))
        for secret in secrets:
            assert checkup.said(f"<{secret}>") == "<<masked>>"
    assert ServerReport(secrets=secrets_of(stdio)).said("no x") == "no x"


def test_a_variable_that_is_passed_on_is_secret_only_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_FOLDER", "/some/folder")
    monkeypatch.setenv("SOME_TOKEN", "abcdef")
    config = tc.StdioServer("x", env={"SOME_FOLDER": "/some/folder", "SOME_TOKEN": "abcdef", "OTHER": "/other"})
    assert secrets_of(config).mask("/some/folder abcdef /other") == "/some/folder <masked> <masked>"


@pytest.mark.parametrize(
    "mode, text, fixes",
    [
        (0o600, '{"command": "x", "env": {"TOKEN": "abcdef"}}', []),
        (0o644, '{"command": "x", "env": {"TOKEN": "abcdef"}}', ["chmod 600"]),
        (0o644, '{"command": "x"}', []),
        (0o666, '{"command": "x"}', ["chmod go-w"]),
    ],
)
def test_files_that_others_may_read_or_write_are_reported(
    tmp_path: Path, mode: int, text: str, fixes: list[str]
) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"one": ' + text + "}}")
    file.chmod(mode)
    checkup = ServerReport()
    examine_files(checkup, load_settings(file), [file])
    shown = [each.fix for each in checkup.findings if each.step == "permissions"]
    assert shown == [f"{fix} {file}" for fix in fixes]


def test_warnings_about_a_file_and_disagreements_are_reported(tmp_path: Path) -> None:
    first, second = tmp_path / ".mcp.json", tmp_path / "toolcrib.toml"
    first.write_text('{"mcpServers": {"one": {"command": "x", "colour": "red"}}}')
    second.write_text('[servers.one]\ncommand = "y"\n')
    checkup = ServerReport()
    examine_files(checkup, load_settings(first, second), [first, second])
    texts = [each.text for each in checkup.findings if each.verdict is Verdict.WARNING]
    assert any("colour: unknown key" in text for text in texts)
    assert any("overrides" in text for text in texts)


def test_a_name_that_cannot_be_part_of_tool_names_is_reported(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"my server": {"command": "x"}}}')
    findings = checked(load_settings(file).entries[0]).findings
    assert "my-server is used instead" in findings[-1].text


@pytest.mark.parametrize(
    "value",
    [
        *("<YOUR KEY>", "<token>", "YOUR_API_KEY", "your-api-key-here", "xxx", "XXXXXXXX", "changeme", "change-me"),
        *("sk-...", "sk-xxxxxxxx", "ghp_xxxxxxxxxxxx", "Bearer <token>", "Bearer YOUR_TOKEN", "[your token]", "****"),
        *("{{API_KEY}}", "https://your-domain.example.com", "replace_me", "insert-key-here", "my-api-key"),
    ],
)
def test_a_value_that_is_still_to_be_replaced_is_a_placeholder_and_no_secret(value: str) -> None:
    assert placeholders({"env": {"API_KEY": value}}) == ["env.API_KEY"]
    assert written_plainly({"env": {"API_KEY": value}}) == []
    assert placeholders({"args": ["--api-key", value]}) == ["args[1]"]


@pytest.mark.parametrize(
    "value",
    [
        *(
            "${API_KEY}",
            "Bearer ${TOKEN}",
            "sk-proj-4f9d8a7c6b5e",
            "ghp_" + "16C7e42F292c6912E7710",
            "a<b",
        ),
        *("hunter2", "flour-mill", "/srv/data", "maxxx", "production"),
    ],
)
def test_a_real_value_is_not_a_placeholder(value: str) -> None:
    assert placeholders({"env": {"API_KEY": value}, "args": ["--api-key", value]}) == []


def test_a_word_by_itself_among_the_arguments_means_what_it_says() -> None:
    assert placeholders({"args": ["todo", "./...", "--list", "fetch", "mcp<2", "--with", "mcp<2"]}) == []
    assert placeholders({"args": ["-y", "pkg", "<path to folder>"]}) == ["args[2]"]
    assert placeholders({"url": "https://mcp.example.com/?key=<YOUR KEY>"}) == ["url"]
