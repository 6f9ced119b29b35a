"""Threads for blocking functions. They are daemon threads: a hanging function must not keep the program alive."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar

MAX_THREADS: Final = 64
"""Maximum number of threads; further work waits until one is free."""

T = TypeVar("T")


class Workers:
    """A pool of threads. A thread is started when none is free, and kept."""

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self._limit = limit
        self._queue: deque[Callable[[], None]] = deque()
        self._ready = threading.Condition()
        self._waiting = 0
        self._count = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` on one of the threads; it must not raise."""
        with self._ready:
            self._queue.append(work)
            self._wake_or_start()

    def _wake_or_start(self) -> None:
        if self._waiting >= len(self._queue):
            self._ready.notify()
        elif self._count < self._limit:
            thread = threading.Thread(target=self._run, name=f"toolcrib-tool-{self._count + 1}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system's limit of threads is reached: an existing one does the work later
                if self._count == 0:
                    self._queue.pop()
                    raise
            else:
                self._count += 1

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # otherwise it would stay referenced until the next work arrives

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next work and return it; None if there are too many threads and this one must end."""
        with self._ready:
            if self._count > self._limit:
                self._count -= 1
                if self._queue:
                    self._ready.notify()
                return None
            while not self._queue:
                self._waiting += 1
                self._ready.wait()
                self._waiting -= 1
            return self._queue.popleft()

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Allow one thread more while the context is entered, because the thread that entered it only waits."""
        with self._ready:
            self._limit += 1
            if self._queue:
                self._wake_or_start()
        try:
            yield
        finally:
            with self._ready:
                self._limit -= 1


_workers = Workers()


def _renew() -> None:
    global _workers  # noqa: PLW0603  # a forked child has none of its parent's threads
    _workers = Workers()


os.register_at_fork(after_in_child=_renew)


def waiting() -> AbstractContextManager[None]:
    """Return a context for a tool's thread that waits for an answer: it does not count against the limit meanwhile."""
    return _workers.lend()


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call the function on a thread, with the caller's context variables, and return its result."""
    loop = asyncio.get_running_loop()
    # A pair of value and exception: a future rejects StopIteration as an exception, so the caller would wait forever.
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        if done.cancelled():
            return  # cancelled while it waited for a thread: it must not run
        outcome = _outcome(lambda: context.run(function, *args))
        try:
            loop.call_soon_threadsafe(_settle, done, outcome)
        except RuntimeError:
            return  # the event loop is closed, and with it the caller has ended

    _workers.submit(work)
    value, failure = await done
    if failure is not None:
        raise failure
    return value  # type: ignore[return-value]  # None only if T is


def _outcome(function: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return function(), None
    except BaseException as exc:  # noqa: BLE001  # raised again where it is awaited
        return None, exc


def _settle(done: asyncio.Future[Any], outcome: Any) -> None:
    if not done.done():
        done.set_result(outcome)
