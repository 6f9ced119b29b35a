"""Sockets, tasks, threads and memory stay flat over many calls, reconnects and clients; after close nothing is left."""

from __future__ import annotations

import asyncio
import logging
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolcrib as tc
from tests.faults.http_kit import Web
from tests.faults.http_server import BadWebServer
from tests.faults.kit import BIG, FAST, either_era, eventually, matrix, outcome_of, own_tasks
from tests.faults.test_flat import KIB, Footprint, assert_flat
from toolcrib import sync
from toolcrib.errors import UnansweredTimeout

pytestmark = pytest.mark.slow


@pytest.fixture
def traced(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL)  # captured records are memory too, but not the client's
    tracemalloc.start()
    yield
    tracemalloc.stop()


def forget(server: BadWebServer) -> None:
    """Clear the server's records, which are not leaks of the client."""
    for book in (server.requests, server.executed, server.cancelled, server.gone, server.nonces):
        book.clear()
    for session in server.sessions.values():
        session.seen.clear()
        for stream in session.streams:
            stream.events.clear()
        session.streams.clear()


async def settled(server: BadWebServer) -> None:
    """Close idle connections, so that only permanent ones remain."""
    await eventually(lambda: not server.in_call)
    forget(server)


async def mixed_calls(client: tc.Client, count: int) -> None:
    """Make a mix of calls: answers, events, tool errors, error replies, time-outs, cancellations, resets."""
    for start in range(0, count, 100):
        async with asyncio.TaskGroup() as group:
            for n in range(start, start + 70):
                group.create_task(outcome_of(client.call_tool("echo", {"nonce": str(n)})))
            for n in range(15):
                group.create_task(outcome_of(client.call_tool("echo", {"nonce": str(n), "as": "event"})))
            for _ in range(2):
                for tool in ("fail", "refuse"):
                    group.create_task(outcome_of(client.call_tool(tool, {})))
                group.create_task(outcome_of(client.call_tool("silent", {"nonce": "s"}, timeout=0.01)))
                group.create_task(outcome_of(client.call_tool("die", {"after": "head"})))
                group.create_task(outcome_of(client.call_tool("status", {"status": 500})))
                group.create_task(outcome_of(client.call_tool("events", {"text": "data: x\n\n", "then": "reset"})))
            group.create_task(outcome_of(client.call_tool("echo", {"pad": BIG})))
            group.create_task(outcome_of(client.call_tool("huge", {"size": 200_000})))
            stopped = group.create_task(outcome_of(client.call_tool("silent", {"nonce": "c"})))
            asyncio.get_running_loop().call_later(0.01, stopped.cancel)


@pytest.mark.parametrize("count", matrix([1_000], [10_000]))
async def test_everything_is_flat_over_many_calls_of_every_outcome(
    web: Web, era: str, traced: None, count: int
) -> None:
    server = await web.server(era=era, event_ids=False)
    async with web.client(server) as client:
        await mixed_calls(client, 500)
        await settled(server)
        before = Footprint.now()
        for _ in range(count // 500):
            await mixed_calls(client, 500)
            forget(server)
        await settled(server)
        await assert_flat(before, allowance=300 * KIB)
        assert client.connected
    await eventually(lambda: not server.connections)
    assert own_tasks() == []


@pytest.mark.parametrize("count", matrix([30], [300]))
async def test_everything_is_flat_over_many_reconnects(web: Web, era: str, traced: None, count: int) -> None:
    server = await web.server(era=era)

    async def again(way: int) -> None:
        pending = asyncio.create_task(outcome_of(client.call_tool("slow", {"nonce": "p"})))
        await eventually(lambda: server.in_call)
        if way == 0:
            server.expire()
        elif way == 1:
            for connection in [*server.connections.values()]:
                connection.reset()
        else:
            await client.disconnect()
        await outcome_of(client.call_tool("echo", {"nonce": "x"}, timeout=20))
        server.release.set()
        await pending
        server.release.clear()
        await settled(server)

    async with web.client(server) as client:
        for n in range(6):
            await again(n % 3)
        before = Footprint.now()
        for n in range(count):
            await again(n % 3)
        await assert_flat(before, allowance=300 * KIB)
    await eventually(lambda: not server.connections)


@either_era
async def test_everything_is_flat_over_many_clients(web: Web, era: str, traced: None) -> None:
    server = await web.server(era=era)

    async def one() -> None:
        async with tc.Client(server.url, reconnect=FAST) as client:
            await client.call_tool("echo", {"as": "event"})
            await outcome_of(client.call_tool("silent", {"nonce": "s"}, timeout=0.01))

    for _ in range(5):
        await one()
    await settled(server)
    before = Footprint.now()
    for _ in range(30):
        await one()
    await settled(server)
    await assert_flat(before, allowance=300 * KIB)
    await eventually(lambda: not server.connections)


@either_era
@pytest.mark.parametrize("streams", [False, True], ids=["JSON", "events"])
async def test_connections_are_shared_not_heaped(web: Web, era: str, streams: bool) -> None:
    server = await web.server(era=era, streams_answers=streams)
    async with web.client(server) as client:
        for _ in range(100):
            await client.call_tool("echo", {})
        assert server.accepted <= 4, "one for the calls, one or two for permanent streams"
        await asyncio.gather(*(client.call_tool("echo", {}) for _ in range(300)))
        assert server.accepted <= 104, "max_connections is 100"


@either_era
async def test_the_sync_client_leaves_no_socket_and_only_its_one_thread(web: Web, era: str) -> None:
    server = await web.server(era=era)

    def footprint() -> tuple[int, list[str]]:
        # The threads of asyncio.to_thread are the test's own.
        threads = [thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_")]
        return len(list(Path("/proc/self/fd").iterdir())), threads

    def one() -> None:
        with sync.Client(tc.HttpServer(server.url), reconnect=FAST) as client:
            assert client.call_tool("echo", {"nonce": "x"}).text == "x"
            with pytest.raises(UnansweredTimeout):
                client.call_tool("silent", {"nonce": "s"}, timeout=0.02)

    await asyncio.to_thread(one)
    await settled(server)
    before = footprint()
    for _ in range(10):
        await asyncio.to_thread(one)
    await settled(server)
    await eventually(lambda: not server.connections and footprint() <= before, what=f"{before} -> {footprint()}")
