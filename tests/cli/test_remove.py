"""`toolcrib remove`: from the file that has it, and only that."""

from __future__ import annotations

from pathlib import Path

from tests.cli.kit import run_cli

JSON = """{
  // mine
  "mcpServers": {
    "a": {"command": "x"}, // one
    "b": {"command": "y"}
  },
}
"""
TOML = '# mine\n[servers.a]\ncommand = "z"\n\n[servers.c]\ncommand = "w"\n'


def test_servers_go_and_everything_else_stays(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(JSON)
    assert run_cli("remove", "b", cwd=tmp_path).out == "removed b  (.mcp.json:5)\n"
    assert (tmp_path / ".mcp.json").read_text() == JSON.replace('x"}, // one', 'x"} // one').replace(
        '    "b": {"command": "y"}\n', ""
    )


def test_the_entry_is_removed_from_the_winning_file_and_the_other_one_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(JSON)
    (tmp_path / "toolcrib.toml").write_text(TOML)
    done = run_cli("remove", "a", "b", "c", cwd=tmp_path)
    assert done.code == 0
    assert set(done.out.splitlines()) == {
        "removed a  (toolcrib.toml:2)",
        "removed b  (.mcp.json:5)",
        "removed c  (toolcrib.toml:5)",
    }
    assert ".mcp.json:4 also defines a, and that entry is used now" in done.err
    assert (tmp_path / "toolcrib.toml").read_text() == "# mine\n"
    assert run_cli("remove", "a", cwd=tmp_path).out == "removed a  (.mcp.json:4)\n"


def test_an_unknown_name_is_reported_with_the_nearest_and_nothing_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"github": {"command": "x"}, "fs": {"command": "y"}}')
    done = run_cli("remove", "fs", "gihtub", cwd=tmp_path)
    assert done.code == 4
    assert done.err == (
        "error: there is no server 'gihtub' in .mcp.json; did you mean 'github'?\nhint: the servers are github, fs\n"
    )
    assert '"fs"' in (tmp_path / ".mcp.json").read_text()


def test_missing_settings_are_reported(tmp_path: Path) -> None:
    done = run_cli("remove", "a", cwd=tmp_path)
    assert done.code == 4 and "no settings found here" in done.err


def test_ones_own_file_is_meant_only_if_it_is_used_or_named(tmp_path: Path) -> None:
    own = tmp_path / ".config/toolcrib/toolcrib.toml"
    own.parent.mkdir(parents=True)
    own.write_text(TOML)
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {}}')
    done = run_cli("remove", "c", cwd=tmp_path)
    assert done.code == 4 and f"{own} has it: toolcrib remove --user c" in done.err
    assert run_cli("remove", "--user", "c", cwd=tmp_path).out == f"removed c  ({own}:5)\n"
    (tmp_path / ".mcp.json").unlink()
    assert run_cli("remove", "a", cwd=tmp_path).code == 0
    assert own.read_text() == "# mine\n"


def test_a_broken_server_can_be_removed_and_a_broken_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"comand": 1}, "b": {"command": "x"}}}')
    assert run_cli("remove", "a", cwd=tmp_path).code == 0
    assert (tmp_path / ".mcp.json").read_text() == '{"mcpServers": {"b": {"command": "x"}}}'
    (tmp_path / ".mcp.json").write_text('{"mcpServers": ')
    done = run_cli("remove", "b", cwd=tmp_path)
    assert done.code == 3 and done.err.startswith("error: .mcp.json:1:16: ")
