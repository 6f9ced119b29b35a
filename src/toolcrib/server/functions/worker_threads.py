"""Threads for functions that block. They are daemons: one that hangs must not keep the program from ending."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar

LIMIT: Final = 64
"""Threads at most; what comes while all are at work waits."""

T = TypeVar("T")


class Workers:
    """Threads that are made when none is free, and kept."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._queue: deque[Callable[[], None]] = deque()
        self._ready = threading.Condition()
        self._waiting = 0
        self._count = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Do it on one of the threads; it must not raise."""
        with self._ready:
            self._queue.append(work)
            self._find_hands()

    def _find_hands(self) -> None:
        if self._waiting >= len(self._queue):
            self._ready.notify()
        elif self._count < self._limit:
            thread = threading.Thread(target=self._run, name=f"toolcrib-tool-{self._count + 1}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system gives no more; those that are there take it in turn
                if self._count == 0:
                    self._queue.pop()
                    raise
            else:
                self._count += 1

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # or it would live until the next one comes

    def _next(self) -> Callable[[], None] | None:
        """The next piece of work; None for a thread too many."""
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
    def lent(self) -> Iterator[None]:
        """While entered, the thread that entered it only waits for somebody: another may work in its place."""
        with self._ready:
            self._limit += 1
            if self._queue:
                self._find_hands()
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
    """While entered, the thread of a tool waits for somebody's answer, and keeps nobody else from a thread."""
    return _workers.lent()


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """What the function gives, called on a thread with the caller's context variables."""
    loop = asyncio.get_running_loop()
    # As a pair: a future takes no StopIteration for an exception, and who waits for it would wait for ever.
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        if done.cancelled():
            return  # its time passed while it waited for a thread: it must not run any more
        outcome = _outcome(lambda: context.run(function, *args))
        try:
            loop.call_soon_threadsafe(_settle, done, outcome)
        except RuntimeError:
            return  # the loop has ended, and nobody waits any more

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
