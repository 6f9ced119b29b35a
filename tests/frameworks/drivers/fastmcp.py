"""FastMCP: its own client calls a FastMCP server that has the tools of the hub by our provider."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import fastmcp
from fastmcp.exceptions import McpError, ToolError

from tests.frameworks.driver import Ability, Call, Script, Seen, Transcript
from toolcrib.adapters import fastmcp as adapter


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
