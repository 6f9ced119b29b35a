"""The sync hub for many servers."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, NoReturn, TypeVar, Unpack, cast, overload

from .._util.tasks import TaskSet
from .._util.threads import in_daemon_thread, is_async
from ..errors import UsageError
from ..hub import hub as aio
from ..hub import resources, view
from ..hub.config_sync import Given
from ..hub.interceptors import CallNext, Interceptor, ToolCall
from ..hub.server_options import HubConfigOptions, ServerOptions
from ..hub.server_state import ServerState
from ..hub.toolsets import Toolsets
from ..transports.factory import ServerLike
from ..types import FilterContext, ToolResult
from .client import Changes
from .portal import portal
from .wrapper import ContextWrapper, SyncWrapper, on_loop, through_portal

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])


class Hub(ContextWrapper[aio.Hub]):
    """A sync hub for many servers: `with Hub({"fs": StdioServer(...)}) as hub:`. Same options as `toolcrib.Hub`.

    `approve`, interceptors and handlers may be plain functions, which may block, or async ones.
    """

    _noun, _usage = "hub", "with Hub(servers) as hub"

    def __init__(
        self,
        servers: Mapping[str, ServerLike | tuple[ServerLike, ServerOptions]] | None = None,
        **options: Unpack[HubConfigOptions],
    ) -> None:
        self._wrap(aio.Hub(servers, **options))

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
        """Create a hub of the servers in a settings file; see `toolcrib.Hub.from_config`."""
        hub = cls.__new__(cls)
        twin = aio.Hub.from_config(config, watch=watch, watch_interval=watch_interval, environ=environ, **options)
        hub._wrap(twin)  # noqa: SLF001  # a second constructor
        return hub

    def _wrap(self, twin: aio.Hub) -> None:
        super().__init__(twin)
        self._interceptors: list[tuple[Callable[..., Any], Interceptor]] = []

    def start(self) -> Hub:
        """Start all servers concurrently, unless they are started."""
        self._check_entered()
        portal.call(self._twin.start)
        return self

    def add_server(self, name: str, server: ServerLike, **options: Unpack[ServerOptions]) -> ServerState:
        """Add a server. If it cannot be connected, this raises and adds nothing; `start="lazy"` does not connect."""
        self._check_entered()
        return portal.call(lambda: self._twin.add_server(name, server, **options))

    ready = through_portal(aio.Hub.ready)
    remove_server = through_portal(aio.Hub.remove_server)
    reload = through_portal(aio.Hub.reload)
    refresh = through_portal(aio.Hub.refresh)
    list_tools = through_portal(aio.Hub.list_tools)
    peek_tools = on_loop(aio.Hub.peek_tools)
    call_tool = through_portal(aio.Hub.call_tool)
    search_tools = through_portal(aio.Hub.search_tools)
    list_resources = through_portal(aio.Hub.list_resources)
    list_resource_templates = through_portal(aio.Hub.list_resource_templates)
    list_prompts = through_portal(aio.Hub.list_prompts)
    read_resource = through_portal(aio.Hub.read_resource)
    get_prompt = through_portal(aio.Hub.get_prompt)
    complete = through_portal(aio.Hub.complete)
    list_servers = on_loop(aio.Hub.list_servers)
    alias = on_loop(aio.Hub.alias)
    explain = on_loop(aio.Hub.explain)
    needs_approval = on_loop(aio.Hub.needs_approval)

    @property
    def toolsets(self) -> Toolsets:
        """Which tools are deferred: `hub.toolsets.register(Toolset("db").defer_all())`."""
        return self._twin.toolsets

    @property
    def resources(self) -> Resources:
        """The resources of all servers: listed, read, found by pattern or query."""
        return Resources(self, self._twin.resources)

    def view(self, *, agent: Any = None, run_context: Any = None, meta_tools: bool = False) -> HubView:
        """Return the hub as one agent sees it; see `toolcrib.Hub.view`."""
        return HubView(self, self._twin.view(agent=agent, run_context=run_context, meta_tools=meta_tools))

    @overload
    def intercept(self, function: F, /) -> F: ...

    @overload
    def intercept(self, pattern: str | None = None, /) -> Callable[[F], F]: ...

    def intercept(self, what: Any = None, /) -> Any:
        """Register a function `f(call, proceed)` around all matching calls.

        Use it as `@hub.intercept` or `@hub.intercept("mcp__fs__*")`.

        A plain function calls `proceed(call)` for the result, an async one `await proceed(call)`.
        """

        def register(function: F) -> F:
            twin = _interceptor(function)
            self._do(lambda: self._twin.intercept(pattern)(twin))
            self._interceptors.append((function, twin))
            return function

        pattern = what if isinstance(what, str) else None
        return register if what is pattern else register(what)

    def remove_interceptor(self, interceptor: Callable[..., Any]) -> None:
        """Remove an interceptor; calls that have begun still pass it."""
        # A function may be registered for several patterns: a plain one has a twin for each, an async one is its own.
        twins = {id(twin): twin for function, twin in self._interceptors if function == interceptor}
        for twin in twins.values() or (interceptor,):
            self._do(partial(self._twin.remove_interceptor, twin))
        self._interceptors = [pair for pair in self._interceptors if pair[0] != interceptor]

    def listen(
        self, server: str, *uris: str, tools: bool = True, prompts: bool = True, resources: bool = True
    ) -> Changes:
        """Return a stream of changes of a server's lists, and of its resources at `uris`.

        Use it as `with hub.listen("fs") as changes: for change in changes: ...`.
        """
        self._check_entered()
        wanted = {"tools": tools, "prompts": prompts, "resources": resources}
        return Changes(portal.do(lambda: self._twin.listen(server, *uris, **wanted)))

    def on(self, event: type[Any], listener: Callable[[Any], Any]) -> Callable[[], None]:
        """Call `listener` with every such event of any server, on the portal's thread.

        It must be quick and cannot wait for this hub.
        """
        stop = self._do(lambda: self._twin.on(event, listener))
        return lambda: self._do(stop)

    def __reduce__(self) -> NoReturn:
        raise UsageError("a hub holds connections and cannot be pickled; pickle the configs of its servers instead")


class _HubPart(SyncWrapper[A]):
    """A part of a hub, which can be used while the hub can."""

    def __init__(self, hub: Hub, twin: A) -> None:
        super().__init__(twin)
        self._hub = hub

    def _check_entered(self) -> None:
        self._hub._check_entered()  # noqa: SLF001  # the same base class

    def _check_process(self) -> None:
        self._hub._check_process()  # noqa: SLF001  # the same base class


class HubView(_HubPart[view.HubView]):
    """A sync hub as one agent sees it: tools, resources and prompts. It cannot manage the hub."""

    list_tools = through_portal(view.HubView.list_tools)
    load_tools = through_portal(view.HubView.load_tools)
    search_tools = through_portal(view.HubView.search_tools)
    peek_tools = on_loop(view.HubView.peek_tools)
    call_tool = through_portal(view.HubView.call_tool)
    unload_tools = on_loop(view.HubView.unload_tools)
    explain = on_loop(view.HubView.explain)
    needs_approval = on_loop(view.HubView.needs_approval)
    alias = on_loop(view.HubView.alias)
    list_resources = through_portal(view.HubView.list_resources)
    list_resource_templates = through_portal(view.HubView.list_resource_templates)
    list_prompts = through_portal(view.HubView.list_prompts)
    read_resource = through_portal(view.HubView.read_resource)
    get_prompt = through_portal(view.HubView.get_prompt)
    complete = through_portal(view.HubView.complete)

    @property
    def resources(self) -> Resources:
        """The resources of all servers: listed, read, found by pattern or query."""
        return self._hub.resources

    def listen(
        self, server: str, *uris: str, tools: bool = True, prompts: bool = True, resources: bool = True
    ) -> Changes:
        """Return a stream of changes of a server's lists, and of its resources at `uris`, as `Hub.listen` does."""
        return self._hub.listen(server, *uris, tools=tools, prompts=prompts, resources=resources)

    def on_tools_changed(self, listener: Callable[[], Any]) -> Callable[[], None]:
        """Call `listener`, on the portal's thread, when the tools of this view may have changed.

        It must be quick and cannot wait for this hub. Returns a function that removes the listener.
        """
        stop = self._do(lambda: self._twin.on_tools_changed(listener))
        return lambda: self._do(stop)

    @property
    def context(self) -> FilterContext:
        """What dynamic filters receive about the caller."""
        return self._twin.context

    @property
    def loaded(self) -> tuple[str, ...]:
        """The deferred tools that were loaded here."""
        return self._twin.loaded


class Resources(_HubPart[resources.Resources]):
    """The resources of all servers of a sync hub."""

    list_all = through_portal(resources.Resources.list_all)
    list_from_server = through_portal(resources.Resources.list_from_server)
    find_by_pattern = through_portal(resources.Resources.find_by_pattern)
    find = through_portal(resources.Resources.find)
    read = through_portal(resources.Resources.read)
    read_text = through_portal(resources.Resources.read_text)
    read_bytes = through_portal(resources.Resources.read_bytes)


def _interceptor(function: Any) -> Interceptor:
    """Return an interceptor that runs a plain function in a thread, in which `proceed` blocks.

    If the caller is cancelled, the calls that the function has begun are cancelled, and it can begin no others.
    """
    if not callable(function) or is_async(function):
        return cast("Interceptor", function)

    @wraps(function)
    async def run(call: ToolCall, proceed: CallNext) -> ToolResult:
        running, ended = TaskSet(), False

        async def send(call: ToolCall) -> ToolResult:
            if ended:
                raise asyncio.CancelledError
            task = asyncio.current_task()
            assert task is not None
            running.add(task)
            return await proceed(call)

        def from_thread(call: ToolCall) -> ToolResult:
            try:
                return portal.call(lambda: send(call))
            except concurrent.futures.CancelledError:
                # Not an `Exception`: a function that retries must not handle this as a failure.
                raise asyncio.CancelledError from None

        try:
            return cast("ToolResult", await in_daemon_thread(lambda: function(call, from_thread)))
        finally:
            ended = True
            running.cancel()

    return run
