"""The running event loop, and a lock for each one."""

from __future__ import annotations

import asyncio

from ..errors import UsageError


def running_loop() -> asyncio.AbstractEventLoop:
    """Return asyncio's running event loop; raise `UsageError` outside of one, for example under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "no asyncio event loop is running here; call this inside of asyncio.run(...). Under trio, or without any "
            "event loop, use toolcrib.sync in a thread"
        ) from None


class PerLoopLock:
    """A lock for each event loop: a disconnected client may go on in another one, an `asyncio.Lock` may not."""

    __slots__ = ("_lock", "_loop")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    def __call__(self) -> asyncio.Lock:
        """`async with turns():`"""
        loop = running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
