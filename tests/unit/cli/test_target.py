"""Arguments of a command line that name a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.cli.exit_codes import CliError
from toolcrib.cli.target import Target, ad_hoc, choose, is_file, is_url, split_server
from toolcrib.config import HttpServer, StdioServer
from toolcrib.settings import ServerEntry, Settings


@pytest.mark.parametrize(
    "command, name",
    [
        ("npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /data", "server-filesystem"),
        ("npx some-server@latest", "some-server"),
        ("uvx mcp-server-time==2026.8.18", "mcp-server-time"),
        ("uvx mcp-server[extra]>=1", "mcp-server"),
        ("/usr/bin/python3 /srv/my tools/server.py", "my"),
        ("python -m my_server", "my_server"),
        ("docker run -i --rm ghcr.io/owner/image", "image"),
        ("node", "node"),
        ("./bin/serve", "serve"),
    ],
)
def test_a_command_is_called_what_people_call_it(command: str, name: str) -> None:
    found = ad_hoc(None, command.split())
    assert found is not None and found[0] == name and isinstance(found[1], StdioServer)
    assert found[1].env is None


@pytest.mark.parametrize(
    "url, name",
    [
        ("https://tools.example.com/mcp", "tools-example-com"),
        ("http://localhost:8000/mcp", "localhost-8000"),
        ("https://user:pass@host/mcp", "host"),
        ("http://[::1]:80/mcp", "1"),
    ],
)
def test_a_url_is_called_by_its_host_and_port(url: str, name: str) -> None:
    found = ad_hoc(url, ())
    assert found is not None and found[0] == name and isinstance(found[1], HttpServer)


def test_urls_and_files_are_distinguished_from_names() -> None:
    assert is_url("https://x") and not is_url("x") and not is_url("file:///x")
    assert is_file("a/b.py") and is_file("b.py:server") and not is_file("b.pyc") and not is_file("b.py:")


def settings(*names: str) -> Target:
    return Target(Settings(tuple(ServerEntry(name, StdioServer("x"), display_name=name.upper()) for name in names)))


def test_a_qualified_name_says_whose_it_is() -> None:
    target = settings("a", "a_b", "b")
    assert target.owner_of("mcp__a_b__x").names == ["a_b"]
    assert target.owner_of("mcp__a__b__x").names == ["a"]
    assert target.owner_of("mcp__c__x").names == target.owner_of("x").names == ["a", "a_b", "b"]


def test_a_server_is_found_by_the_name_in_the_file_too() -> None:
    assert settings("a", "b").find("B") == "b" and settings("a").find("c") is None


def test_one_time_out_holds_for_all_that_a_server_does() -> None:
    (entry,) = settings("a").with_timeout(5).settings.entries
    assert entry.config is not None
    config = entry.config
    assert (config.connect_timeout, config.discovery_timeout, config.execution_timeout) == (5, 5, 5)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / ".mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}', "utf-8")
    return path


@pytest.mark.parametrize(
    "words, names, rest",
    [
        (["tool"], ["a", "b"], ["tool"]),
        (["a", "tool"], ["a"], ["tool"]),
        (["a", "k=v"], ["a", "b"], ["a", "k=v"]),
        (["a"], ["a", "b"], ["a"]),
        (["tool", "other"], ["a", "b"], ["tool", "other"]),
        ([], ["a", "b"], []),
        (["https://host/mcp", "tool", "k=v"], ["host"], ["tool", "k=v"]),
        (["https://host/mcp"], ["a", "b"], ["https://host/mcp"]),
    ],
)
def test_the_first_word_is_a_server_only_before_a_name(
    words: list[str], names: list[str], rest: list[str], file: Path
) -> None:
    target, left = split_server(words, file, (), is_name=lambda word: "=" not in word)
    assert (target.names, left) == (names, rest)


def test_only_what_is_typed_gets_the_whole_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING", "here")
    (typed,) = choose((), None, ("x",)).settings.entries
    (configured,) = choose(("a",), file, ()).settings.entries
    assert isinstance(typed.config, StdioServer) and isinstance(configured.config, StdioServer)
    assert typed.config.env is not None and typed.config.env["SOMETHING"] == "here" and not configured.config.env


@pytest.mark.parametrize("words", [["c"], ["a", "https://host/mcp"], ["https://host/mcp", "a"]])
def test_impossible_values_are_reported(words: list[str], file: Path) -> None:
    with pytest.raises(CliError):
        choose(words, file, ())
