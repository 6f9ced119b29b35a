"""What a toolbox takes its tools from: a hub, a view, a client, or a sync twin of one of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from ..errors import UsageError
from ..sync.portal import portal
from ..sync.wrapper import SyncWrapper
from ..types import Tool, ToolResult
from .home_loop import HomeLoop

R = TypeVar("R")


class ToolSource(Protocol):
    """An async source of tools: `Hub`, `HubView`, `Client`, a provider's view, or an object with these methods."""

    @property
    def list_tools(self) -> Callable[..., Coroutine[Any, Any, list[Tool]]]:
        """Return the tools."""
        ...

    @property
    def call_tool(self) -> Callable[..., Coroutine[Any, Any, ToolResult]]:
        """Call a tool by name with arguments and, as keywords, the options of `Client.call_tool`."""
        ...


class SourceAccess:
    """A source together with the loop that it belongs to."""

    def __init__(self, source: ToolSource | SyncWrapper[Any]) -> None:
        self._wrapper: SyncWrapper[Any] | None = None
        self._source: Any = source
        self._home: HomeLoop | None = None
        if isinstance(source, SyncWrapper):
            self._wrapper = source
        elif not (callable(getattr(source, "list_tools", None)) and callable(getattr(source, "call_tool", None))):
            raise UsageError(
                f"source: expected a Hub, a HubView, a Client, one of toolcrib.sync, or a provider's view, "
                f"got {type(source).__name__}"
            )
        else:
            self._home = HomeLoop.running()

    @property
    def is_sync(self) -> bool:
        """Whether the source is a sync twin."""
        return self._wrapper is not None

    @property
    def source(self) -> Any:
        """The async source. Raises `UsageError` for a sync twin outside its `with` block."""
        return self._source if self._wrapper is None else self._wrapper.async_twin()

    @property
    def home(self) -> HomeLoop:
        """The loop on which the source must be used."""
        return HomeLoop(*portal.home()) if self._home is None else self._home

    async def call_tool(self, name: str, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> ToolResult:
        """Call a tool; runs on the home loop."""
        result: ToolResult = await self.source.call_tool(name, arguments, **options)
        return result

    async def list_tools(self, deferred: bool) -> tuple[list[Tool], frozenset[str]]:
        """Return the tools, and the names of those of them that are deferred; runs on the home loop."""
        source = self.source
        tools: list[Tool] = await source.list_tools()
        if not deferred or not hasattr(source, "search_tools"):
            return tools, frozenset()
        shown = {tool.name for tool in tools}
        everything: list[Tool] = await source.list_tools(deferred=True)
        return everything, frozenset(tool.name for tool in everything if tool.name not in shown)

    def model_name(self, name: str) -> str:
        """Return the source's own alias of a tool's name, if it has aliases; runs on the home loop."""
        alias = getattr(self.source, "alias", None)
        return name if alias is None else str(alias(name))

    def needs_approval(self, name: str) -> bool:
        """Return whether the framework has to ask before this tool is called; runs on the home loop."""
        ask = getattr(self.source, "needs_approval", None)
        return ask is not None and bool(ask(name))


AnySource = ToolSource | SyncWrapper[Any] | SourceAccess
"""A source, async or sync."""
