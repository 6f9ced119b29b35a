"""The reference server from npm over HTTP and HTTP+SSE: what happens to its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import toolcrib as tc
from tests.peers.kit import LEGACY
from tests.peers.web import Relay, Servers, WebServer, npm_everything
from toolcrib import sync

pytestmark = pytest.mark.slow

TRANSPORTS = {"streamableHttp": "mcp", "sse": "sse"}
OPERATION = "trigger-long-running-operation"


@pytest.fixture(params=TRANSPORTS)
def url(request: pytest.FixtureRequest, web_servers: Servers) -> str:
    name = "npm http" if request.param == "streamableHttp" else "npm sse"
    return web_servers.get(name, lambda: npm_everything(request.param)).url(TRANSPORTS[request.param])


async def test_either_transport_is_found_behind_a_plain_url(url: str) -> None:
    async with tc.Client(url) as client:
        assert client.server_info is not None and client.server_info.protocol_version == LEGACY
        results = await asyncio.gather(*(client.call_tool("echo", {"message": f"m{n}"}) for n in range(50)))

    assert [result.text for result in results] == [f"Echo: m{n}" for n in range(50)]


def test_either_transport_serves_the_sync_client(url: str) -> None:
    with sync.Client(url) as client:
        assert client.call_tool("get-sum", {"a": 2, "b": 40}).text == "The sum of 2 and 40 is 42."


async def test_an_operation_whose_connection_is_cut_is_taken_up_again(web_servers: Servers) -> None:
    server = web_servers.get("npm http", lambda: npm_everything("streamableHttp"))
    seen: list[float] = []
    begun = asyncio.Event()

    def on_progress(step: float, *_: object) -> None:
        seen.append(step)
        begun.set()

    async with Relay(server.port) as relay, tc.Client(relay.url("mcp")) as client:
        call = asyncio.create_task(client.call_tool(OPERATION, {"duration": 1, "steps": 5}, on_progress=on_progress))
        async with asyncio.timeout(20):
            await begun.wait()
        relay.cut()
        result = await call

    assert "completed" in result.text
    assert list(dict.fromkeys(seen)) == [1, 2, 3, 4, 5]  # its store plays the events of every stream on each of them


@pytest.fixture(params=TRANSPORTS)
def mortal(request: pytest.FixtureRequest) -> Iterator[tuple[WebServer, str]]:
    server = npm_everything(request.param)
    try:
        yield server.start(), TRANSPORTS[request.param]
    finally:
        server.close()


async def test_a_call_after_a_restart_works(mortal: tuple[WebServer, str]) -> None:
    server, path = mortal
    async with tc.Client(server.url(path)) as client:
        assert (await client.call_tool("echo", {"message": "one"})).text == "Echo: one"
        await asyncio.to_thread(server.restart)
        assert (await client.call_tool("echo", {"message": "two"})).text == "Echo: two"
