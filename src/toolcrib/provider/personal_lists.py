"""Lists of sources with personal slots: each principal sees what its own credentials show.

They are kept in memory only, never stored, and never shown to another principal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from .._util.tasks import TaskSet
from ..errors import CallTimeout, ConnectionLost, ToolcribError
from .connections import SourceConnections
from .discovery import Listing, list_everything
from .inventory import InventoryTool, diff, diff_items
from .snapshot import Source
from .source_config import ReviewPolicy
from .store.rows import PromptRow, ResourceRow, TemplateRow

MAX_LISTS: Final = 1_000
"""Lists that are kept."""
MAX_AGE_SECONDS: Final = 300.0
"""Seconds after which a list is fetched again when it is needed."""
LIST_SECONDS: Final = 5.0
"""Seconds after which a list of several sources does not wait for one of them any longer."""
RETRY_SECONDS: Final = 10.0
"""Seconds for which a source that could not be listed is left out of lists without a new attempt."""
FETCH_TIMEOUT_SECONDS: Final = 30.0
"""Seconds for a list that no call with a time-out of its own needs."""


class _Key(NamedTuple):
    """Which list: with the tools, unless all principals have those that the operator's credential shows."""

    source_id: str
    principal: str
    with_tools: bool


class PersonalLists:
    """The lists of sources as single principals see them."""

    def __init__(self, connections: SourceConnections) -> None:
        self._connections = connections
        self._sources: dict[_Key, tuple[float, Source, Source]] = {}
        """For each list: when it was fetched, the source at that time, the source as listed."""
        self._fetching: dict[_Key, tuple[asyncio.Task[Source], float]] = {}
        """For each list that is being fetched: the task, and when it began."""
        self._failures: dict[_Key, tuple[float, ToolcribError]] = {}
        """For each list that could not be fetched: when, and why."""
        self._tasks = TaskSet()

    def _find(self, source: Source, key: _Key) -> Source | None:
        """Return the source as listed; None if it has to be fetched."""
        found = self._sources.get(key)
        if found is None or found[1] is not source or time.monotonic() - found[0] > MAX_AGE_SECONDS:
            return None
        return found[2]

    async def fetch(
        self, source: Source, principal: str, *, with_tools: bool, timeout: float | None = FETCH_TIMEOUT_SECONDS
    ) -> Source:
        """Return what this principal sees of the source: prompts and resources, and `with_tools` also the tools.

        Callers that need the same list share one request. Raises `CallTimeout` after `timeout` seconds.
        """
        key = _Key(source.id, principal, with_tools)
        found = self._find(source, key)
        if found is not None:
            return found
        task, _ = self._begin(source, key)
        return await _wait_for(task, source, timeout)

    async def fetch_with(
        self, source: Source, principal: str, environment: Mapping[str, str], timeout: float | None
    ) -> Source:
        """Return what the source lists with the values of one call, which may replace credentials. It is not kept."""
        task = self._tasks.create(self._list(source, principal, True, environment))
        task.add_done_callback(_retrieve_exception)
        try:
            return await _wait_for(task, source, timeout)
        finally:
            task.cancel()

    async def fetch_for_list(self, source: Source, principal: str, *, with_tools: bool) -> Source:
        """Do as `fetch` does, for a list of several sources: one that hangs or fails does not delay each list."""
        key, now = _Key(source.id, principal, with_tools), time.monotonic()
        found = self._find(source, key)
        if found is not None:
            return found
        failed = self._failures.get(key)
        if failed is not None and now - failed[0] < RETRY_SECONDS:
            raise failed[1]
        task, began = self._begin(source, key)
        return await _wait_for(task, source, max(began + LIST_SECONDS - now, 0.0))

    def _begin(self, source: Source, key: _Key) -> tuple[asyncio.Task[Source], float]:
        """Return the task that fetches a list, and when it began."""
        begun = self._fetching.get(key)
        if begun is None:
            task = self._tasks.create(self._fetch(source, key))
            task.add_done_callback(_retrieve_exception)
            begun = self._fetching[key] = (task, time.monotonic())
        return begun

    def forget(self, source_id: str, principal: str | None = None) -> None:
        """Forget the lists of a source, or of one principal: credentials or settings changed."""
        for kept in (self._sources, self._fetching, self._failures):
            for key in [key for key in kept if key.source_id == source_id and principal in (None, key.principal)]:
                del kept[key]

    async def close(self) -> None:
        """Cancel what is being fetched."""
        self._tasks.cancel()
        await self._tasks.wait()

    async def _fetch(self, source: Source, key: _Key) -> Source:
        current = asyncio.current_task()
        error: ToolcribError | None = None
        try:
            made = await self._list(source, key.principal, key.with_tools)
        except ToolcribError as exc:
            error = exc
            raise
        finally:
            # Otherwise it was fetched with credentials that changed meanwhile.
            is_current = key in self._fetching and self._fetching[key][0] is current
            if is_current:
                del self._fetching[key]
                self._failures.pop(key, None)
                if error is not None:
                    self._failures[key] = (time.monotonic(), error)
        if is_current:
            if len(self._sources) >= MAX_LISTS:
                del self._sources[next(iter(self._sources))]
            self._sources[key] = (time.monotonic(), source, made)
        return made

    async def _list(
        self, source: Source, principal: str, with_tools: bool, environment: Mapping[str, str] | None = None
    ) -> Source:
        timeout = FETCH_TIMEOUT_SECONDS
        async with self._connections.lease(source, principal, environment=environment, timeout=timeout) as client:
            listing = await list_everything(client)
        return _make_personal(source, listing, with_tools)


async def _wait_for(task: asyncio.Task[Source], source: Source, timeout: float | None) -> Source:
    await asyncio.wait([task], timeout=timeout)
    if not task.done():
        message = "the deadline passed while the source was listed for this principal; nothing was sent"
        raise CallTimeout(message, server=source.name)
    if task.cancelled():
        raise ConnectionLost("the provider was closed; nothing was sent", server=source.name)
    return task.result()


def _retrieve_exception(task: asyncio.Task[Source]) -> None:
    """Mark the exception as seen: no caller may be left that waits for it."""
    if not task.cancelled():
        task.exception()


def _make_personal(source: Source, listing: Listing, with_tools: bool) -> Source:
    now = time.time()
    records: Mapping[str, InventoryTool] = {}
    if with_tools:
        # Decisions about tools that were listed for all stay in force. Others cannot be approved: they are not stored.
        reviewed = source.config.review is not ReviewPolicy.FOLLOW
        policy = ReviewPolicy.REVIEW_ALL if reviewed else ReviewPolicy.FOLLOW
        records = diff(
            source.records.values(),
            listing.tools,
            source_id=source.id,
            source=source.name,
            policy=policy,
            first=True,
            now=now,
            ids=lambda: "",  # nothing of it is stored
        ).tools
    return replace(
        source,
        records=records,
        prompt_rows=diff_items(PromptRow, (), listing.prompts or (), source_id=source.id, now=now).rows,
        resource_rows=diff_items(ResourceRow, (), listing.resources or (), source_id=source.id, now=now).rows,
        template_rows=diff_items(TemplateRow, (), listing.templates or (), source_id=source.id, now=now).rows,
    )
