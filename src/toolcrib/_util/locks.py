"""The running event loop, locks that belong to it, and waiting for locks that others hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ..errors import UsageError

T = TypeVar("T")

LOCK_POLL_SECONDS: Final = 0.02
MAX_LOCK_POLL_SECONDS: Final = 0.5
"""Seconds between two attempts to take a lock that is held for long, for example while a person is asked."""


def running_loop() -> asyncio.AbstractEventLoop:
    """Return asyncio's running event loop; raise `UsageError` if there is none, for example under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "no asyncio event loop is running: call this within asyncio.run(...). Under trio, or without an event "
            "loop, use toolcrib.sync in a thread"
        ) from None


class PerLoop(Generic[T]):
    """A lock or semaphore of the running event loop: unlike a client, an asyncio lock works in one loop only."""

    __slots__ = ("_loop", "_make", "_value")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._value = make()

    def __call__(self) -> T:
        """Return the lock of the running loop; it replaces that of an earlier loop."""
        loop = running_loop()
        if self._loop is not loop:
            self._loop, self._value = loop, self._make()
        return self._value


class PerLoopLock(PerLoop[asyncio.Lock]):
    """`async with lock():` with the lock of the running event loop."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(asyncio.Lock)


async def wait_for_lock(try_lock: Callable[[], bool]) -> None:
    """Wait until `try_lock` has taken a lock of this process or machine, whose other holders cannot notify a task."""
    pause = LOCK_POLL_SECONDS
    while not try_lock():
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, MAX_LOCK_POLL_SECONDS)
