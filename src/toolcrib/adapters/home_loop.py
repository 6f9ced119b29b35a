"""The event loop that a source of tools belongs to, and work on it from any other loop or thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from ..errors import UsageError

R = TypeVar("R")

START_SECONDS: Final = 5.0
"""Seconds within which the home loop must begin work from another thread; else it is taken to be blocked."""

_BLOCKED: Final = (
    f"the event loop that the hub belongs to did not run for {START_SECONDS:g} s, so the call would wait forever; "
    "nothing was sent. An agent that is called synchronously on that loop blocks it: use toolcrib.sync.Hub with it, "
    "or await the agent's async method"
)
_OWN_THREAD: Final = (
    "a sync call on the thread of the hub's own event loop would wait for itself; use toolcrib.sync.Hub, "
    "or await the async method"
)
_ENDED: Final = "the event loop that the hub belonged to has ended; make the tools inside `async with hub`"


class HomeLoop:
    """The loop that a source belongs to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self._loop = loop
        self._thread = thread

    @classmethod
    def running(cls) -> HomeLoop:
        """Return the loop that runs in this thread; raise `UsageError` if there is none."""
        try:
            return cls(asyncio.get_running_loop(), threading.get_ident())
        except RuntimeError:
            raise UsageError(
                "there is no running event loop: make the tools inside `async with hub`, or use toolcrib.sync.Hub"
            ) from None

    @property
    def is_current(self) -> bool:
        """Whether this is the loop's own thread."""
        return threading.get_ident() == self._thread

    def is_running_here(self) -> bool:
        """Return whether the calling code runs on this loop."""
        return self.is_current and asyncio.get_running_loop() is self._loop

    async def run(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the home loop, from any loop; a cancelled caller cancels it."""
        if self.is_running_here():
            return await make()
        work = _Work(make)
        future = work.submit(self._loop)
        alarm = asyncio.get_running_loop().call_later(START_SECONDS, work.abandon_unless_started)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if work.abandoned:
                raise UsageError(_BLOCKED) from None
            raise
        finally:
            alarm.cancel()

    def wait(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the home loop and block this thread until it ends; an interrupted wait cancels it."""
        if self.is_current:
            raise UsageError(_OWN_THREAD)
        work = _Work(make)
        future = work.submit(self._loop)
        try:
            try:
                return future.result(START_SECONDS)
            except concurrent.futures.TimeoutError:
                if future.done():
                    raise  # the coroutine's own
                work.abandon_unless_started()
            return future.result()
        except concurrent.futures.CancelledError:
            if work.abandoned:
                raise UsageError(_BLOCKED) from None
            raise
        except BaseException:
            future.cancel()
            raise


class _Work(Generic[R]):
    """A coroutine for another loop, which is abandoned if that loop does not begin it in time."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, R]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._started = False
        self._future: concurrent.futures.Future[R] = concurrent.futures.Future()
        self.abandoned = False

    def submit(self, loop: asyncio.AbstractEventLoop) -> concurrent.futures.Future[R]:
        coroutine = self._run()
        try:
            self._future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:
            coroutine.close()
            raise UsageError(_ENDED) from None
        return self._future

    async def _run(self) -> R:
        with self._lock:
            if self.abandoned:
                raise asyncio.CancelledError
            self._started = True
        return await self._make()

    def abandon_unless_started(self) -> None:
        with self._lock:
            if self._started:
                return
            self.abandoned = True
        self._future.cancel()
