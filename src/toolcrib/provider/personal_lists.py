"""Lists of sources with personal slots: each principal sees what its own credentials show.

They are kept in memory only, never stored, and never shown to another principal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from .connections import SourceConnections
from .discovery import Listing, list_everything
from .inventory import InventoryTool, diff, diff_items
from .snapshot import Source
from .source_config import ReviewPolicy
from .store.rows import PromptRow, ResourceRow, TemplateRow

MAX_LISTS: Final = 1_000
"""Lists (source, principal) that are kept."""
MAX_AGE_SECONDS: Final = 300.0
"""Seconds after which a list is fetched again when it is needed."""


class PersonalLists:
    """The lists of sources as single principals see them."""

    def __init__(self, connections: SourceConnections) -> None:
        self._connections = connections
        self._sources: dict[tuple[str, str], tuple[float, Source, Source]] = {}
        """For each source and principal: when it was listed, the source at that time, the source as listed."""
        self._fetching: dict[tuple[str, str], asyncio.Task[Source]] = {}

    def find(self, source: Source, principal: str) -> Source | None:
        """Return the source as this principal sees it; None if it has to be fetched."""
        found = self._sources.get((source.id, principal))
        if found is None or found[1] is not source or time.monotonic() - found[0] > MAX_AGE_SECONDS:
            return None
        return found[2]

    async def fetch(self, source: Source, principal: str, *, with_tools: bool) -> Source:
        """Return what this principal sees of the source: prompts and resources, and `with_tools` also the tools.

        Callers that need the same list share one request.
        """
        found = self.find(source, principal)
        if found is not None:
            return found
        key = (source.id, principal)
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.create_task(self._fetch(source, principal, with_tools))
            task.add_done_callback(lambda _: self._fetching.pop(key, None))
        return await asyncio.shield(task)

    def forget(self, source_id: str, principal: str | None = None) -> None:
        """Forget the lists of a source, or of one principal: credentials or settings changed."""
        self._sources = {
            key: value for key, value in self._sources.items() if key[0] != source_id or principal not in (None, key[1])
        }

    async def close(self) -> None:
        """Cancel what is being fetched."""
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _fetch(self, source: Source, principal: str, with_tools: bool) -> Source:
        async with self._connections.lease(source, principal, timeout=30.0) as client:
            listing = await list_everything(client)
        made = _make_personal(source, listing, with_tools)
        if len(self._sources) >= MAX_LISTS:
            del self._sources[next(iter(self._sources))]
        self._sources[source.id, principal] = (time.monotonic(), source, made)
        return made


def _make_personal(source: Source, listing: Listing, with_tools: bool) -> Source:
    now = time.time()
    records: Mapping[str, InventoryTool] = {}
    if with_tools:
        # These tools are not stored, so there is nothing that could be approved.
        reviewed = source.config.review is not ReviewPolicy.FOLLOW
        policy = ReviewPolicy.REVIEW_ALL if reviewed else ReviewPolicy.FOLLOW
        records = diff(
            (), listing.tools, source_id=source.id, source=source.name, policy=policy, first=True, now=now
        ).tools
    return replace(
        source,
        records=records,
        prompt_rows=diff_items(PromptRow, (), listing.prompts or (), source_id=source.id, now=now).rows,
        resource_rows=diff_items(ResourceRow, (), listing.resources or (), source_id=source.id, now=now).rows,
        template_rows=diff_items(TemplateRow, (), listing.templates or (), source_id=source.id, now=now).rows,
    )
