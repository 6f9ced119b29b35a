"""The hub as one agent sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ..client.client import Timeout
from ..client.subscriptions import Changes
from ..events import Delivery, ToolsChanged
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
)
from .dispatch import CallOptions
from .managed_server import ManagedServer
from .meta_tools import META_TOOLS, answer
from .resources import Resources
from .visible_tools import VisibleTools

if TYPE_CHECKING:
    from .hub import Hub

ListTools = Callable[[FilterContext, bool, str | None, Iterable[str]], Awaitable[list[Tool]]]

PeekTools = Callable[[FilterContext, bool, Iterable[str]], list[Tool] | None]


class HubView:
    """A hub as one agent sees it: dynamic filters receive `agent` and `run_context`, and deferred tools are loaded
    for this agent alone.

    A view has what an agent needs: tools, resources and prompts. It cannot manage the hub: servers, interceptors,
    toolsets, events and the end of the hub belong to the program. Views are cheap, because they share the hub's lists
    and connections.
    """

    def __init__(
        self,
        hub: Hub,
        visible_tools: VisibleTools[ManagedServer],
        list_tools: ListTools,
        peek_tools: PeekTools,
        context: FilterContext,
        meta_tools: bool = False,
    ) -> None:
        self._hub = hub
        self._visible_tools = visible_tools
        self._list_tools = list_tools
        self._peek_tools = peek_tools
        self._meta_tools = META_TOOLS if meta_tools else {}
        self._context = context
        self._loaded: dict[str, None] = {}
        self._listeners: list[Delivery] = []

    @property
    def context(self) -> FilterContext:
        """What dynamic filters receive about the caller."""
        return self._context

    @property
    def loaded(self) -> tuple[str, ...]:
        """The deferred tools that were loaded here, in the order of loading."""
        return tuple(self._loaded)

    async def list_tools(self, *, deferred: bool = False, server: str | None = None) -> list[Tool]:
        """Return the visible tools: those that are not deferred, then those that were loaded here; or all."""
        tools = await self._list_tools(self._context, deferred, server, self._loaded)
        return tools if server is not None else [*tools, *self._meta_tools.values()]

    def peek_tools(self, *, deferred: bool = False) -> list[Tool] | None:
        """Return what `list_tools` would, without waiting; None if it would wait for a server first."""
        tools = self._peek_tools(self._context, deferred, self._loaded)
        return None if tools is None else [*tools, *self._meta_tools.values()]

    def on_tools_changed(self, listener: Callable[[], Awaitable[None] | None]) -> Callable[[], None]:
        """Call `listener`, sync or async, when the tools of this view may have changed: those of a server, or those
        that were loaded here. Returns a function that removes the listener.
        """
        delivery = Delivery(listener, "listener for changed tools")
        self._listeners.append(delivery)
        stop_hub = self._hub.on(ToolsChanged, lambda _: delivery())

        def stop() -> None:
            stop_hub()
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
        """Add deferred tools to the list of this view; raise `ToolNotFound` for one that is hidden from this agent."""
        visible = {tool.name: tool for tool in await self._list_tools(self._context, True, None, ())}
        for name in names:
            if name not in visible:
                raise self._visible_tools.make_not_found(name)
        self._set_loaded(self._loaded | dict.fromkeys(names))
        return [visible[name] for name in names]

    def unload_tools(self, *names: str) -> None:
        """Remove loaded tools from the list: these, or all."""
        self._set_loaded({name: None for name in self._loaded if names and name not in names})

    async def search_tools(
        self, query: str, *, limit: int = 10, token_budget: int | None = None, load: bool = False
    ) -> list[Tool]:
        """Return the tools, deferred ones included, that match the words best; `load` adds them to the list."""
        found = await self._hub.search_tools(query, limit=limit, token_budget=token_budget, context=self._context)
        if load:
            self._set_loaded(self._loaded | dict.fromkeys(tool.name for tool in found))
        return found

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> ToolResult:
        """Call a tool that this agent may see; a deferred tool that was called is loaded afterwards.

        A tool that needs approval needs it also if a model calls it by the meta tool `call_tool`: without
        `approved=True`, that call raises `AccessDenied`, too.
        """
        if name in self._meta_tools:
            return await answer(self, name, arguments or {}, options)
        result = await self._hub.call_tool(name, arguments, context=self._context, **options)
        if len(self._hub.toolsets) and (deferred := self._visible_tools.find_deferred(name)) is not None:
            self._set_loaded(self._loaded | {deferred: None})
        return result

    def explain(self, name: str) -> str:
        """Return why this agent can or cannot see and call a tool."""
        if name in self._meta_tools:
            return "allowed: a tool of this view, to find and call those that are deferred"
        return self._hub.explain(name, context=self._context)

    def needs_approval(self, name: str) -> bool:
        """Return whether the caller has to ask before it calls this tool, as `Hub.needs_approval` does.

        False for the meta tools: which tool `call_tool` calls is known only with the call.
        """
        return name not in self._meta_tools and self._hub.needs_approval(name)

    def alias(self, name: str) -> str:
        """Return the tool's name for model APIs, as `Hub.alias` does."""
        return self._hub.alias(name)

    # ---- resources and prompts -------------------------------------------------------------------------------

    @property
    def resources(self) -> Resources:
        """The resources of all servers: listed, read, found by pattern or query."""
        return self._hub.resources

    async def list_resources(self, server: str | None = None) -> list[Resource]:
        """Return the resources of all servers, or of one."""
        return await self._hub.list_resources(server)

    async def list_resource_templates(self, server: str | None = None) -> list[ResourceTemplate]:
        """Return the resource templates of all servers, or of one."""
        return await self._hub.list_resource_templates(server)

    async def list_prompts(self, server: str | None = None) -> list[Prompt]:
        """Return the prompts of all servers, or of one, by qualified name."""
        return await self._hub.list_prompts(server)

    async def read_resource(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> ReadResourceResult:
        """Read a resource of a server; raise `ResourceNotFound` if the server has none at this URI."""
        return await self._hub.read_resource(server, uri, timeout=timeout)

    def listen(
        self, server: str, *uris: str, tools: bool = True, prompts: bool = True, resources: bool = True
    ) -> Changes:
        """Return a stream of changes of a server's lists and of its resources at `uris`, as `Hub.listen` does."""
        return self._hub.listen(server, *uris, tools=tools, prompts=prompts, resources=resources)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout: Timeout = UNSET
    ) -> GetPromptResult:
        """Return a prompt, by its qualified name, with its arguments filled in."""
        return await self._hub.get_prompt(name, arguments, timeout=timeout)

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
        return await self._hub.complete(ref, argument, value, server=server, context=context, timeout=timeout)

    def __repr__(self) -> str:
        return f"<HubView of {self._hub!r}>"
