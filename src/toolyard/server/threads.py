"""Threads for functions that block. They are daemons: one that hangs must not keep the program from ending."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

LIMIT: Final = 64
"""Threads at most; what comes while all are at work waits."""

T = TypeVar("T")


class Workers:
    """Threads that are made when none is free, and kept."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Do it on one of the threads; it must not raise."""
        self._queue.put(work)
        if self._idle.acquire(blocking=False):
            return
        with self._lock:
            if self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._run, name=f"toolyard-tool-{self._count}", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                work = self._queue.get_nowait()
            except Empty:
                self._idle.release()
                work = self._queue.get()
            work()
            del work  # or it would live until the next one comes


_workers = Workers()


def _renew() -> None:
    global _workers  # noqa: PLW0603  # a forked child has none of its parent's threads
    _workers = Workers()


os.register_at_fork(after_in_child=_renew)


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """What the function gives, called on a thread with the caller's context variables."""
    loop = asyncio.get_running_loop()
    # As a pair: a future takes no StopIteration for an exception, and who waits for it would wait for ever.
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
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
