"""How long modern clients cache the lists of a `ToolServer`, unless they are notified of a change."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.serving import served

MODERN = "2026-07-28"
PROGRAM = """
import toolcrib as tc

server = tc.ToolServer("lists"{options})
counts = {{"lists": 0}}
answer = server.router._answers["tools/list"]


async def counting(params, exchange):
    counts["lists"] += 1
    return await answer(params, exchange)


server.router._answers["tools/list"] = counting


@server.tool
def count() -> int:
    return counts["lists"]


@server.tool
def grow() -> str:
    server.add_tool(lambda: "new", name="new")
    return "grown"


if __name__ == "__main__":
    server.run()
"""


@contextlib.asynccontextmanager
async def connected(way: str, folder: Path, options: str = "") -> AsyncIterator[tc.Client]:
    program = PROGRAM.format(options=options)
    if way == "stdio":
        file = folder / "lists.py"
        file.write_text(program)
        async with tc.Client(tc.StdioServer(sys.executable, [str(file)]), mode=MODERN) as client:
            yield client
        return
    scope: dict[str, Any] = {}
    exec(program, scope)  # the same program, in this process
    if way == "in process":
        async with tc.Client(scope["server"], mode=MODERN) as client:
            yield client
        return
    async with served(scope["server"].asgi()) as url, tc.Client(f"{url}/mcp", mode=MODERN) as client:
        yield client


@pytest.mark.parametrize("way", ["http", "stdio", "in process"])
async def test_a_list_is_kept_until_the_server_says_that_it_changed(way: str, tmp_path: Path) -> None:
    async with connected(way, tmp_path) as client:
        first = [tool.name for tool in await client.list_tools()]
        assert first == [tool.name for tool in await client.list_tools()] == ["count", "grow"]
        assert (await client.call_tool("count")).data == 1
        async with client.listen("tools") as changes, asyncio.timeout(5):
            await client.call_tool("grow")
            await anext(changes)
            assert [tool.name for tool in await client.list_tools()] == ["count", "grow", "new"]
        assert (await client.call_tool("count")).data == 2


async def test_lists_are_kept_for_five_minutes_unless_the_server_says_otherwise() -> None:
    for options, ttl in (({}, 300_000), ({"cache_ttl": 1.5}, 1_500), ({"cache_ttl": 0}, 0)):
        server = tc.ToolServer("s", **options)
        meta = {f"io.modelcontextprotocol/{key}": value for key, value in (("protocolVersion", MODERN),)}
        meta["io.modelcontextprotocol/clientCapabilities"] = {}  # type: ignore[assignment]
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            answer = await server.handle({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}})
            assert answer is not None
            assert answer["result"]["ttlMs"] == ttl


async def test_a_server_that_forbids_it_is_asked_each_time(tmp_path: Path) -> None:
    async with connected("in process", tmp_path, ", cache_ttl=0") as client:
        for _ in range(3):
            await client.list_tools()
        assert (await client.call_tool("count")).data == 3
