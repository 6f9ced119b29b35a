"""Measures many in-process servers behind one hub: start, list, search, call. Prints seconds as one line of JSON.

The library is an argument and must be installed for the interpreter. Calls through the hub take turns with calls of the
same tool by a client of its server alone: the difference is the overhead of the hub.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent))
import fleet
from tool_servers import add

Way = Callable[[], Awaitable[Any]]
BATCH = 20
SHARES = (8, 4, 2, 1)
"""Starts are measured with an eighth, a quarter, half and all of the servers."""
QUERY = "create an issue"
LONG_QUERY = "export every invoice of a customer project"


class Make(NamedTuple):
    """Functions of a library that make a tool, make a server, and open many servers, which yields the operations."""

    tool: Callable[[fleet.Described], Any]
    server: Callable[[str, list[Any]], Any]
    together: Callable[[dict[str, Any]], AbstractAsyncContextManager[dict[str, Way]]]


# ---- the libraries -------------------------------------------------------------------------------------------


def toolcrib_tool(described: fleet.Described) -> Any:
    from toolcrib import tool

    @tool(name=described.name, description=described.description, input_schema=described.schema)
    async def nothing(arguments: dict[str, Any]) -> None: ...

    return nothing


def toolcrib_server(name: str, tools: list[Any]) -> Any:
    from toolcrib import ToolServer

    server = ToolServer(name, version="1")
    for tool in (add, *tools):
        server.add_tool(tool)
    return server


@asynccontextmanager
async def toolcrib(servers: dict[str, Any]) -> AsyncIterator[dict[str, Way]]:
    from toolcrib import Client, Hub

    name, server = next(iter(servers.items()))
    async with Hub(servers) as hub, Client(server) as client:

        async def call() -> Any:
            return (await hub.call_tool(f"mcp__{name}__add", {"a": 2, "b": 3})).data

        async def bare() -> Any:
            return (await client.call_tool("add", {"a": 2, "b": 3})).data

        yield {
            "list": hub.list_tools,
            "call": call,
            "bare": bare,
            "search": lambda: hub.search_tools(QUERY),
            "long_search": lambda: hub.search_tools(LONG_QUERY),
        }


def sdk_tool(described: fleet.Described) -> Any:
    from mcp.server.mcpserver.tools import Tool

    return renamed(Tool.from_function(add), described)


def sdk_server(name: str, tools: list[Any]) -> Any:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer(name, version="1", log_level="ERROR", tools=tools)
    server.add_tool(add)
    return server


@asynccontextmanager
async def sdk(servers: dict[str, Any]) -> AsyncIterator[dict[str, Way]]:
    """Open a `ClientSessionGroup`, which connects to one server after the other and keeps the tools in a dict."""
    from mcp import Client
    from mcp.client.session_group import ClientSessionGroup

    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(
            ClientSessionGroup(component_name_hook=lambda tool, info: f"{info.name}__{tool}")
        )
        clients = []
        for server in servers.values():
            client = await stack.enter_async_context(Client(server))
            await group.connect_with_session(client.server_info, client.session)
            clients.append(client)

        async def list_tools() -> Any:
            return list(group.tools.values())

        async def call() -> Any:
            found = await group.call_tool(f"{next(iter(servers))}__add", {"a": 2, "b": 3})
            return found.structured_content["result"]

        async def bare() -> Any:
            return (await clients[0].call_tool("add", {"a": 2, "b": 3})).structured_content["result"]

        yield {"list": list_tools, "call": call, "bare": bare}


def fastmcp_tool(described: fleet.Described) -> Any:
    from fastmcp.tools import Tool

    return renamed(Tool.from_function(add), described)


def fastmcp_server(name: str, tools: list[Any]) -> Any:
    from fastmcp import FastMCP

    server = FastMCP(name, version="1")
    server.tool(add)
    for tool in tools:
        server.add_tool(tool)
    return server


@asynccontextmanager
async def fastmcp(servers: dict[str, Any]) -> AsyncIterator[dict[str, Way]]:
    """Mount the servers on a router server, as FastMCP recommends for servers in one process."""
    from fastmcp import Client, FastMCP

    router = FastMCP("router")
    for name, server in servers.items():
        router.mount(server, namespace=name)
    name, server = next(iter(servers.items()))
    async with Client(router) as client, Client(server) as alone:

        async def call() -> Any:
            return (await client.call_tool(f"{name}_add", {"a": 2, "b": 3})).data

        async def bare() -> Any:
            return (await alone.call_tool("add", {"a": 2, "b": 3})).data

        yield {"list": client.list_tools, "call": call, "bare": bare}


def renamed(tool: Any, described: fleet.Described) -> Any:
    """Return a copy of a pydantic tool with another name and schema; the copies are never called."""
    return tool.model_copy(
        update={"name": described.name, "description": described.description, "parameters": described.schema}
    )


MAKES = {
    "toolcrib": Make(toolcrib_tool, toolcrib_server, toolcrib),
    "sdk": Make(sdk_tool, sdk_server, sdk),
    "fastmcp": Make(fastmcp_tool, fastmcp_server, fastmcp),
}


# ---- the measurement -----------------------------------------------------------------------------------------


async def started(make: Make, servers: dict[str, Any], tools: int) -> float:
    """Return the seconds from the start to the first list of all tools."""
    gc.collect()
    start = perf_counter()
    async with make.together(servers) as ways:
        listed = await ways["list"]()
        taken = perf_counter() - start
    if len(listed) != len(servers) * tools:
        raise AssertionError(f"{len(listed)} tools of {len(servers)} servers")
    return taken


async def repeated(way: Way, times: int) -> float:
    start = perf_counter()
    for _ in range(times):
        await way()
    return (perf_counter() - start) / times


async def used(make: Make, servers: dict[str, Any], seconds: float, warm_up: int) -> dict[str, Any]:
    """Return operation -> median seconds of batches, with the operations in turn, and the time of the first search."""
    async with make.together(servers) as ways:
        found = {}
        if "search" in ways:
            found["first_search"] = await repeated(ways["search"], 1)
            if not await ways["search"]() or not await ways["long_search"]():
                raise AssertionError("the search found no tools")
        for way in ("call", "bare"):
            if await ways[way]() != 5:
                raise AssertionError("2 + 3 is 5")
            await repeated(ways[way], warm_up)
        gc.collect()
        taken: dict[str, list[float]] = {name: [] for name in ways}
        end = perf_counter() + seconds * len(ways)
        while perf_counter() < end or not all(taken.values()):
            for name, way in ways.items():
                taken[name].append(await repeated(way, BATCH if name in ("call", "bare") else 1))
    return found | {name: statistics.median(times) for name, times in taken.items()}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    make = MAKES[options.make]
    tools = [make.tool(described) for described in fleet.every_tool()]
    offered = fleet.servers(options.servers, tools, options.tools - 1)
    servers = {name: make.server(name, its_tools) for name, its_tools in offered.items()}
    # The servers are in this process only for the measurement: the garbage collector must not scan them in the starts.
    gc.collect()
    gc.freeze()
    counts = [max(options.servers // share, 1) for share in SHARES]
    starts = {}
    for count in (1, *counts):  # the extra first start pays for everything that is created once per process
        starts[count] = await started(make, dict(list(servers.items())[:count]), options.tools)
    figures = {"starts": {count: starts[count] for count in counts}}
    return figures | await used(make, servers, options.seconds, options.warm_up)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("make", choices=MAKES)
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--tools", type=int, default=50, help="tools per server, including the one that is called")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each operation")
    parser.add_argument("--warm-up", type=int, default=200, help="calls before the measurement")
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))
