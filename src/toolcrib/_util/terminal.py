"""Reads lines that a person types at the terminal."""

from __future__ import annotations

import asyncio
import os
import sys

MAX_LINE_BYTES = 65_536


async def read_line() -> str | None:
    """Return the next line of stdin, without its end; None at the end of the input.

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
