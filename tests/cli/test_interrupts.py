"""Ctrl-C, at a real terminal: quick, clean, no process left behind, exit code 130."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.kit import COMMAND, DEMO, GOODS_FILE, Terminal, environment, terminal, write_settings

GOODS = (sys.executable, GOODS_FILE)
SILENT = (sys.executable, "-c", "import sys; sys.stdin.read()")
STUBBORN = (sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)")
QUICK = 10.0
"""Seconds; what it takes is less than one, on a machine that has nothing else to do."""


def children(screen: Terminal) -> list[psutil.Process]:
    return psutil.Process(screen.child.pid).children(recursive=True)


def interrupted(screen: Terminal, press: str = "c") -> None:
    """Press it, and see that all is over."""
    begun = children(screen)
    assert begun
    before = time.monotonic()
    screen.press(press)
    assert screen.exit_code() == 130, screen.text
    assert time.monotonic() - before < QUICK
    _, alive = psutil.wait_procs(begun, timeout=QUICK)
    assert not alive
    assert "Traceback" not in screen.text and "error" not in screen.text


@pytest.mark.parametrize("server", [SILENT, STUBBORN], ids=["silent", "stubborn"])
@pytest.mark.parametrize("command", [("tools",), ("servers",), ("call", "x")], ids=lambda words: words[0])
def test_while_a_server_starts(command: tuple[str, ...], server: tuple[str, ...], tmp_path: Path) -> None:
    with terminal(*command, "--", *server, cwd=tmp_path) as screen:
        screen.until("starting ")
        interrupted(screen)


def test_in_a_call_which_is_cancelled_at_the_server(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with terminal("call", "forever", f"journal={journal}", "--", *GOODS, cwd=tmp_path) as screen:
        screen.until("half")
        interrupted(screen)
    assert journal.read_text("utf-8") == "cancelled"
    assert b"\x1b[?25h" in screen.bytes.rpartition(b"\x1b[?25l")[2]  # the cursor is shown again


def test_while_arguments_are_typed(tmp_path: Path) -> None:
    with terminal("call", "echo", "-", "--", *DEMO, cwd=tmp_path, echo=True) as screen:
        screen.type('{"text":')
        screen.until('{"text":')
        screen.until(lambda _: _unread_bytes(screen) == 0)
        screen.press("c")
        assert screen.exit_code() == 130, screen.text
    assert "Traceback" not in screen.text


def _unread_bytes(screen: Terminal) -> int:
    """Return the size of the typed lines that the program has not read yet."""
    opened = os.open(psutil.Process(screen.child.pid).terminal(), os.O_RDONLY | os.O_NOCTTY)
    try:
        return int.from_bytes(fcntl.ioctl(opened, termios.FIONREAD, bytes(4)), sys.byteorder)
    finally:
        os.close(opened)


def test_in_the_middle_of_a_question(tmp_path: Path) -> None:
    with terminal("call", "greet", "--", *DEMO, cwd=tmp_path) as screen:
        screen.until("name (string")
        interrupted(screen)


def test_when_asked_for_approval(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text('[hub]\nallowed_tools = []\n[servers.a]\npython = "a.py"\n', "utf-8")
    (tmp_path / "a.py").write_text(
        "import toolcrib as tc\nserver = tc.ToolServer('a')\n@server.tool\ndef f() -> str: return ''\n", "utf-8"
    )
    with terminal("call", "f", cwd=tmp_path) as screen:
        screen.until("Call it?")
        screen.press("c")
        assert screen.exit_code() == 130, screen.text
    assert "Traceback" not in screen.text


def test_while_an_in_process_function_blocks(tmp_path: Path) -> None:
    write_settings(tmp_path, {"a": {"python": "a.py"}})
    (tmp_path / "a.py").write_text(
        "import time, toolcrib as tc\nserver = tc.ToolServer('a')\n"
        "@server.tool\ndef sleep(ctx: tc.Context) -> str:\n    time.sleep(600)\n    return ''\n",
        "utf-8",
    )
    with terminal("call", "sleep", cwd=tmp_path) as screen:
        screen.until("0:00:0")
        before = time.monotonic()
        screen.press("c")
        assert screen.exit_code() == 130, screen.text
    assert time.monotonic() - before < QUICK and "Traceback" not in screen.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_ends_it_as_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with terminal("call", "forever", f"journal={journal}", "--", *GOODS, cwd=tmp_path) as screen:
        screen.until("half")
        begun = children(screen)
        screen.child.kill(number)
        assert screen.exit_code() == 128 + number
    _, alive = psutil.wait_procs(begun, timeout=QUICK)
    assert not alive and journal.read_text("utf-8") == "cancelled"
    assert b"\x1b[?25h" in screen.bytes.rpartition(b"\x1b[?25l")[2]


def test_without_a_terminal_too(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    command = [*COMMAND, "call", "forever", f"journal={journal}", "--debug", "--", *GOODS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), stdout=pipe, stderr=pipe) as process:
        assert process.stderr is not None
        begun: list[psutil.Process] = []
        while not begun and process.stderr.readline():  # --debug has much to say
            begun = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        assert process.wait(QUICK) == 130
    _, alive = psutil.wait_procs(begun, timeout=QUICK)
    assert not alive
