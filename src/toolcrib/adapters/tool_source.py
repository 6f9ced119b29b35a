"""The sources of a toolbox: a hub, a view, a client, or one of these from `toolcrib.sync`."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from .. import tool_names
from ..errors import UsageError
from ..events import ToolsChanged
from ..sync.portal import portal
from ..sync.wrapper import SyncWrapper
from ..types import Tool, ToolResult
from .home_loop import START_SECONDS, HomeLoop

_MODEL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ToolSource(Protocol):
    """An async source of tools: `Hub`, `HubView`, `Client`, a provider's view, or an object with these methods.

    These methods are used if the source has them: `peek_tools` (the list without waiting), `alias`, `needs_approval`,
    `search_tools` (which means that `list_tools` takes `deferred`), and `on_tools_changed` or `on` for changes.
    """

    @property
    def list_tools(self) -> Callable[..., Coroutine[Any, Any, list[Tool]]]:
        """Return the tools."""
        ...

    @property
    def call_tool(self) -> Callable[..., Coroutine[Any, Any, ToolResult]]:
        """Call a tool by name with arguments and, as keywords, the options of `Client.call_tool`."""
        ...


class ListedTool(NamedTuple):
    """A tool of a source, with its name for models."""

    name: str
    tool: Tool
    deferred: bool
    needs_approval: bool


class BoundSource:
    """A source together with the loop that it belongs to."""

    def __init__(self, source: ToolSource | SyncWrapper[Any], *, start_seconds: float = START_SECONDS) -> None:
        self._wrapper: SyncWrapper[Any] | None = None
        self._source: Any = source
        self._start_seconds = start_seconds
        self._home: HomeLoop | None = None
        has_tools = callable(getattr(source, "list_tools", None)) and callable(getattr(source, "call_tool", None))
        if not has_tools or isinstance(source, type):
            raise UsageError(
                f"source: expected a Hub, a HubView, a Client, one of toolcrib.sync, or a provider's view, "
                f"got {type(source).__name__}"
            )
        if isinstance(source, SyncWrapper):
            self._wrapper = source
        else:
            self._home = HomeLoop.running(start_seconds)

    @property
    def source(self) -> Any:
        """The async source. Raises `UsageError` for a sync twin outside its `with` block, or in a forked child."""
        return self._source if self._wrapper is None else self._wrapper.async_twin()

    @property
    def home(self) -> HomeLoop:
        """The loop on which the source must be used. Raises as `source` does."""
        if self._wrapper is None:
            assert self._home is not None
            return self._home
        self._wrapper.async_twin()
        return HomeLoop(*portal.home(), self._start_seconds)

    # ---- on the home loop ----------------------------------------------------------------------------------------

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], approved: bool, options: Mapping[str, Any]
    ) -> ToolResult:
        """Call a tool."""
        source = self.source
        if approved and hasattr(source, "needs_approval"):
            options = {**options, "approved": True}
        result: ToolResult = await source.call_tool(name, arguments, **options)
        return result

    async def list_tools(self, deferred: bool) -> tuple[ListedTool, ...]:
        """Return the tools, with or without those that are deferred."""
        source = self.source
        tools: list[Tool] = await source.list_tools()
        if not deferred or not hasattr(source, "search_tools"):
            return self._name_tools(tools)
        return self._name_tools(await source.list_tools(deferred=True), tools)

    def peek_tools(self, deferred: bool) -> tuple[ListedTool, ...] | None:
        """Return the tools without waiting; None if the source would have to ask a server, or cannot say."""
        source = self.source
        peek = getattr(source, "peek_tools", None)
        tools: list[Tool] | None = None if peek is None else peek()
        if peek is None or tools is None:
            return None
        if not deferred or not hasattr(source, "search_tools"):
            return self._name_tools(tools)
        everything: list[Tool] | None = peek(deferred=True)
        return None if everything is None else self._name_tools(everything, tools)

    def _name_tools(self, tools: Iterable[Tool], shown: Iterable[Tool] | None = None) -> tuple[ListedTool, ...]:
        """Return the tools with unique names for models; those that are not in `shown`, if it is given, are deferred.

        A name that models accept stays, whatever the order of the list.
        """
        source = self.source
        find_alias: Callable[[str], str] = getattr(source, "alias", str)
        needs_approval: Callable[[str], bool] = getattr(source, "needs_approval", lambda _: False)
        loaded = None if shown is None else {tool.name for tool in shown}
        unique: dict[str, Tool] = {}
        for tool in tools:
            unique.setdefault(tool.name, tool)
        names = names_for_models({name: find_alias(name) for name in unique})
        return tuple(
            ListedTool(names[name], tool, loaded is not None and name not in loaded, bool(needs_approval(name)))
            for name, tool in unique.items()
        )

    def on_change(self, listener: Callable[[], Any]) -> Callable[[], None]:
        """Call `listener` when the tools change. Returns a function that removes it."""
        source = self.source
        if (register := getattr(source, "on_tools_changed", None)) is not None:
            stop: Callable[[], None] = register(listener)
        elif hasattr(source, "on"):
            stop = source.on(ToolsChanged, lambda _: listener())
        else:
            raise UsageError(f"{type(source).__name__} announces no changes: it has no method on_tools_changed")
        return stop


def names_for_models(aliases: Mapping[str, str]) -> dict[str, str]:
    """Return a unique name that models accept for each tool, from the alias that it would have.

    An alias that models accept stays, whatever the order.
    """
    free = {alias for alias in aliases.values() if _MODEL_NAME.fullmatch(alias)}
    taken = set(free)
    names = {}
    for name, alias in aliases.items():
        if alias in free:
            free.remove(alias)
        else:
            alias = tool_names.alias(alias if _MODEL_NAME.match(alias) else f"_{alias}", taken)
            taken.add(alias)
        names[name] = alias
    return names


AnySource = ToolSource | SyncWrapper[Any] | BoundSource
"""A source, async or sync."""
