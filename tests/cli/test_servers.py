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
    assert below[1:3] == ["error: dead: the server's process ended with exit code 1", "  | no key"]
    assert below[3].startswith("hint: `toolcrib doctor`")


def test_settings_without_servers_are_not_an_error(tmp_path: Path) -> None:
    write_settings(tmp_path, {})
    ran = run_cli("servers", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "") and "toolcrib add" in ran.err
