"""Whole files: unreadable and broken ones, and their errors."""

from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.settings.files import ENVIRON, load, write
from toolcrib.config import HttpServer, StdioServer
from toolcrib.errors import ConfigError
from toolcrib.settings import load_settings, parse_settings


def refused(path: Path, content: Any = None, **options: Any) -> Any:
    if content is not None:
        write(path, content)
    with pytest.raises(ConfigError) as caught:
        load_settings(path, **options)
    assert caught.value.file == str(path)
    assert str(path) in str(caught.value)
    return caught.value


def test_a_file_gives_its_servers_in_order(tmp_path: Path) -> None:
    servers = {"b": {"command": "x"}, "a": {"url": "https://h/mcp"}, "c": {"command": "y", "disabled": True}}
    settings = load(tmp_path / ".mcp.json", {"mcpServers": servers})
    assert [entry.name for entry in settings.entries] == ["b", "a", "c"]
    assert settings.servers == {"b": StdioServer("x"), "a": HttpServer("https://h/mcp")}
    assert settings.source == tmp_path / ".mcp.json"
    assert settings.get("c").disabled  # type: ignore[union-attr]
    assert settings.get("d") is None


def test_an_entry_knows_its_line(tmp_path: Path) -> None:
    text = '{"mcpServers": {\n\n  "a": {"command": "x"},\n  // here\n  "b": {"command": "y"}}}'
    assert [entry.line for entry in load(tmp_path / "x.json", text).entries] == [3, 5]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "No such file" in str(refused(tmp_path / "none.json"))


def test_a_folder_or_a_pipe_is_not_a_file(tmp_path: Path) -> None:
    assert "expected a regular file" in str(refused(tmp_path))
    os.mkfifo(tmp_path / "pipe.json")
    assert "expected a regular file" in str(refused(tmp_path / "pipe.json"))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    assert "too large" in str(refused(tmp_path / "x.json", '{"mcpServers": {}}' + " " * 4 * 1024 * 1024))


def test_a_file_that_is_not_utf_8_text(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes('{"mcpServers":\n {"é'.encode("latin-1") + b"canary-7f3a")
    error = refused(path)
    assert (error.line, error.column) == (2, 4)
    assert "canary" not in "".join(map(repr, (error, vars(error), error.__cause__, error.__context__)))


def test_a_byte_order_mark_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"mcpServers": {"a": {"command": "x"}}}')
    assert load_settings(path).servers == {"a": StdioServer("x")}


def test_broken_json_names_file_line_column_and_key(tmp_path: Path) -> None:
    error = refused(tmp_path / ".mcp.json", '{\n"mcpServers": {\n  "fs": {"command" "x"}\n}}')
    assert str(error).startswith(f"{tmp_path / '.mcp.json'}:3:20: mcpServers.fs.command: expected a colon")
    assert (error.line, error.column, error.key) == (3, 20, "mcpServers.fs.command")


@pytest.mark.parametrize("content", ["[]", "3", '"x"', "null"])
def test_a_file_that_is_not_an_object(tmp_path: Path, content: str) -> None:
    assert refused(tmp_path / ".mcp.json", content).expected == "an object"


def test_servers_that_are_not_an_object(tmp_path: Path) -> None:
    error = refused(tmp_path / ".mcp.json", '{\n "mcpServers": []}')
    assert (error.key, error.line) == ("mcpServers", 2)


def test_a_section_that_is_there_twice(tmp_path: Path) -> None:
    error = refused(tmp_path / ".mcp.json", '{"mcpServers": {},\n"mcpServers": {}}')
    assert "mcpServers: duplicate key (first defined on line 1)" in str(error)
    assert error.line == 2


def test_both_spellings_of_the_section(tmp_path: Path) -> None:
    error = refused(tmp_path / ".mcp.json", {"mcpServers": {}, "servers": {}})
    assert "expected one of mcpServers and servers, got both" in str(error)


def test_a_misspelt_section_is_reported_with_the_right_one(tmp_path: Path) -> None:
    error = refused(tmp_path / ".mcp.json", '{\n"mcpServer": {"a": {"command": "x"}}}')
    assert "did you mean 'mcpServers' instead of 'mcpServer'?" in str(error)
    assert error.line == 2


@pytest.mark.parametrize("content", [{}, {"mcpServers": {}}, {"$schema": "x"}])
def test_an_empty_list_of_servers_is_not_a_mistake(tmp_path: Path, content: Any) -> None:
    assert load(tmp_path / ".mcp.json", content).entries == ()


def test_too_many_servers_are_refused(tmp_path: Path) -> None:
    error = refused(tmp_path / "x.json", {"mcpServers": {f"s{n}": {} for n in range(5001)}})
    assert "at most 5000 servers" in str(error)


def test_several_files_are_one_where_a_later_one_wins(tmp_path: Path) -> None:
    person = write(
        tmp_path / "home/.claude/settings.json", {"mcpServers": {"a": {"command": "1"}, "b": {"command": "1"}}}
    )
    project = write(tmp_path / ".claude/settings.json", {"mcpServers": {"b": {"command": "2"}}})
    settings = load_settings(person, project)
    assert settings.servers == {"a": StdioServer("1"), "b": StdioServer("2")}
    assert [str(record) for record in settings.overridden] == [f"b: {project}:3 overrides {person}:6"]


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "x.json", {"a": {"command": "x"}})
    assert load_settings("~/x.json").servers == {"a": StdioServer("x")}


def test_a_mapping_is_read_like_a_file_but_has_no_lines() -> None:
    settings = parse_settings({"mcpServers": {"a": {"command": "${NO}"}, "b": {"command": "x"}}}, environ=ENVIRON)
    (failed,) = settings.failed
    assert str(failed.error).startswith("a: command: NO is not set")
    assert (failed.line, failed.source) == (None, None)
    assert settings.servers == {"b": StdioServer("x")}


def test_the_source_of_a_mapping_is_named() -> None:
    settings = parse_settings({"a": {"command": "${NO}"}}, source="the database", environ=ENVIRON)
    assert str(settings.failed[0].error).startswith("a: the database: command: NO is not set")


@pytest.mark.parametrize(
    "values", [{1: {"command": "x"}}, {"mcpServers": {1: {"command": "x"}}}, {"mcpServers": 1}, [], None, "x"]
)
def test_an_unknown_mapping_is_refused(values: Any) -> None:
    with pytest.raises(ConfigError):
        parse_settings(values)


@pytest.mark.parametrize("values", [{"command": "x", 1: 2}, {"command": "x", "env": {1: "2"}}, "x", None, ["x"]])
def test_an_unknown_entry_fails_alone(values: Any) -> None:
    settings = parse_settings({"mcpServers": {"a": values, "b": {"command": "x"}}})
    assert [entry.name for entry in settings.failed] == ["a"]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="format: expected one of claude-code"):
        parse_settings({}, format="cloud")


def test_an_unknown_key_is_kept_and_warned_about_once_with_the_nearest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {name: {"command": "x", "exection_timeout": 3, "zzz": 1} for name in "abc"}
    with caplog.at_level(logging.WARNING, "toolcrib.settings"):
        settings = load(tmp_path / ".mcp.json", {"mcpServers": servers})
    assert len(settings.warnings) == 2
    assert settings.warnings[0].startswith(f"{tmp_path / '.mcp.json'}:5:7: exection_timeout: ")
    assert settings.warnings[0].endswith("did you mean 'execution_timeout'?")
    assert [record.getMessage() for record in caplog.records] == list(settings.warnings)
    assert settings.entries[0].raw["zzz"] == 1


def test_a_file_full_of_unknown_keys_gives_a_hundred_warnings(tmp_path: Path) -> None:
    values = {"command": "x", **{f"unknown{n}": 1 for n in range(500)}}
    assert len(load(tmp_path / ".mcp.json", {"s": values}).warnings) == 100


def test_what_can_be_a_secret_is_in_no_repr(tmp_path: Path) -> None:
    values = {"command": "x", "env": {"T": "canary-7f3a"}, "odd": "canary-7f3a"}
    settings = load(tmp_path / ".mcp.json", {"mcpServers": {"a": values, "b": {**values, "cwd": 3}}})
    assert settings.failed
    assert "canary" not in repr(settings) + "".join(settings.warnings) + str(settings.failed[0].error)


def test_settings_can_be_pickled(tmp_path: Path) -> None:
    servers = {"a": {"command": "x", "env": {"A": "b"}}, "b": {"command": "${NO}"}}
    settings = load(tmp_path / ".mcp.json", {"mcpServers": servers})
    again = pickle.loads(pickle.dumps(settings))
    assert again.servers == settings.servers
    assert str(again.failed[0].error) == str(settings.failed[0].error)
    assert again.failed[0].error.line == 10
    assert again.entries[0].raw == settings.entries[0].raw


KEYS = (
    *("mcpServers", "servers", "mcp", "hub", "projects", "command", "args", "env", "cwd", "url", "httpUrl", "headers"),
    *("type", "transport", "disabled", "timeout", "reconnect", "includeTools", "execution_timeout", "zzz"),
)
FORMATS = ("toolcrib", "json", "claude-code", "claude-user", "claude-desktop", "vscode", "cursor", "gemini")
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just("${NO}"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(json_like, st.sampled_from(FORMATS))
def test_any_json_gives_settings_or_a_config_error(values: Any, format: str) -> None:
    try:
        settings = parse_settings(values, format=format, environ=ENVIRON)
    except ConfigError as exc:
        error = exc
    else:
        assert all((entry.config is None) != (entry.error is None) for entry in settings.entries)
        return
    assert error.expected


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_a_path_that_no_file_can_have(path: str) -> None:
    with pytest.raises(ConfigError, match="expected a path without NUL"):
        load_settings(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings("~nobody-of-that-name/.mcp.json")
