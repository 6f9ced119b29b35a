"""The live form of LangChain's tools: a middleware that lists them before each call of the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from .run_tools import RunTools
from .toolbox import Toolbox, ToolSpec

try:
    from langchain.agents.middleware import AgentMiddleware
except ImportError as exc:
    raise ImportError("the middleware needs LangChain 1.0 or later: pip install -U langchain") from exc


class LiveTools(AgentMiddleware):  # type: ignore[misc]  # LangChain is not installed where types are checked
    """A middleware that offers the tools of a toolbox in addition to those of the agent."""

    def __init__(self, box: Toolbox, make_tool: Callable[[Toolbox, ToolSpec], Any]) -> None:
        super().__init__()
        self.tools: list[Any] = []
        self._box = box
        self._run_tools = RunTools(box)
        self._make_tool = make_tool
        self._by_name: dict[str, Any] = {}

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Offer the tools of this moment to the model."""
        return handler(self._with_tools(request, self._run_tools.tools()))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Offer the tools of this moment to the model."""
        return await handler(self._with_tools(request, await self._run_tools.list_tools()))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Let the graph run a tool of the toolbox."""
        return handler(self._with_tool(request))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Let the graph run a tool of the toolbox."""
        return await handler(self._with_tool(request))

    def _with_tools(self, request: Any, specs: Iterable[ToolSpec]) -> Any:
        self._by_name = {spec.name: self._make_tool(self._box, spec) for spec in specs}
        return request.override(tools=[*request.tools, *self._by_name.values()])

    def _with_tool(self, request: Any) -> Any:
        tool = self._by_name.get(request.tool_call["name"])
        return request if tool is None or request.tool is not None else request.override(tool=tool)
