"""The command line as its users meet it: with pipes, or at a person's terminal.

`run_cli` and `show_cli` run it in the test process, which is enough for what a command reads, does, prints and returns.
`run_process` and `terminal` start a process: for signals, what is typed, closed streams, and what the interpreter does.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

import pexpect
import pyte

from tests.cli.in_process import ROOT, run_here

T = TypeVar("T")
DEMO = (sys.executable, str(ROOT / "examples" / "demo_server.py"))
"""The command of a real stdio server: add, echo, slow_count (with progress), fail, greet (which asks)."""

GOODS_FILE = str(ROOT / "tests/cli/goods.py")
GOODS = {"python": GOODS_FILE}
"""The entry of a server with something of everything. It runs in the process of the command, which costs little."""

COMMAND = (sys.executable, "-m", "toolcrib")
PATIENCE = 60.0
TERMINAL = {"TERM": "xterm-256color"}


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command."""

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
    """An environment without the settings of the machine's user."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "SSL_CERT_FILE", "TMPDIR")}
    return {**kept, "HOME": str(home), "LANG": kept.get("LANG", "C.UTF-8"), **more}


def run_cli(*arguments: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
    """Run `toolcrib` in this process, with a pipe as standard input; `cwd` is its folder and its home."""
    with TemporaryFile() as out, TemporaryFile() as err, _filled_pipe(stdin.encode()) as given:
        streams = (given, out.fileno(), err.fileno())
        code = run_here(arguments, cwd, environment(cwd, **(env or {})), streams)
        return Ran(code, *(_content(file) for file in (out, err)))


@contextmanager
def _filled_pipe(data: bytes) -> Iterator[int]:
    """A pipe with this in it, and nothing behind it."""
    reading, writing = os.pipe()
    try:
        try:
            assert len(data) <= select.PIPE_BUF, "more than any pipe takes at once"
            os.write(writing, data)
        finally:
            os.close(writing)
        yield reading
    finally:
        os.close(reading)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8")


def run_process(
    *arguments: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None, timeout: float = PATIENCE
) -> Ran:
    """Run `python -m toolcrib` as a process with pipes; `cwd` is its folder and its home."""
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


@contextmanager
def in_background(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an async context manager in another thread, with its own event loop: a server for a command of this one."""
    opened: Future[tuple[T, Callable[[], object]]] = Future()

    async def hold() -> None:
        closing, loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            async with manager as value:
                opened.set_result((value, lambda: loop.call_soon_threadsafe(closing.set)))
                await closing.wait()
        except BaseException as exc:
            if opened.done():
                raise
            opened.set_exception(exc)

    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(asyncio.run, hold())
        value, close = opened.result(PATIENCE)
        try:
            yield value
        finally:
            close()
            held.result(PATIENCE)


def write_settings(folder: Path, servers: Mapping[str, Any], name: str = ".mcp.json") -> Path:
    """A settings file; a server is its entry, or its command."""
    entries = {
        name: {"command": given[0], "args": list(given[1:])} if isinstance(given, tuple) else given
        for name, given in servers.items()
    }
    path = folder / name
    path.write_text(json.dumps({"mcpServers": entries}), "utf-8")
    return path


class Screen:
    """Return the text that a terminal shows for these bytes."""

    def __init__(self, width: int, height: int) -> None:
        self._screen = pyte.HistoryScreen(width, height, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self.bytes = b""
        """All that was ever sent to the terminal."""

    def feed(self, data: bytes) -> None:
        self.bytes += data
        self._stream.feed(data)

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


class Shown(Screen):
    """The screen after a command that ran in this process, and its exit code."""

    code: int


def show_cli(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, width: int = 100, height: int = 40
) -> Shown:
    """Run `toolcrib` in this process at a terminal where nothing is typed; `cwd` is its folder and its home."""
    screen = Shown(width, height)
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (height, width))
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(_read_to_end, ours)
        try:
            variables = environment(cwd, **{**TERMINAL, **(env or {})})
            screen.code = run_here(arguments, cwd, variables, (theirs, theirs, theirs))
        finally:
            os.close(theirs)
            data = read.result(PATIENCE)
            os.close(ours)
    screen.feed(data)
    return screen


def _read_to_end(terminal: int) -> bytes:
    """Return all that is written to a terminal until it is closed."""
    data = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError as exc:  # on Linux this is how a terminal ends
            if exc.errno != errno.EIO:
                raise
            return data
        if not piece:
            return data
        data += piece


class Terminal(Screen):
    """A real terminal with a program in it: what a person types, and what the screen shows then."""

    def __init__(self, child: pexpect.spawn[bytes], width: int, height: int) -> None:
        super().__init__(width, height)
        self.child = child

    def read(self, timeout: float = 0.05) -> bool:
        """Take in what has arrived; False at the end."""
        try:
            data = self.child.read_nonblocking(65536, timeout)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.feed(data)
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
    """`toolcrib` (or another program, such as a shell) in its own terminal.

    `echo`: whether the screen shows what is typed, as a person's does; by default only in other programs.
    """
    child: pexpect.spawn[bytes] = pexpect.spawn(
        program[0],
        [*program[1:], *arguments],
        cwd=str(cwd),
        env=environment(cwd, **{**TERMINAL, **(env or {})}),
        dimensions=(height, width),
        timeout=PATIENCE,
        echo=program is not COMMAND if echo is None else echo,
    )
    try:
        yield Terminal(child, width, height)
    finally:
        child.close(force=True)
