"""The hub as one agent sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ..types import FilterContext, Tool, ToolResult
from .calls import CallOptions
from .metatools import META_TOOLS, answer

if TYPE_CHECKING:
    from .hub import Hub


class View:
    """A hub with somebody's eyes: dynamic filters are told of `agent` and `run_context`, and deferred tools are loaded
    here for this one alone. Cheap: it shares everything with its hub, and what it does not have itself is the hub's.
    """

    def __init__(self, hub: Hub, context: FilterContext, meta_tools: bool = False) -> None:
        self._hub = hub
        self._meta_tools = META_TOOLS if meta_tools else {}
        self._context = context
        self._loaded: dict[str, None] = {}

    @property
    def context(self) -> FilterContext:
        """Who asks."""
        return self._context

    @property
    def loaded(self) -> tuple[str, ...]:
        """The deferred tools that were loaded here, in the order in which they were."""
        return tuple(self._loaded)

    async def list_tools(self, *, deferred: bool = False, server: str | None = None) -> list[Tool]:
        """The tools that this one may see: those that are not deferred, then those that were loaded here; or all."""
        tools = await self._hub._list_tools(self._context, deferred, server, self._loaded)
        return tools if server is not None else [*tools, *self._meta_tools.values()]

    async def load_tools(self, *names: str) -> list[Tool]:
        """Take deferred tools into this view's list; `ToolNotFound` for one that this one cannot see."""
        visible = {tool.name: tool for tool in await self._hub._list_tools(self._context, True, None, ())}
        for name in names:
            if name not in visible:
                raise self._hub._offer.unknown(name)
        self._loaded |= dict.fromkeys(names)
        return [visible[name] for name in names]

    def unload_tools(self, *names: str) -> None:
        """Leave loaded tools out of the list again: these, or all."""
        self._loaded = {name: None for name in self._loaded if names and name not in names}

    async def search_tools(
        self, query: str, *, limit: int = 10, token_budget: int | None = None, load: bool = False
    ) -> list[Tool]:
        """The tools that fit the words best, the deferred among them; `load` takes them into the list."""
        found = await self._hub.search_tools(query, limit=limit, token_budget=token_budget, context=self._context)
        if load:
            self._loaded |= dict.fromkeys(tool.name for tool in found)
        return found

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> ToolResult:
        """Call a tool that this one may see."""
        if name in self._meta_tools:
            return await answer(self, name, arguments or {}, options)
        return await self._hub.call_tool(name, arguments, context=self._context, **options)

    def explain(self, name: str) -> str:
        """Why this one can or cannot see and call a tool."""
        if name in self._meta_tools:
            return "allowed: a tool of this view, to find and call those that are deferred"
        return self._hub.explain(name, context=self._context)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._hub, name)

    def __repr__(self) -> str:
        return f"<View of {self._hub!r}>"
