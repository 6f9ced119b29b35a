"""Measures `add(2, 3)` with client and server in one process. Prints seconds per call as one line of JSON.

The library is an argument and must be installed for the interpreter. A call is complete when the sum was read.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))
import tool_servers

Call = Callable[[], Awaitable[int]]
BATCH = 20


@asynccontextmanager
async def toolcrib() -> AsyncIterator[dict[str, Call]]:
    from toolcrib import Client

    server = tool_servers.toolcrib()
    async with Client(server, mode="auto") as modern, Client(server, mode="legacy") as legacy:

        def calling(client: Client, name: str) -> Call:
            async def call() -> int:
                found: int = (await client.call_tool(name, {"a": 2, "b": 3})).data
                return found

            return call

        yield {
            "auto": calling(modern, "add"),
            "legacy": calling(legacy, "add"),
            "context": calling(modern, "add_in_context"),
            "thread": calling(modern, "add_in_thread"),
        }


@asynccontextmanager
async def sdk() -> AsyncIterator[dict[str, Call]]:
    from mcp import Client

    server = tool_servers.sdk()
    async with Client(server, mode="auto") as modern, Client(server, mode="legacy") as legacy:

        def calling(client: Client) -> Call:
            async def call() -> int:
                found: int = (await client.call_tool("add", {"a": 2, "b": 3})).structured_content["result"]
                return found

            return call

        yield {"auto": calling(modern), "legacy": calling(legacy)}


@asynccontextmanager
async def sdk1() -> AsyncIterator[dict[str, Call]]:
    from mcp.shared.memory import create_connected_server_and_client_session

    async with create_connected_server_and_client_session(tool_servers.sdk1()) as client:

        async def call() -> int:
            found: int = (await client.call_tool("add", {"a": 2, "b": 3})).structuredContent["result"]
            return found

        yield {"legacy": call}


@asynccontextmanager
async def fastmcp() -> AsyncIterator[dict[str, Call]]:
    from fastmcp import Client

    server = tool_servers.fastmcp()
    async with Client(server, mode="auto") as modern, Client(server, mode="legacy") as legacy:

        def calling(client: Client) -> Call:
            async def call() -> int:
                found: int = (await client.call_tool("add", {"a": 2, "b": 3})).data
                return found

            return call

        yield {"auto": calling(modern), "legacy": calling(legacy)}


@asynccontextmanager
async def plain() -> AsyncIterator[dict[str, Call]]:
    """Call the function itself, with pydantic checking arguments and return value: the lower bound."""
    from pydantic import validate_call

    checked = validate_call(validate_return=True)(tool_servers.add)

    async def call() -> int:
        found: int = await checked(**{"a": 2, "b": 3})  # noqa: PIE804  # as in a request, arguments are a dict
        return found

    yield {"auto": call}


MAKES = {"toolcrib": toolcrib, "sdk": sdk, "sdk1": sdk1, "fastmcp": fastmcp, "plain": plain}


async def repeated(call: Call, calls: int) -> float:
    """Return the mean time of `calls` calls."""
    start = perf_counter()
    for _ in range(calls):
        if await call() != 5:
            raise AssertionError("2 + 3 is 5")
    return (perf_counter() - start) / calls


async def measure(make: str, seconds: float, warm_up: int) -> dict[str, Any]:
    """Return way of calling -> seconds per call: the median of batches, with the ways in turn."""
    async with MAKES[make]() as ways:
        for call in ways.values():
            await repeated(call, warm_up)
        gc.collect()
        taken: dict[str, list[float]] = {name: [] for name in ways}
        end = perf_counter() + seconds * len(ways)
        while perf_counter() < end or not all(taken.values()):
            for name, call in ways.items():
                taken[name].append(await repeated(call, BATCH))
    return {name: statistics.median(times) for name, times in taken.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("make", choices=MAKES)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each way of calling")
    parser.add_argument("--warm-up", type=int, default=200, help="calls before the measurement")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.make, options.seconds, options.warm_up))))
