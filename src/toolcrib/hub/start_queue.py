"""How the servers of a hub start: how many processes at the same time, and how far the first start of each server is.

Processes that start together compete for the cores, while the `connect_timeout` of each of them runs. A server that
starts a process therefore waits here for its turn, and its time-outs begin when its turn comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Final

from .._util.futures import outcome, settle
from ..errors import ToolcribError

DEFAULT_LIMIT: Final = 3 * (os.cpu_count() or 1)
"""Starts at the same time, unless `max_parallel_starts` is given."""
MAX_SLOT_SECONDS: Final = 15.0
"""A start that takes longer gives up its slot and goes on: a server that hangs, or waits for a download, needs few of
the cores and must not delay the others until its `connect_timeout` has passed."""


class StartQueue:
    """Grants slots for starting in order of arrival, urgent requests first. `limit` None grants every one at once."""

    def __init__(self, limit: int | None = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._starting = 0
        self._urgent: dict[object, asyncio.Future[None]] = {}
        self._normal: dict[object, asyncio.Future[None]] = {}

    def is_waiting(self, who: object) -> bool:
        """Return whether `who` waits for a slot."""
        return who in self._normal or who in self._urgent

    def prioritize(self, who: object) -> None:
        """Let `who`, if it waits, go before all that are not urgent."""
        if who in self._normal:
            self._urgent[who] = self._normal.pop(who)

    @contextlib.asynccontextmanager
    async def slot(self, who: object, *, urgent: bool = False) -> AsyncIterator[None]:
        """Hold one slot, for `MAX_SLOT_SECONDS` at most."""
        await self._acquire(who, self._urgent if urgent else self._normal)
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                self._release()

        timer = asyncio.get_running_loop().call_later(MAX_SLOT_SECONDS, release)
        try:
            yield
        finally:
            timer.cancel()
            release()

    async def _acquire(self, who: object, queue: dict[object, asyncio.Future[None]]) -> None:
        if self.limit is None or self._starting < self.limit:
            self._starting += 1
            return
        granted = queue[who] = asyncio.get_running_loop().create_future()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release()  # the slot was granted in the turn of the loop in which the waiter was cancelled
            raise
        finally:
            self._urgent.pop(who, None)
            self._normal.pop(who, None)

    def _release(self) -> None:
        for queue in (self._urgent, self._normal):
            while queue:
                granted = queue.pop(next(iter(queue)))
                if not granted.done():
                    granted.set_result(None)  # hands this slot on, so the count stays the same
                    return
        self._starting -= 1


class FirstStart:
    """The first start of a server, from the request to its outcome. Times are those of the event loop."""

    def __init__(self) -> None:
        self.requested_at = asyncio.get_running_loop().time()
        self.turn_began_at: float | None = None
        """When the server began to connect; None while it waits for its turn."""
        self.turn = outcome()
        """Done when the server begins to connect, or will not."""
        self.outcome = outcome()
        """Whether the server could be connected and listed the first time that it was tried."""
        self.seconds: float | None = None
        """Seconds from `turn_began_at` until the tools were listed for the first time; None before."""

    def begin_turn(self) -> None:
        """Note that the server begins to connect."""
        if self.turn_began_at is None:
            self.turn_began_at = asyncio.get_running_loop().time()
        settle([self.turn], None)

    def note_listed(self) -> None:
        """Note that the tools are listed."""
        if self.seconds is None:
            began = self.requested_at if self.turn_began_at is None else self.turn_began_at
            self.seconds = asyncio.get_running_loop().time() - began

    def end(self, error: ToolcribError | None) -> None:
        """Resolve the outcome, if it is not resolved yet."""
        settle([self.turn], None)
        settle([self.outcome], error)
