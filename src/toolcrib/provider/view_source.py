"""What views use of a provider: the sources as a principal sees them, calls, and leased connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from time import monotonic
from typing import Any, cast

from ..client.client import Client, Timeout
from ..client.subscriptions import ListKind
from ..errors import ToolcribError, UsageError
from ..events import GroupChanged, InventoryChanged, Listeners
from ..hub.dispatch import CallOptions
from ..protocol.sanitize import one_line
from ..types import UNSET, ToolResult
from ..upstreams.pool import LOCAL
from .connections import SourceConnections
from .credentials import DISCOVERY, CredentialTable
from .executor import ExecutionOptions, Executor, check_enabled, find_timeout
from .inventory import InventoryTool
from .personal_lists import PersonalLists
from .snapshot import Snapshot, Source
from .source_registry import SourceRegistry

log = logging.getLogger("toolcrib.provider")


class SourceAccess:
    """Finds sources and tools for principals. It is the `ViewSource` of a provider."""

    def __init__(
        self,
        registry: SourceRegistry,
        executor: Executor,
        connections: SourceConnections,
        credentials: CredentialTable,
        personal: PersonalLists,
        listeners: Listeners,
    ) -> None:
        self._registry = registry
        self._executor = executor
        self._connections = connections
        self._credentials = credentials
        self._personal = personal
        self._listeners = listeners
        self._seen: dict[str, Mapping[str, Source]] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The current state."""
        return self._registry.snapshot

    async def find_for_call(
        self, name: str, tool: str, options: ExecutionOptions
    ) -> tuple[Source, InventoryTool, ExecutionOptions]:
        """Return a source and its tool as the principal sees them, and the options with what is left of the time-out.

        Raises `ServerNotFound`, `ToolNotFound`, or why a source could not be listed for the principal; the audit has
        such calls, too.
        """
        registry, began = self._registry, monotonic()
        source: Source | None = None
        try:
            source = registry.snapshot.sources.get(name) or registry.find(name)
            if source.config.personal_slots and not self._is_listed_for_all(source):
                source, options = await self._find_personal(source, options)
            return source, source.records.get(tool) or registry.find_tool(source, tool), options
        except BaseException as exc:
            principal = options.get("principal", LOCAL)
            self._executor.record_unsent(source or name, tool, principal, exc, (monotonic() - began) * 1000)
            raise

    async def _find_personal(self, source: Source, options: ExecutionOptions) -> tuple[Source, ExecutionOptions]:
        """Return a source as the principal sees it, and the options with what is left of the time-out."""
        principal, began = options.get("principal", LOCAL), monotonic()
        check_enabled(source)
        timeout = find_timeout(source, options.get("timeout", UNSET))
        environment = options.get("environment")
        if environment:
            source = await self._personal.fetch_with(source, principal, environment, timeout)
        else:
            source = await self._personal.fetch(source, principal, with_tools=True, timeout=timeout)
        if timeout is not None:
            options = {**options, "timeout": max(timeout - (monotonic() - began), 0.001)}
        check_enabled(self._registry.find(source.id))
        return source, options

    async def call(
        self, source_id: str, tool: str, arguments: Mapping[str, Any], principal: str, options: CallOptions
    ) -> ToolResult:
        """Call a tool by the server's name of it; raise one typed error if there is no result."""
        self._check_open()
        chosen = cast(ExecutionOptions, {**options, "principal": principal})
        source, record, chosen = await self.find_for_call(source_id, tool, chosen)
        return await self._executor.call(source, record, arguments, chosen)

    @contextlib.asynccontextmanager
    async def request_client(
        self, source_id: str, principal: str, timeout: Timeout
    ) -> AsyncIterator[tuple[Client, Timeout]]:
        """Lease a client of a source for this principal. Yields it, and what is left of the time-out."""
        source, began = self._registry.find(source_id), monotonic()
        seconds = find_timeout(source, timeout)
        async with self._connections.lease(source, principal, timeout=seconds) as client:
            yield client, None if seconds is None else max(seconds - (monotonic() - began), 0.001)

    async def list_personal(self, principal: str) -> Mapping[str, Source]:
        """Return the sources that have lists for this principal alone, by id, with only these lists.

        A source without credentials of the principal, or that cannot be reached, is left out.
        """
        wanted = self._find_personal_sources(principal)
        if not wanted:
            self._seen.pop(principal, None)
            return {}
        listed = await asyncio.gather(*(self._list_one(source, principal) for source in wanted))
        found = {source.id: source for source in listed if source is not None}
        before = self._seen.get(principal, {})
        if list(before.items()) != list(found.items()):
            self._seen[principal] = before = found
        return before

    def has_personal(self, principal: str) -> bool:
        """Whether a source may have lists for this principal alone."""
        return bool(self._find_personal_sources(principal))

    def _check_open(self) -> None:
        if self._connections.closed:
            raise UsageError("the provider is closed; use its views inside `async with provider`")

    def _find_personal_sources(self, principal: str) -> list[Source]:
        self._check_open()
        return [
            source
            for source in self.snapshot.sources.values()
            if source.enabled
            and source.config.personal_slots
            and self._credentials.has(source.id, principal, source.config.personal_slots)
        ]

    async def _list_one(self, source: Source, principal: str) -> Source | None:
        try:
            return await self._personal.fetch_for_list(
                source, principal, with_tools=not self._is_listed_for_all(source)
            )
        except ToolcribError as exc:
            log.warning("%s: could not be listed for %s: %s", source.name, principal, one_line(str(exc)))
            return None

    def _is_listed_for_all(self, source: Source) -> bool:
        """Whether the tools of a source with personal slots were listed with the operator's credential."""
        listed = source.state is not None and source.state.listed_at is not None
        return listed and self._credentials.has(source.id, "", source.config.personal_slots, DISCOVERY)

    def on_tools_changed(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` after a change of the tools of any source, or of a group.

        Returns a function that removes the listener.
        """

        def forward(event: InventoryChanged | GroupChanged) -> None:
            if isinstance(event, GroupChanged) or "tools" in event.kinds:
                listener()

        stops = [self._listeners.on(InventoryChanged, forward), self._listeners.on(GroupChanged, forward)]

        def stop() -> None:
            for each in stops:
                each()

        return stop

    def on_lists_changed(self, source_id: str, listener: Callable[[ListKind], None]) -> Callable[[], None]:
        """Call `listener` with `tools`, `prompts` or `resources` after a change. Returns a function that removes it."""

        def forward(event: InventoryChanged) -> None:
            if event.source_id == source_id:
                for kind in ("tools", "prompts", "resources"):
                    if kind in event.kinds:
                        listener(kind)

        return self._listeners.on(InventoryChanged, forward)
