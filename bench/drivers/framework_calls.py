"""Measures one tool of a framework, made by Toolcrib's adapter and by the framework's own MCP client.

The framework is an argument and must be installed for the interpreter. Both sides use the same kind of server, their
default options, and the method of the native tool that the framework calls; no model runs. Prints seconds as one line
of JSON. A way that starts a server for every call has batches of one call; processor time is without that server.

To add a framework: write a function that yields its ways, add it to FRAMEWORKS, and its environment to FRAMEWORKS in
`bench/adapters.py`.
"""

import asyncio
import json
import os
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

from batches import Call, Way, make_parser, on_this_loop, take_turns
from measure import BENCH, ECHO_SERVER, Child, keep_apart

import toolcrib
from toolcrib import Hub, StdioServer

OURS, SYNC, THEIRS, FRESH = "toolcrib", "toolcrib, sync hub", "own client", "own client, a server per call"


class Side(NamedTuple):
    """The tools of one side: `list_tools` makes native tools of what the server has now."""

    list_tools: Callable[[], Awaitable[Any]]
    call: Call
    batch: int = 50
    wide: bool = True


Sides = dict[str, Side]


def hub_of(server: Child) -> Hub:
    return Hub({"bench": StdioServer(server.command, server.args)})


def sync_hub_of(server: Child) -> Any:
    return toolcrib.sync.Hub({"bench": StdioServer(server.command, server.args)})


# ---- the frameworks ------------------------------------------------------------------------------------------


@asynccontextmanager
async def strands(server: Child) -> AsyncIterator[Sides]:
    """Open the adapter on this loop, with a sync hub, and `MCPClient`, whose session has a thread of its own."""
    from mcp import StdioServerParameters, stdio_client
    from strands.tools.mcp import MCPClient

    from toolcrib.adapters import strands

    def calling(tool: Any) -> Call:
        async def call(text: str) -> str:
            use = {"toolUseId": "1", "name": tool.tool_name, "input": {"text": text}}
            async for event in tool.stream(use, {}):
                last = event
            return str(last["tool_result"]["content"][0]["text"])

        return call

    def make_transport() -> Any:
        return stdio_client(StdioServerParameters(command=server.command, args=server.args))

    async with hub_of(server) as hub:
        with sync_hub_of(server) as sync_hub, MCPClient(make_transport) as client:

            async def list_ours() -> Any:
                return strands.tools(hub)

            async def list_sync() -> Any:
                return strands.tools(sync_hub)

            async def list_theirs() -> Any:
                return client.list_tools_sync()

            await hub.list_tools()
            lists = {OURS: list_ours, SYNC: list_sync, THEIRS: list_theirs}
            yield {name: Side(each, calling((await each())[0])) for name, each in lists.items()}


@asynccontextmanager
async def pydantic_ai(server: Child) -> AsyncIterator[Sides]:
    """Open toolsets: the adapter's, and `MCPToolset`."""
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import RunContext, RunUsage
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.test import TestModel

    from toolcrib.adapters import pydantic_ai

    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage(), max_retries=1)

    async def side_of(toolset: Any) -> Side:
        async def list_tools() -> Any:
            return await toolset.get_tools(context)

        name, tool = next(iter((await list_tools()).items()))

        async def call(text: str) -> str:
            answer = await toolset.call_tool(name, {"text": text}, context, tool)
            return str(getattr(answer, "return_value", answer))

        return Side(list_tools, call)

    transport = StdioTransport(server.command, server.args, keep_alive=False)
    async with hub_of(server) as hub, MCPToolset(transport) as theirs:
        yield {OURS: await side_of(pydantic_ai.toolset(hub)), THEIRS: await side_of(theirs)}


@asynccontextmanager
async def langchain(server: Child) -> AsyncIterator[Sides]:
    """Open the adapter, and langchain-mcp-adapters with a session that is kept, and without one."""
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    from toolcrib.adapters import langchain

    def calling(tool: Any) -> Call:
        async def call(text: str) -> str:
            answer: Any = await tool.ainvoke({"text": text})
            return answer if isinstance(answer, str) else str(answer[0]["text"])

        return call

    client = MultiServerMCPClient({"bench": {"transport": "stdio", "command": server.command, "args": server.args}})
    async with hub_of(server) as hub, client.session("bench") as session:

        async def list_ours() -> Any:
            return langchain.tools(hub)

        async def list_theirs() -> Any:
            return await load_mcp_tools(session)

        await hub.list_tools()
        yield {
            OURS: Side(list_ours, calling((await list_ours())[0])),
            THEIRS: Side(list_theirs, calling((await list_theirs())[0])),
            FRESH: Side(client.get_tools, calling((await client.get_tools())[0]), 1, wide=False),
        }


@asynccontextmanager
async def openai_agents(server: Child) -> AsyncIterator[Sides]:
    """Open function tools: the adapter's, and those of `MCPServerStdio`."""
    from agents import Agent, RunContextWrapper, set_tracing_disabled
    from agents.mcp import MCPServerStdio, MCPUtil
    from agents.tool_context import ToolContext

    from toolcrib.adapters import openai_agents

    set_tracing_disabled(True)
    agent: Any = Agent(name="bench")

    def calling(tool: Any) -> Call:
        async def call(text: str) -> str:
            arguments = json.dumps({"text": text})
            context = ToolContext(None, tool_name=tool.name, tool_call_id="1", tool_arguments=arguments)
            answer = await tool.on_invoke_tool(context, arguments)
            return answer if isinstance(answer, str) else str(answer["text"])

        return call

    async with hub_of(server) as hub, MCPServerStdio({"command": server.command, "args": server.args}) as theirs:

        async def list_ours() -> Any:
            return openai_agents.tools(hub)

        async def list_theirs() -> Any:
            return await MCPUtil.get_function_tools(theirs, False, RunContextWrapper(None), agent)

        await hub.list_tools()
        yield {
            OURS: Side(list_ours, calling((await list_ours())[0])),
            THEIRS: Side(list_theirs, calling((await list_theirs())[0])),
        }


@asynccontextmanager
async def fastmcp(server: Child) -> AsyncIterator[Sides]:
    """Open FastMCP servers that offer the tools of the server: with the adapter's provider, and as FastMCP's proxy.

    Both are called by FastMCP's client in this process.
    """
    from fastmcp import Client, FastMCP
    from fastmcp.client.transports import StdioTransport
    from fastmcp.server import create_proxy

    from toolcrib.adapters import fastmcp

    async def side_of(client: Any) -> Side:
        name = (await client.list_tools())[0].name

        async def call(text: str) -> str:
            return str((await client.call_tool(name, {"text": text})).content[0].text)

        return Side(client.list_tools, call)

    async with hub_of(server) as hub, Client(StdioTransport(server.command, server.args, keep_alive=False)) as below:
        front: Any = FastMCP("front")
        front.add_provider(fastmcp.provider(hub))
        async with Client(front) as ours, Client(create_proxy(below)) as theirs:
            yield {OURS: await side_of(ours), THEIRS: await side_of(theirs)}


@asynccontextmanager
async def crewai(server: Child) -> AsyncIterator[Sides]:
    """Open the adapter with a sync hub, and what `Agent(mcps=[...])` makes: a server per call."""
    os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    from crewai.mcp import MCPServerStdio
    from crewai.mcp.tool_resolver import MCPToolResolver
    from crewai.utilities.logger import Logger

    from toolcrib.adapters import crewai

    def calling(tool: Any) -> Call:
        async def call(text: str) -> str:
            return str(tool.run(text=text))

        return call

    config = MCPServerStdio(command=server.command, args=server.args)
    with sync_hub_of(server) as hub:

        async def list_ours() -> Any:
            return crewai.tools(hub)

        async def list_theirs() -> Any:
            return MCPToolResolver(None, Logger(verbose=False)).resolve([config])

        yield {
            OURS: Side(list_ours, calling((await list_ours())[0]), wide=False),
            FRESH: Side(list_theirs, calling((await list_theirs())[0]), 1, wide=False),
        }


FRAMEWORKS: dict[str, Callable[[Child], AbstractAsyncContextManager[Sides]]] = {
    "strands": strands,
    "pydantic_ai": pydantic_ai,
    "langchain": langchain,
    "openai_agents": openai_agents,
    "fastmcp": fastmcp,
    "crewai": crewai,
}


# ---- the measurement -----------------------------------------------------------------------------------------


def listing(side: Side, count: int) -> Way:
    async def list_tools(text: str) -> str:
        found = len(await side.list_tools())
        if found != count:
            raise AssertionError(f"expected {count} tools, got {found}")
        return text

    return on_this_loop(list_tools, 1 if side.batch == 1 else 5)


async def measure(options: Namespace) -> dict[str, Any]:
    """Return one call at a time, many in flight, and lists -> way -> figures."""
    placed, python, seconds = keep_apart(options), options.server_python, options.seconds
    open_sides = FRAMEWORKS[options.framework]
    figures = {}
    async with open_sides(Child(python, [ECHO_SERVER], "auto")) as sides:
        ways = {name: on_this_loop(side.call, side.batch) for name, side in sides.items()}
        figures["sequential"] = await take_turns(ways, seconds, options.warm_up)
    async with open_sides(Child(python, [ECHO_SERVER, *placed], "auto")) as sides:
        ways = {name: on_this_loop(side.call) for name, side in sides.items() if side.wide}
        figures["in_flight"] = await take_turns(ways, seconds / 2, options.warm_up, options.in_flight)
    many = [str(BENCH / "tools_server.py"), str(options.tools), os.devnull]
    async with open_sides(Child(python, many, "auto")) as sides:
        ways = {name: listing(side, options.tools) for name, side in sides.items()}
        figures["list"] = await take_turns(ways, seconds / 2, 5)
    return figures


if __name__ == "__main__":
    parser = make_parser()
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("--tools", type=int, default=50, help="tools of the server whose list is measured")
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))
