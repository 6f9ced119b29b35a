"""Helpers of the hub tests: in-process tool servers, table-driven servers, and bad servers as child processes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import toolcrib as tc
from tests.faults.kit import FAST, FaultyServer
from tests.unit.kit import LEGACY, PlayedServer
from toolcrib.hub.hub import Hub

DEMO = str(Path(__file__).parents[2] / "examples" / "demo_server.py")


def math_server(name: str = "math") -> tc.ToolServer:
    """Two tools, a resource, a template and a prompt."""
    server = tc.ToolServer(name, version="1.0.0")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def fail() -> str:
        """Say that it failed."""
        raise tc.ToolFailed("as it was told")

    @server.resource("config://app", mime_type="application/json")
    def config() -> str:
        return json.dumps({"of": name})

    @server.resource("note:///{name}")
    def note(name: str) -> str:
        return f"note {name}"

    @server.prompt
    def explain(topic: str) -> str:
        return f"Explain {topic}"

    return server


def echo_server(*tools: str, name: str = "echo") -> tc.ToolServer:
    """Return a server whose tools return their arguments."""
    server = tc.ToolServer(name)

    async def echo(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    for tool in tools or ("echo",):
        server.add_tool(echo, name=tool, description=f"{tool} something", input_schema={"type": "object"})
    return server


def counting_server(name: str = "counting") -> tuple[tc.ToolServer, Counter[str]]:
    """A server with the `echo` of the bad ones, and how often it ran for each nonce."""
    server, ran = tc.ToolServer(name, version="1.0.0"), Counter[str]()

    @server.tool
    async def echo(nonce: str) -> str:
        """Return the nonce."""
        ran[nonce] += 1
        return nonce

    return server, ran


def listing(*names: str) -> dict[str, Any]:
    """The answer of `tools/list`."""
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}


def played(*tools: str, **answers: Any) -> PlayedServer:
    """A server as a table, which lists these tools and answers every call with the tool's name."""

    def call(params: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": params["name"]}]}

    handshake = {**LEGACY, "capabilities": {"tools": {"listChanged": True}}}
    return PlayedServer(**{"initialize": handshake, "tools__list": listing(*tools), "tools__call": call, **answers})


def bad(directory: Path, name: str) -> FaultyServer:
    """Return the folder for one of several bad servers."""
    place = directory / name
    place.mkdir()
    return FaultyServer(place)


def state(hub: Hub, name: str) -> Any:
    """Return the status of the server with this name."""
    return next(each for each in hub.list_servers() if each.name == name)


def names(tools: list[tc.Tool]) -> list[str]:
    return [tool.name for tool in tools]


async def outcomes(*calls: Awaitable[Any]) -> list[Any]:
    """Return the result or the exception of each."""
    return await asyncio.gather(*calls, return_exceptions=True)


__all__ = ["DEMO", "FAST", "FaultyServer", "Hub", "PlayedServer"]
