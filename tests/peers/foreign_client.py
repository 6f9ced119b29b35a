"""Runs in a peer's environment: our client over the transports of that environment's own `mcp` SDK; tells what it saw as JSON.

python foreign_client.py SHAPE SERVER_SCRIPT [MODE]
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp.client.streamable_http as http
import uvicorn
from mcp.client.stdio import StdioServerParameters, stdio_client

import toolyard as ty


def context_manager(script: str, _: AsyncExitStack) -> Callable[[], Any]:
    """`stdio_client` as it is."""
    return lambda: stdio_client(StdioServerParameters(command=sys.executable, args=[script]))


def pair(script: str, outer: AsyncExitStack) -> Callable[[], Any]:
    """The two streams alone; whoever made them keeps their context manager."""

    async def streams() -> Any:
        return await outer.enter_async_context(context_manager(script, outer)())

    return streams


def url_of(script: str, outer: AsyncExitStack) -> Callable[[], Any]:
    """The server over HTTP in this process."""

    @asynccontextmanager
    async def serve() -> AsyncIterator[str]:
        names: dict[str, Any] = {"__name__": "yard_server", "__file__": script}
        with open(script) as source:
            exec(compile(source.read(), script, "exec"), names)
        config = uvicorn.Config(names["server"].streamable_http_app(), port=0, log_level="error", lifespan="on")
        web = uvicorn.Server(config)
        serving = asyncio.create_task(web.serve())
        while not web.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/mcp"
        web.should_exit = True
        await serving

    return serve


@asynccontextmanager
async def over_http(script: str) -> AsyncIterator[Callable[[], Any]]:
    async with AsyncExitStack() as outer:
        url = await outer.enter_async_context(url_of(script, outer)())
        # 1.x gives a triple with a function for the session id under its older name, 2.x a pair.
        client = getattr(http, "streamablehttp_client", None) or http.streamable_http_client
        yield lambda: client(url)


@asynccontextmanager
async def over_stdio(
    make: Callable[[str, AsyncExitStack], Callable[[], Any]], script: str
) -> AsyncIterator[Callable[[], Any]]:
    async with AsyncExitStack() as outer:
        yield make(script, outer)


async def visit(transport: Callable[[], Any], mode: str) -> dict[str, Any]:
    asked: list[str] = []
    progress: list[float] = []

    def answer(request: ty.ElicitRequest) -> dict[str, Any]:
        asked.append(request.message)
        return {"name": "Ann"}

    async with ty.Client(transport, mode=mode, name="foreign", elicitation_handler=answer) as client:
        assert client.server_info is not None
        await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 1}) for n in range(16)))
        refused = None
        try:
            await client.call_tool("forecst", {"city": "Bonn"})
        except ty.ToolNotFound as exc:
            refused = list(exc.nearest)
        return {
            "sdk": importlib.metadata.version("mcp"),
            "version": client.server_info.protocol_version,
            "server": client.server_info.name,
            "tools": [tool.name for tool in await client.list_tools()],
            "text": (await client.call_tool("echo", {"text": "grüße"})).text,
            "data": (await client.call_tool("forecast", {"city": "Bonn"})).data,
            "counted": (
                await client.call_tool("count", {"steps": 3}, on_progress=lambda p, *_: progress.append(p))
            ).text,
            "progress": progress,
            "elicited": (await client.call_tool("ask_user", {"question": "who?"})).text,
            "asked": asked,
            "resource": (await client.read_resource("yard://greeting")).text,
            "nearest": refused,
        }


async def main(shape: str, script: str, mode: str = "auto") -> None:
    open_transport = (
        over_http(script) if shape == "http" else over_stdio({"manager": context_manager, "pair": pair}[shape], script)
    )
    async with open_transport as transport:
        seen = await visit(transport, mode)
    left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    print(json.dumps({**seen, "tasks_left": left}))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(main(*sys.argv[1:]))
