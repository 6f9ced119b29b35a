"""The combined lists of all servers of a hub, and the table that maps a name to its server.

Only the table maps names to servers: no code splits a name. A change of one server updates only that server's entries,
so that starting many servers does not take quadratic time; the combined lists are built on demand and kept until the
next change. This module uses neither clients nor permissions.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, Generic, Literal, TypeVar

from .. import tool_names
from .._util.suggest import shortlist, similar_names
from ..protocol.sanitize import one_line
from ..types import Prompt, Resource, ResourceTemplate, Tool

log = logging.getLogger("toolcrib.hub")

O = TypeVar("O")  # noqa: E741  # the owner of a route: the object that handles calls of a server
T = TypeVar("T", Tool, Prompt, Resource, ResourceTemplate)

NameMaker = Callable[[Literal["tool", "prompt"], str, str], str]
"""Returns the name of a tool or prompt in the combined list, by the server and the server's name for it."""

MAX_SHOWN: Final = 5
"""Names that a warning about a list shows."""
WARNING_INTERVAL: Final = 60.0
"""The fewest seconds between two warnings about the same list of a server."""


class Route(Generic[O]):
    """A tool of the hub and its server. It keeps the decisions about the tool, so that calls need not repeat them."""

    __slots__ = ("chain", "chosen", "decision", "live", "open", "original", "owner", "refusal", "source", "tool")

    def __init__(self, owner: O, tool: Tool, source: Tool) -> None:
        self.owner = owner
        self.tool = tool
        """The tool as the hub lists it, with its qualified name."""
        self.source = source
        """The tool as its server lists it, with `server` set."""
        self.original = source.name
        self.decision: Any = None
        self.refusal: str | None = None
        """The rule that hides the tool from every caller."""
        self.live: tuple[Any, ...] = ()
        """Filters that must be called for every list and call."""
        self.open = True
        """Whether a call needs no further checks."""
        self.chain: tuple[Any, ...] = ()
        self.chosen: object = None
        """The interceptors of the tool, and the list of all interceptors from which they were chosen."""

    def set_access(self, decision: Any, refusal: str | None, live: tuple[Any, ...]) -> None:
        """Keep what the permissions and the filters decided for every caller."""
        self.decision, self.refusal, self.live = decision, refusal, live
        self.open = refusal is None and not live and decision.kind == "allow"

    def set_chain(self, chain: tuple[Any, ...], chosen: object) -> None:
        """Keep the interceptors that were chosen from the list `chosen`."""
        self.chain, self.chosen = chain, chosen

    def __repr__(self) -> str:
        return f"<Route {self.tool.name}>"


@dataclass(frozen=True, slots=True)
class PromptRoute(Generic[O]):
    """A prompt of the hub, its name on its server, and the owner that handles its requests."""

    owner: O
    prompt: Prompt
    original: str


class _ServerLists(Generic[O]):
    """The lists of one server."""

    __slots__ = ("owner", "prompts", "raw", "resource_templates", "resources", "routes", "warned")

    def __init__(self, owner: O) -> None:
        self.owner = owner
        self.raw: dict[str, list[Any]] = {}
        self.routes: list[Route[O]] = []
        self.resources: tuple[Resource, ...] = ()
        self.resource_templates: tuple[ResourceTemplate, ...] = ()
        self.prompts: list[PromptRoute[O]] = []
        self.warned: dict[str, tuple[float, str]] = {}
        """Time and text of the last warning about a list of each kind."""


class Catalog(Generic[O]):
    """The lists of many servers. `judge` is called once for each new route, to store the decisions on it.

    `make_name` names a tool or prompt of a server; its names must be unique. Default: qualified names.
    """

    def __init__(self, judge: Callable[[Route[O]], None], make_name: NameMaker | None = None) -> None:
        self.version = 0
        """The number of changes."""
        self.routes: dict[str, Route[O]] = {}
        """Tools by qualified name, and by alias if that differs."""
        self.aliases: dict[str, str] = {}
        """Aliases that differ from the name, each with that name."""
        self.prompts: dict[str, PromptRoute[O]] = {}
        self._judge = judge
        self._make_name = _qualify if make_name is None else make_name
        self._shelves: dict[str, _ServerLists[O]] = {}
        self._alias_of: dict[str, str] = {}
        self._tools: tuple[Route[O], ...] | None = None

    # ---- what servers list -----------------------------------------------------------------------------------

    def add(self, server: str, owner: O) -> None:
        """Add a server with empty lists."""
        self._shelves[server] = _ServerLists(owner)

    def has(self, server: str) -> bool:
        """Whether the server was added."""
        return server in self._shelves

    def put(self, server: str, kind: str, items: Sequence[Any]) -> bool:
        """Set a list of a server; return False if nothing changed."""
        lists = self._shelves.get(server)
        if lists is None:
            return False  # the server was removed in the meantime
        raw = [item.raw or item for item in items]
        if lists.raw.get(kind) == raw:
            return False
        nothing_yet = not raw and kind not in lists.raw
        lists.raw[kind] = raw
        getattr(self, f"_put_{kind}")(server, lists, items)
        self.version += not nothing_yet
        return not nothing_yet

    def drop(self, server: str) -> tuple[str, ...]:
        """Remove a server; return the kinds of its lists that were not empty."""
        lists = self._shelves.get(server)
        if lists is None:
            return ()
        had = tuple(kind for kind, items in lists.raw.items() if items)
        self._put_tools(server, lists, ())
        self._put_prompts(server, lists, ())
        del self._shelves[server]
        self.version += 1
        return had

    def _put_tools(self, server: str, lists: _ServerLists[O], tools: Sequence[Tool]) -> None:
        before = {route.original: route for route in lists.routes}
        for route in lists.routes:
            del self.routes[route.tool.name]
            self._forget_alias(route.tool.name)
        lists.routes = []
        for tool in self._unique(server, lists, "tool", tools):
            kept = before.get(tool.name)
            if kept is None or kept.source.raw != tool.raw or not tool.raw:
                qualified = replace(
                    tool, name=self._make_name("tool", server, tool.name), server=server, original_name=tool.name
                )
                kept = Route(lists.owner, qualified, replace(tool, server=server))
                self._judge(kept)
            lists.routes.append(kept)
            self._enter(kept)
        for route in lists.routes:
            self._give_alias(route.tool.name)
        self._tools = None

    def _put_resources(self, server: str, lists: _ServerLists[O], resources: Sequence[Resource]) -> None:
        lists.resources = tuple(replace(resource, server=server) for resource in resources)

    def _put_resource_templates(
        self, server: str, lists: _ServerLists[O], templates: Sequence[ResourceTemplate]
    ) -> None:
        lists.resource_templates = tuple(replace(template, server=server) for template in templates)

    def _put_prompts(self, server: str, lists: _ServerLists[O], prompts: Sequence[Prompt]) -> None:
        for known in lists.prompts:
            del self.prompts[known.prompt.name]
        lists.prompts = []
        for prompt in self._unique(server, lists, "prompt", prompts):
            qualified = replace(prompt, name=self._make_name("prompt", server, prompt.name), server=server)
            route = PromptRoute(lists.owner, qualified, prompt.name)
            lists.prompts.append(route)
            self.prompts[qualified.name] = route

    def _unique(self, server: str, lists: _ServerLists[O], kind: str, items: Iterable[T]) -> list[T]:
        """Return the items that can be called: without empty names, and only the first of each name."""
        first: dict[str, T] = {}
        left_out = []
        for item in items:
            if item.name and first.setdefault(item.name, item) is item:
                continue
            left_out.append(item.name)
        if left_out:
            _warn_of_names(server, lists, kind, left_out)
        return list(first.values())

    # ---- aliases ---------------------------------------------------------------------------------------------

    def _enter(self, route: Route[O]) -> None:
        """Add a route; an alias that equals its name is replaced by another one."""
        name = route.tool.name
        displaced = self.aliases.pop(name, None)
        self.routes[name] = route
        if displaced is not None:
            del self._alias_of[displaced]
            self._give_alias(displaced)

    def _give_alias(self, name: str) -> None:
        if name in self._alias_of:
            return
        short = tool_names.alias(name)
        if short == name:
            return
        if short in self.routes:
            short = tool_names.alias(name, self.routes)
        self.aliases[short] = name
        self._alias_of[name] = short
        self.routes[short] = self.routes[name]

    def _forget_alias(self, name: str) -> None:
        short = self._alias_of.pop(name, None)
        if short is not None:
            del self.aliases[short]
            del self.routes[short]

    def alias(self, name: str) -> str:
        """Return the tool's name for APIs that restrict names; usually the name itself."""
        return self._alias_of.get(name, name)

    # ---- the lists -------------------------------------------------------------------------------------------

    @property
    def tools(self) -> tuple[Route[O], ...]:
        """All tools, by server in the order of `add`, and in the order of the server's list."""
        if self._tools is None:
            self._tools = tuple(route for lists in self._shelves.values() for route in lists.routes)
        return self._tools

    def tools_of(self, server: str) -> tuple[Tool, ...]:
        """Return all tools of one server, with their qualified names."""
        return tuple(route.tool for route in self._shelves[server].routes) if server in self._shelves else ()

    def resources(self, server: str | None = None) -> list[Resource]:
        """Return the resources of one server, or of all servers."""
        return [item for lists in self._chosen(server) for item in lists.resources]

    def resource_templates(self, server: str | None = None) -> list[ResourceTemplate]:
        """Return the resource templates of one server, or of all servers."""
        return [item for lists in self._chosen(server) for item in lists.resource_templates]

    def prompts_of(self, server: str | None = None) -> list[Prompt]:
        """Return the prompts of one server, or of all servers, with their qualified names."""
        return [item.prompt for lists in self._chosen(server) for item in lists.prompts]

    def server_of(self, name: str) -> str | None:
        """Return the server whose name this qualified name contains, whether or not it lists such a tool or prompt."""
        # At most one server can match: see tool_names.py.
        return next((server for server in self._shelves if name.startswith(f"mcp__{server}__")), None)

    def _chosen(self, server: str | None) -> Iterator[_ServerLists[O]]:
        if server is None:
            yield from self._shelves.values()
        elif server in self._shelves:
            yield self._shelves[server]

    def judge_all(self) -> list[O]:
        """Repeat the decisions for every route after a change of the rules; return the owners of changed routes."""
        concerned = []
        for route in self.tools:
            before = (route.decision, route.refusal)
            self._judge(route)
            if before != (route.decision, route.refusal):
                concerned.append(route.owner)
        self.version += 1
        return concerned


def _qualify(_kind: str, server: str, name: str) -> str:
    return tool_names.make(server, name)


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the qualified names that are most similar to this one."""
    # The common prefix of a server's tools does not help to find the intended one.
    own = _own_part(name)
    alike = [
        each
        for each in shortlist(own, known, _own_part, cutoff=0.5)
        if difflib.SequenceMatcher(None, own, _own_part(each)).ratio() > 0.5
    ]
    return similar_names(name, alike)


def _own_part(name: str) -> str:
    return name.rpartition("__")[2]


def _warn_of_names(server: str, lists: _ServerLists[Any], kind: str, left_out: list[str]) -> None:
    """Log one warning for the unusable names of a list, at most once a minute and only if the names have changed."""
    shown = ", ".join(repr(one_line(name, 60)) for name in dict.fromkeys(left_out[:MAX_SHOWN]))
    text = f"{len(left_out)} {kind}s with empty or duplicate names are ignored: {shown}"
    now, (since, known) = monotonic(), lists.warned.get(kind, (-WARNING_INTERVAL, ""))
    if text == known or now - since < WARNING_INTERVAL:
        log.debug("%s: %s", server, text)
        return
    lists.warned[kind] = (now, text)
    log.warning("%s: %s", server, text)
