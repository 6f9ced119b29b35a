"""The provider as one principal sees it, with the methods of a hub's view.

One evaluator decides what is visible, for lists, calls, searches and explanations: the source is enabled, the group
selects the tool, its review state is active, and it is enabled. What a principal cannot see does not exist for it.

Longer than 400 lines: it is a public class with the methods of `HubView`, and the interface that it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import chain, zip_longest
from time import monotonic
from typing import Any, Protocol, Unpack

from .. import tool_names
from .._util.suggest import did_you_mean, similar_names
from ..catalog.routing import PromptRoute, Route, nearest
from ..catalog.tokens import estimate_tokens
from ..client.client import Client, Timeout
from ..client.subscriptions import BACKLOG, Changes, ListKind
from ..errors import CallTimeout, NotFound, ResourceNotFound, ServerNotFound, ToolNotFound, UsageError
from ..events import Delivery
from ..hub.dispatch import CallOptions
from ..hub.meta_tools import META_TOOLS, answer
from ..hub.resources import Resources
from ..hub.toolsets import Toolsets
from ..protocol.sanitize import one_line
from ..types import (
    UNSET,
    Change,
    Completion,
    FilterContext,
    GetPromptResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
    ToolResult,
)
from .group_catalog import GroupCatalog, SourceOwner
from .groups import Group
from .inventory import InventoryTool, ToolState
from .principals import check_principal
from .snapshot import Snapshot, Source

_STATES = {
    ToolState.PENDING: "it was never approved; it waits for a review",
    ToolState.WITHHELD: "it is withheld: a change that waits for a review is not compatible with what was approved",
    ToolState.BLOCKED: "it is blocked",
    ToolState.REMOVED: "its server no longer lists it",
}


class ViewSource(Protocol):
    """What views need from the provider."""

    @property
    def snapshot(self) -> Snapshot:
        """The current state."""
        ...

    async def call(
        self, source_id: str, tool: str, arguments: Mapping[str, Any], principal: str, options: CallOptions
    ) -> ToolResult:
        """Call a tool by the server's name of it; raise one typed error if there is no result."""
        ...

    def request_client(
        self, source_id: str, principal: str, timeout: Timeout
    ) -> AbstractAsyncContextManager[tuple[Client, Timeout]]:
        """Lease a client of a source for this principal. Yields it, and what is left of the time-out."""
        ...

    async def list_personal(self, principal: str) -> Mapping[str, Source]:
        """Return the sources that have lists for this principal alone, by id, with only these lists.

        Lists that the snapshot has are left out. The same object is returned until something changes.
        """
        ...

    def has_personal(self, principal: str) -> bool:
        """Whether a source may have lists for this principal alone."""
        ...

    def on_tools_changed(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` after a change of tools or groups. Returns a function that removes the listener."""
        ...

    def on_lists_changed(self, source_id: str, listener: Callable[[ListKind], None]) -> Callable[[], None]:
        """Call `listener` with `tools`, `prompts` or `resources` after a change. Returns a function that removes it."""
        ...


class Views:
    """Makes views, and keeps what the views of a group share."""

    def __init__(self, source: ViewSource, toolsets: Toolsets | None = None) -> None:
        self.source = source
        self.toolsets = Toolsets() if toolsets is None else toolsets
        """Which tools are deferred, by the slugs of their sources."""
        self._catalogs: dict[str | None, GroupCatalog] = {}

    def view(
        self, principal: str, group: str | None = None, *, run_context: Any = None, meta_tools: bool = False
    ) -> ProviderView:
        """Return the provider as a principal sees it, all tools or those of a group; see `ProviderView`."""
        check_principal(principal)
        self.find_group(group)
        return ProviderView(self, principal, group, FilterContext(principal, None, run_context), meta_tools)

    def find_group(self, name: str | None) -> Group | None:
        """Return a group; None for None, which stands for all tools. Raises `NotFound` for an unknown name."""
        if name is None:
            return None
        groups = self.source.snapshot.groups
        if name not in groups:
            near = similar_names(name, groups)
            raise NotFound(f"there is no group {one_line(name, 100)!r}{did_you_mean(near)}", nearest=near)
        return groups[name]

    def catalog_of(self, name: str | None) -> GroupCatalog:
        """Return the lists of a group, up to date."""
        snapshot = self.source.snapshot
        group = None if name is None else snapshot.groups.get(name)
        if name is not None and group is None:
            self._catalogs.pop(name, None)
            self.find_group(name)
        catalog = self._catalogs.get(name)
        if catalog is None:
            catalog = self._catalogs[name] = GroupCatalog(self.toolsets)
        return catalog.follow(snapshot.sources, group)


class ProviderView:
    """The provider as one principal sees it: the tools, prompts and resources of a group, or of all sources.

    It has the methods of `HubView`. Sources take the place of servers: `server` is the slug or the name of a source.
    Lists come from the inventory and start nothing; calls start what they need. Views are cheap: they share the lists.
    """

    def __init__(
        self, views: Views, principal: str, group: str | None, context: FilterContext, meta_tools: bool = False
    ) -> None:
        self._views = views
        self._source = views.source
        self._principal = principal
        self._group = group
        self._context = context
        self._meta_tools = META_TOOLS if meta_tools else {}
        self._loaded: dict[str, None] = {}
        self._personal: GroupCatalog | None = None
        self._listeners: list[Delivery] = []

    @property
    def context(self) -> FilterContext:
        """The caller: `agent` is the principal."""
        return self._context

    @property
    def loaded(self) -> tuple[str, ...]:
        """The deferred tools that were loaded here, in the order of loading."""
        return tuple(self._loaded)

    # ---- lists -----------------------------------------------------------------------------------------------

    def _shared(self) -> GroupCatalog:
        return self._views.catalog_of(self._group)

    async def _lists(self) -> tuple[GroupCatalog, ...]:
        """Return the lists that all principals share and, if there are any, those of this principal alone."""
        personal = await self._source.list_personal(self._principal)
        shared = self._shared()
        if not personal:
            self._personal = None
            return (shared,)
        if self._personal is None:
            self._personal = GroupCatalog(self._views.toolsets)
        self._personal.follow(personal, self._views.find_group(self._group), frozenset(shared.catalog.routes))
        return (shared, self._personal)

    def _known_lists(self) -> tuple[GroupCatalog, ...]:
        """Return the lists without waiting for those of this principal."""
        return (self._shared(),) if self._personal is None else (self._shared(), self._personal)

    def _find_source(self, lists: Iterable[GroupCatalog], server: object) -> Source:
        """Return a visible source; raise `ServerNotFound`."""
        if not isinstance(server, str):
            raise UsageError(f"server: expected a name, got {type(server).__name__}")
        found = [source for each in lists if (source := each.find_source(server)) is not None]
        if found:
            return found[0]
        slugs = [*dict.fromkeys(slug for each in lists for slug in each.slugs)]
        near = nearest(server, slugs)
        hint = did_you_mean(near) or f"; its sources: {', '.join(slugs) or 'none'}"
        raise ServerNotFound(f"this view has no source of this name{hint}", server=server, nearest=near)

    async def _list_tools(self, deferred: bool, server: str | None, loaded: Iterable[str] = ()) -> list[Tool]:
        lists = await self._lists()
        source = None if server is None else self._find_source(lists, server)
        tools = []
        for each in lists:
            owner = None if source is None else SourceOwner(source.id, source.slug)
            tools += each.tools.tools(self._context, deferred=deferred, of=owner, loaded=loaded)
        return tools

    async def list_tools(self, *, deferred: bool = False, server: str | None = None) -> list[Tool]:
        """Return the visible tools: those that are not deferred, then those that were loaded here; or all."""
        tools = await self._list_tools(deferred, server, self._loaded)
        return tools if server is not None else [*tools, *self._meta_tools.values()]

    def peek_tools(self, *, deferred: bool = False) -> list[Tool] | None:
        """Return what `list_tools` would, without waiting; None if it would list a source for this principal first."""
        if self._personal is None and self._source.has_personal(self._principal):
            return None
        tools: list[Tool] = []
        for each in self._known_lists():
            tools += each.tools.tools(self._context, deferred=deferred, loaded=self._loaded)
        return [*tools, *self._meta_tools.values()]

    def on_tools_changed(self, listener: Callable[[], Awaitable[None] | None]) -> Callable[[], None]:
        """Call `listener`, sync or async, when the tools of this view may have changed: those of a source, the group,
        or the tools that were loaded here. Returns a function that removes the listener.
        """
        delivery = Delivery(listener, "listener for changed tools")
        self._listeners.append(delivery)
        stop_source = self._source.on_tools_changed(delivery)

        def stop() -> None:
            stop_source()
            if delivery in self._listeners:
                self._listeners.remove(delivery)

        return stop

    def _set_loaded(self, loaded: dict[str, None]) -> None:
        if self._loaded.keys() == loaded.keys():
            return
        self._loaded = loaded
        for deliver in tuple(self._listeners):
            deliver()

    async def load_tools(self, *names: str) -> list[Tool]:
        """Add deferred tools to the list of this view; raise `ToolNotFound` for one that is not visible."""
        visible = {tool.name: tool for tool in await self._list_tools(True, None)}
        for name in names:
            if name not in visible:
                raise self._make_not_found(name)
        self._set_loaded(self._loaded | dict.fromkeys(names))
        return [visible[name] for name in names]

    def unload_tools(self, *names: str) -> None:
        """Remove loaded tools from the list: these, or all."""
        self._set_loaded({name: None for name in self._loaded if names and name not in names})

    async def search_tools(
        self, query: str, *, limit: int = 10, token_budget: int | None = None, load: bool = False
    ) -> list[Tool]:
        """Return the tools, deferred ones included, that match the words best; `load` adds them to the list."""
        lists = await self._lists()
        found = [await each.tools.search(query, self._context, limit, token_budget) for each in lists]
        tools = found[0] if len(found) == 1 else _interleave(found, limit, token_budget)
        if load:
            self._set_loaded(self._loaded | dict.fromkeys(tool.name for tool in tools))
        return tools

    # ---- calls -----------------------------------------------------------------------------------------------

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> ToolResult:
        """Call a visible tool; a deferred tool that was called is loaded afterwards.

        The options are those of `Client.call_tool`; `approved` has no effect. Raises `ToolNotFound` for a tool that is
        not visible.
        """
        options.pop("approved", None)  # calls of a provider's tools need no approval
        if name in self._meta_tools:
            return await answer(self, name, arguments or {}, options)
        lists = self._shared()
        route = lists.catalog.routes.get(name) if type(name) is str else None
        if route is None:
            began, timeout = monotonic(), _as_seconds(options.get("timeout"))
            lists, route = await self._find_route(name, timeout)
            if timeout is not None:
                options["timeout"] = max(timeout - (monotonic() - began), 0.001)
        cleaned: Mapping[str, Any] = {}
        if arguments:
            if not isinstance(arguments, Mapping):
                raise UsageError(
                    f"arguments: expected a mapping of names to values, got {type(arguments).__name__}; "
                    "decode JSON text with json.loads"
                )
            cleaned = arguments
        cleaned = lists.selected[route.tool.name].fill(cleaned)
        result = await self._source.call(route.owner.id, route.original, cleaned, self._principal, options)
        if len(self._views.toolsets) and lists.tools.is_deferred(route):
            self._set_loaded(self._loaded | {route.tool.name: None})
        if route.tool.wraps_result:  # the client may not have listed the tools
            return ToolResult(result.raw, elapsed=result.elapsed, wrapped=True)
        return result

    async def _find_route(self, name: object, timeout: float | None) -> tuple[GroupCatalog, Route[SourceOwner]]:
        """Return the route of a tool that is in no shared list: it may be in a list of this principal alone."""
        if not isinstance(name, str):
            raise UsageError(f"name: expected a tool's name such as mcp__source__tool, got {type(name).__name__}")
        try:
            async with asyncio.timeout(timeout):
                found = await self._lists()
        except TimeoutError:
            message = "the deadline passed while sources were listed for this principal; nothing was sent"
            raise CallTimeout(message, tool=name) from None
        for lists in found:
            if (route := lists.catalog.routes.get(name)) is not None:
                return lists, route
        raise self._make_not_found(name)

    def _make_not_found(self, name: str) -> ToolNotFound:
        return self._shared().tools.make_not_found(name)

    def needs_approval(self, name: str) -> bool:  # noqa: ARG002  # the interface of `HubView`
        """Return False: calls of a provider's tools need no approval."""
        return False

    def alias(self, name: str) -> str:
        """Return the tool's name for model APIs, as `Hub.alias` does."""
        aliases = (each.catalog.alias(name) for each in self._known_lists())
        return next((alias for alias in aliases if alias != name), name)

    # ---- explanations ----------------------------------------------------------------------------------------

    def explain(self, name: str) -> str:
        """Return why this principal can or cannot see and call a tool: every condition that decides, in one text."""
        if name in self._meta_tools:
            return "allowed: a tool of this view, to find and call those that are deferred"
        for lists in self._known_lists():
            if (route := lists.catalog.routes.get(name)) is not None:
                return self._explain_visible(name, lists, route)
        reasons = []
        snapshot, group = self._source.snapshot, self._views.find_group(self._group)
        selected = next((found for each in self._known_lists() if (found := each.find_selected(name))), None)
        if selected is not None:
            reasons = [*_explain_record(snapshot.sources.get(selected.record.source_id), selected.record)]
            if selected.hidden_by is not None:
                reasons.append(f"its name is that of {selected.hidden_by}, which was registered first")
        else:
            for source, record in _find_records(snapshot, name):
                reasons = [*_explain_record(source, record), *_explain_group(group, source, record)]
                break
        if reasons:
            return f"hidden: {'; '.join(reasons)}"
        return str(self._make_not_found(name).message)

    def _explain_visible(self, name: str, lists: GroupCatalog, route: Route[SourceOwner]) -> str:
        selected, source = lists.selected[route.tool.name], self._source.snapshot.sources.get(route.owner.id)
        record = selected.record
        parts = [f"allowed: {route.owner.name}/{one_line(record.name)} is {record.state}"]
        group = self._views.find_group(self._group)
        if group is not None:
            pattern = group.find_include(record, route.owner.name)
            parts.append(f"the group {group.name} includes it by {pattern!r}")
        if record.pending is not None:
            parts.append(f"a change ({record.pending_kind}) waits for a review; the approved definition is in force")
        if lists.tools.is_deferred(route):
            parts.append(f"deferred by the toolset {route.owner.name}: search_tools finds it")
        alias = lists.catalog.alias(route.tool.name)
        if alias != route.tool.name:
            parts.append(
                f"{alias} is an alias of {one_line(route.tool.name)}" if name == alias else f"its alias is {alias}"
            )
        if source is not None and source.state is not None and source.state.status != "connected":
            reason = f" ({one_line(source.state.reason)})" if source.state.reason else ""
            parts.append(f"{source.slug} is {source.state.status}{reason}")
        return "; ".join(parts)

    # ---- resources and prompts -------------------------------------------------------------------------------

    @property
    def resources(self) -> Resources:
        """The resources of all sources: listed, read, found by pattern or query."""
        return Resources(self)

    async def list_resources(self, server: str | None = None) -> list[Resource]:
        """Return the resources of all sources, or of one."""
        lists = await self._lists()
        slug = None if server is None else self._find_source(lists, server).slug
        return [item for each in lists for item in each.catalog.resources(slug)]

    async def list_resource_templates(self, server: str | None = None) -> list[ResourceTemplate]:
        """Return the resource templates of all sources, or of one."""
        lists = await self._lists()
        slug = None if server is None else self._find_source(lists, server).slug
        return [item for each in lists for item in each.catalog.resource_templates(slug)]

    async def list_prompts(self, server: str | None = None) -> list[Prompt]:
        """Return the prompts of all sources, or of one, by their names in this view."""
        lists = await self._lists()
        slug = None if server is None else self._find_source(lists, server).slug
        return [item for each in lists for item in each.catalog.prompts_of(slug)]

    async def read_resource(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> ReadResourceResult:
        """Read a resource of a source; raise `ResourceNotFound` if the source has none at this URI."""
        lists = await self._lists()
        source = self._find_source(lists, server)
        self._check_whole(lists, source, uri)
        async with self._source.request_client(source.id, self._principal, timeout) as (client, left):
            try:
                return await client.read_resource(uri, timeout=left)
            except ResourceNotFound as exc:
                near = similar_names(uri, (r.uri for each in lists for r in each.catalog.resources(source.slug)))
                message = f"{exc.message}{did_you_mean(near)}"
                raise ResourceNotFound(message, server=source.slug, sent=True, nearest=near, uri=uri) from exc

    def _check_whole(self, lists: Iterable[GroupCatalog], source: Source, uri: str) -> None:
        """Raise `ResourceNotFound` if the group has only some tools of the source."""
        if not any(each.has_whole_source(source.id) for each in lists):
            raise ResourceNotFound("this view has no resources of this source", server=source.slug, uri=uri)

    def listen(
        self, server: str, *uris: str, tools: bool = True, prompts: bool = True, resources: bool = True
    ) -> ViewChanges:
        """Return a stream of changes of a source's lists and of its resources at `uris`.

        Changes of lists come from the inventory and start nothing; `uris` need a connection.
        """
        lists = self._known_lists()
        source = self._find_source(lists, server)
        for uri in uris:
            self._check_whole(lists, source, uri)
        wanted = {"tools": tools, "prompts": prompts, "resources": resources}
        kinds = frozenset(kind for kind, is_wanted in wanted.items() if is_wanted)
        return ViewChanges(self._source, source.id, self._principal, kinds, uris)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout: Timeout = UNSET
    ) -> GetPromptResult:
        """Return a prompt, by its name in this view, with its arguments filled in."""
        route = await self._find_prompt(name)
        async with self._source.request_client(route.owner.id, self._principal, timeout) as (client, left):
            return await client.get_prompt(route.original, arguments, timeout=left)

    async def _find_prompt(self, name: str) -> PromptRoute[SourceOwner]:
        lists = await self._lists()
        for each in lists:
            if (route := each.catalog.prompts.get(name)) is not None:
                return route
        near = nearest(name, (known for each in lists for known in each.catalog.prompts))
        message = f"there is no prompt {name!r} in this view{did_you_mean(near)}"
        raise NotFound(message, server=lists[0].catalog.server_of(name), nearest=near)

    async def complete(
        self,
        ref: str | Prompt | ResourceTemplate,
        argument: str,
        value: str = "",
        *,
        server: str | None = None,
        context: Mapping[str, str] | None = None,
        timeout: Timeout = UNSET,
    ) -> Completion:
        """Return suggestions for an argument of a prompt or a resource template, as `Hub.complete` does."""
        reference: ResourceTemplate | dict[str, str]
        if isinstance(ref, ResourceTemplate) or (isinstance(ref, str) and "://" in ref):
            given = ref.server if isinstance(ref, ResourceTemplate) else None
            if server is None and given is None:
                raise UsageError(
                    "server= is required for a template that is given as a URI; or pass the template as it is listed"
                )
            lists = await self._lists()
            source = self._find_source(lists, server or given)
            uri = ref if isinstance(ref, str) else ref.uri_template
            self._check_whole(lists, source, uri)
            source_id = source.id
            reference = {"type": "ref/resource", "uri": uri}
        else:
            route = await self._find_prompt(ref.name if isinstance(ref, Prompt) else ref)
            reference, source_id = {"type": "ref/prompt", "name": route.original}, route.owner.id
        async with self._source.request_client(source_id, self._principal, timeout) as (client, left):
            return await client.complete(reference, argument, value, context=context, timeout=left)

    def __repr__(self) -> str:
        group = f" group={self._group}" if self._group is not None else ""
        return f"<ProviderView of {self._principal!r}{group}>"


class ViewChanges:
    """A stream of changes, as `Client.listen` returns one: `async with view.listen(...) as changes: async for ...`."""

    def __init__(
        self, source: ViewSource, source_id: str, principal: str, kinds: frozenset[str], uris: tuple[str, ...]
    ) -> None:
        self._source = source
        self._source_id = source_id
        self._principal = principal
        self._kinds = kinds
        self._uris = uris
        self._waiting: deque[Change] = deque(maxlen=BACKLOG)
        self._arrived = asyncio.Event()
        self._open = False
        self._ended = False
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> ViewChanges:
        """Subscribe; when this returns, no later change is missed."""
        async with AsyncExitStack() as stack:
            if self._kinds:
                stack.callback(self._source.on_lists_changed(self._source_id, self._offer_list))
            if self._uris:
                lease = self._source.request_client(self._source_id, self._principal, UNSET)
                client, _ = await stack.enter_async_context(lease)
                changes = client.listen(*self._uris, tools=False, prompts=False, resources=False)
                await stack.enter_async_context(changes)
                pump = asyncio.create_task(self._pump(changes))
                stack.push_async_callback(_cancel, pump)
            self._exit = stack.pop_all()
        self._open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Unsubscribe."""
        self.end()
        await self._exit.aclose()

    def __aiter__(self) -> ViewChanges:
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change and return it."""
        if not self._open:
            raise UsageError("changes: not entered; use async with view.listen(...) as changes")
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def end(self) -> None:
        """End the iteration after the changes that have arrived."""
        self._ended = True
        self._arrived.set()

    def _offer_list(self, kind: ListKind) -> None:
        if kind in self._kinds:
            self._offer(Change(kind))

    def _offer(self, change: Change) -> None:
        self._waiting.append(change)
        self._arrived.set()

    async def _pump(self, changes: Changes) -> None:
        async for change in changes:
            self._offer(change)
        self.end()


def _as_seconds(timeout: object) -> float | None:
    """Return a time-out that is a valid number; others are for the source to judge."""
    return float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _interleave(found: list[list[Tool]], limit: int, token_budget: int | None) -> list[Tool]:
    """Return results of several searches, whose scores cannot be compared, in turns."""
    tools: list[Tool] = []
    left = token_budget
    for tool in chain.from_iterable(zip_longest(*found)):
        if tool is None or len(tools) == limit:
            continue
        if left is not None:
            cost = estimate_tokens(tool)
            if cost > left:
                continue
            left -= cost
        tools.append(tool)
    return tools


def _find_records(snapshot: Snapshot, name: str) -> Iterable[tuple[Source, InventoryTool]]:
    """Yield the tools that have this qualified name, or else this name."""
    pairs = [(source, record) for source in snapshot.sources.values() for record in source.records.values()]
    yield from ((source, record) for source, record in pairs if tool_names.make(source.slug, record.name) == name)
    yield from ((source, record) for source, record in pairs if record.name == name)


def _explain_record(source: Source | None, record: InventoryTool) -> Iterable[str]:
    if source is not None and not source.enabled:
        yield f"the source {source.slug} is disabled"
    if record.state in _STATES:
        yield _STATES[record.state]
    if not record.enabled:
        yield "it is disabled"


def _explain_group(group: Group | None, source: Source, record: InventoryTool) -> Iterable[str]:
    if group is None:
        return
    tool = f"{source.slug}/{one_line(record.name)}"
    if (pattern := group.find_exclude(record, source.slug)) is not None:
        yield f"the group {group.name} excludes {tool} by {pattern!r}"
    elif group.find_include(record, source.slug) is None:
        yield f"the group {group.name} does not include {tool}"
