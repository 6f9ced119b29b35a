"""`toolcrib servers`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cli.kit import DEMO, GOODS, run_cli, show_cli, write_settings

DEAD = (sys.executable, "-c", "import sys; sys.exit('no key')")


def test_every_server_is_shown_with_its_features_and_its_status(tmp_path: Path) -> None:
    off = {"command": "x", "disabled": True}
    write_settings(tmp_path, {"demo": DEMO, "goods": GOODS, "dead": DEAD, "wrong": {"comand": "x"}, "off": off})
    ran = run_cli("servers", "--json", cwd=tmp_path)
    demo, goods, dead, wrong, disabled = ran.json
    assert demo | {"start_ms": 0, "tokens": 0} == {
        "name": "demo",
        "status": "connected",
        "reason": "",
        "era": "2026-07-28",
        "server": {"name": "demo", "version": "1.0.0"},
        "tools": 5,
        "resources": 1,
        "templates": 0,
        "prompts": 1,
        "tokens": 0,
        "start_ms": 0,
        "error": None,
        "hidden_tools": 0,
    }
    assert 0 < demo["start_ms"] < 60_000 and demo["tokens"] > 100
    assert (goods["resources"], goods["templates"], goods["prompts"]) == (2, 1, 1)
    assert (dead["status"], dead["era"], dead["start_ms"]) == ("failed", None, None) and "no key" in dead["error"]
    assert wrong["status"] == "failed" and ".mcp.json:1" in wrong["error"]
    assert (disabled["status"], disabled["error"]) == ("disabled", None)
    assert (ran.code, ran.err) == (5, "")


def test_a_program_reads_lines_and_a_person_a_table(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": DEMO, "dead": DEAD})
    demo, dead = run_cli("servers", cwd=tmp_path).rows
    assert demo[:6] == ["demo", "connected", "2026-07-28", "5", "1", "1"] and demo[-1] == ""
    assert dead[:2] == ["dead", "failed"] and "no key" in dead[-1]
    screen = show_cli("servers", cwd=tmp_path)
    assert screen.code == 5
    headings = ["server", "status", "era", "tools", "resources", "prompts", "tokens", "start", "ms"]
    assert screen.lines[1].split() == headings
    below = screen.text.splitlines()[-4:]
    assert below[1:3] == ["error: dead: the server's process exited with code 1", "  | no key"]
    assert below[3].startswith("hint: `toolcrib doctor`")


def test_settings_without_servers_are_not_an_error(tmp_path: Path) -> None:
    write_settings(tmp_path, {})
    ran = run_cli("servers", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "") and "toolcrib add" in ran.err


def test_tools_that_rules_hide_are_counted_by_servers_and_tools(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text(
        f"[hub]\ndisallowed_tools = ['mcp__demo__a*', 'mcp__demo__echo']\n[servers.demo]\n"
        f"command = '{DEMO[0]}'\nargs = ['{DEMO[1]}']\n"
    )
    assert "demo: 2 hidden by rules" in show_cli("servers", cwd=tmp_path).text
    assert run_cli("servers", "--json", cwd=tmp_path).json[0]["hidden_tools"] == 2
    listed = show_cli("tools", cwd=tmp_path).text
    assert "3 tools, about " in listed and "; 2 hidden by rules" in listed


def test_a_hint_for_several_servers_is_shown_once_with_their_names(tmp_path: Path) -> None:
    write_settings(tmp_path, {"a": DEAD, "b": DEAD})
    ran = run_cli("tools", cwd=tmp_path)
    assert ran.code == 5 and ran.err.count("hint: ") == 1
    assert ran.err.endswith("hint: a, b: `toolcrib doctor` diagnoses the start step by step\n")
