"""One after the other, on whatever event loop it is."""

from __future__ import annotations

import asyncio


class Turns:
    """A lock for each event loop: a disconnected client may go on in another one, an `asyncio.Lock` may not."""

    __slots__ = ("_lock", "_loop")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    def __call__(self) -> asyncio.Lock:
        """`async with turns():`"""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
