"""`Hub`: many servers as one object.

Longer than 400 lines: it is the public class, and half of it is documentation.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeVar, Unpack, overload

from .._util.async_only import AsyncOnly
from .._util.suggest import did_you_mean, similar_names
from ..catalog.routing import PromptRoute, Route, nearest
from ..client.client import Timeout
from ..client.options import checked_timeout
from ..client.subscriptions import Changes
from ..config import CHECKS, one_of, wrong
from ..errors import NotFound, ResourceNotFound, ToolcribError, UsageError
from ..events import Event
from ..policy.filters import AnyFilter
from ..policy.permissions import Permissions, RequireApproval
from ..settings import SettingsDiff
from ..transports.factory import ServerLike
from ..types import (
    UNSET,
    Completion,
    FilterContext,
    GetPromptResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
    ToolResult,
    Unset,
)
from .access import Access
from .config_sync import ConfigSource, ConfigSync, Given, repeatable
from .dispatch import CallOptions, Dispatcher
from .explain import explain
from .interceptors import Approver, Interceptor
from .managed_server import ManagedServer
from .resources import Resources
from .server_options import (
    CommonOptions,
    HubConfigOptions,
    HubOptions,
    OnError,
    ServerOptions,
    Start,
    StartTimeout,
    checked_options,
    checked_start,
    spec_for,
)
from .server_state import ServerState
from .servers import ServerSet, choose_name, name_servers
from .start_queue import DEFAULT_LIMIT
from .toolsets import Toolsets
from .view import HubView
from .visible_tools import VisibleTools

E = TypeVar("E", bound=Event)
F = TypeVar("F", bound=Interceptor)


_SERVERS_ADVICE: Final = "Write Hub({'name': server}); for a settings file use Hub.from_config(path)"
_HUB_OPTIONS: Final = (
    "allowed_tools",
    "disallowed_tools",
    "require_approval",
    "approve",
    "tool_filter",
    "on_error",
    "start_timeout",
    "max_parallel_starts",
)
"""Options that only a hub has, to suggest them for misspelt ones."""


class Hub(AsyncOnly):
    """Many MCP servers as one: `async with Hub({"fs": StdioServer(...), "math": tool_server}) as hub:`.

    A server is anything a `Client` accepts, or a pair of that and a dict of options for this server. Tools are called
    by qualified names, `mcp__{server}__{tool}`, even if there is only one server; lists come from a snapshot that is
    updated when a server changes its lists.

    `on_error`: with "skip" a server that cannot be started is left out and tried again, at the delays of its reconnect
    policy, until it can be reached; with "raise" the start fails. `start`: "lazy" servers are started by the first
    list, or by the first call to them. Entering waits for servers up to `start_timeout` seconds; slower servers are
    added when they are ready. "auto" waits three times as long as the slowest server that has started, at least 5 s and
    at most 10: a server that hangs does not delay the others for long.
    `max_parallel_starts` limits how many servers start a process at the same time, for the first time or to reconnect
    (default: 3 per core, None: no limit); the others wait for their turn, and the `connect_timeout` of each begins with
    its turn.
    `lifecycle="transient"` makes a connection (a process) for each call. `disconnect_idle_after` disconnects a server
    that was not used for this number of seconds. `tool_filter` receives tools with their qualified names.
    `approve(call)` returns True, False or an edited call; if it is not async, it runs in a thread. With
    `approve="caller"` the caller asks, and passes `approved=True`: see `needs_approval`. All options of a client can be
    given for all servers (`HubOptions`); a server's config overrides them.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerLike | tuple[ServerLike, ServerOptions]] | None = None,
        *,
        allowed_tools: Iterable[str] | None = None,
        disallowed_tools: Iterable[str] | None = None,
        require_approval: RequireApproval | None = None,
        approve: Approver | None = None,
        tool_filter: AnyFilter | None = None,
        on_error: OnError = "skip",
        start: Start = "eager",
        start_timeout: StartTimeout = "auto",
        max_parallel_starts: int | Unset | None = UNSET,
        **options: Unpack[HubOptions],
    ) -> None:
        if servers is not None and not isinstance(servers, Mapping):
            raise wrong("servers", "a mapping of names to servers", servers, _SERVERS_ADVICE)
        one_of("skip", "raise")("on_error", on_error)
        if approve is not None and approve != "caller" and not callable(approve):
            raise wrong("approve", "a function of a call, 'caller', or None", approve)
        self._on_error: OnError = on_error
        self._common = CommonOptions({"start": checked_start(start), **checked_options(options, "a Hub", _HUB_OPTIONS)})
        permissions = Permissions(allowed_tools, disallowed_tools, require_approval)
        hub_filter = CHECKS["tool_filter"]("tool_filter", tool_filter)
        access = self._access = Access(
            permissions, hub_filter, can_ask=approve is not None, caller_asks=approve == "caller"
        )

        def judge(route: Route[ManagedServer]) -> None:
            access.judge(route, route.owner.spec.tool_filter)

        self.toolsets = Toolsets()
        """Which tools are deferred: `hub.toolsets.register(Toolset("db").defer_all())`."""
        self._servers = ServerSet(judge, _checked_start_timeout(start_timeout), _start_limit(max_parallel_starts))
        self._catalog = self._servers.catalog
        self._visible_tools = VisibleTools(self._catalog, access, self.toolsets)
        self._calls = Dispatcher(self._servers, access, self._visible_tools, approve)
        self._config_sync: ConfigSync | None = None
        for name, display_name, server in name_servers(servers or {}):
            self._servers.add(spec_for(name, display_name, server, self._common.values))

    @classmethod
    def from_config(
        cls,
        config: Given,
        *,
        watch: bool = False,
        watch_interval: float = 1.0,
        environ: Mapping[str, str] | None = None,
        **options: Unpack[HubConfigOptions],
    ) -> Hub:
        """Create a hub of the servers in a settings file, in several (a later one overrides), or in a mapping.

        `watch` follows the files and restarts only servers whose settings changed. A server whose entry is invalid is
        `failed`, with an error that names file, line and key. Options that are given here override those of the files.
        """
        source, keywords = ConfigSource(config, environ), repeatable(options)
        settings = source.read()
        hub = cls(**{**settings.defaults, **keywords})
        hub._config_sync = ConfigSync(source, settings, keywords, hub._common, hub._servers, hub._access)
        if watch:
            hub._config_sync.watch(watch_interval)
        return hub

    # ---- life ------------------------------------------------------------------------------------------------

    async def start(self) -> Hub:
        """Start all servers in parallel, unless the hub has been started already."""
        await self._servers.start(self._on_error)
        return self

    async def ready(self, timeout: float | None = None) -> list[ServerState]:
        """Wait until every server that is not lazy or disabled is connected and listed, or has failed.

        Returns the state of every server. A failed server does not raise here: it is in the list with its
        `last_error`, and the hub keeps trying to connect; `Hub(..., on_error="raise")` raises instead. After `timeout`
        seconds it returns even if servers are still starting; these are `connecting`. Starts the hub if necessary.
        """
        await self._servers.wait_until_ready(checked_timeout("timeout", timeout))
        return self.list_servers()

    async def close(self) -> None:
        """Close the hub: requests that are not answered yet fail, and all servers are disconnected."""
        await self._servers.close()

    async def __aenter__(self) -> Hub:
        self._servers.check()
        try:
            return await self.start()
        except BaseException:
            # `__aexit__` is not called for a block that was not entered.
            if not self._servers.closed:
                await self.close()
            raise

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # ---- servers ---------------------------------------------------------------------------------------------

    async def add_server(self, name: str, server: ServerLike, **options: Unpack[ServerOptions]) -> ServerState:
        """Add a server. If it cannot be connected, this raises and adds nothing; `start="lazy"` does not connect.

        A name that is not valid in qualified names gets a unique slug, the `name` of the state that is returned.
        """
        self._servers.check()
        chosen = choose_name(name, self._servers.by_name)
        managed = self._servers.add(spec_for(chosen, name, (server, options), self._common.values))
        self._servers.begin()
        if managed.spec.start == "eager":
            try:
                first_start = managed.start()
                managed.prioritize()
                await asyncio.shield(first_start.outcome)
            except BaseException as exc:
                await asyncio.shield(self._servers.remove(managed))
                if isinstance(exc, ToolcribError):
                    raise copy.copy(exc) from exc.__cause__
                raise
        return self._servers.state_of(managed)

    async def remove_server(self, name: str) -> None:
        """Remove a server. Only its own requests that are not answered yet fail."""
        self._servers.check()
        await asyncio.shield(self._servers.remove(self._servers.find(name)))

    async def reload(self) -> SettingsDiff:
        """Read the settings of `from_config` again; add, remove and restart the servers whose settings changed."""
        self._servers.check()
        if self._config_sync is None:
            raise UsageError("the hub was not made from a settings file; use add_server and remove_server")
        return await self._config_sync.reload()

    async def refresh(self, server: str | None = None) -> None:
        """Fetch the lists of a server, or of all, again; for servers that send no notifications of changes."""
        self._servers.check()
        self._servers.begin()
        if server is not None:
            await self._servers.find(server).refresh()
            return
        managed_servers = [managed for managed in self._servers.by_name.values() if managed.clients is not None]
        await asyncio.gather(*(managed.refresh() for managed in managed_servers), return_exceptions=True)

    def list_servers(self) -> list[ServerState]:
        """Return the state of every server at this moment."""
        return [self._servers.state_of(managed) for managed in self._servers.by_name.values()]

    def on(self, event: type[E], listener: Callable[[E], Awaitable[None] | None]) -> Callable[[], None]:
        """Call `listener`, sync or async, with every such event of any server. Returns a function that removes it."""
        return self._servers.on(event, listener)

    # ---- tools -----------------------------------------------------------------------------------------------

    async def list_tools(
        self, *, deferred: bool = False, server: str | None = None, context: FilterContext | None = None
    ) -> list[Tool]:
        """Return the visible tools of all servers, or of one, by qualified name; `deferred` includes deferred tools.

        Dynamic filters receive `context`, which describes the caller; a `view` keeps one.
        """
        return await self._list_tools(context, deferred, server, ())

    def peek_tools(self, *, deferred: bool = False, context: FilterContext | None = None) -> list[Tool] | None:
        """Return the visible tools without waiting; None if `list_tools` would wait for a server first."""
        return self._peek_tools(context, deferred, ())

    def _peek_tools(self, context: FilterContext | None, deferred: bool, loaded: Iterable[str]) -> list[Tool] | None:
        if not self._servers.needs_no_wait():
            return None
        return self._visible_tools.tools(context, deferred=deferred, loaded=loaded)

    async def _list_tools(
        self, context: FilterContext | None, deferred: bool, server: str | None, loaded: Iterable[str]
    ) -> list[Tool]:
        of = await self._prepare_list(server)
        return self._visible_tools.tools(context, deferred=deferred, of=of, loaded=loaded)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        context: FilterContext | None = None,
        **options: Unpack[CallOptions],
    ) -> ToolResult:
        """Call a tool by its qualified name or its alias. Returns its result, or raises one typed error.

        The options are those of `Client.call_tool`, and `approved`. A tool that is hidden from the caller raises
        `AccessDenied` with the rule that hides it; so does one that needs approval, in a hub with `approve="caller"`,
        if `approved=True` is missing. Interceptors may change the arguments of an approved call, but not its tool.
        """
        return await self._calls.call(name, arguments, context, options)

    async def search_tools(
        self, query: str, *, limit: int = 10, token_budget: int | None = None, context: FilterContext | None = None
    ) -> list[Tool]:
        """Return the tools, deferred ones included, that match the words best, best match first.

        `token_budget` bounds how much of a model's context they take together.
        """
        await self._servers.prepare_list()
        return await self._visible_tools.search(query, context, limit, token_budget)

    def alias(self, name: str) -> str:
        """Return the tool's name for APIs that allow 64 characters of `[A-Za-z0-9_-]`. `call_tool` accepts it, too."""
        return self._catalog.alias(name)

    def needs_approval(self, name: str) -> bool:
        """Return whether the caller has to ask before it calls this tool, and then pass `approved=True`.

        Always False without `approve="caller"`: the hub asks the function that it was given, or denies the call.
        """
        return self._access.needs_approval(name, self._catalog.routes.get(name))

    def explain(self, name: str, *, context: FilterContext | None = None) -> str:
        """Return why a tool can or cannot be seen and called: the rule, status or setting that decides."""
        return explain(name, self._servers, self._access, self._visible_tools, context)

    def view(self, *, agent: Any = None, run_context: Any = None, meta_tools: bool = False) -> HubView:
        """Return the hub as one agent sees it: dynamic filters receive agent and run, deferred tools can be loaded.

        `meta_tools` also lists `search_tools` and `call_tool`, by which any model finds and calls deferred tools.
        """
        context = FilterContext(agent, None, run_context)
        return HubView(self, self._visible_tools, self._list_tools, self._peek_tools, context, meta_tools)

    @overload
    def intercept(self, function: F, /) -> F: ...

    @overload
    def intercept(self, pattern: str | None = None, /) -> Callable[[F], F]: ...

    def intercept(self, what: Any = None, /) -> Any:
        """`@hub.intercept` or `@hub.intercept("mcp__fs__*")`: an `async def f(call, proceed)` around all such calls.

        `hub.remove_interceptor(function)` removes it.
        """
        if what is not None and not isinstance(what, str):
            self._calls.interceptors.add(None, what)
            return what

        def register(function: F) -> F:
            self._calls.interceptors.add(what, function)
            return function

        return register

    def remove_interceptor(self, interceptor: Interceptor) -> None:
        """Remove an interceptor; calls that have begun still pass it."""
        self._calls.interceptors.remove(interceptor)

    # ---- resources and prompts -------------------------------------------------------------------------------

    @property
    def resources(self) -> Resources:
        """The resources of all servers: listed, read, found by pattern or query."""
        return Resources(self)

    async def list_resources(self, server: str | None = None) -> list[Resource]:
        """Return the resources of all servers, or of one."""
        return self._catalog.resources(_name(await self._prepare_list(server)))

    async def list_resource_templates(self, server: str | None = None) -> list[ResourceTemplate]:
        """Return the resource templates of all servers, or of one."""
        return self._catalog.resource_templates(_name(await self._prepare_list(server)))

    async def list_prompts(self, server: str | None = None) -> list[Prompt]:
        """Return the prompts of all servers, or of one, by qualified name."""
        return self._catalog.prompts_of(_name(await self._prepare_list(server)))

    async def _prepare_list(self, server: str | None) -> ManagedServer | None:
        """Start what a list needs, and return the server if it is a list of one."""
        of = None if server is None else self._servers.find(server)
        await self._servers.prepare_list(of)
        return of

    async def read_resource(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> ReadResourceResult:
        """Read a resource of a server; raise `ResourceNotFound` if the server has none at this URI."""
        async with self._servers.lease(server, timeout) as (client, left):
            try:
                return await client.read_resource(uri, timeout=left)
            except ResourceNotFound as exc:
                near = similar_names(uri, (resource.uri for resource in self._catalog.resources(client.name)))
                message = f"{exc.message}{did_you_mean(near)}"
                raise ResourceNotFound(message, server=client.name, sent=True, nearest=near, uri=uri) from exc

    def listen(
        self, server: str, *uris: str, tools: bool = True, prompts: bool = True, resources: bool = True
    ) -> Changes:
        """Return a stream of changes of a server's lists and of its resources at `uris`, as `Client.listen` does."""
        self._servers.begin()
        managed = self._servers.find(server)
        if managed.clients is None:
            raise managed.make_unusable_error()
        managed.start()
        return managed.clients.client.listen(*uris, tools=tools, prompts=prompts, resources=resources)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout: Timeout = UNSET
    ) -> GetPromptResult:
        """Return a prompt, by its qualified name, with its arguments filled in."""
        route = await self._find_prompt(name)
        async with self._servers.lease(route.owner.name, timeout) as (client, left):
            return await client.get_prompt(route.original, arguments, timeout=left)

    async def _find_prompt(self, name: str) -> PromptRoute[ManagedServer]:
        prompts = self._catalog.prompts
        if name not in prompts and (owner := self._servers.find_owner(name)) is not None:
            await self._servers.prepare_list(owner)
        if name not in prompts:
            near = nearest(name, prompts)
            message = f"there is no prompt {name!r} in this hub{did_you_mean(near)}"
            raise NotFound(message, server=self._catalog.server_of(name), nearest=near)
        return prompts[name]

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
        """Return suggestions for an argument of a prompt (its qualified name, or as listed) or of a template (as
        listed, or its URI and `server`). `context` are the arguments that are already filled in.
        """
        reference: ResourceTemplate | dict[str, str]
        if isinstance(ref, ResourceTemplate):
            reference, server = ref, server or ref.server
        elif isinstance(ref, str) and "://" in ref:
            reference = {"type": "ref/resource", "uri": ref}
        else:
            route = await self._find_prompt(ref.name if isinstance(ref, Prompt) else ref)
            reference, server = {"type": "ref/prompt", "name": route.original}, route.owner.name
        if server is None:
            raise UsageError(
                "server= is required for a template that is given as a URI; or pass the template as the hub lists it"
            )
        async with self._servers.lease(server, timeout) as (client, left):
            return await client.complete(reference, argument, value, context=context, timeout=left)

    # ---- other methods ----------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        counts = {
            "servers": len(self._servers.by_name),
            "tools": len(self._catalog.tools),
            **self._servers.count_missing(),
        }
        return f"<Hub {' '.join(f'{name}={count}' for name, count in counts.items())}>"

    def __reduce__(self) -> NoReturn:
        raise UsageError("a hub holds connections and cannot be pickled; pickle the configs of its servers instead")


def _name(managed: ManagedServer | None) -> str | None:
    return None if managed is None else managed.name


def _start_limit(given: int | Unset | None) -> int | None:
    if given is UNSET:
        return DEFAULT_LIMIT
    limit: int | None = CHECKS["max_in_flight"]("max_parallel_starts", given)
    return limit


def _checked_start_timeout(start_timeout: StartTimeout) -> StartTimeout:
    if start_timeout == "auto" or start_timeout == 0:
        return start_timeout
    return checked_timeout("start_timeout", start_timeout)
