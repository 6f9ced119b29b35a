"""What servers write reaches neither the terminal nor the file system as anything but text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.evil_server import LINE, TOOL
from tests.cli.kit import COMMAND, DEMO, ROOT, run_cli, show_cli, terminal, write_settings

EVIL = (sys.executable, str(ROOT / "tests/cli/evil_server.py"))
# What rich itself sends: colours, the cursor, erasing. A title, a bell or a clear screen it never does.
FORBIDDEN = (b"\x1b]", b"\x07", b"\x1b[31mred", b"\xc2\x9b", "\u202e".encode(), "\u200b".encode(), b"\x00", b"\x7f")
COMMANDS: list[tuple[str, ...]] = [
    ("servers",),
    ("servers", "--json"),
    ("tools",),
    ("tools", "--json"),
    ("tools", "--schema"),
    ("call", TOOL),
    ("call", "plain"),
    ("call", "plain", "--json"),
    ("call", "refused"),
    ("call", "plai"),
    ("resources",),
    ("read", "evil://x"),
    ("prompts",),
    ("prompt", "asks"),
    ("explain", TOOL),
    ("explain", "nothing"),
    ("tools", "--long"),
    ("tools", "--search", "red"),
    ("tools", "--debug"),
    ("resources", "--long"),
    ("resources", "--json"),
    ("prompts", "--long"),
    ("prompts", "--json"),
    ("prompt", "asks", "nothing=1"),
    ("call", "fails"),
    ("call", "dies"),
    ("call", "dies", "--debug"),
    ("call", f"two{LINE}".replace("\x00", "")),
    ("watch", "--count", "8", "--call", "plain"),
    ("watch", "--count", "7", "--json", "--call", "refused"),
    ("doctor",),
    ("doctor", "--json"),
]


@pytest.mark.parametrize(
    "arguments", COMMANDS, ids=lambda words: " ".join(words)[:20].encode("ascii", "ignore").decode()
)
def test_no_word_of_a_server_commands_the_terminal(arguments: tuple[str, ...], tmp_path: Path) -> None:
    screen = show_cli(*arguments, "--", *EVIL, cwd=tmp_path, width=1000)  # so wide that no line is wrapped
    assert screen.text and not [each for each in FORBIDDEN if each in screen.bytes]
    assert not forged(screen.text)
    for path in tmp_path.iterdir():
        assert path.name.isascii() and path.name.isprintable() and path.suffix == ".bin"
    assert not list(tmp_path.parent.glob("*.bin"))


@pytest.mark.parametrize(
    "arguments", COMMANDS, ids=lambda words: " ".join(words)[:20].encode("ascii", "ignore").decode()
)
def test_nor_does_it_pass_through_a_pipe(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ran = run_cli(*arguments, "--", *EVIL, cwd=tmp_path)
    assert all(c.isprintable() or c in "\n\t" for c in ran.out + ran.err)
    assert not forged(ran.out) and not forged(ran.err)


def forged(text: str) -> list[str]:
    """Lines that a server made where its text should have been on one."""
    return [line for line in text.splitlines() if line.startswith("FORGED")]


def test_nor_does_what_it_asks(tmp_path: Path) -> None:
    with terminal("call", "asks", "--", *EVIL, cwd=tmp_path) as screen:
        screen.until("Ctrl-D to cancel")
        screen.until("]:")
        screen.press("d")
        screen.exit_code()
    assert not [each for each in FORBIDDEN if each in screen.bytes]
    assert not forged(screen.text)
    ran = run_cli("call", "asks", "--", *EVIL, cwd=tmp_path)
    assert "declined" in ran.err
    assert all(c.isprintable() or c in "\n\t" for c in ran.out + ran.err)
    assert not forged(ran.err)


@pytest.mark.parametrize("tool", ["dies", "refused", "plain"])
def test_nor_does_what_a_bridge_logs(tool: str, tmp_path: Path) -> None:
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    asked = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": tool}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in asked)
    program = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1)\n"
    program += "p.stdin.write(sys.stdin.buffer.read()); p.stdin.flush()\n"
    program += "while b'\"id\":2' not in p.stdout.readline().replace(b' ', b''): pass\np.stdin.close(); p.wait()"
    words = [sys.executable, "-c", program, *COMMAND, "bridge", "--", *EVIL]
    done = subprocess.run(words, input=lines.encode(), capture_output=True, cwd=tmp_path, timeout=60, check=False)
    said = done.stderr.decode()
    assert "[31mred" in said
    assert all(c.isprintable() or c in "\n\t" for c in said)
    assert not forged(said)


def test_nor_does_what_a_dying_server_wrote(tmp_path: Path) -> None:
    ran = run_cli("tools", "--", *EVIL, "--dead", cwd=tmp_path)
    assert ran.code == 5 and "[31mred" in ran.err
    assert all(c.isprintable() or c in "\n\t" for c in ran.out + ran.err)


def test_markup_of_a_server_is_text_on_the_terminal_too(tmp_path: Path) -> None:
    screen = show_cli("call", "plain", "--", *EVIL, cwd=tmp_path)
    assert "[bold]b[/bold]:smile:" in screen.text


def test_wide_characters_keep_a_table_straight(tmp_path: Path) -> None:
    server = tmp_path / "wide.py"
    server.write_text(
        "import toolcrib as tc\nserver = tc.ToolServer('w')\n"
        "@server.tool(description='日本語の説明です')\ndef a() -> str: return ''\n"
        "@server.tool(description='ascii')\ndef b() -> str: return ''\n",
        "utf-8",
    )
    write_settings(tmp_path, {"w": {"python": "wide.py"}})
    screen = show_cli("tools", cwd=tmp_path, width=60)
    assert screen.code == 0
    assert "日本語の説明です" in screen.text.replace(" ", "") and "ascii" in screen.text


def test_colours_are_omitted_where_they_are_not_wanted(tmp_path: Path) -> None:
    screen = show_cli("tools", "--", *DEMO, cwd=tmp_path, env={"NO_COLOR": "1"})
    assert "what it does" in screen.text and b"\x1b[3" not in screen.bytes  # no colour; bold is none
    screen = show_cli("call", "fail", "--", *DEMO, cwd=tmp_path, env={"TERM": "dumb"})
    assert screen.code == 1
    assert "this tool always fails" in screen.text and b"\x1b[" not in screen.bytes


def test_a_narrow_terminal_breaks_no_name(tmp_path: Path) -> None:
    screen = show_cli("tools", "--", *DEMO, cwd=tmp_path, width=40)
    assert screen.code == 0
    assert all(len(line) <= 40 for line in screen.lines)
    assert "mcp__demo_server__slow_count" in screen.lines
    screen = show_cli("tools", "--", *DEMO, cwd=tmp_path, width=200, env={"COLUMNS": "50"})
    assert screen.code == 0
    assert all(len(line) <= 50 for line in screen.lines)
