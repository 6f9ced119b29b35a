"""One server of a file: every spelling, and its errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings.files import entry, load
from toolcrib.config import HttpServer, PythonServer, ServerConfig, SseServer, StdioServer
from toolcrib.settings import parse_settings
from toolcrib.types import ReconnectPolicy

URL = "https://h/mcp"
LINE_OF_THE_SERVER = 3


@pytest.mark.parametrize(
    "values, config",
    [
        ({"command": "x"}, StdioServer("x")),
        ({"command": "x", "args": ["a", "b"]}, StdioServer("x", ["a", "b"])),
        ({"command": "x", "args": None, "env": None, "cwd": None, "url": None}, StdioServer("x")),
        ({"command": "x", "env": {"A": "b"}, "cwd": "/d"}, StdioServer("x", env={"A": "b"}, cwd="/d")),
        ({"type": "stdio", "command": "x"}, StdioServer("x")),
        ({"transport": "stdio", "command": "x"}, StdioServer("x")),
        ({"type": "STDIO", "transport": "stdio", "command": "x"}, StdioServer("x")),
        ({"url": URL}, HttpServer(URL)),
        ({"httpUrl": URL}, HttpServer(URL)),
        ({"serverUrl": URL}, HttpServer(URL)),
        ({"type": "http", "url": URL}, HttpServer(URL)),
        ({"transport": "http", "url": URL}, HttpServer(URL)),
        ({"type": "streamable-http", "url": URL}, HttpServer(URL)),
        ({"type": "streamable_http", "url": URL}, HttpServer(URL)),
        ({"type": "streamableHttp", "url": URL}, HttpServer(URL)),
        ({"transport": "streamable-http", "type": "http", "url": URL}, HttpServer(URL)),
        ({"type": "http", "url": URL, "streamable": False}, HttpServer(URL, streamable=False)),
        ({"type": "sse", "url": URL}, SseServer(URL)),
        ({"transport": "sse", "url": URL, "headers": {"A": "b"}}, SseServer(URL, headers={"A": "b"})),
        ({"url": URL, "headers": {"A": "b", "N": 3}}, HttpServer(URL, headers={"A": "b", "N": "3"})),
        (
            {"command": "x", "lifecycle": "transient", "trusted": True},
            StdioServer("x", lifecycle="transient", trusted=True),
        ),
        ({"command": "x", "execution_timeout": None}, StdioServer("x", execution_timeout=None)),
        ({"command": "x", "max_in_flight": "none"}, StdioServer("x", max_in_flight=None)),
        ({"command": "x", "retry_safe": ["a"]}, StdioServer("x", retry_safe=["a"])),
        (
            {"command": "x", "reconnect": {"base_delay": 2}},
            StdioServer("x", reconnect=ReconnectPolicy(base_delay=2)),
        ),
        (
            {"command": "x", "reconnect": {"max_retries": "none"}},
            StdioServer("x", reconnect=ReconnectPolicy(max_retries=None)),
        ),
        (
            {"url": URL, "client_cert": ["/c", "/k"], "ca": "/ca", "verify": False, "proxy": "http://p:1"},
            HttpServer(URL, client_cert=("/c", "/k"), ca="/ca", verify=False, proxy="http://p:1"),
        ),
    ],
)
def test_every_spelling_gives_its_config(tmp_path: Path, values: Any, config: ServerConfig) -> None:
    found = entry(tmp_path, values)
    assert found.error is None, found.error
    assert found.config == config


def test_variables_are_replaced_in_all_ways_to_a_server(tmp_path: Path) -> None:
    values = {"command": "${TOKEN}-c", "args": ["${TOKEN}", "$TOKEN"], "env": {"T": "${env:TOKEN}"}, "cwd": "/${NO:-d}"}
    assert entry(tmp_path, values).config == StdioServer("t0ken-c", ["t0ken", "$TOKEN"], env={"T": "t0ken"}, cwd="/d")
    web = {"url": "https://${HOST:-h}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "ca": "/${TOKEN}.pem"}
    expected = HttpServer(URL, headers={"Authorization": "Bearer t0ken"}, ca="/t0ken.pem")
    assert entry(tmp_path, web).config == expected


def test_a_python_file_is_found_relative_to_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert entry(tmp_path, {"python": "tools.py:server"}).config == PythonServer(f"{tmp_path}/tools.py:server")
    assert entry(tmp_path, {"type": "python", "python": "/a/${TOKEN}.py"}).config == PythonServer("/a/t0ken.py")
    assert parse_settings({"s": {"python": "tools.py"}}).servers == {"s": PythonServer("tools.py")}


def test_a_python_server_takes_the_common_options_and_no_others(tmp_path: Path) -> None:
    settings = load(tmp_path / ".mcp.json", {"s": {"python": "/t.py", "max_in_flight": 3, "args": ["x"]}})
    assert settings.servers == {"s": PythonServer("/t.py", max_in_flight=3)}
    assert [text.partition(": ")[2] for text in settings.warnings] == ["args: has no effect on a server of type python"]


def test_the_environment_of_the_process_is_used_if_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_TEST", "seen")
    assert entry(tmp_path, {"command": "${TOOLCRIB_TEST}"}, environ=None).config == StdioServer("seen")


@pytest.mark.parametrize(
    "values, key, expected",
    [
        ({}, "", "command (a local program), python (a Python file with tools) or url"),
        ({"args": ["x"]}, "", "command (a local program), python (a Python file with tools) or url"),
        ({"command": ""}, "command", "a non-empty string"),
        ({"command": ["npx", "x"]}, "command", "a non-empty string"),
        ({"command": "x", "args": "a b"}, "args", "a list of strings"),
        ({"command": "x", "args": ["a", 3]}, "args[1]", "a string"),
        ({"command": "x", "args": ["a", "${NO}"]}, "args[1]", "the variable NO"),
        ({"command": "x", "env": ["A=b"]}, "env", "a mapping"),
        ({"command": "x", "env": {"A": True}}, "env.A", "a string"),
        ({"command": "x", "env": {"A.B": "${NO}"}}, "env.A.B", "the variable NO"),
        ({"url": "ftp://x"}, "url", "an absolute http:// or https:// URL"),
        ({"httpUrl": "x"}, "httpUrl", "an absolute http:// or https:// URL"),
        ({"httpUrl": "https://${NO}"}, "httpUrl", "the variable NO"),
        ({"url": URL, "headers": {"A": "a\nb"}}, "headers.A", "a string without line breaks"),
        ({"type": "ws", "url": URL}, "type", "one of stdio, http"),
        ({"transport": "ws", "url": URL}, "transport", "one of stdio, http"),
        ({"type": 3, "url": URL}, "type", "one of stdio, http"),
        ({"type": "stdio", "url": URL}, "command", "the command"),
        ({"type": "http", "command": "x"}, "url", "the url"),
        ({"type": "sse", "transport": "http", "url": URL}, "transport", "the same as type"),
        ({"command": "x", "url": URL}, "url", "command or a URL, not both, or a type"),
        ({"python": "x.py", "url": URL}, "url", "python or a URL, not both, or a type"),
        ({"command": "x", "python": "x.py"}, "python", "command or python, not both, or a type"),
        ({"python": ""}, "python", "a non-empty string"),
        ({"type": "python"}, "python", "the python"),
        ({"httpUrl": URL, "url": URL}, "url", "one URL"),
        ({"command": "x", "disabled": "yes"}, "disabled", "true or false"),
        ({"command": "x", "execution_timeout": -1}, "execution_timeout", "a positive number of seconds"),
        ({"command": "x", "reconnect": {"max_delay": -1}}, "reconnect.max_delay", "seconds"),
        ({"command": "x", "reconnect": {"dealy": 1}}, "reconnect.dealy", "one of base_delay"),
        ({"command": "x", "lifecycle": "once"}, "lifecycle", "one of singleton, transient"),
        ({"command": "x", "includeTools": "a"}, "includeTools", "a list of tool names"),
        ({"type": "streamable-http", "url": URL, "streamable": False}, "streamable", "True for type streamable_http"),
    ],
)
def test_what_is_wrong_is_named_with_file_line_key_and_expectation(
    tmp_path: Path, values: Any, key: str, expected: str
) -> None:
    error: Any = entry(tmp_path, values).error
    assert error.key == (f"mcpServers.s.{key}" if key else "mcpServers.s")
    assert error.expected.startswith(expected)
    assert error.server == "s"
    place = f"s: {tmp_path / '.mcp.json'}:{error.line}:{error.column}: "
    assert str(error).startswith(f"{place}{key}: " if key else place)
    innermost = re.sub(r"^(env|headers|reconnect)\.|\[\d\]$", "", key)
    lines = (tmp_path / ".mcp.json").read_text().splitlines()
    assert error.line == next((n for n, line in enumerate(lines, 1) if f'"{innermost}":' in line), LINE_OF_THE_SERVER)


def test_a_missing_variable_fails_its_server_and_not_the_file(tmp_path: Path) -> None:
    text = """{
  "mcpServers": {
    "github": {
      "command": "gh",
      "env": {
        "GITHUB_TOKEN": "${GITHUB_TOKEN}"
      }
    },
    "fs": {"command": "fs"}
  }
}"""
    settings = load(tmp_path / ".mcp.json", text)
    assert settings.servers == {"fs": StdioServer("fs")}
    (failed,) = settings.failed
    error: Any = failed.error
    assert (error.file, error.line, error.key) == (str(tmp_path / ".mcp.json"), 6, "mcpServers.github.env.GITHUB_TOKEN")
    assert "the variable GITHUB_TOKEN" in error.expected
    assert failed.line == 3


def test_a_circle_of_variables_fails_its_server(tmp_path: Path) -> None:
    found = entry(tmp_path, {"command": "x", "env": {"A": "${B}", "B": "${A}"}})
    assert "env.A: circular reference A -> B -> A" in str(found.error)


def test_a_name_that_is_there_twice_fails_alone_and_names_both_lines(tmp_path: Path) -> None:
    text = '{"mcpServers": {\n"a": {"command": "1"},\n"b": {"command": "x"},\n"a": {"command": "2"}}}'
    settings = load(tmp_path / ".mcp.json", text)
    (failed,) = settings.failed
    assert failed.error is not None and failed.error.line == 4  # type: ignore[attr-defined]
    assert "duplicate name (first defined on line 2)" in str(failed.error)
    assert list(settings.servers) == ["b"]


def test_a_key_that_is_there_twice_fails_its_server(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "1",\n"command": "2"}}}'
    (failed,) = load(tmp_path / ".mcp.json", text).failed
    assert "command: duplicate key (first defined on line 1)" in str(failed.error)
    assert failed.error.line == 2  # type: ignore[union-attr]


def test_a_misspelt_command_is_reported_with_the_right_one(tmp_path: Path) -> None:
    assert "did you mean 'command' instead of 'comand'?" in str(entry(tmp_path, {"comand": "x"}).error)


@pytest.mark.parametrize("values", [{"disabled": True}, {"enabled": False}])
def test_a_disabled_server_is_there_and_not_used(tmp_path: Path, values: Any) -> None:
    found = entry(tmp_path, {"command": "x", **values})
    assert found.disabled
    assert found.config == StdioServer("x")


def test_a_disabled_server_that_is_wrong_is_both(tmp_path: Path) -> None:
    found = entry(tmp_path, {"command": "${NO}", "disabled": True})
    assert found.disabled
    assert found.error


@pytest.mark.parametrize(
    "values, key",
    [
        ({"command": "x", "headers": {"A": "b"}}, "headers"),
        ({"url": URL, "env": {"A": "b"}}, "env"),
        ({"type": "http", "url": URL, "command": "x"}, "command"),
        ({"command": "x", "envFile": ".env"}, "envFile"),
        ({"url": URL, "headersHelper": "x"}, "headersHelper"),
    ],
)
def test_what_has_no_effect_is_said(tmp_path: Path, values: Any, key: str) -> None:
    settings = load(tmp_path / ".mcp.json", {"mcpServers": {"s": values}})
    assert settings.entries[0].error is None
    (warning,) = settings.warnings
    assert f": {key}: has no effect" in warning


@pytest.mark.parametrize(
    "values",
    [
        {"command": "x", "headers": {}, "url": None},
        {"url": URL, "args": [], "env": {}},
        {"command": "x", "description": "d", "alwaysAllow": ["a"], "autoApprove": [], "_comment": "c", "//": "c"},
    ],
)
def test_what_does_no_harm_is_not_talked_about(tmp_path: Path, values: Any) -> None:
    settings = load(tmp_path / ".mcp.json", {"mcpServers": {"s": values}})
    assert settings.entries[0].error is None
    assert settings.warnings == ()


def test_env_of_a_server_elsewhere_can_be_used_by_its_headers(tmp_path: Path) -> None:
    values = {"url": URL, "env": {"KEY": "k"}, "headers": {"X-Key": "${KEY}"}}
    assert entry(tmp_path, values).config == HttpServer(URL, headers={"X-Key": "k"})


def test_free_names_become_legal_and_legal_names_are_kept() -> None:
    displayed = ["My Server", "my server!", "my-server", "a__b", "日本", "My-Server"]
    settings = parse_settings({"mcpServers": {name: {"command": "x"} for name in displayed}})
    assert {entry.display_name: entry.name for entry in settings.entries} == {
        "My Server": "My-Server-2",
        "my server!": "my-server-2",
        "my-server": "my-server",
        "a__b": "a_b",
        "日本": "server",
        "My-Server": "My-Server",
    }


def test_a_wrong_server_with_a_free_name_is_found_by_both(tmp_path: Path) -> None:
    (failed,) = load(tmp_path / ".mcp.json", {"mcpServers": {"My Server": {"command": 3}}}).failed
    assert failed.error.server == "My-Server"  # type: ignore[union-attr]
    assert failed.error.key == "mcpServers.My Server.command"  # type: ignore[union-attr]


def test_characters_that_steer_a_terminal_reach_no_message(tmp_path: Path) -> None:
    odd = "a\x1b[31m\u202eb"
    settings = load(tmp_path / ".mcp.json", {"mcpServers": {odd: {"command": 3}, "s": {"command": "x", odd: 1}}})
    error: Any = settings.failed[0].error
    shown = "".join([str(error), error.key, *settings.warnings])
    assert shown.isprintable()


def test_max_retries_is_another_name_of_max_attempts_for_a_server_and_for_all() -> None:
    read = parse_settings({"servers": {"a": {"command": "x", "max_retries": 2}}, "hub": {"max_retries": 4}})
    assert read.servers["a"] == StdioServer("x", max_attempts=2)
    assert read.defaults == {"max_attempts": 4} and not read.warnings
    both = parse_settings({"servers": {"a": {"command": "x", "max_retries": 2, "max_attempts": 2}}})
    assert "use only one of them" in str(both.failed[0].error)
    wrong = parse_settings({"servers": {"a": {"command": "x", "max_retries": 0}}})
    assert "max_retries" in str(wrong.failed[0].error)
