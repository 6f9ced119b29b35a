"""The provider: registers sources of tools, keeps their inventory, and executes calls.

Longer than 400 lines: it is the public class, and half of it is documentation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar, Unpack

from .._util.sealing import load_sealer
from .._util.tasks import run_to_end
from ..client.client import Client
from ..config import HttpServer, SseServer, StdioServer
from ..errors import ToolcribError, UsageError
from ..events import Event, Listeners
from ..types import ConnectionState, ConnectionStatus
from ..upstreams.places import PoolLimits
from ..upstreams.pool import LOCAL, PooledConnection
from . import review
from .connections import SourceConnections
from .credentials import DISCOVERY, Credentials, CredentialTable
from .egress import AddressPolicy
from .executor import ExecutionOptions, Executor
from .group_registry import Groups
from .health import IDLE_REASON, HealthTable, HistoryEntry
from .inventory import InventoryChange, InventoryTool
from .outcomes import ExecutionResult, make_failure
from .personal_lists import PersonalLists
from .refresh_schedule import RefreshSchedule
from .registration import parse_registration
from .snapshot import Snapshot, Source
from .source_config import LifecycleMode
from .source_registry import SourceRegistry
from .store.audit import AuditWriter
from .store.interface import Store, StoredState
from .store.opening import open_store, parse_store_url
from .store.rows import AdminActionRow, ExecutionRow
from .view import ProviderView, Views
from .view_source import SourceAccess

E = TypeVar("E", bound=Event)
Server = StdioServer | HttpServer | SseServer | Mapping[str, Any] | str | os.PathLike[str]
"""A source: a server config, an entry of `mcpServers`, a `server.json`, or the path of a plugin folder."""

DEFAULT_STORE: Final = "sqlite:///tools.db"
KEY_FILE: Final = "toolcrib.key"
"""The file with the sealing key, beside the database, unless `TOOLCRIB_KEY` is set."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What an open provider consists of."""

    store: Store
    audit: AuditWriter
    connections: SourceConnections
    registry: SourceRegistry
    executor: Executor
    schedule: RefreshSchedule
    health: HealthTable
    credentials: Credentials
    groups: Groups
    personal: PersonalLists
    access: SourceAccess
    views: Views


class Provider:
    """A library of tools: sources are registered once, their tools are listed from a store and executed on demand.

    Use it as `async with Provider("sqlite:///tools.db") as provider:`. A source is connected by its first call and
    closed when it is idle; its tools stay listed meanwhile.

    Args:
        store: `sqlite:///FILE`, `sqlite://` (in memory), `postgresql://USER@HOST/DATABASE`, the path of a file, or an
            object with the methods of `Store`.
        key_file: The file with the key that encrypts secrets; by default `toolcrib.key` beside the SQLite file. The
            variable `TOOLCRIB_KEY` takes precedence.
        plugin_root: The folder in which plugins must be; by default they may be anywhere.
        allow_private: Whether remote sources may be at private addresses. Metadata services of clouds never are.
        allow_docker_flags: Flags of `docker run` that manifests may use beyond the harmless ones.
        limits: How many connections there may be at a time.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store = DEFAULT_STORE,
        *,
        key_file: str | os.PathLike[str] | None = None,
        plugin_root: str | os.PathLike[str] | None = None,
        allow_private: bool = True,
        allow_docker_flags: Collection[str] = (),
        limits: PoolLimits | None = None,
    ) -> None:
        self._store = store
        self._key_file = key_file
        self._plugin_root = plugin_root
        self._allow_private = allow_private
        self._allow_docker_flags = tuple(allow_docker_flags)
        self._limits = limits or PoolLimits()
        self._listeners = Listeners()
        self._open: _Parts | None = None

    # ---- opening and closing ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise UsageError("the provider is open already")
        given = self._store
        store = await open_store(_as_url(given)) if isinstance(given, str | os.PathLike) else given
        try:
            self._open = self._assemble(store, await store.load())
        except BaseException:
            await store.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        parts, self._open = self._open, None
        if parts is None:
            return
        await run_to_end(_close_all(parts))

    def _assemble(self, store: Store, state: StoredState) -> _Parts:
        """Return the parts of a provider on a store. Nothing is connected."""
        sealer = cache(partial(load_sealer, self._find_key_file()))
        table = CredentialTable(state.credentials, sealer)
        snapshot = Snapshot.from_state(state)
        for source in snapshot.sources.values():
            _ = source.config  # raises for what a newer version stored, before anything is started
        audit = AuditWriter(store)
        health = HealthTable(audit.record, audit.withdraw_events)

        async def refresh(source_id: str) -> None:
            if registry.find(source_id).enabled:
                await registry.refresh(source_id)

        async def check(source_id: str) -> None:
            await self._check_health(registry.find(source_id))

        def watch(source: Source, client: Client, principal: str | None, transient: bool) -> None:
            keeps = source.config.lifecycle_mode is not LifecycleMode.TRANSIENT
            health.of(source.id).watch(client, principal, transient=transient, keeps_connections=keeps)
            if not transient and not source.config.personal_slots:
                schedule.follow(source.id, client)

        schedule = RefreshSchedule(refresh, check)
        connections = SourceConnections(
            limits=self._limits,
            credentials=table,
            sealer=sealer,
            policy=AddressPolicy(self._allow_private),
            watch=watch,
        )
        registry = SourceRegistry(store, snapshot, connections, table, sealer, health, schedule, self._listeners)
        history: dict[str, list[HistoryEntry]] = {}
        for row in state.events:
            history.setdefault(row.source_id, []).append(HistoryEntry(row.at, row.kind, row.data))
        for source in snapshot.sources.values():
            health.add(source.id, _status_after_start(source), history.get(source.id, ()))
            schedule.add(source.id, source.config)
        executor, personal = Executor(connections, audit, schedule.request), PersonalLists(connections)
        access = SourceAccess(registry, executor, connections, table, personal, self._listeners)
        return _Parts(
            store=store,
            audit=audit,
            connections=connections,
            registry=registry,
            executor=executor,
            schedule=schedule,
            health=health,
            credentials=Credentials(table, registry.find, registry.change_credentials, self._apply_credentials),
            groups=Groups(registry),
            personal=personal,
            access=access,
            views=Views(access),
        )

    def _find_key_file(self) -> Path:
        if self._key_file is not None:
            return Path(self._key_file)
        if isinstance(self._store, str | os.PathLike):
            location = parse_store_url(_as_url(self._store))
            if isinstance(location, Path):
                return location.parent / KEY_FILE
        return Path(KEY_FILE)

    @property
    def _parts(self) -> _Parts:
        parts = self._open
        if parts is None:
            raise UsageError("the provider is not open: use it in `async with Provider(...) as provider:`")
        return parts

    # ---- sources ---------------------------------------------------------------------------------------------

    async def register(
        self, registration: Mapping[str, Any] | str | os.PathLike[str], *, require_ready: bool = False, by: str = LOCAL
    ) -> Source:
        """Register a source: its tools are listed once and stored.

        `registration` is a mapping with `name`, `url`, `source_type`, `mcp_plugin_dir` and the other fields of a
        registration, a `server.json`, an `mcpServers` document with one entry, or the path of a plugin folder. A source
        that cannot be listed is stored with the reason as its status; with `require_ready=True` the error is raised
        and nothing is stored. Raises `ConfigError` if a field is wrong. `by` names the operator, for the audit.
        """
        return await self._register(registration, None, {}, require_ready, by)

    async def add_source(
        self, name: str, server: Server, *, require_ready: bool = False, by: str = LOCAL, **more: Any
    ) -> Source:
        """Register a server config, an `mcpServers` entry, a `server.json` or a plugin folder under a name.

        `more` are further fields, such as `stateless`, `review`, `personal` or `execution_timeout`.
        """
        return await self._register(server, name, more, require_ready, by)

    async def _register(
        self, given: Any, name: str | None, more: Mapping[str, Any], require_ready: bool, by: str
    ) -> Source:
        parts = self._parts
        return await parts.registry.register(self._parse(given, name, more), require_ready=require_ready, by=by)

    async def update_source(
        self, name: str, server: Server, *, require_ready: bool = False, by: str = LOCAL, **more: Any
    ) -> Source:
        """Replace the config of a source; its tools, the decisions about them and its id stay.

        Running calls end on their old connections; new calls get connections with the new config.
        """
        parts = self._parts
        parsed = self._parse(server, None if _names_itself(server) else name, more)
        source = await parts.registry.update(name, parsed, require_ready=require_ready, by=by)
        parts.personal.forget(source.id)
        return source

    def _parse(self, given: Any, name: str | None, more: Mapping[str, Any]) -> Any:
        return parse_registration(
            given,
            name=name,
            plugin_root=self._plugin_root,
            allow_private=self._allow_private,
            allow_docker_flags=self._allow_docker_flags,
            more=more,
        )

    async def remove_source(self, name: str, *, by: str = LOCAL) -> None:
        """Remove a source with its tools and credentials, and end its processes. The audit of its calls stays."""
        parts = self._parts
        source = parts.registry.find(name)
        await parts.registry.remove(source.id, by=by)
        parts.personal.forget(source.id)

    async def enable(self, name: str, *, by: str = LOCAL) -> Source:
        """Enable a source that was disabled."""
        return await self._parts.registry.set_enabled(name, True, by=by)

    async def disable(self, name: str, *, by: str = LOCAL) -> Source:
        """Disable a source: its tools are hidden, and its connections are closed."""
        return await self._parts.registry.set_enabled(name, False, by=by)

    async def refresh(self, name: str) -> InventoryChange:
        """List the tools of a source again; return what changed. Raises `AccessDenied` if the source is disabled."""
        return await self._parts.registry.refresh(name)

    def list_sources(self) -> list[Source]:
        """Return all sources, in the order of their registration."""
        return list(self._parts.registry.snapshot.sources.values())

    def get_source(self, name: str) -> Source:
        """Return a source by name, slug or id; raise `ServerNotFound`."""
        return self._parts.registry.find(name)

    def status(self, name: str) -> ConnectionStatus:
        """Return the status of a source: its state, the reason, and since when."""
        parts = self._parts
        return parts.health.of(parts.registry.find(name).id).status

    def history(self, name: str) -> list[HistoryEntry]:
        """Return the last 200 transitions, starts, exits and inventory changes of a source, oldest first."""
        parts = self._parts
        return list(parts.health.of(parts.registry.find(name).id).history)

    def connections(self, name: str | None = None) -> list[PooledConnection]:
        """Return the connections that exist now: of one source, or of all."""
        parts = self._parts
        return parts.connections.connections(None if name is None else parts.registry.find(name))

    async def _check_health(self, source: Source) -> None:
        """Ask a remote source, or a local one that runs, for a sign of life. A sleeping process is not started."""
        parts = self._parts
        runs = any(each.connected for each in parts.connections.connections(source))
        if source.enabled and not source.config.personal_slots and (source.config.is_remote or runs):
            health = parts.health.of(source.id)
            try:
                async with parts.connections.lease(source, timeout=10.0) as client:
                    await client.ping(timeout=10.0)
            except ToolcribError as exc:
                health.note_check(exc)
                raise
            health.note_check(None)

    # ---- tools -----------------------------------------------------------------------------------------------

    def list_tools(self, source: str | None = None, *, removed: bool = False) -> list[InventoryTool]:
        """Return the tools of one source or of all, whatever their review state; `removed`: also removed ones."""
        registry = self._parts.registry
        sources = registry.snapshot.sources.values() if source is None else [registry.find(source)]
        return [tool for each in sources for tool in (_all_records(each) if removed else each.tools)]

    def get_tool(self, source: str, name: str) -> InventoryTool:
        """Return a tool of a source, in any state; raise `ToolNotFound`."""
        registry = self._parts.registry
        return registry.find_tool(registry.find(source), name)

    async def execute(
        self,
        source: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        **options: Unpack[ExecutionOptions],
    ) -> ExecutionResult:
        """Execute a tool and return its one outcome: a result, an error of the tool, or a typed error.

        `source` is the id, the name or the slug of a source. Arguments are validated against the stored schema before
        anything starts. No `ToolcribError` is raised: `exception` of the outcome has it.
        """
        parts = self._parts
        try:
            found, record, options = await parts.access.find_for_call(source, tool, options)
        except ToolcribError as exc:
            return make_failure(exc, 0.0, {"source": source, "tool": tool, "attempts": 0})
        return await parts.executor.execute(found, record, arguments, options)

    def view(
        self, principal: str = LOCAL, group: str | None = None, *, run_context: Any = None, meta_tools: bool = False
    ) -> ProviderView:
        """Return the tools, prompts and resources that a principal may use, with the methods of `HubView`.

        `group` limits them to those of a group. `meta_tools` adds tools to search and call the others.
        """
        return self._parts.views.view(principal, group, run_context=run_context, meta_tools=meta_tools)

    # ---- review ----------------------------------------------------------------------------------------------

    def review(self, source: str | None = None) -> list[review.ReviewItem]:
        """Return the new and changed tools that wait for a decision, each with its difference."""
        return review.review_items(self.list_tools(source))

    async def approve(
        self,
        source: str,
        *tools: str,
        hash: str | None = None,
        by: str = LOCAL,
    ) -> list[InventoryTool]:
        """Put the waiting definitions of these tools in force, or lift a block.

        `hash` is that of the definition that was reviewed; if the tool changed since, `ReviewConflict` is raised.
        """
        decision = partial(review.approve, hash=hash, by=by, now=time.time())
        return await self._parts.registry.decide(source, tools, decision, "approve_tool", by=by)

    async def block(
        self,
        source: str,
        *tools: str,
        hash: str | None = None,
        reason: str = "",
        by: str = LOCAL,
    ) -> list[InventoryTool]:
        """Hide these tools until they are approved, also if they change."""
        decision = partial(review.block, hash=hash, reason=reason, by=by, now=time.time())
        return await self._parts.registry.decide(source, tools, decision, "block_tool", by=by, data={"reason": reason})

    async def enable_tool(self, source: str, *tools: str, by: str = LOCAL) -> list[InventoryTool]:
        """Enable tools that were disabled."""
        return await self._parts.registry.decide(source, tools, review.enable, "enable_tool", by=by)

    async def disable_tool(self, source: str, *tools: str, by: str = LOCAL) -> list[InventoryTool]:
        """Disable tools: they are neither listed for callers nor called."""
        return await self._parts.registry.decide(source, tools, review.disable, "disable_tool", by=by)

    async def tag(self, source: str, tool: str, tags: Iterable[str], *, by: str = LOCAL) -> InventoryTool:
        """Replace the tags of a tool."""
        given = tuple(tags) if not isinstance(tags, str) else tags
        decision = partial(review.set_tags, tags=given)
        (record,) = await self._parts.registry.decide(source, [tool], decision, "tag_tool", by=by)
        return record

    # ---- credentials, groups, audit --------------------------------------------------------------------------

    @property
    def credentials(self) -> Credentials:
        """The credentials of principals for sources with personal slots."""
        return self._parts.credentials

    async def _apply_credentials(self, source: Source, principal: str, kind: str, removed: bool) -> None:
        """Let no new call use the credentials that were changed or removed."""
        parts = self._parts
        if kind == DISCOVERY:
            if not removed and parts.registry.has_discovery_credential(source):
                parts.schedule.request(source.id)
            return
        parts.personal.forget(source.id, principal)
        if removed:
            await parts.connections.close_principal(source.id, principal)
        else:
            parts.connections.retire_principal(source.id, principal)

    @property
    def groups(self) -> Groups:
        """The groups: selections of tools, each offered as one virtual server."""
        return self._parts.groups

    async def executions(
        self, *, source: str | None = None, principal: str | None = None, limit: int = 100
    ) -> list[ExecutionRow]:
        """Return the newest calls from the audit, newest first. Calls of the last half second may be missing."""
        parts = self._parts
        source_id = None if source is None else parts.registry.find(source).id
        return await parts.store.executions(source_id=source_id, principal=principal, limit=limit)

    async def admin_actions(self, *, limit: int = 100) -> list[AdminActionRow]:
        """Return the newest administrative actions from the audit, newest first."""
        return await self._parts.store.admin_actions(limit=limit)

    def on(self, event: type[E], listener: Callable[[E], Awaitable[None] | None]) -> Callable[[], None]:
        """Call `listener` with every such event, for example `InventoryChanged`. Returns a function that removes it."""
        return self._listeners.on(event, listener)

    def __repr__(self) -> str:
        if self._open is None:
            return "<Provider, not open>"
        snapshot = self._open.registry.snapshot
        tools = sum(len(source.tools) for source in snapshot.sources.values())
        return f"<Provider of {len(snapshot.sources)} sources, {tools} tools>"


async def _close_all(parts: _Parts) -> None:
    """Close the parts, those that use others first. One that fails does not keep the others open."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(parts.store.close)
        stack.push_async_callback(parts.audit.close)
        stack.push_async_callback(parts.connections.close)
        stack.push_async_callback(parts.personal.close)
        stack.push_async_callback(parts.schedule.close)


def _as_url(store: str | os.PathLike[str]) -> str | Path:
    return store if isinstance(store, str) else Path(store)


def _all_records(source: Source) -> list[InventoryTool]:
    return sorted(source.records.values(), key=lambda tool: tool.name)


def _names_itself(given: object) -> bool:
    return isinstance(given, Mapping) and isinstance(given.get("name"), str)


def _status_after_start(source: Source) -> ConnectionStatus:
    """Return the status of a source that was not connected since the start."""
    if not source.enabled:
        return ConnectionStatus(ConnectionState.DISABLED, "disabled by an operator", source.row.updated_at)
    state = source.state
    if state is not None and state.status in (ConnectionState.FAILED, ConnectionState.NEEDS_AUTH):
        return ConnectionStatus(ConnectionState(state.status), state.reason, state.since)
    return ConnectionStatus(ConnectionState.DISCONNECTED, IDLE_REASON, time.time())
