"""The tools of a hub that a caller may see, listed or searched."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

from .._util.suggest import did_you_mean
from ..catalog.routing import Catalog, Route, nearest
from ..catalog.search import SearchIndex
from ..errors import ToolNotFound
from ..types import FilterContext, Tool
from .access import Access, find_hiding_filter, scope_context
from .toolsets import Toolsets

MAX_INDEXED_INLINE: Final = 500
"""Tools that are indexed on the event loop; more are indexed in a thread."""


class Owner(Protocol):
    """The owner of routes: a server of a hub, or a source of a provider."""

    @property
    def name(self) -> str:
        """The name of the server in qualified names."""
        ...


O = TypeVar("O", bound=Owner)  # noqa: E741  # as in catalog/routing.py


class VisibleTools(Generic[O]):
    """Lists over the catalog. The part that is the same for all callers is computed once for each change.

    `place` is what errors call the whole, such as "this hub".
    """

    def __init__(self, catalog: Catalog[O], access: Access, toolsets: Toolsets, place: str = "this hub") -> None:
        self._catalog = catalog
        self._access = access
        self._toolsets = toolsets
        self._place = place
        self._versions = (-1, -1)
        self._kept: dict[bool, list[Route[O]]] = {}
        self._index = SearchIndex()
        self._indexed = -1
        self._updating = asyncio.Lock()

    def tools(
        self,
        context: FilterContext | None = None,
        *,
        deferred: bool = False,
        of: O | None = None,
        loaded: Iterable[str] = (),
    ) -> list[Tool]:
        """Return the visible tools. Deferred ones are all included, or only, after the others, those in `loaded`."""
        routes = self._routes(deferred)
        if loaded and not deferred:
            more = (self._catalog.routes.get(name) for name in loaded)
            routes = [*routes, *(r for r in more if r is not None and r.refusal is None and self.is_deferred(r))]
        if of is not None:
            routes = [route for route in routes if route.owner == of]
        contexts: dict[str, FilterContext] = {}
        return [route.tool for route in routes if not route.live or not self._hides(route, context, contexts)]

    def _hides(self, route: Route[O], context: FilterContext | None, contexts: dict[str, FilterContext]) -> bool:
        server = route.owner.name
        if server not in contexts:
            contexts[server] = scope_context(context, server)
        return find_hiding_filter(route, contexts[server]) is not None

    async def search(
        self, query: str, context: FilterContext | None, limit: int, token_budget: int | None
    ) -> list[Tool]:
        """Return the tools, deferred ones included, that match the words best."""
        if self._indexed != self._catalog.version:
            await self._update_index()

        def allowed(tool: Tool) -> bool:
            route = self._catalog.routes.get(tool.name)
            return route is not None and self._access.refusal(route, context) is None

        hits = self._index.search(query, limit=limit, token_budget=token_budget, allowed=allowed)
        return [hit.tool for hit in hits]

    async def _update_index(self) -> None:
        """Bring the index up to date. Servers whose tools did not change are not read again."""
        async with self._updating:
            version, tools = self._catalog.version, [route.tool for route in self._routes(True)]
            if self._indexed == version:
                return
            if len(tools) <= MAX_INDEXED_INLINE:
                self._index = self._index.updated(tools)
            else:  # in a thread, so that calls go on: ten thousand tools take a second
                self._index = await asyncio.to_thread(self._index.updated, tools)
            self._indexed = version

    def is_deferred(self, route: Route[O]) -> bool:
        """Whether lists leave the tool out until it is loaded."""
        return self._toolsets.is_deferred(route.owner.name, route.original)

    def find_deferred(self, name: str) -> str | None:
        """Return the qualified name of the deferred tool that `name`, which may be an alias, stands for, if any."""
        route = self._catalog.routes.get(name)
        return route.tool.name if route is not None and self.is_deferred(route) else None

    def make_not_found(self, name: str) -> ToolNotFound:
        """Return the error for the name of a tool that does not exist."""
        same = tuple(r.tool.name for r in self._routes(True) if r.original == name and not r.live)[:3]
        near = same or self.nearest(name)
        hint = "; tools are called by their qualified names" if same else ""
        end = did_you_mean(near) or "; list_tools() lists the tools"
        message = f"{self._place} has no tool of this name{hint}{end}"
        return ToolNotFound(message, server=self._catalog.server_of(name), tool=name, nearest=near)

    def nearest(self, name: str, but: Route[O] | None = None) -> tuple[str, ...]:
        """Return similar names, without tools that a filter may hide from the caller."""
        return nearest(name, (r.tool.name for r in self._routes(True) if not r.live and r is not but))

    def _routes(self, deferred: bool) -> list[Route[O]]:
        versions = (self._catalog.version, self._toolsets.version)
        if self._versions != versions:
            self._versions, self._kept = versions, {}
        if deferred not in self._kept:
            shown = [route for route in self._catalog.tools if route.refusal is None]
            if not deferred and len(self._toolsets):
                shown = [route for route in shown if not self.is_deferred(route)]
            self._kept[deferred] = shown
        return self._kept[deferred]
