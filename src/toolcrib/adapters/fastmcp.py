"""The tools of a hub in a FastMCP server.

    from fastmcp import FastMCP
    from toolcrib.adapters import fastmcp

    async with Hub.from_config(".mcp.json") as hub:
        server = FastMCP("front")
        server.add_provider(fastmcp.provider(hub))
        await server.run_async()

The other direction needs no adapter: `Client(server)` and `Hub({"name": server})` accept a FastMCP server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from ..types import Tool as McpTool
from ..types import UnknownContent, Wire
from .answers import ToolAnswer
from .run_tools import RunTools
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.providers import Provider
    from fastmcp.tools.base import Tool, ToolResult
    from mcp_types import CallToolResult, ToolAnnotations
    from pydantic import Field
except ImportError as exc:
    raise ImportError(
        "toolcrib.adapters.fastmcp: expected fastmcp 4 or later. Install it with `pip install -U 'fastmcp>=4'`"
    ) from exc


def provider(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> ToolboxProvider:
    """Return a provider for `FastMCP(providers=[...])` or `server.add_provider(...)`.

    It is live: the server lists the tools that the source has at that moment. Results keep their wire form, with
    structured data, images and errors; progress is reported to the client, and a cancelled request cancels the call.
    """
    return ToolboxProvider(as_toolbox(source, **options))


class ToolboxProvider(Provider):
    """A provider of FastMCP with the tools of a toolbox."""

    def __init__(self, box: Toolbox) -> None:
        super().__init__()
        self._tools = RunTools(box)
        self._listed: dict[str, Tool] = {}

    async def _list_tools(self) -> Sequence[Tool]:
        self._listed = {spec.name: _make_tool(self._tools.box, spec) for spec in await self._tools.list_tools()}
        return list(self._listed.values())

    async def _get_tool(self, name: str, version: Any = None) -> Tool | None:  # noqa: ARG002  # tools have no versions
        # A tool that was removed since, or whose hub is closed, is called as well: the answer says what is wrong.
        if name not in self._listed:
            await self._list_tools()
        return self._listed.get(name)


class ToolboxTool(Tool):
    """A tool of FastMCP that calls a tool of a toolbox."""

    box: Any = Field(exclude=True, repr=False)
    source_name: str = Field(exclude=True)
    """The name in the toolbox; transforms of FastMCP, such as a namespace, change `name`."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool."""
        context = get_context()

        async def report(progress: float, total: float | None, message: str | None) -> None:
            await context.report_progress(progress, total, message)

        answer = await self.box.call(self.source_name, arguments, on_progress=report)
        return ToolResult.from_mcp_result(CallToolResult.model_validate(_wire_result(answer)))


def _make_tool(box: Toolbox, spec: ToolSpec) -> ToolboxTool:
    return ToolboxTool(
        box=box,
        source_name=spec.name,
        name=spec.name,
        title=spec.tool.title,
        description=spec.description,
        parameters=spec.input_schema,
        output_schema=_output_schema(spec.tool),
        annotations=ToolAnnotations.model_validate(spec.tool.annotations) if spec.tool.annotations else None,
        meta=dict(spec.tool.meta) or None,
    )


def _output_schema(tool: McpTool) -> Wire | None:
    """Return the output schema; one that is not of an object is wrapped, because FastMCP takes only objects."""
    schema = tool.output_schema
    if schema is None or (schema.get("type") == "object" and not tool.wraps_result):
        return schema
    wrapped = (
        schema if tool.wraps_result else {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    )
    return {**wrapped, "x-fastmcp-wrap-result": True}


def _wire_result(answer: ToolAnswer) -> Wire:
    """Return the result as the server sent it, but with text in place of content blocks of an unknown type."""
    if answer.result is None:
        return {"content": [{"type": "text", "text": answer.text}], "isError": True}
    blocks = zip(answer.result.content, answer.parts, strict=False)
    content = [
        {"type": "text", "text": part.text} if isinstance(block, UnknownContent) else block.to_wire()
        for block, part in blocks
    ]
    raw = {**answer.result.raw, "content": content}
    data = answer.result.data
    if data is raw.get("structuredContent") and (data is None or isinstance(data, dict)):
        return raw
    meta = {**answer.result.meta, "fastmcp": {"wrap_result": True}}
    return {**raw, "structuredContent": {"result": data}, "_meta": meta}
