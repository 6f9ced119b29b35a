"""Decides when the lists of sources are fetched again, and when their health is checked."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from .._util.tasks import TaskSet
from ..client.client import Client
from ..errors import ToolcribError, UsageError
from ..events import ConnectionCompleted
from ..protocol.sanitize import one_line
from .source_config import SourceConfig

log = logging.getLogger("toolcrib.provider")

MAX_PARALLEL_REFRESHES: Final = 4
"""Sources that are refreshed in the background at a time."""
MIN_PAUSE_SECONDS: Final = 1.0
"""The shortest time between two refreshes of a source that announces changes."""
MAX_PAUSE_SECONDS: Final = 60.0
"""The longest time between an announced change and its refresh, for a source that changes all the time."""

Refresh = Callable[[str], Awaitable[object]]


class _Timers:
    """The timers of one source."""

    __slots__ = ("check", "last", "pause", "refresh", "requested")

    def __init__(self) -> None:
        self.refresh: asyncio.TimerHandle | None = None
        self.check: asyncio.TimerHandle | None = None
        self.requested: asyncio.TimerHandle | None = None
        self.last = float("-inf")
        """When the last announced change was fetched, in the time of the event loop."""
        self.pause = MIN_PAUSE_SECONDS

    def cancel(self) -> None:
        for timer in (self.refresh, self.check, self.requested):
            if timer is not None:
                timer.cancel()


class RefreshSchedule:
    """Calls `refresh` and `check` with the ids of sources; errors are logged, as both report them in the status."""

    def __init__(self, refresh: Refresh, check: Refresh) -> None:
        self._refresh = refresh
        self._check = check
        self._timers: dict[str, _Timers] = {}
        self._slots = asyncio.Semaphore(MAX_PARALLEL_REFRESHES)
        self._tasks = TaskSet()
        self._begun: set[tuple[str, Refresh]] = set()
        """What is being done or waits for a slot, by source."""

    def add(self, source_id: str, config: SourceConfig) -> None:
        """Refresh and check a source at the intervals of its config, instead of those that were set before."""
        self.remove(source_id)
        refresh_interval, health_interval = config.refresh_interval, config.health_interval
        timers = self._timers[source_id] = _Timers()
        if refresh_interval is not None:
            self._repeat(timers, "refresh", source_id, refresh_interval, self._refresh)
        if health_interval is not None:
            self._repeat(timers, "check", source_id, health_interval, self._check)

    def remove(self, source_id: str) -> None:
        """Stop refreshing and checking a source."""
        timers = self._timers.pop(source_id, None)
        if timers is not None:
            timers.cancel()

    def follow(self, source_id: str, client: Client) -> None:
        """Refresh a source when this client's server announces changes, until the client is closed.

        The stream of changes continues after a reconnect. If it could not be opened, the next connection opens it.
        """
        following: asyncio.Task[None] | None = None

        def begin(_: ConnectionCompleted) -> None:
            nonlocal following
            if following is None or following.done():
                changes = self._receive_changes(source_id, client)
                following = self._tasks.create(changes, name=f"toolcrib:changes:{source_id}")

        client.on(ConnectionCompleted, begin)

    async def _receive_changes(self, source_id: str, client: Client) -> None:
        try:
            async with client.listen() as changes:
                async for change in changes:
                    if change.kind != "resource":
                        self.request(source_id)
        except (ToolcribError, UsageError) as exc:
            log.debug("%s: it announces no changes: %s", client.name, one_line(str(exc)))

    def request(self, source_id: str) -> None:
        """Refresh a source soon, because its lists changed. A source that changes all the time is refreshed rarely."""
        timers = self._timers.get(source_id)
        if timers is None or timers.requested is not None:
            return
        loop = asyncio.get_running_loop()
        since = loop.time() - timers.last
        timers.pause = MIN_PAUSE_SECONDS if since > 2 * timers.pause else min(2 * timers.pause, MAX_PAUSE_SECONDS)
        delay = max(0.0, timers.pause - since)

        def begin() -> None:
            if (source_id, self._refresh) in self._begun:  # it may have fetched the lists before they changed
                timers.requested = loop.call_later(timers.pause, begin)
                return
            timers.requested = None
            timers.last = loop.time()
            self._start(source_id, self._refresh)

        timers.requested = loop.call_later(delay, begin)

    def _repeat(self, timers: _Timers, name: str, source_id: str, interval: float, work: Refresh) -> None:
        def begin() -> None:
            setattr(timers, name, loop.call_later(interval, begin))
            self._start(source_id, work)

        loop = asyncio.get_running_loop()
        first = interval * random.uniform(0.9, 1.1)  # noqa: S311  # spreads the sources of one start over time
        setattr(timers, name, loop.call_later(first, begin))

    def _start(self, source_id: str, work: Refresh) -> None:
        """Begin the work, unless the same work for this source has not ended yet."""
        key = (source_id, work)
        if key not in self._begun:
            self._begun.add(key)
            task = self._tasks.create(self._run(source_id, work), name=f"toolcrib:refresh:{source_id}")
            task.add_done_callback(lambda _: self._begun.discard(key))

    async def _run(self, source_id: str, work: Refresh) -> None:
        async with self._slots:
            if source_id not in self._timers:
                return
            try:
                await work(source_id)
            except ToolcribError as exc:
                log.info("refresh: %s", one_line(str(exc)))
            except Exception:
                log.exception("refresh of source %s failed", source_id)

    async def close(self) -> None:
        """Stop everything."""
        for source_id in list(self._timers):
            self.remove(source_id)
        self._tasks.cancel()
        await self._tasks.wait()
