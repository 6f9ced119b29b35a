"""FastMCP: its own client calls a FastMCP server that has the tools of the hub by our provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import fastmcp
from fastmcp.exceptions import McpError, ToolError
from mcp.server import MCPServer as SdkMcpServer

import toolcrib as tc
import toolcrib.sync
from tests.frameworks.driver import Ability, Call, Script, Seen, Transcript
from toolcrib.adapters import fastmcp as adapter
from toolcrib.types import Tool


class FastMcpDriver:
    """Runs a client of FastMCP in place of an agent."""

    package = "fastmcp"
    source: Literal["async"] = "async"
    abilities: frozenset[Ability] = frozenset({"images", "error-flag", "structured", "progress", "cancel", "live"})

    async def run(self, hub: Any, script: Script) -> Transcript:
        """List and call the tools as the script wants."""
        server = fastmcp.FastMCP("front")
        server.add_provider(adapter.provider(hub))
        transcript = Transcript()
        async with fastmcp.Client(server) as client:
            for turn in range(len(script.turns) + 1):
                tools = await client.list_tools()
                transcript.offered.append([tool.name for tool in tools])
                transcript.schemas.update({tool.name: tool.input_schema for tool in tools})
                await script.prepare(turn)
                if turn < len(script.turns):
                    calls = (_call(client, call, transcript) for call in script.turns[turn])
                    transcript.answers.append(await asyncio.gather(*calls))
        transcript.final = "done"
        return transcript


async def _call(client: Any, call: Call, transcript: Transcript) -> Seen:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        transcript.progress.append((progress, total, message))

    try:
        result = await client.call_tool(call.name, call.arguments, raise_on_error=False, progress_handler=report)
    except (McpError, ToolError) as exc:  # an unknown tool
        return Seen(str(exc), is_error=True)
    texts = [block.text if block.type == "text" else block.model_dump_json() for block in result.content]
    images = [block.mime_type for block in result.content if block.type == "image"]
    return Seen("\n".join(texts), result.is_error, images, result.structured_content)


driver = FastMcpDriver()


# ---- a FastMCP server as a source ----------------------------------------------------------------------------------


def _server(waiting: asyncio.Event, cancelled: asyncio.Event) -> fastmcp.FastMCP:
    """Return a server with a lifespan, to see that each client gets one that was started."""

    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"started": True}

    server = fastmcp.FastMCP("library", lifespan=lifespan)

    @server.tool
    async def find(title: str, context: fastmcp.Context) -> dict[str, Any]:
        """Find a book."""
        await context.report_progress(1, 2, "looking")
        return {"title": title, "started": context.request_context.lifespan_context.get("started")}

    @server.tool
    async def wait(context: fastmcp.Context) -> str:
        """Wait until the call is cancelled."""
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    @server.resource("library://rules")
    def rules() -> str:
        return "be quiet"

    return server


async def a_fastmcp_server_is_a_source_of_a_client(_: FastMcpDriver) -> None:
    waiting, cancelled = asyncio.Event(), asyncio.Event()
    server = _server(waiting, cancelled)
    reports: list[Any] = []
    async with tc.Client(server) as client:
        assert client.name == "library"
        assert {tool.name for tool in await client.list_tools()} == {"find", "wait"}
        result = await client.call_tool("find", {"title": "Emma"}, on_progress=lambda *report: reports.append(report))
        assert result.data == {"title": "Emma", "started": True}
        assert reports == [(1.0, 2.0, "looking")]
        assert (await client.read_resource("library://rules")).text == "be quiet"
        call = asyncio.create_task(client.call_tool("wait"))
        await asyncio.wait_for(waiting.wait(), 10)
        call.cancel()
        await asyncio.wait_for(cancelled.wait(), 10)


async def a_fastmcp_server_is_a_server_of_a_hub(_: FastMcpDriver) -> None:
    server = _server(asyncio.Event(), asyncio.Event())
    async with tc.Hub({"books": server, "more": server}) as hub:
        names = {tool.name for tool in await hub.list_tools()}
        assert names == {"mcp__books__find", "mcp__books__wait", "mcp__more__find", "mcp__more__wait"}
        assert (await hub.call_tool("mcp__more__find", {"title": "Emma"})).data["title"] == "Emma"


async def a_server_of_the_sdk_is_a_source(_: FastMcpDriver) -> None:
    server = SdkMcpServer("plain")

    @server.tool()
    def double(x: int) -> int:
        return 2 * x

    async with tc.Client(server) as client:
        assert (await client.call_tool("double", {"x": 4})).data == {"result": 8}
    async with tc.Client(server._lowlevel_server) as client:
        assert (await client.call_tool("double", {"x": 5})).data == {"result": 10}


# ---- the provider --------------------------------------------------------------------------------------------------


async def results_keep_their_wire_form(_: FastMcpDriver) -> None:
    """Structured data that is not an object, content of an unknown type, `_meta`, annotations and titles."""
    lab = tc.ToolServer("lab")

    @lab.tool(title="Many", annotations={"readOnlyHint": True}, meta={"dev.example/x": 1})
    def many() -> list[int]:
        return [1, 2]

    async with tc.Hub({"lab": lab}) as hub:
        server = fastmcp.FastMCP("front", providers=[adapter.provider(hub)])
        async with fastmcp.Client(server) as client:
            (tool,) = await client.list_tools()
            assert (tool.name, tool.title, tool.annotations.read_only_hint) == ("mcp__lab__many", "Many", True)
            assert tool.meta["dev.example/x"] == 1
            assert (await client.call_tool("mcp__lab__many")).data == [1, 2]
        async with tc.Client(server) as ours:  # there and back
            assert (await ours.call_tool("mcp__lab__many")).data == [1, 2]


async def content_of_an_unknown_type_becomes_text(_: FastMcpDriver) -> None:
    class Source:
        async def list_tools(self) -> list[Tool]:
            return [Tool("odd", input_schema={"type": "object"}, output_schema={"type": "array"})]

        async def call_tool(self, name: str, arguments: Any, **options: Any) -> tc.ToolResult:
            content = [{"type": "hologram", "x": 1}, {"type": "text", "text": "and text"}]
            return tc.ToolResult({"content": content, "structuredContent": [1, 2]})

    server = fastmcp.FastMCP("front", providers=[adapter.provider(Source())])
    async with fastmcp.Client(server) as client:
        result = await client.call_tool("odd")
        assert [json.loads(result.content[0].text), result.content[1].text] == [
            {"type": "hologram", "x": 1},
            "and text",
        ]
        assert result.structured_content == {"result": [1, 2]} and result.data == [1, 2]


async def a_sync_hub_can_be_mounted(_: FastMcpDriver) -> None:
    lab = tc.ToolServer("lab")
    lab.add_tool(lambda: "hello", name="hello")
    hub = toolcrib.sync.Hub({"lab": lab})
    await asyncio.to_thread(hub.__enter__)
    try:
        server = fastmcp.FastMCP("front", providers=[adapter.provider(hub)])
        async with fastmcp.Client(server) as client:
            assert (await client.call_tool("mcp__lab__hello")).content[0].text == "hello"
    finally:
        await asyncio.to_thread(hub.__exit__, None, None, None)


async def a_namespace_and_own_tools_go_together(_: FastMcpDriver) -> None:
    lab = tc.ToolServer("lab")
    lab.add_tool(lambda: "hello", name="hello")
    async with tc.Hub({"lab": lab}) as hub:
        server = fastmcp.FastMCP("front")
        server.add_provider(adapter.provider(hub), namespace="hub")

        @server.tool
        def own() -> str:
            return "own"

        async with fastmcp.Client(server) as client:
            assert {tool.name for tool in await client.list_tools()} == {"own", "hub_mcp__lab__hello"}
            assert (await client.call_tool("hub_mcp__lab__hello")).content[0].text == "hello"


extra_cases = {
    case.__name__: case
    for case in (
        a_fastmcp_server_is_a_source_of_a_client,
        a_fastmcp_server_is_a_server_of_a_hub,
        a_server_of_the_sdk_is_a_source,
        results_keep_their_wire_form,
        content_of_an_unknown_type_becomes_text,
        a_sync_hub_can_be_mounted,
        a_namespace_and_own_tools_go_together,
    )
}
