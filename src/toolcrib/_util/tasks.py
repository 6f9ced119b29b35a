"""Background tasks that belong to one object."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from .futures import retrieve

T = TypeVar("T")

_uncancellable: set[asyncio.Task[Any]] = set()
"""The work of `run_to_end` on all event loops."""


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a task and return its result. A cancelled caller gets `CancelledError` after `work` has ended."""
    task = asyncio.create_task(work)
    task.add_done_callback(retrieve)
    _uncancellable.add(task)
    task.add_done_callback(_uncancellable.discard)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        raise cancelled
    return task.result()


def has_uncancellable_tasks(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether an event loop runs work of `run_to_end`; may be called from any thread."""
    return any(task.get_loop() is loop for task in tuple(_uncancellable))


async def wait_for_uncancellable_tasks() -> None:
    """Wait until all work of `run_to_end` on this event loop has ended."""
    loop = asyncio.get_running_loop()
    while tasks := [task for task in tuple(_uncancellable) if task.get_loop() is loop]:
        await asyncio.wait(tasks)


class TaskSet:
    """Keeps references to tasks until they end: asyncio itself has only weak references."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def create(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run `work` in a task of this set."""
        task = asyncio.create_task(work, name=name)
        self.add(task)
        return task

    def add(self, task: asyncio.Task[Any]) -> None:
        """Keep a task that was created elsewhere."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Cancel every task that has not ended."""
        for task in tuple(self._tasks):
            task.cancel()

    async def wait(self) -> None:
        """Wait until every task has ended, including those created in the meantime; exceptions stay in the tasks."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))
