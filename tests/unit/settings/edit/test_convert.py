"""A server in the formats of other programs: options that they lack are reported, and no variable is replaced."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config import HttpServer, SseServer, StdioServer
from toolcrib.errors import ConfigError
from toolcrib.settings import load_settings, parse_settings
from toolcrib.settings.edit.convert import OWN, PROGRAMS, ConvertedEntry, convert_entry, program_for
from toolcrib.settings.edit.validate import check_values

STDIO = {
    "command": "srv",
    "args": ["--key", "${KEY}", "${DIR:-/data}"],
    "env": {"TOKEN": "${TOKEN}"},
    "cwd": "/w",
    "execution_timeout": 2.5,
    "allowed_tools": ["a"],
    "blocked_tools": ["b"],
    "description": "mine",
}
HTTP = {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret-value")
    monkeypatch.delenv("KEY", raising=False)
    monkeypatch.delenv("DIR", raising=False)


def convert(
    values: Any, program: str, *, format: str = "toolcrib", only_known: bool = True, **more: Any
) -> ConvertedEntry:
    (entry,) = parse_settings(
        {"servers" if format == "toolcrib" else "mcpServers": {"s": values}}, format=format
    ).entries
    converted = convert_entry(
        entry, format, OWN if program == "own" else PROGRAMS[program], only_known=only_known, **more
    )
    assert "s3cret" not in repr(converted)
    return converted


@pytest.mark.parametrize(
    "program, values, omitted",
    [
        (
            "claude",
            {"command": "srv", "args": ["--key", "${KEY}", "${DIR:-/data}"], "env": {"TOKEN": "${TOKEN}"}},
            {"cwd", "execution_timeout", "allowed_tools", "blocked_tools", "description"},
        ),
        (
            "vscode",
            {
                "type": "stdio",
                "command": "srv",
                "args": ["--key", "${env:KEY}", "${env:DIR}"],
                "env": {"TOKEN": "${env:TOKEN}"},
                "cwd": "/w",
            },
            {"execution_timeout", "allowed_tools", "blocked_tools", "description", "the default of DIR"},
        ),
        (
            "cursor",
            {"command": "srv", "args": ["--key", "${env:KEY}", "${env:DIR}"], "env": {"TOKEN": "${env:TOKEN}"}},
            {"cwd", "execution_timeout", "allowed_tools", "blocked_tools", "description", "the default of DIR"},
        ),
        (
            "gemini",
            {
                "command": "srv",
                "args": ["--key", "${KEY}", "${DIR:-/data}"],
                "env": {"TOKEN": "${TOKEN}"},
                "cwd": "/w",
                "timeout": 2500,
                "includeTools": ["a"],
                "excludeTools": ["b"],
                "description": "mine",
            },
            set(),
        ),
    ],
)
def test_a_program_of_the_machine(program: str, values: Any, omitted: set[str]) -> None:
    converted = convert(STDIO, program)
    assert converted.values == values
    assert set(converted.omitted) == omitted


@pytest.mark.parametrize(
    "program, http, sse",
    [
        ("claude", {"type": "http", "url": "https://x"}, {"type": "sse", "url": "https://x"}),
        ("vscode", {"type": "http", "url": "https://x"}, {"type": "sse", "url": "https://x"}),
        ("cursor", {"url": "https://x"}, {"type": "sse", "url": "https://x"}),
        ("gemini", {"httpUrl": "https://x"}, {"url": "https://x"}),
        ("own", {"url": "https://x"}, {"type": "sse", "url": "https://x"}),
    ],
)
def test_a_server_elsewhere(program: str, http: Any, sse: Any) -> None:
    assert convert({"url": "https://x"}, program).values == http
    assert convert({"serverUrl": "https://x", "transport": "sse"}, program).values == sse


@pytest.mark.parametrize("program", [*PROGRAMS, "own"])
@pytest.mark.parametrize(
    "values, kind", [(STDIO, StdioServer), (HTTP, HttpServer), ({**HTTP, "type": "sse"}, SseServer)]
)
def test_what_is_said_is_read_back_as_the_same_kind_of_server(
    program: str, values: dict[str, Any], kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "k")
    monkeypatch.setenv("DIR", "/data")
    known = OWN if program == "own" else PROGRAMS[program]
    section = "servers" if program == "own" else "mcpServers"
    settings = parse_settings({section: {"s": convert(values, program).values}}, format=known.format)
    config = settings.servers["s"]
    assert type(config) is kind and not settings.warnings
    if isinstance(config, StdioServer):
        assert config.env is not None and config.env["TOKEN"] == "s3cret-value"
        assert config.args == ("--key", "k", "/data")
    else:
        assert config.headers is not None and config.headers["Authorization"] == "Bearer s3cret-value"


def test_settings_that_only_toolcrib_reads_are_kept_in_a_separate_file() -> None:
    converted = convert(STDIO, "claude", only_known=False)
    assert converted.values == STDIO and not converted.omitted
    assert convert({"command": "x", "disabled": True}, "claude", only_known=False).values["disabled"] is True


def test_no_limit_stays_no_limit() -> None:
    for none in (None, "none"):
        given = {"command": "x", "cwd": None, "execution_timeout": none}
        assert convert(given, "own", format="json").values == {"command": "x", "execution_timeout": none}
        assert convert(given, "gemini", format="json") == ConvertedEntry({"command": "x"}, ("execution_timeout",))


def test_options_without_effect_are_left_out_and_reported() -> None:
    given = {"command": "x", "envFile": ".env", "trust": True, "autoApprove": ["a"], "_note": "mine"}
    converted = convert(given, "own", format="json", only_known=False)
    assert converted == ConvertedEntry({"command": "x"}, ("envFile", "trust", "autoApprove"))


def test_geminis_words_become_ours() -> None:
    given = {"httpUrl": "https://x", "timeout": 1500, "includeTools": ["a"], "excludeTools": ["b"]}
    converted = convert(given, "own", format="gemini", only_known=False)
    ours = {"url": "https://x", "execution_timeout": 1.5, "allowed_tools": ["a"], "blocked_tools": ["b"]}
    assert converted == ConvertedEntry(ours)
    assert convert({"url": "https://x"}, "own", format="gemini").values == {"type": "sse", "url": "https://x"}


def test_folders_that_only_an_editor_knows_become_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home-of-tests")
    given = {"command": "${userHome}/x", "args": ["${workspaceFolder}", "${env:userHome}", "${env:TOKEN}"]}
    converted = convert(given, "own", format="vscode", only_known=False)
    assert converted.values == {"command": "/home-of-tests/x", "args": [str(tmp_path), "${userHome}", "${TOKEN}"]}


@pytest.mark.parametrize(
    "text, program, spelled, omitted",
    [
        ("$${X}", "own", "$${X}", ()),
        ("${A:-${B:-c}}", "own", "${A:-${B:-c}}", ()),
        ("${A:-${B:-c}}", "claude", "${A:-${B}}", ("the default of B",)),
        ("${A:-x}${A:-y}", "cursor", "${env:A}${env:A}", ("the default of A",)),
        ("${E}", "claude", "${E}", ("${E}, which refers to another variable of env",)),
    ],
)
def test_variables_are_spelled_as_the_program_spells_them(text: str, program: str, spelled: str, omitted: Any) -> None:
    converted = convert({"command": "x", "args": [text], "env": {"E": "1"}}, program)
    assert converted.values["args"] == [spelled] and converted.omitted == omitted


@pytest.mark.parametrize(
    "text, program, mark", [("$${X}", "claude", "${"), ("$${X}", "vscode", "${"), ("costs $X", "gemini", "$NAME")]
)
def test_a_text_that_the_program_would_take_for_a_variable_is_refused(text: str, program: str, mark: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"would treat a literal {mark} as a variable")):
        convert({"command": "x", "env": {"PRICE": text}}, program)


def test_geminis_bare_variables_become_ours() -> None:
    given = {"command": "x", "args": ["$A/b", "${C}", "5$"], "env": {"T": "$T"}, "description": "costs $X"}
    converted = convert(given, "own", format="gemini", only_known=False)
    assert converted.values == {**given, "args": ["${A}/b", "${C}", "5$"], "env": {"T": "${T}"}}


def test_a_python_file_is_a_command_for_others_and_stays_one_for_us(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text('[servers.s]\npython = "tools.py:server"\nmax_attempts = 1\n')
    (entry,) = load_settings(tmp_path / "toolcrib.toml").entries
    for program in PROGRAMS.values():
        converted = convert_entry(entry, "toolcrib", program, only_known=True)
        typed = {"type": "stdio"} if program.format == "vscode" else {}
        assert converted.values == {**typed, "command": "toolcrib", "args": ["run", f"{tmp_path}/tools.py:server"]}
        assert converted.omitted == ("max_attempts",)
    assert convert_entry(entry, "toolcrib", OWN, folder=tmp_path).values["python"] == "tools.py:server"
    assert (
        convert_entry(entry, "toolcrib", OWN, folder=tmp_path / "x").values["python"] == f"{tmp_path}/tools.py:server"
    )


def test_a_variable_of_a_python_files_path_stays_one(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text('[servers.s]\npython = "${TOKEN}/tools.py"\n')
    (entry,) = load_settings(tmp_path / "toolcrib.toml").entries
    assert convert_entry(entry, "toolcrib", OWN, folder=tmp_path).values == {"python": "${TOKEN}/tools.py"}
    assert convert_entry(entry, "toolcrib", PROGRAMS["cursor"]).values["args"] == ["run", "${env:TOKEN}/tools.py"]


def test_a_broken_entry_raises_what_is_wrong_with_it() -> None:
    with pytest.raises(ConfigError, match="did you mean 'command' instead of 'comand'"):
        convert({"comand": "x"}, "claude")


def test_plain_json_is_written_as_claude_code_wants_it() -> None:
    assert program_for("json") is program_for("claude-user") is PROGRAMS["claude"]
    assert program_for("toolcrib") is OWN and program_for("gemini") is PROGRAMS["gemini"]


@pytest.mark.parametrize(
    "values, unset",
    [
        ({"command": "x", "args": ["${KEY}", "${DIR:-1}", "${TOKEN}", "$${KEY}"]}, ("KEY",)),
        ({"command": "x", "env": {"KEY": "${KEY}"}}, ("KEY",)),
        ({"command": "x", "env": {"KEY": "1", "B": "${KEY}"}}, ()),
        ({"url": "https://${KEY}:${DIR}/mcp"}, ("KEY", "DIR")),
        ({"url": "${KEY}/mcp"}, ("KEY",)),
        ({"url": "https://x", "headers": {"A": "${KEY}${KEY}"}}, ("KEY",)),
    ],
)
def test_a_variable_that_is_not_set_is_reported_and_is_not_a_mistake(values: Any, unset: tuple[str, ...]) -> None:
    assert check_values("s", values, "toolcrib").unset == unset


@pytest.mark.parametrize(
    "values, match",
    [
        ({"command": "x", "args": "a b"}, "args: expected a list"),
        ({"command": "x", "args": ["${KEY", "${KEY}"]}, r"args\[0\]: expected }"),
        ({"url": "ftp://${KEY}"}, "url: expected an absolute http"),
        ({"command": "x", "env": {"A": "${input:a}"}}, "prompts the user"),
        ("npx", "expected an object"),
    ],
)
def test_a_mistake_is_reported_whether_variables_are_set_or_not(values: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        check_values("s", values, "json")


def test_options_without_effect_are_reported_with_a_valid_entry() -> None:
    assert "did you mean 'args'" in check_values("s", {"command": "x", "arg": []}, "json").warnings[0]
