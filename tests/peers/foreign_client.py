"""Runs in a peer's environment: our client over a transport of that environment's `mcp` SDK; prints its observations.

python foreign_client.py SHAPE SERVER_SCRIPT|URL MODE
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import runpy
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp.client.streamable_http as http
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.lowlevel import Server

import toolcrib as tc

Transport = Callable[[], Any]


@asynccontextmanager
async def manager(script: str) -> AsyncIterator[Transport]:
    """Return `stdio_client` unchanged: a context manager of two streams."""
    yield lambda: stdio_client(StdioServerParameters(command=sys.executable, args=[script]))


@asynccontextmanager
async def pair(script: str) -> AsyncIterator[Transport]:
    """Return only the two streams; the caller keeps their context manager."""
    async with stdio_client(StdioServerParameters(command=sys.executable, args=[script])) as streams:
        yield lambda: streams


@asynccontextmanager
async def streamable(url: str) -> AsyncIterator[Transport]:
    """Return the SDK's client for streamable HTTP: a triple under its older name in 1.x, a pair in 2.x."""
    client = getattr(http, "streamablehttp_client", None) or http.streamable_http_client
    yield lambda: client(url)


@asynccontextmanager
async def renamed(url: str) -> AsyncIterator[Transport]:
    """Return the client under its newer name, which 1.x has too."""
    yield lambda: http.streamable_http_client(url)


@asynccontextmanager
async def sse(url: str) -> AsyncIterator[Transport]:
    """Return the SDK's client for HTTP+SSE: a pair."""
    yield lambda: sse_client(url)


@asynccontextmanager
async def in_process(script: str) -> AsyncIterator[Any]:
    """Return the server object of a script."""
    yield runpy.run_path(script)["server"]


@asynccontextmanager
async def broken(_script: str) -> AsyncIterator[Any]:
    """Return a server object that ends when it is run."""

    @asynccontextmanager
    async def lifespan(_server: Any) -> AsyncIterator[None]:
        raise OSError("the database is missing")
        yield

    yield Server("broken", lifespan=lifespan)


SHAPES = {
    "manager": manager,
    "pair": pair,
    "http": streamable,
    "renamed": renamed,
    "sse": sse,
    "in-process": in_process,
    "broken": broken,
}


async def visit(transport: Transport, mode: str) -> dict[str, Any]:
    asked: list[str] = []
    progress: list[float] = []

    def answer(request: tc.ElicitRequest) -> dict[str, Any]:
        asked.append(request.message)
        return {"name": "Ann"}

    async with tc.Client(transport, mode=mode, elicitation_handler=answer) as client:
        assert client.server_info is not None
        seen: dict[str, Any] = {
            "sdk": importlib.metadata.version("mcp"),
            "version": client.server_info.protocol_version,
            "server": client.server_info.name,
            "tools": [tool.name for tool in await client.list_tools()],
            "text": (await client.call_tool("echo", {"text": "grüße"})).text,
            "data": (await client.call_tool("forecast", {"city": "Bonn"})).data,
            "resource": (await client.read_resource("crib://greeting")).text,
        }
        sums = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 1}) for n in range(16)))
        seen["sums"] = [result.text for result in sums]
        await client.call_tool("count", {"steps": 3}, on_progress=lambda step, *_: progress.append(step))
        seen["progress"] = progress
        seen["elicited"] = (await client.call_tool("ask_user", {"question": "who?"})).text
        seen["asked"] = asked
        try:
            seen["unknown"] = (await client.call_tool("forecst", {"city": "Bonn"})).text
        except tc.ToolNotFound as exc:
            seen["unknown"] = str(exc)
    return seen


async def main(shape: str, server: str, mode: str) -> None:
    async with SHAPES[shape](server) as transport:
        try:
            seen = await visit(transport, mode)
        except tc.ConnectError as exc:
            seen = {"error": exc.message}
    left = [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    print(json.dumps({**seen, "tasks_left": left}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
