"""The event loop that a source of tools belongs to, and work on it from any other loop or thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from ..errors import UsageError

R = TypeVar("R")

START_SECONDS: Final = 5.0
"""Seconds within which the home loop must begin work from another thread; else it is taken to be blocked."""

_BLOCKED: Final = (
    "the event loop that the hub belongs to is blocked or stopped, so the call would wait forever; nothing was sent. "
    "An agent that is called synchronously on that loop blocks it: use toolcrib.sync.Hub with it, or await the agent's "
    "async method"
)
_OWN_THREAD: Final = (
    "a sync call on the thread of the hub's own event loop would wait for itself; use toolcrib.sync.Hub, "
    "or await the async method"
)
_NO_LOOP: Final = "there is no running event loop: make the tools inside `async with hub`, or use toolcrib.sync.Hub"
_ENDED: Final = "the event loop that the hub belonged to has ended; make the tools inside `async with hub`"
_ENDED_MEANWHILE: Final = (
    "the event loop that the hub belongs to cancelled the call, as it does when it ends; the tool may have run. "
    "Keep `async with hub` open until the agent is done"
)
_FORKED: Final = "this process was forked from the one that the hub belongs to; make a new hub here"


def _ended_meanwhile() -> UsageError:
    error = UsageError(_ENDED_MEANWHILE)
    error.sent = True
    return error


class HomeLoop:
    """The loop that a source belongs to.

    `start_seconds` is how long work from another thread may wait for its begin.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, thread: threading.Thread, start_seconds: float = START_SECONDS
    ) -> None:
        self._loop = loop
        self._thread = thread  # not its number, which a later thread may get
        self._process = os.getpid()
        self._start_seconds = start_seconds

    @classmethod
    def running(cls, start_seconds: float = START_SECONDS) -> HomeLoop:
        """Return the loop that runs in this thread; raise `UsageError` if there is none."""
        try:
            return cls(asyncio.get_running_loop(), threading.current_thread(), start_seconds)
        except RuntimeError:
            raise UsageError(_NO_LOOP) from None

    def is_running_here(self) -> bool:
        """Return whether the calling code runs on this loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def run(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the home loop, from any loop; a cancelled caller cancels it."""
        if self.is_running_here():
            return await make()
        work = self._prepare(make)
        work.start()
        outcome = asyncio.wrap_future(work.outcome)

        alarm = _Alarm(self._start_seconds, work.check)
        try:
            return await outcome
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if work.failure is not None:
                raise work.failure from None
            if outcome.cancelled() or (task is not None and task.cancelling()):
                work.cancel()
                raise
            raise _ended_meanwhile() from None
        finally:
            alarm.cancel()

    def wait(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the home loop and block this thread until it ends; an interrupted wait cancels it."""
        if self.is_running_here():
            raise UsageError(_OWN_THREAD)
        work = self._prepare(make)
        try:
            work.start()  # inside the block: an interrupt may arrive before the call returns
            while True:
                try:
                    return work.outcome.result(self._start_seconds)
                except TimeoutError:
                    if work.outcome.done():
                        return work.outcome.result()
                work.check()
        except (concurrent.futures.CancelledError, asyncio.CancelledError):
            raise work.failure or _ended_meanwhile() from None
        except BaseException:
            work.cancel()
            raise

    def do(self, function: Callable[[], R]) -> R:
        """Run a quick function on the home loop and return its result; at once if the calling code runs there."""
        if self.is_running_here():
            return function()

        async def call() -> R:
            return function()

        return self.wait(call)

    def _prepare(self, make: Callable[[], Coroutine[Any, Any, R]]) -> _Work[R]:
        if os.getpid() != self._process:
            raise UsageError(_FORKED)
        if threading.current_thread() is self._thread and not self._loop.is_closed():
            # This thread runs no loop, or another one: until it returns, the home loop cannot run.
            raise UsageError(_BLOCKED)
        return _Work(self._loop, make)


class _Alarm:
    """Calls a function on the running loop at intervals, until it is cancelled."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self._seconds = seconds
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._ring)
        self._function()

    def cancel(self) -> None:
        self._timer.cancel()


class _Work(Generic[R]):
    """A coroutine on another loop. It is abandoned if that loop does not begin it in time, or is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, R]]) -> None:
        self.outcome: concurrent.futures.Future[R] = concurrent.futures.Future()
        """It is cancelled only if the coroutine did not begin, and never will."""
        self.failure: UsageError | None = None
        """Why it was abandoned."""
        self._loop = loop
        self._make = make
        self._task: asyncio.Task[R] | None = None

    def start(self) -> None:
        """Hand the work to the loop."""
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            raise UsageError(_ENDED) from None

    def _begin(self) -> None:
        """Begin; runs on the loop, in the context of the caller."""
        if self.outcome.set_running_or_notify_cancel():
            self._task = self._loop.create_task(self._make())
            self._task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[R]) -> None:
        if self.outcome.done():
            return
        if task.cancelled():
            self.outcome.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())

    def check(self) -> None:
        """Abandon the work if the loop has not begun it, or is closed."""
        if self._loop.is_closed():
            self.failure = UsageError(_ENDED)
            if not self.outcome.cancel() and not self.outcome.done():
                self.failure = _ended_meanwhile()
                self.outcome.set_exception(asyncio.CancelledError())
        elif not self.outcome.running() and not self.outcome.done():
            self.failure = UsageError(_BLOCKED)
            if not self.outcome.cancel():
                self.failure = None  # it began in the meantime

    def cancel(self) -> None:
        """Cancel the work, whether or not it has begun."""
        if self.outcome.cancel():
            return
        try:
            self._loop.call_soon_threadsafe(self._cancel_task)
        except RuntimeError:
            return  # the loop is closed, and its tasks with it

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()
