"""The requests that wait for their answers: deadlines, silences, progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..events import Delivery
from ..types import Wire
from .channel import RequestOptions

COURTESY = 5.0
"""Seconds that a peer, or a handler, may take for what is only a courtesy."""


class Pending:
    """A request that waits for its answer. Times are the loop's."""

    __slots__ = ("deadline", "held_since", "idle_timeout", "idle_until", "method", "progress")

    def __init__(self, method: str, options: RequestOptions) -> None:
        self.method = method
        self.deadline = options.deadline
        self.idle_timeout = options.idle_timeout
        self.idle_until: float | None = None
        self.held_since: float | None = None
        self.progress = Delivery(options.on_progress, "progress handler") if options.on_progress is not None else None

    def due(self) -> float | None:
        """When it must be answered, as far as is known now."""
        if self.idle_until is None:
            return self.deadline
        return self.idle_until if self.deadline is None else min(self.deadline, self.idle_until)

    def put_off(self, seconds: float) -> None:
        """So much time did not count."""
        if self.deadline is not None:
            self.deadline += seconds
        if self.idle_until is not None:
            self.idle_until += seconds

    def on_progress(self, params: Wire, now: float) -> None:
        """A `notifications/progress` of this request."""
        progress = _number(params.get("progress"))
        if progress is None:
            return
        if self.idle_timeout is not None:
            # While held, what was held so far will be added again when it ends: this silence begins only now.
            self.idle_until = (now if self.held_since is None else self.held_since) + self.idle_timeout
        if self.progress is not None:
            message = params.get("message")
            self.progress(progress, _number(params.get("total")), message if isinstance(message, str) else None)

    async def told(self) -> None:
        """Wait until the progress handler has had everything; one that hangs does not keep the answer."""
        if self.progress is None:
            return
        until = asyncio.get_running_loop().time() + COURTESY
        try:
            async with asyncio.timeout_at(until if self.deadline is None else min(until, self.deadline)):
                await self.progress.drained()
        except TimeoutError:
            return


P = TypeVar("P", bound=Pending)


class Waiting(dict[int, P]):
    """The requests that wait, by id, and whether their time stands still."""

    __slots__ = ("holds",)

    def __init__(self) -> None:
        super().__init__()
        self.holds = 0

    @contextmanager
    def hold(self, on_change: Callable[[], object]) -> Iterator[None]:
        """Let no deadline pass while entered; `on_change` is called when time stops and when it goes on."""
        clock = asyncio.get_running_loop().time
        self.holds += 1
        if self.holds == 1:
            now = clock()
            for entry in self.values():
                entry.held_since = now
            on_change()
        try:
            yield
        finally:
            self.holds -= 1
            if self.holds == 0:
                now = clock()
                for entry in self.values():
                    if entry.held_since is not None:
                        entry.put_off(now - entry.held_since)
                        entry.held_since = None
                on_change()


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
