"""The command line as its users meet it: a process with pipes, or a person's terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pexpect
import pyte

ROOT = Path(__file__).parents[2]
DEMO = (sys.executable, str(ROOT / "examples" / "demo_server.py"))
"""The command of a real stdio server: add, echo, slow_count (with progress), fail, greet (which asks)."""

COMMAND = (sys.executable, "-m", "toolyard")
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """A listing as a program reads it."""
        return [line.split("\t") for line in self.out.splitlines()]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nobody's own settings, whatever the machine has."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "SSL_CERT_FILE", "TMPDIR")}
    return {**kept, "HOME": str(home), "LANG": kept.get("LANG", "C.UTF-8"), **more}


def run_cli(
    *arguments: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None, timeout: float = PATIENCE
) -> Ran:
    """Run `toolyard` with pipes; `cwd` is its folder and its home."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        env=environment(cwd, **(env or {})),
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def write_settings(folder: Path, servers: Mapping[str, Any], name: str = ".mcp.json") -> Path:
    """A settings file; a server is its entry, or its command."""
    entries = {
        name: {"command": given[0], "args": list(given[1:])} if isinstance(given, tuple) else given
        for name, given in servers.items()
    }
    path = folder / name
    path.write_text(json.dumps({"mcpServers": entries}), "utf-8")
    return path


class Terminal:
    """A real terminal with a program in it: what a person types, and what the screen shows then."""

    def __init__(self, child: pexpect.spawn[bytes], width: int, height: int) -> None:
        self.child = child
        self._screen = pyte.HistoryScreen(width, height, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self.bytes = b""
        """All that was ever sent to the terminal."""

    @property
    def lines(self) -> list[str]:
        """The screen, with what was scrolled out of it."""
        width = self._screen.columns
        above = ["".join(row[at].data for at in range(width)).rstrip() for row in self._screen.history.top]
        return [*above, *(line.rstrip() for line in self._screen.display)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    @property
    def cells(self) -> list[list[Any]]:
        """The screen alone, each of its cells with its colours."""
        rows = range(self._screen.lines)
        return [[self._screen.buffer[row][column] for column in range(self._screen.columns)] for row in rows]

    def read(self, timeout: float = 0.05) -> bool:
        """Take in what has arrived; False at the end."""
        try:
            data = self.child.read_nonblocking(65536, timeout)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.bytes += data
        self._stream.feed(data)
        return True

    def until(self, what: str | Callable[[str], object], timeout: float = PATIENCE) -> str:
        """Wait until the screen shows this text, or is as this function wants it."""
        wanted = what if callable(what) else lambda text: what in text
        end = time.monotonic() + timeout
        while not wanted(self.text):
            if not self.read() and not wanted(self.text):
                raise AssertionError(f"the program ended before {what!r}:\n{self.text}")
            if time.monotonic() > end:
                raise AssertionError(f"{what!r} did not come:\n{self.text}")
        return self.text

    def type(self, text: str) -> None:
        """Type a line and Return."""
        self.child.send(text + "\r")

    def press(self, key: str) -> None:
        """Ctrl and this key."""
        self.child.sendcontrol(key)

    def exit_code(self, timeout: float = PATIENCE) -> int:
        """Wait for the end: the exit code."""
        end = time.monotonic() + timeout
        while self.read():
            if time.monotonic() > end:
                raise AssertionError(f"the program goes on:\n{self.text}")
        self.child.wait()
        return self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus


@contextmanager
def terminal(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    width: int = 100,
    height: int = 40,
    program: tuple[str, ...] = COMMAND,
    echo: bool | None = None,
) -> Iterator[Terminal]:
    """`toolyard` (or another program, such as a shell) in a terminal of its own.

    `echo`: whether the screen shows what is typed, as a person's does; by default only in other programs.
    """
    child: pexpect.spawn[bytes] = pexpect.spawn(
        program[0],
        [*program[1:], *arguments],
        cwd=str(cwd),
        env=environment(cwd, **{"TERM": "xterm-256color", **(env or {})}),
        dimensions=(height, width),
        timeout=PATIENCE,
        echo=program is not COMMAND if echo is None else echo,
    )
    try:
        yield Terminal(child, width, height)
    finally:
        child.close(force=True)
