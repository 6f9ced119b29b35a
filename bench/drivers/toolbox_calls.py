"""Measures calls through an adapter against the client below it. Prints seconds as one line of JSON.

The library is an argument and must be installed for the interpreter. All ways of calling take turns in short batches on
the same server, so that noise affects all of them: the difference to the way `below` is the overhead. Processor time is
that of this process alone, and the minimum is that of the quietest batch.

To add a peer, an agent framework's own MCP client for example: write a function that yields its ways of calling, with
the name `below` for the client that it is built on, add it to MAKES, and its environment to PEERS in
`bench/adapters.py`.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter, process_time
from typing import Any

from measure import ECHO_SERVER, Child, Session, checked

BATCH = 50

Ways = dict[str, Session]


# ---- the libraries -------------------------------------------------------------------------------------------


@asynccontextmanager
async def toolcrib(server: Child) -> AsyncIterator[Ways]:
    from toolcrib import Hub, StdioServer
    from toolcrib.adapters import Toolbox

    async with Hub({"bench": StdioServer(server.command, server.args)}) as hub:
        box = await Toolbox.load(hub)
        (spec,) = box.tools()

        async def below(text: str) -> str:
            return (await hub.call_tool(spec.name, {"text": text})).text

        async def call(text: str) -> str:
            return (await box.call(spec.name, {"text": text})).text

        async def call_with_json(text: str) -> str:
            return (await box.call(spec.name, json.dumps({"text": text}))).text

        ways = {"below": below, "toolbox": call, "toolbox_json": call_with_json}
        yield {name: Session(hub.list_tools, way) for name, way in ways.items()}


@asynccontextmanager
async def langchain_mcp_adapters(server: Child) -> AsyncIterator[Ways]:
    """Open a session of the SDK, and the tools that the adapters make of it."""
    from langchain_mcp_adapters.tools import load_mcp_tools
    from mcp import ClientSession, StdioServerParameters, stdio_client

    parameters = StdioServerParameters(command=server.command, args=server.args)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        (tool,) = await load_mcp_tools(session)

        async def below(text: str) -> str:
            answer: Any = (await session.call_tool("echo", {"text": text})).content[0]
            return str(answer.text)

        async def call(text: str) -> str:
            answer: Any = await tool.ainvoke({"text": text})
            return answer if isinstance(answer, str) else str(answer[0]["text"])

        yield {"below": Session(session.list_tools, below), "toolbox": Session(session.list_tools, call)}


@asynccontextmanager
async def toolcrib_langchain(server: Child) -> AsyncIterator[Ways]:
    """Open the tools that Toolcrib's adapter makes for the same framework."""
    from toolcrib import Hub, StdioServer
    from toolcrib.adapters import langchain

    async with Hub({"bench": StdioServer(server.command, server.args)}) as hub:
        (tool,) = langchain.tools(hub)

        async def below(text: str) -> str:
            return (await hub.call_tool("mcp__bench__echo", {"text": text})).text

        async def call(text: str) -> str:
            return str(await tool.ainvoke({"text": text}))

        yield {"below": Session(hub.list_tools, below), "toolbox": Session(hub.list_tools, call)}


MAKES = {
    "toolcrib": toolcrib,
    "langchain-mcp-adapters": langchain_mcp_adapters,
    "toolcrib-langchain": toolcrib_langchain,
}


# ---- the measurement -----------------------------------------------------------------------------------------


async def repeated(session: Session, times: int) -> tuple[float, float]:
    """Return the wall time and the processor time per call."""
    start, cpu_start = perf_counter(), process_time()
    for number in range(times):
        await checked(session, f"call {number}")
    return (perf_counter() - start) / times, (process_time() - cpu_start) / times


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return way -> median and minimum of its batches, in wall time and processor time."""
    async with MAKES[options.make](Child(options.server_python, [ECHO_SERVER], "auto")) as ways:
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for session in ways.values():
            await repeated(session, options.warm_up)
        gc.collect()
        end = perf_counter() + options.seconds * len(taken)
        while perf_counter() < end or not all(taken.values()):
            for name, session in ways.items():
                taken[name].append(await repeated(session, BATCH))
    figures = {}
    for name, batches in taken.items():
        walls, cpus = zip(*batches, strict=True)
        figures[name] = {
            "wall": statistics.median(walls),
            "cpu": statistics.median(cpus),
            "min_wall": min(walls),
            "min_cpu": min(cpus),
        }
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("make", choices=MAKES)
    parser.add_argument("--server-python", default=sys.executable, help="interpreter that runs the server")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a measurement")
    parser.add_argument("--warm-up", type=int, default=500, help="calls that are not measured")
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))
