"""Prompts at the terminal: one at a time, and the lines that a person types."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .locks import wait_for_lock

MAX_LINE_BYTES = 65_536

_turn = threading.Lock()


@asynccontextmanager
async def terminal_turn() -> AsyncIterator[None]:
    """Wait until no other prompt of this process, on any event loop, uses the terminal, and keep it for this one."""
    await wait_for_lock(lambda: _turn.acquire(blocking=False))
    try:
        yield
    finally:
        _turn.release()


async def read_line() -> str | None:
    """Return the next line of stdin, without its end; None at the end of the input. Requires a `terminal_turn`.

    It is read on the event loop and not in a thread: Ctrl-C works, and a prompt that is cancelled takes no line of a
    later one.
    """
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    stdin = sys.stdin.fileno()
    loop.add_reader(stdin, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(stdin)
    data = os.read(stdin, MAX_LINE_BYTES)
    return data.decode("utf-8", "replace").rstrip("\r\n") if data else None
