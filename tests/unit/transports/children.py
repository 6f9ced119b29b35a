"""Small programs for the tests to start, and helpers that inspect processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import psutil

from toolcrib.config import StdioServer
from toolcrib.errors import ProtocolError
from toolcrib.transports.stdio.link import StdioLink
from toolcrib.transports.stdio.process import ServerProcess

ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"


def python(code: str, *arguments: str) -> list[str]:
    """Return the command of a Python that starts quickly."""
    return [sys.executable, "-S", "-E", "-c", code, *arguments]


def server(code: str, *arguments: str, **options: Any) -> StdioServer:
    command, *rest = python(code, *arguments)
    return StdioServer(command, rest, **options)


def alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def run_program(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a Python program with warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Gate:
    """A FIFO on which a child waits: `open(gate).read()` returns when the test opens it."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "gate")
        os.mkfifo(self.path)

    async def open(self) -> None:
        """Wait until the child is at the gate, and let it continue."""
        await asyncio.to_thread(lambda: os.close(os.open(self.path, os.O_WRONLY)))


class Taker:
    """A `Receiver` that records everything."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.garbage: list[tuple[ProtocolError, bytes]] = []
        self.lost: list[Exception] = []

    def on_message(self, message: Any) -> None:
        self.messages.append(message)

    def on_malformed(self, error: ProtocolError, head: bytes) -> None:
        self.garbage.append((error, head))

    def on_lost(self, error: Exception) -> None:
        self.lost.append(error)


class Opened:
    """A link, opened with `async with`, and the messages that arrived over it."""

    def __init__(self, link: Any) -> None:
        self.link = link
        self.taker = Taker()

    async def __aenter__(self) -> Self:
        await self.link.open(self.taker)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.link.close(force=True)


class Linked(Opened):
    """A link to a child."""

    def __init__(self, config: StdioServer, on_stderr: Callable[[str], object] | None = None) -> None:
        super().__init__(StdioLink(config, on_stderr=on_stderr))

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def process(self) -> ServerProcess:
        return self.link._child.process
