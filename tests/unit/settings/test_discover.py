"""Finding the settings files of a machine, in a home and a project folder of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings.files import write
from toolcrib.config import StdioServer
from toolcrib.settings import Settings, discover_settings, merge


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def servers(command: str, key: str = "mcpServers") -> dict[str, Any]:
    return {key: {"s": {"command": command}}}


def find(home: Path, project: Path, **options: Any) -> tuple[Settings, ...]:
    return discover_settings(project, home=home, environ={}, **options)


def test_a_machine_without_any_gives_none(home: Path, project: Path) -> None:
    assert find(home, project) == ()


def test_all_are_found_the_more_general_ones_first(home: Path, project: Path) -> None:
    both = {**servers("claude person"), "projects": {str(project): servers("claude local")}}
    toml = '[servers.s]\ncommand = "own"'
    paths = {
        home / ".config/Claude/claude_desktop_config.json": servers("x"),
        home / ".config/Code/User/mcp.json": servers("x", "servers"),
        home / ".cursor/mcp.json": servers("x"),
        home / ".gemini/settings.json": servers("x"),
        home / ".claude.json": both,
        home / ".claude/settings.json": servers("x"),
        home / ".config/toolcrib/toolcrib.toml": toml,
        project / ".vscode/mcp.json": servers("x", "servers"),
        project / ".cursor/mcp.json": servers("x"),
        project / ".gemini/settings.json": servers("x"),
        project / ".mcp.json": servers("x"),
        project / ".claude/settings.json": servers("x"),
        project / ".claude/settings.local.json": servers("x"),
        project / "toolcrib.toml": toml,
    }
    for path, content in paths.items():
        write(path, content)
    found = find(home, project)
    assert all(settings.servers.keys() == {"s"} for settings in found)
    expected = list(paths)
    expected.insert(-1, home / ".claude.json")
    assert [settings.source for settings in found] == expected
    assert found[-2].servers == {"s": StdioServer("claude local")}
    assert merge(*found).servers == {"s": StdioServer("own")}


def test_the_project_wins_over_the_person(home: Path, project: Path) -> None:
    write(home / ".claude/settings.json", {"mcpServers": {"a": {"command": "person"}, "b": {"command": "person"}}})
    write(project / ".claude/settings.json", {"mcpServers": {"a": {"command": "project"}}})
    assert merge(*find(home, project)).servers == {"a": StdioServer("project"), "b": StdioServer("person")}


def test_what_a_person_added_to_one_project_is_not_taken_for_general(home: Path, project: Path) -> None:
    write(home / ".claude.json", {"projects": {str(project): servers("local")}})
    write(project / ".mcp.json", servers("project"))
    assert merge(*find(home, project)).servers == {"s": StdioServer("local")}


def test_a_broken_file_is_there_with_its_error_and_hides_no_other(home: Path, project: Path) -> None:
    broken = write(home / ".cursor/mcp.json", '{"mcpServers": {')
    write(project / ".mcp.json", servers("x"))
    first, second = find(home, project)
    assert (first.source, first.entries, first.format) == (broken, (), "cursor")
    assert f"{broken}:1:17" in str(first.error)
    assert second.servers == {"s": StdioServer("x")}
    merged = merge(first, second)
    assert merged.servers == second.servers
    assert merged.warnings == (str(first.error),)


def test_a_mac_keeps_them_elsewhere(home: Path, project: Path) -> None:
    desktop = write(home / "Library/Application Support/Claude/claude_desktop_config.json", servers("x"))
    code = write(home / "Library/Application Support/Code/User/mcp.json", servers("x", "servers"))
    assert [settings.source for settings in find(home, project, platform="darwin")] == [desktop, code]
    assert find(home, project, platform="linux") == ()


def test_home_is_taken_from_the_environment_and_the_project_is_the_current_folder(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_home = write(home / ".cursor/mcp.json", servers("x"))
    in_project = write(project / ".mcp.json", servers("x"))
    in_configs = write(home / "configs/toolcrib/toolcrib.toml", "[servers]")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "configs"))
    assert [settings.source for settings in discover_settings()] == [in_home, in_configs, in_project]


def test_a_file_that_cannot_be_looked_at_is_reported_and_hides_no_other(home: Path, project: Path) -> None:
    write(home / ".gemini" / "settings.json", servers("g"))
    loop = home / ".claude.json"
    loop.symlink_to(loop)
    gemini, claude = find(home, project)
    assert list(gemini.servers) == ["s"]
    assert (claude.source, claude.format) == (loop, "claude-user")
    assert "cannot be read" in str(claude.error)


def test_a_folder_that_cannot_be_entered_is_reported_too(home: Path, tmp_path: Path) -> None:
    write(home / ".gemini" / "settings.json", servers("g"))
    first, *others = find(home, tmp_path / ("x" * 300))
    assert first.error is None
    assert others and all("cannot be read" in str(each.error) for each in others)


def test_the_home_of_an_unknown_user_is_a_plain_name(home: Path) -> None:
    assert find(home, Path("~nobody-of-that-name")) == ()


def test_in_the_home_itself_nothing_is_found_twice(home: Path) -> None:
    write(home / ".cursor/mcp.json", servers("x"))
    write(home / ".gemini/settings.json", servers("y"))
    assert [each.format for each in find(home, home)] == ["cursor", "gemini"]


def test_the_workspace_of_a_persons_own_file_is_the_project(home: Path, project: Path) -> None:
    write(home / ".cursor/mcp.json", servers("${workspaceFolder}/x"))
    write(project / ".cursor/mcp.json", servers("${workspaceFolder}/y"))
    found = discover_settings(project, environ={"HOME": str(home)})
    commands = [config.command for each in found for config in each.servers.values() if isinstance(config, StdioServer)]
    assert commands == [f"{project}/x", f"{project}/y"]
