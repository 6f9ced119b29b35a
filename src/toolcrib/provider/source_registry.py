"""The registered sources: registers, changes, refreshes and removes them, and decides about their tools.

Every change is committed to the store first and then put in force in the snapshot, so what callers see is always
stored. One change of a source is made at a time; changes of different sources do not wait for each other.

Longer than 400 lines: all changes of a source share one order: lock, list, commit, put in force.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit, urlunsplit

from .. import tool_names
from .._util.sealing import Sealer
from .._util.suggest import did_you_mean, similar_names
from .._util.tasks import run_to_end
from ..client.subscriptions import ListKind
from ..errors import (
    AuthError,
    ConfigError,
    ProtocolError,
    ServerNotFound,
    ToolcribError,
    ToolNotFound,
    TransportError,
)
from ..events import GroupChanged, InventoryChanged, Listeners
from ..protocol.sanitize import one_line
from ..types import ConnectionState, ConnectionStatus
from . import review
from .connections import SourceConnections
from .credentials import DISCOVERY, CredentialTable
from .discovery import Listing, describe_server, list_everything
from .executor import advise_discovery, check_enabled
from .groups import Group
from .health import INVENTORY, MAX_REASON, PACKAGE, HealthTable
from .inventory import InventoryChange, InventoryTool, diff, diff_items, hash_text
from .refresh_schedule import RefreshSchedule
from .registration import Registration
from .snapshot import Snapshot, Source
from .source_config import SourceConfig
from .store.interface import Delete, Operation, Put, Store
from .store.rows import (
    AdminActionRow,
    CredentialRow,
    EventRow,
    GroupRow,
    GroupRuleRow,
    PromptRow,
    ResourceRow,
    SourceRow,
    SourceStateRow,
    TemplateRow,
    ToolRow,
    ToolVersionRow,
    make_id,
)
from .stored_config import config_to_json

_OWNED_TABLES = (SourceStateRow, ToolRow, ToolVersionRow, PromptRow, ResourceRow, TemplateRow, CredentialRow, EventRow)
"""Tables whose rows are deleted with their source. Executions, decisions and admin actions stay: they are the audit."""

MAX_TOOLS_IN_LOOP: Final = 200
"""Tools that are compared in the event loop; more are compared in a thread, so that other calls go on."""
_WRONG_PATH = (400, 404, 405, 406)
"""Statuses of a URL at which there may be no MCP endpoint."""


class SourceRegistry:
    """Owns the snapshot. All methods that change something are for operators; `by` names the operator."""

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        connections: SourceConnections,
        credentials: CredentialTable,
        sealer: Callable[[], Sealer],
        health: HealthTable,
        schedule: RefreshSchedule,
        listeners: Listeners,
    ) -> None:
        self.snapshot = snapshot
        """The state in force. Take the reference once for one request."""
        self._store = store
        self._connections = connections
        self._credentials = credentials
        self._sealer = sealer
        self._health = health
        self._schedule = schedule
        self._listeners = listeners
        self._reserved: set[str] = set()
        """Names and slugs of registrations that are not stored yet."""
        self._locks: dict[str, asyncio.Lock] = {}
        """Held while a change of a source is stored and put in force."""
        self._listing_locks: dict[str, asyncio.Lock] = {}
        """Held while a source is listed and the result is applied, so that no older list replaces a newer one."""

    # ---- lookups ---------------------------------------------------------------------------------------------

    def find(self, name: str) -> Source:
        """Return the source with this name, slug or id; raise `ServerNotFound`."""
        found = self.snapshot.find_source(name)
        if found is None:
            near = similar_names(name, self.snapshot.by_name)
            message = f"there is no source of this name{did_you_mean(near)}"
            raise ServerNotFound(message, server=name, nearest=near)
        return found

    def find_tool(self, source: Source, name: str) -> InventoryTool:
        """Return a tool of a source, in any state; raise `ToolNotFound`."""
        found = source.records.get(name)
        if found is None:
            near = similar_names(name, [tool.name for tool in source.tools])
            message = f"the source has no tool of this name{did_you_mean(near)}"
            if source.state is not None and source.state.listed_at is None and not source.config.personal_slots:
                reason = f" ({source.state.reason})" if source.state.reason else ""
                message = f"the source was never listed{reason}; repair it and call provider.refresh({source.name!r})"
            raise ToolNotFound(message, server=source.name, tool=name, nearest=near)
        return found

    # ---- sources ---------------------------------------------------------------------------------------------

    async def register(self, registration: Registration, *, require_ready: bool, by: str) -> Source:
        """Store a source with what it lists.

        If it cannot be listed, it is stored with the reason as its status; with `require_ready`, the error is raised
        and nothing is stored.
        """
        slug = self._reserve(registration.name)
        try:
            source = self._make_source(make_id(), registration, slug, generation=1, created_at=time.time())
            status = ConnectionStatus(ConnectionState.DISCONNECTED, "", time.time())
            self._health.add(source.id, status, is_stored=False)
            try:
                source, listing = await self._try_listing(source, require_ready, transient=False)
                return await self._store_source(source, listing, "register_source", by)
            finally:
                if source.id in self.snapshot.sources:
                    self._health.of(source.id).start_recording()
                else:
                    self._connections.retire(source.id)
                    await self._connections.close_source(source.id)
                    self._health.remove(source.id)
        finally:
            self._reserved -= {registration.name, slug}

    async def update(self, name: str, registration: Registration, *, require_ready: bool, by: str) -> Source:
        """Replace the config of a source. Its id, its tools and the decisions about them stay."""
        source_id = self.find(name).id
        async with self._lock(self._listing_locks, source_id):
            before = self.find(source_id)
            renamed = registration.name != before.name
            slug = self._reserve(registration.name) if renamed else before.slug
            try:
                made = self._make_source(
                    before.id, registration, slug, before.generation + 1, before.row.created_at, before.enabled
                )
                # The connection is not kept: the same generation is used again if this update fails.
                source, listing = await self._try_listing(replace(before, row=made.row), require_ready, transient=True)
                return await self._store_source(source, listing, "update_source", by)
            finally:
                if renamed:
                    self._reserved -= {registration.name, slug}

    async def set_enabled(self, name: str, enabled: bool, *, by: str) -> Source:
        """Enable or disable a source. The connections of a disabled one are closed."""
        source = self.find(name)
        async with self._lock(self._locks, source.id):
            source = self.find(source.id)
            if source.enabled is enabled:
                return source
            changed = replace(source, row=replace(source.row, enabled=enabled, updated_at=time.time()))
            action = "enable_source" if enabled else "disable_source"
            operations = [Put(changed.row), Put(_make_action(action, source.name, by))]
            health = self._health.of(source.id)

            def note() -> None:
                (health.enable if enabled else health.disable)()
                self._emit_all_lists(source, "added" if enabled else "removed")

            async def switch() -> None:
                await self._put_in_force(changed, operations, note)
                if not enabled:
                    await self._connections.close_source(source.id)

            await run_to_end(switch())
            return changed

    async def remove(self, name: str, *, by: str) -> None:
        """Delete a source with its tools and credentials. Executions and decisions stay in the audit."""
        source = self.find(name)
        async with self._lock(self._locks, source.id):
            source = self.find(source.id)
            operations: list[Operation] = [Delete(table, (("source_id", source.id),)) for table in _OWNED_TABLES]
            operations.append(Delete(SourceRow, (("id", source.id),)))
            operations.append(Put(_make_action("remove_source", source.name, by)))

            def apply(change: int) -> None:
                self.snapshot = self.snapshot.without_source(source.id, change)
                self._credentials.drop_source(source.id)
                self._connections.retire(source.id)
                self._schedule.remove(source.id)
                if source.enabled:
                    self._emit_all_lists(source, "removed")

            async def delete() -> None:
                health = self._health.of(source.id)
                health.stop_recording()
                try:
                    await self._transact(operations, apply)
                finally:
                    if source.id in self.snapshot.sources:
                        health.start_recording()
                await self._connections.close_source(source.id)
                self._health.remove(source.id)

            await run_to_end(delete())
        self._locks.pop(source.id, None)
        self._listing_locks.pop(source.id, None)

    async def refresh(self, name: str) -> InventoryChange:
        """List a source again, and put what changed in force as its review policy says.

        Raises `AccessDenied` for a disabled source: nothing of it is started.
        """
        source_id = self.find(name).id
        async with self._lock(self._listing_locks, source_id):
            source = self.find(source_id)
            check_enabled(source)
            if source.state is not None and source.state.listed_at is not None:
                moved, listing = source, await self._list(source)
            else:  # the path of its URL may not have been found yet
                moved, listing = await self._list_at_some_path(source, transient=True)
            # Listing may take long; other changes of the source do not wait for it.
            async with self._lock(self._locks, source_id):
                source = self.find(source_id)
                row = source.row
                if moved.row.config != row.config:
                    row = replace(row, config=moved.row.config, generation=row.generation + 1)
                stored, operations, inventory, kinds = await self._compare(replace(source, row=row), listing)
                if row is not source.row:
                    operations.append(Put(row))
                if operations:
                    note = partial(self._note_inventory, stored, inventory, kinds)
                    await self._put_in_force(stored, operations, note)
                return inventory

    # ---- listing ---------------------------------------------------------------------------------------------

    async def _try_listing(
        self, source: Source, require_ready: bool, *, transient: bool
    ) -> tuple[Source, Listing | ConnectionStatus]:
        """List a new or changed source. Returns the source as it can be reached, and its lists or why there are none.

        Errors of the config are raised. With `require_ready`, all errors are.
        """
        if source.config.personal_slots and not self.has_discovery_credential(source):
            self._connections.check_environment(source)
            reason = "each principal lists it with its own credentials"
            return source, ConnectionStatus(ConnectionState.DISCONNECTED, reason, time.time())
        try:
            return await self._list_at_some_path(source, transient=transient)
        except ConfigError:
            raise
        except ToolcribError as exc:
            if require_ready or self._connections.closed:  # the provider was closed meanwhile; the source may be well
                raise
            state = ConnectionState.NEEDS_AUTH if isinstance(exc, AuthError) else ConnectionState.FAILED
            return source, ConnectionStatus(state, one_line(str(exc), MAX_REASON), time.time())

    async def _list_at_some_path(self, source: Source, *, transient: bool) -> tuple[Source, Listing]:
        """List a source. A URL without a path is tried as given, then with `/mcp`."""
        try:
            return source, await self._list(source, transient=transient)
        except TransportError as exc:
            other = _with_mcp_path(source.config)
            if other is None or not (isinstance(exc, ProtocolError) or exc.status in _WRONG_PATH):
                raise
            if not transient:
                self._connections.forget(source.id)
                await self._connections.close_source(source.id)
            moved = replace(source, row=replace(source.row, config=config_to_json(other)))
            try:
                return moved, await self._list(moved, transient=transient)
            except ToolcribError:
                raise exc from None

    async def _list(self, source: Source, *, transient: bool = False) -> Listing:
        timeout = source.config.options.get("discovery_timeout")
        async with self._connections.lease_for_discovery(source, timeout, transient=transient) as client:
            return await list_everything(client)

    async def _store_source(self, source: Source, listing: Listing | ConnectionStatus, action: str, by: str) -> Source:
        """Store a new or changed source with what it lists, or with why it could not be listed."""
        async with self._lock(self._locks, source.id):
            current = self.snapshot.sources.get(source.id)
            if current is None and source.generation > 1:
                raise ServerNotFound("the source was removed meanwhile", server=source.name)
            if current is not None:  # tools may have been decided about while the source was listed
                source = replace(current, row=replace(source.row, enabled=current.enabled))
            operations: list[Operation] = [Put(source.row)]
            if isinstance(listing, ConnectionStatus):
                state = _make_state(source, listing, source.state, None)
                stored = replace(source, state=state)
                operations.append(Put(state))
            else:
                stored, made, inventory, kinds = await self._compare(source, listing)
                operations += made
            before, after = (
                None if each is None or each.state is None else each.state.package for each in (current, stored)
            )

            def note() -> None:
                health = self._health.of(source.id)
                if isinstance(listing, ConnectionStatus):
                    health.become(listing.state, listing.reason)
                else:
                    self._note_inventory(stored, inventory, kinds)
                if current is not None and (current.name, current.slug) != (stored.name, stored.slug):
                    self._emit_all_lists(stored, "changed")  # their names in views have the slug
                if (report := review.review_package(stored.name, before, after, stored.tools)) is not None:
                    health.add(PACKAGE, asdict(report))
                self._schedule.add(stored.id, stored.config)

            record = _make_action(action, source.name, by, {"hash": source.approval_hash})
            await self._put_in_force(stored, [*operations, Put(record)], note)
            return stored

    async def _put_in_force(
        self, source: Source, operations: Sequence[Operation], note: Callable[[], None] | None = None
    ) -> None:
        """Commit a change of a source, put it in force, and call `note`. A caller that is cancelled waits for all."""

        def apply(change: int) -> None:
            before = self.snapshot.sources.get(source.id)
            self.snapshot = self.snapshot.with_source(source, change)
            if before is not None and before.generation != source.generation:
                self._connections.retire(source.id, before=source.generation)
            if note is not None:
                note()

        await self._transact(operations, apply)

    async def _transact(self, operations: Sequence[Operation], apply: Callable[[int], None]) -> None:
        async def commit() -> None:
            apply(await self._store.commit(operations))

        await run_to_end(commit())

    async def _compare(
        self, source: Source, listing: Listing
    ) -> tuple[Source, list[Operation], InventoryChange, tuple[str, ...]]:
        """Return the source with what it lists now, the rows to write, what changed of its tools, and which kinds of
        lists changed.
        """
        now, state = time.time(), source.state
        compare = partial(
            diff,
            source.records.values(),
            listing.tools,
            source_id=source.id,
            source=source.name,
            policy=source.config.review,
            first=state is None or state.listed_at is None,
            now=now,
            listed_before=None if state is None else state.listed_at,
        )
        # Hashing and comparing takes up to a second for the largest list.
        is_short = len(listing.tools) + len(source.records) <= MAX_TOOLS_IN_LOOP
        inventory = compare() if is_short else await asyncio.to_thread(compare)
        operations = list(inventory.operations)
        kinds = dict.fromkeys(["tools"] if inventory else [])
        lists: dict[str, Any] = {}
        for field, kind, changed, listed in (
            ("prompt_rows", PromptRow, "prompts", listing.prompts),
            ("resource_rows", ResourceRow, "resources", listing.resources),
            ("template_rows", TemplateRow, "resources", listing.templates),
        ):
            if listed is not None and not source.config.personal_slots:
                items = diff_items(
                    kind,
                    getattr(source, field).values(),
                    listed,
                    source_id=source.id,
                    now=now,
                    listed_before=None if state is None else state.listed_at,
                )
                operations += items.operations
                kinds |= dict.fromkeys([changed] if items else [])
                lists[field] = items.rows
        made = _make_state(source, self._health.of(source.id).status, state, listing)
        is_same = state is not None and (made.server, made.status) == (state.server, state.status)
        if operations or not is_same or state is None or state.listed_at is None:
            operations.append(Put(made))
        return replace(source, state=made, records=inventory.tools, **lists), operations, inventory, tuple(kinds)

    def _note_inventory(self, source: Source, change: InventoryChange, kinds: Collection[str]) -> None:
        """Enter a change into the history, and emit its event."""
        if not kinds:
            return
        data = {
            "added": [tool.name for tool in change.added],
            "removed": [tool.name for tool in change.removed],
            "changed": {each.after.name: each.kind.value for each in change.changed},
        }
        self._health.of(source.id).add(INVENTORY, data)
        added, removed = (tuple(tool.name for tool in each) for each in (change.added, change.removed))
        changed = tuple(each.after.name for each in change.changed)
        self._listeners.emit(InventoryChanged(source.name, added, removed, changed, tuple(kinds), source.id))

    def _emit_all_lists(self, source: Source, change: Literal["added", "removed", "changed"]) -> None:
        """Emit the event of a source all of whose lists changed in the same way for callers."""
        names: dict[str, Any] = {change: tuple(tool.name for tool in source.tools if tool.callable)}
        self._listeners.emit(InventoryChanged(source.name, kinds=get_args(ListKind), source_id=source.id, **names))

    def has_discovery_credential(self, source: Source) -> bool:
        """Whether the operator's credential for all personal slots of a source is stored."""
        return self._credentials.has(source.id, "", source.config.personal_slots, DISCOVERY)

    # ---- tools -----------------------------------------------------------------------------------------------

    async def decide(
        self,
        name: str,
        tools: Sequence[str],
        decision: Callable[[InventoryTool], review.ReviewDecision],
        action: str,
        *,
        by: str,
        data: Mapping[str, Any] | None = None,
    ) -> list[InventoryTool]:
        """Make the same decision about tools of a source, all or none."""
        source = self.find(name)
        async with self._lock(self._locks, source.id):
            source = self.find(source.id)
            decisions = [decision(self._find_for_decision(source, tool)) for tool in tools]
            operations = [each for made in decisions for each in made.operations]
            records = [made.tool for made in decisions]
            if operations:
                target = ", ".join(f"{source.name}/{tool.name}" for tool in records)
                operations.append(Put(_make_action(action, target, by, data)))
                changed = tuple(tool.name for tool in records)
                event = InventoryChanged(source.name, changed=changed, source_id=source.id)
                await self._put_in_force(source.with_tools(records), operations, partial(self._listeners.emit, event))
            return records

    def _find_for_decision(self, source: Source, tool: str) -> InventoryTool:
        if tool not in source.records and source.config.personal_slots and not self.has_discovery_credential(source):
            message = f"the tool is not stored; {advise_discovery(source)}"
            raise ToolNotFound(message, server=source.name, tool=tool)
        return self.find_tool(source, tool)

    # ---- groups ----------------------------------------------------------------------------------------------

    async def put_group(self, group: Group, *, by: str) -> None:
        """Store a group in place of the one with the same id."""
        row, rules = group.to_rows()
        operations: list[Operation] = [Put(row), Delete(GroupRuleRow, (("group_id", row.id),)), *map(Put, rules)]
        operations.append(Put(_make_action("put_group", group.name, by)))

        def apply(change: int) -> None:
            self.snapshot = self.snapshot.with_group(group, change)

        await self._transact(operations, apply)
        self._listeners.emit(GroupChanged("", group.name))

    async def remove_group(self, group: Group, *, by: str) -> None:
        """Delete a group."""
        rules = Delete(GroupRuleRow, (("group_id", group.id),))
        record = Put(_make_action("remove_group", group.name, by))

        def apply(change: int) -> None:
            self.snapshot = self.snapshot.without_group(group.name, change)

        await self._transact([rules, Delete(GroupRow, (("id", group.id),)), record], apply)
        self._listeners.emit(GroupChanged("", group.name))

    # ---- credentials -----------------------------------------------------------------------------------------

    async def change_credentials(
        self,
        source: Source,
        by: str,
        action: str,
        prepare: Callable[[], tuple[Sequence[Operation], Callable[[], None]]],
    ) -> bool:
        """Store changed credentials, then put them in force. Returns whether there was something to change.

        `prepare` returns what to write, and a function that puts it in force; meanwhile no other change is made.
        """
        record = Put(_make_action(action, source.name, by))
        async with self._lock(self._locks, source.id):
            self.find(source.id)  # it may have been removed meanwhile
            operations, apply = prepare()
            if operations:
                await self._transact([*operations, record], lambda _: apply())
            return bool(operations)

    # ---- parts -----------------------------------------------------------------------------------------------

    def _lock(self, locks: dict[str, asyncio.Lock], source_id: str) -> asyncio.Lock:
        return locks.setdefault(source_id, asyncio.Lock())

    def _reserve(self, name: str) -> str:
        """Return the slug of a new name; raise `ConfigError` if the name is taken."""
        snapshot = self.snapshot
        if name in self._reserved or snapshot.find_source(name) is not None:  # ids cannot be names, either
            message = f"name: expected a new name, got {name!r}, which a source has already. Use update_source"
            raise ConfigError(message, key="name", expected="a name that no source has", server=name)
        slug = tool_names.slug(name, {*snapshot.by_slug, *snapshot.by_name, *self._reserved})
        self._reserved |= {name, slug}
        return slug

    def _make_source(
        self,
        id: str,
        registration: Registration,
        slug: str,
        generation: int,
        created_at: float,
        enabled: bool = True,
    ) -> Source:
        sealed, key_id = None, None
        if registration.secrets:
            sealed, key_id = self._sealer().seal(registration.secrets, id)
        row = SourceRow(
            id=id,
            name=registration.name,
            slug=slug,
            config=config_to_json(registration.config),
            sealed=sealed,
            key_id=key_id,
            generation=generation,
            enabled=enabled,
            created_at=created_at,
            updated_at=time.time(),
        )
        return Source(row)


def _make_action(action: str, target: str, by: str, data: Mapping[str, Any] | None = None) -> AdminActionRow:
    """Return the record of who made a change; it is committed together with the change."""
    return AdminActionRow(
        id=make_id(), at=time.time(), principal=by, action=action, target=target, data=dict(data or {})
    )


def _make_state(
    source: Source, status: ConnectionStatus, before: SourceStateRow | None, listing: Listing | None
) -> SourceStateRow:
    package = source.config.package
    server: Mapping[str, Any] = {} if before is None else before.server
    listed_at = None if before is None else before.listed_at
    if listing is not None:
        if source.config.personal_slots:  # only the tools are shared by principals
            listing = replace(listing, prompts=(), resources=(), templates=())
        server, listed_at = describe_server(listing), time.time()
    instructions = server.get("instructions")
    return SourceStateRow(
        source_id=source.id,
        status=status.state.value,
        reason=status.reason,
        since=status.since,
        listed_at=listed_at,
        server=server,
        instructions_hash=hash_text(instructions if isinstance(instructions, str) else None),
        package=None if package is None else asdict(package),
    )


def _with_mcp_path(config: SourceConfig) -> SourceConfig | None:
    """Return the config with `/mcp` as the path of its URL; None if the URL has a path already."""
    if config.server_url is None or not config.is_remote:
        return None
    parts = urlsplit(config.server_url)
    if parts.path not in ("", "/"):
        return None
    return replace(config, server_url=urlunsplit(parts._replace(path="/mcp")))
