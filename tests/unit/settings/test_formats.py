"""The format of a file by its name and folder, and the key of its servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings.files import ENVIRON, load, write
from toolcrib.config import HttpServer, SseServer, StdioServer
from toolcrib.settings import load_settings
from toolcrib.settings.formats import format_of

FS = {"command": "fs"}


@pytest.mark.parametrize(
    "path, format",
    [
        (".mcp.json", "claude-code"),
        ("home/.claude.json", "claude-user"),
        (".claude/settings.json", "claude-settings"),
        (".claude/settings.local.json", "claude-settings"),
        ("Claude/claude_desktop_config.json", "claude-desktop"),
        (".vscode/mcp.json", "vscode"),
        (".vscode/settings.json", "vscode"),
        ("Code/User/mcp.json", "vscode"),
        (".cursor/mcp.json", "cursor"),
        (".gemini/settings.json", "gemini"),
        ("toolcrib.toml", "toolcrib"),
        ("any.TOML", "toolcrib"),
        ("settings.json", "json"),
        ("mcp.json", "json"),
        ("servers.jsonc", "json"),
    ],
)
def test_a_file_is_known_by_its_name_and_folder(path: str, format: str) -> None:
    assert format_of(Path(path)).name == format


def test_a_relative_path_is_known_by_the_folder_that_it_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / ".gemini/settings.json", {"mcpServers": {"s": {"url": "https://h/sse"}}})
    monkeypatch.chdir(tmp_path / ".gemini")
    assert load_settings("settings.json").servers == {"s": SseServer("https://h/sse")}


@pytest.mark.parametrize(
    "path, content",
    [
        (".mcp.json", {"mcpServers": {"fs": FS}}),
        (".mcp.json", {"fs": FS}),
        (".mcp.json", {"$schema": "x", "fs": FS}),
        (".claude/settings.json", {"permissions": {"allow": []}, "mcpServers": {"fs": FS}}),
        ("claude_desktop_config.json", {"globalShortcut": "x", "mcpServers": {"fs": FS}}),
        (".vscode/mcp.json", {"inputs": [], "servers": {"fs": FS}}),
        (".vscode/settings.json", {"editor.tabSize": 4, "mcp": {"servers": {"fs": FS}}}),
        (".cursor/mcp.json", {"mcpServers": {"fs": FS}}),
        (".gemini/settings.json", {"theme": "x", "mcpServers": {"fs": FS}}),
        ("any.json", {"mcpServers": {"fs": FS}}),
        ("any.json", {"servers": {"fs": FS}}),
        ("any.json", {"mcp": {"servers": {"fs": FS}}}),
        ("any.json", {"fs": FS}),
        ("toolcrib.toml", '[servers.fs]\ncommand = "fs"'),
        ("toolcrib.toml", 'servers.fs.command = "fs"'),
        ("toolcrib.toml", 'servers = { fs = { command = "fs" } }'),
    ],
)
def test_the_servers_of_each_kind_of_file_are_found(tmp_path: Path, path: str, content: Any) -> None:
    assert load(tmp_path / path, content).servers == {"fs": StdioServer("fs")}


@pytest.mark.parametrize(
    "path",
    [
        ".claude/settings.json",
        "claude_desktop_config.json",
        ".claude.json",
        ".gemini/settings.json",
        ".vscode/mcp.json",
    ],
)
def test_a_file_for_other_settings_may_have_no_servers(tmp_path: Path, path: str) -> None:
    settings = load(tmp_path / path, {"theme": "dark", "other": {"command": "no server"}})
    assert (settings.entries, settings.warnings) == ((), ())


def test_a_misspelt_section_in_such_a_file_is_warned_about(tmp_path: Path) -> None:
    settings = load(tmp_path / ".claude/settings.json", {"theme": "dark", "mcpservers": {"fs": FS}})
    assert settings.entries == ()
    assert settings.warnings[0].endswith("mcpservers: unknown key, has no effect; did you mean 'mcpServers'?")


def test_a_server_may_be_called_hub_in_a_bare_map(tmp_path: Path) -> None:
    assert load(tmp_path / "x.json", {"hub": FS, "fs": FS}).servers == {
        "hub": StdioServer("fs"),
        "fs": StdioServer("fs"),
    }


def test_in_a_bare_map_a_wrong_server_fails_alone(tmp_path: Path) -> None:
    settings = load(tmp_path / "x.json", {"fs": FS, "bad": {"arguments": []}})
    assert [entry.name for entry in settings.failed] == ["bad"]
    assert settings.failed[0].error.key == "bad"  # type: ignore[union-attr]


class TestClaudeCode:
    def content(self, project: Path) -> dict[str, Any]:
        return {
            "numStartups": 3,
            "mcpServers": {"a": {"command": "person"}, "b": {"command": "person"}},
            "projects": {
                str(project): {"mcpServers": {"b": {"command": "local"}, "c": FS}, "disabledMcpServers": ["c"]},
                "/elsewhere": {"mcpServers": {"d": FS}},
            },
        }

    def test_the_file_of_the_person_has_servers_for_the_project_too(self, tmp_path: Path) -> None:
        settings = load(tmp_path / ".claude.json", self.content(tmp_path), project=tmp_path)
        assert settings.servers == {"a": StdioServer("person"), "b": StdioServer("local")}
        assert settings.get("c").disabled  # type: ignore[union-attr]
        assert settings.get("d") is None
        assert settings.overridden[0].name == "b"

    def test_the_project_is_the_current_folder_if_none_is_given(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert "b" in load(tmp_path / ".claude.json", self.content(tmp_path)).servers

    def test_a_project_behind_a_link_is_found(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        content = self.content((tmp_path / "real").resolve())
        settings = load(tmp_path / ".claude.json", content, project=tmp_path / "link")
        assert settings.servers["b"] == StdioServer("local")

    def test_a_wrong_server_of_a_project_is_named_with_its_whole_key(self, tmp_path: Path) -> None:
        content = {"projects": {"/p": {"mcpServers": {"b": {"command": 3}}}}}
        (failed,) = load(tmp_path / ".claude.json", content, project="/p").failed
        assert failed.error.key == "projects./p.mcpServers.b.command"  # type: ignore[union-attr]


class TestVsCode:
    def test_its_names_are_replaced(self, tmp_path: Path) -> None:
        server = {
            "command": "${workspaceFolder}${/}run",
            "args": ["${userHome}", "${workspaceFolderBasename}", "${env:TOKEN}"],
        }
        settings = load(tmp_path / "place/.vscode/mcp.json", {"servers": {"s": server}})
        assert settings.servers["s"] == StdioServer(f"{tmp_path}/place/run", [ENVIRON["HOME"], "place", "t0ken"])

    def test_in_the_persons_file_the_workspace_is_the_project(self, tmp_path: Path) -> None:
        content = {"servers": {"s": {"command": "x", "cwd": "${workspaceFolder}"}}}
        settings = load(tmp_path / "Code/User/mcp.json", content, project="/p")
        assert settings.servers["s"] == StdioServer("x", cwd="/p")

    def test_elsewhere_its_names_are_ordinary_variables(self, tmp_path: Path) -> None:
        (failed,) = load(tmp_path / ".mcp.json", {"s": {"command": "${workspaceFolder}"}}).failed
        assert "workspaceFolder is not set" in str(failed.error)

    def test_an_input_fails_its_server_alone(self, tmp_path: Path) -> None:
        servers = {"asks": {"command": "x", "env": {"KEY": "${input:api-key}"}}, "fs": FS}
        content = {"inputs": [{"id": "api-key", "type": "promptString"}], "servers": servers}
        settings = load(tmp_path / ".vscode/mcp.json", content)
        (failed,) = settings.failed
        assert failed.name == "asks"
        assert failed.error.key == "servers.asks.env.KEY"  # type: ignore[union-attr]
        assert "${input:api-key} prompts the user" in str(failed.error)
        assert settings.servers == {"fs": StdioServer("fs")}

    def test_numbers_and_nulls_in_env_are_as_there(self, tmp_path: Path) -> None:
        server = {"command": "x", "env": {"PORT": 8080, "NONE": None, "RATE": 0.5}}
        settings = load(tmp_path / ".vscode/mcp.json", {"servers": {"s": server}})
        assert settings.servers["s"] == StdioServer("x", env={"PORT": "8080", "RATE": "0.5"})


class TestGemini:
    def load(self, folder: Path, server: Any, **others: Any) -> Any:
        return load(folder / ".gemini/settings.json", {"mcpServers": {"s": server}, **others})

    def test_url_is_sse_and_http_url_is_http(self, tmp_path: Path) -> None:
        assert self.load(tmp_path, {"url": "https://h/sse"}).servers["s"] == SseServer("https://h/sse")
        assert self.load(tmp_path, {"httpUrl": "https://h/mcp"}).servers["s"] == HttpServer("https://h/mcp")
        with_type = {"url": "https://h/mcp", "type": "http"}
        assert self.load(tmp_path, with_type).servers["s"] == HttpServer("https://h/mcp")

    def test_elsewhere_url_is_http(self, tmp_path: Path) -> None:
        assert load(tmp_path / ".mcp.json", {"s": {"url": "https://h/mcp"}}).servers["s"] == HttpServer("https://h/mcp")

    def test_its_timeout_is_in_milliseconds(self, tmp_path: Path) -> None:
        assert self.load(tmp_path, {"command": "x", "timeout": 1500}).servers["s"] == StdioServer(
            "x", execution_timeout=1.5
        )
        assert self.load(tmp_path, {"command": "x", "timeout": 1500}).warnings == ()

    @pytest.mark.parametrize("timeout", [0, -1, "30000", True, None, []])
    def test_a_wrong_timeout_is_named_as_it_is_written(self, tmp_path: Path, timeout: Any) -> None:
        settings = self.load(tmp_path, {"command": "x", "timeout": timeout})
        (failed,) = settings.failed
        assert failed.error.key == "mcpServers.s.timeout"
        assert failed.error.expected == "a positive number of milliseconds"

    def test_elsewhere_a_timeout_has_no_effect_and_says_so(self, tmp_path: Path) -> None:
        settings = load(tmp_path / ".mcp.json", {"s": {"command": "x", "timeout": 1500}})
        assert settings.servers["s"] == StdioServer("x")
        assert "timeout: has no effect here" in settings.warnings[0]

    def test_trust_concerns_approvals_and_makes_no_server_trusted(self, tmp_path: Path) -> None:
        settings = self.load(tmp_path, {"command": "x", "trust": True})
        assert settings.servers["s"] == StdioServer("x", trusted=False)
        assert settings.entries[0].raw["trust"] is True
        assert settings.warnings == ()

    def test_its_lists_of_tools_are_kept(self, tmp_path: Path) -> None:
        (entry,) = self.load(tmp_path, {"command": "x", "includeTools": ["a"], "excludeTools": ["b"]}).entries
        assert (entry.allowed_tools, entry.blocked_tools) == (("a",), ("b",))

    def test_its_switches_turn_servers_off(self, tmp_path: Path) -> None:
        server = {"command": "x"}
        assert self.load(tmp_path, server, mcp={"excluded": ["s"]}).entries[0].disabled
        assert self.load(tmp_path, server, mcp={"allowed": ["t"]}).entries[0].disabled
        assert not self.load(tmp_path, server, mcp={"allowed": ["s"], "excluded": []}).entries[0].disabled

    def test_a_bare_dollar_name_is_a_variable(self, tmp_path: Path) -> None:
        settings = self.load(tmp_path, {"command": "x", "env": {"KEY": "$TOKEN", "OTHER": "${TOKEN} 5$"}})
        assert settings.servers["s"] == StdioServer("x", env={"KEY": "t0ken", "OTHER": "t0ken 5$"})
        (entry,) = self.load(tmp_path, {"command": "x", "cwd": "$NOT_SET_ANYWHERE"}).entries
        assert "NOT_SET_ANYWHERE is not set" in str(entry.error)


@pytest.mark.parametrize(
    "path", [".mcp.json", ".claude.json", ".cursor/mcp.json", ".vscode/mcp.json", ".gemini/settings.json"]
)
def test_options_of_the_hub_in_a_file_of_another_program_are_warned_about(tmp_path: Path, path: str) -> None:
    content = {"mcpServers": {"a": {"command": "x"}}, "hub": {"allowed_tools": []}}
    settings = load(tmp_path / path, content)
    assert settings.defaults == {}
    (warning,) = settings.warnings
    assert warning.startswith(
        f"{tmp_path / path}:7:3: hub: has no effect in another program's file; put it into toolcrib.toml"
    )


def test_options_of_the_hub_hold_beside_a_bare_map_too(tmp_path: Path) -> None:
    settings = load(tmp_path / "x.json", {"a": {"command": "x"}, "hub": {"allowed_tools": []}})
    assert list(settings.servers) == ["a"]
    assert settings.defaults == {"allowed_tools": ()}
