"""One client over a stream of whole messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import eventually
from toolcrib.protocol.jsonrpc import Message
from toolcrib.server.serving.stream_server import serve_stream
from toolcrib.transports.message_stream import MemoryStream


@asynccontextmanager
async def served(server: tc.ToolServer) -> AsyncIterator[MemoryStream]:
    """Serve a client, and return its end of the stream."""
    ours, theirs = MemoryStream.pair()
    serving = asyncio.create_task(serve_stream(server.router, ours))
    try:
        yield theirs
        await theirs.close()
        await asyncio.wait_for(serving, 10)
    finally:
        serving.cancel()


async def ask(stream: MemoryStream, id: int, method: str, params: Any = None) -> Message:
    await stream.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
    return await asyncio.wait_for(stream.receive(), 10)


async def initialize(stream: MemoryStream, id: int) -> Message:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    answer = await ask(stream, id, "initialize", params)
    await stream.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return answer


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_either_era_is_served(mode: Any) -> None:
    server = tc.ToolServer("lab")
    server.add_tool(lambda a, b: a + b, name="add")

    @asynccontextmanager
    async def transport() -> AsyncIterator[MemoryStream]:
        async with served(server) as stream:
            yield stream

    async with tc.Client(transport, mode=mode) as client:
        assert (await client.call_tool("add", {"a": "x", "b": "y"})).text == "xy"


async def test_a_second_handshake_begins_a_new_session() -> None:
    """Requests of the first session are still answered, and can still be cancelled."""
    server, release, cancelled = tc.ToolServer("lab"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        try:
            await release.wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "waited"

    async with served(server) as stream:
        assert "result" in await initialize(stream, 1)
        for id in (2, 3):
            call = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
            await stream.send(call)
        assert (await initialize(stream, 4))["id"] == 4
        assert len((await ask(stream, 5, "tools/list"))["result"]["tools"]) == 1
        await stream.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}})
        await asyncio.wait_for(cancelled.wait(), 10)
        release.set()
        assert (await asyncio.wait_for(stream.receive(), 10))["id"] == 2


async def test_the_end_of_the_stream_cancels_running_requests() -> None:
    server, waiting, cancelled = tc.ToolServer("lab"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with served(server) as stream:
        await initialize(stream, 1)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
        await stream.send(call)
        await asyncio.wait_for(waiting.wait(), 10)
    assert cancelled.is_set()


async def test_a_cancelled_server_cancels_running_requests() -> None:
    server, waiting, cancelled = tc.ToolServer("lab"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    ours, theirs = MemoryStream.pair()
    serving = asyncio.create_task(serve_stream(server.router, ours))
    await initialize(theirs, 1)
    await theirs.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait", "arguments": {}}})
    await asyncio.wait_for(waiting.wait(), 10)
    serving.cancel()
    await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait([serving])
    await eventually(cancelled.is_set)


async def test_garbage_and_answers_without_a_json_form_do_not_end_the_session() -> None:
    server = tc.ToolServer("lab")

    @server.resource("lab://odd")
    def odd() -> Any:
        return tc.ToolServer("not JSON")

    async with served(server) as stream:
        await initialize(stream, 1)
        await stream.send({"garbage": "x"})
        assert (await stream.receive())["error"]["code"] == -32600
        assert "error" in await ask(stream, 2, "resources/read", {"uri": "lab://odd"})
        assert (await ask(stream, 3, "ping"))["result"] == {}


async def test_a_message_that_cannot_be_sent_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Picky(MemoryStream):
        async def send(self, message: Message) -> None:
            if message.get("id") == 2:
                raise ValueError("no such field")
            await super().send(message)

    ours, theirs = MemoryStream.pair()
    picky = Picky(ours._incoming, ours._outgoing)
    serving = asyncio.create_task(serve_stream(tc.ToolServer("lab").router, picky))
    with caplog.at_level(logging.WARNING, "toolcrib.server"):
        await theirs.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await ask(theirs, 3, "ping"))["id"] == 3
    assert "no such field" in caplog.text
    await theirs.close()
    await asyncio.wait_for(serving, 10)
