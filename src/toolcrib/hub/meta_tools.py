"""Two tools by which any model uses deferred tools: one searches and loads what it finds, the other calls.

Their names are not qualified, so they never collide with those of a server's tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

from ..errors import ToolNotFound
from ..protocol import jsonrpc
from ..types import TextContent, Tool, ToolResult

if TYPE_CHECKING:
    from .dispatch import CallOptions

MAX_FOUND: Final = 50
"""Tools that one search returns to a model."""

SEARCH: Final = Tool(
    "search_tools",
    description="Find tools that are not in your list yet, by words that describe what they should do. "
    "Call the tools that it returns by their full names.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words that describe what the tool should do"},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_FOUND,
                "default": 5,
                "description": "Maximum number of tools to return",
            },
        },
        "required": ["query"],
    },
    annotations={"readOnlyHint": True},
)
CALL: Final = Tool(
    "call_tool",
    description="Call a tool that search_tools found.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The tool's full name, as search_tools gave it"},
            "arguments": {"type": "object", "description": "Its arguments, by its input schema"},
        },
        "required": ["name"],
    },
)
META_TOOLS: Final = {tool.name: tool for tool in (SEARCH, CALL)}


class ToolView(Protocol):
    """A view whose tools can be searched and called."""

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> ToolResult:
        """Call a tool of the view."""
        ...

    async def search_tools(
        self, query: str, *, limit: int = 10, token_budget: int | None = None, load: bool = False
    ) -> list[Tool]:
        """Return the tools that match the words best."""
        ...


async def answer(view: ToolView, name: str, arguments: Mapping[str, Any], options: CallOptions) -> ToolResult:
    """Return the result of a call of one of the two. Invalid arguments are reported to the model as an error result."""
    if name == SEARCH.name:
        return await _search(view, arguments.get("query"), arguments.get("limit", 5))
    wanted, given = arguments.get("name"), arguments.get("arguments")
    if not isinstance(wanted, str) or wanted in META_TOOLS:
        return ToolResult.from_error("call_tool needs the name of a tool, as search_tools gave it")
    if given is not None and not isinstance(given, Mapping):
        return ToolResult.from_error("the arguments of call_tool must be an object")
    try:
        return await view.call_tool(wanted, given, **options)
    except ToolNotFound as exc:
        if exc.sent or exc.nearest:
            return ToolResult.from_error(str(exc))
        return ToolResult.from_error(f"there is no tool {wanted!r}; search_tools finds tools by words")


async def _search(view: ToolView, query: Any, limit: Any) -> ToolResult:
    if not isinstance(query, str) or not query.strip():
        return ToolResult.from_error("search_tools needs a query: words that say what the tool should do")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        return ToolResult.from_error("the limit of search_tools must be a whole number from 1 on")
    tools = await view.search_tools(query, limit=min(limit, MAX_FOUND), load=True)
    found = [{"name": t.name, "description": t.description, "input_schema": t.input_schema} for t in tools]
    text = jsonrpc.encode(found).decode() if found else "nothing fits these words; try others"
    return ToolResult.from_blocks([TextContent(text)], data={"tools": found})
