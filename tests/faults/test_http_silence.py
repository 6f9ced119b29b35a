"""Servers that are slow, silent or do not read: the deadline holds, and `sent` of the error is correct."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import MIB, Web, calls, running
from tests.faults.http_proxy import Fault
from tests.faults.http_server import BadWebServer
from tests.faults.kit import (
    BIG,
    Ledger,
    by_era,
    cancelled,
    either_era,
    eventually,
    own_tasks,
    perhaps_sent,
    succeeded,
    surely_unsent,
)
from tests.unit.kit import Clock, turns
from toolcrib.client.supervisor import HEALTH_TIMEOUT
from toolcrib.errors import CallTimeout, OutcomeUnknown, TransportError, UnansweredTimeout
from toolcrib.types import ConnectionState

SILENT: dict[str, tuple[str, dict[str, Any]]] = {
    "no head": ("silent", {}),
    "a head and no body": ("silent", {"head": True}),
    "a stream without events": ("events", {"then": "hang"}),
    "a stream of comments": ("huge", {"as": "comment"}),
    "the head, one byte every 200 ms": ("drip", {"of": "head"}),
    "the body, one byte every 200 ms": ("drip", {"of": "body"}),
    "an event, one byte every 200 ms": ("drip", {"of": "event"}),
    "half an event": ("events", {"text": 'data: {"jsonrpc"', "then": "hang"}),
}


async def wait_for_cancellation(server: BadWebServer, era: str, nonce: str) -> None:
    """Wait until the server notices the cancellation: by the closed stream, in the legacy era also by a message."""
    await eventually(lambda: nonce in server.gone or nonce not in server.in_call, what="the stream is closed")
    if era == "legacy":
        await eventually(lambda: server.cancelled == [nonce], what="the server is notified")
    else:
        assert server.received("notifications/cancelled") == []


@pytest.mark.parametrize("name, era", by_era(SILENT, both=["no head", "a stream without events"]))
async def test_a_silent_or_dripping_server_does_not_stretch_the_deadline(web: Web, era: str, name: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    tool, how = SILENT[name]
    async with web.client(server) as client:
        start = time.monotonic()
        outcome = await ledger.call(client, tool, timeout=0.25, **how)
        assert 0.2 < time.monotonic() - start < 4
        assert type(outcome) is UnansweredTimeout, outcome
        await wait_for_cancellation(server, era, "n0")
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
async def test_a_line_that_swallows_everything_does_not_stretch_the_deadline(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    line = await web.line(server)
    async with web.client(line) as client:
        await ledger.call(client)
        for passage in line.passages:
            if passage.verb == "POST":
                passage.fault = Fault(up=0, then="blackhole")
        line.spec = lambda number: Fault(up=0, then="blackhole")
        start = time.monotonic()
        outcomes = await calls(ledger, client, 10, timeout=0.4)
        assert time.monotonic() - start < 4
        assert all(isinstance(one, CallTimeout) for one in outcomes)
        line.spec = lambda number: Fault()
    ledger.check(server.executed)


# ---- whether it was sent


@either_era
@pytest.mark.parametrize("size", [10, len(BIG), 30 * MIB], ids=["small", "300 KB", "30 MB"])
async def test_a_server_that_accepts_and_never_reads_does_not_stretch_the_deadline(
    web: Web, era: str, size: int
) -> None:
    ledger, server = Ledger(), await web.server(era=era, receive=64 * 1024)
    async with web.client(server) as client:
        await ledger.call(client)
        server.deaf = True
        held = [asyncio.create_task(ledger.call(client, "slow", timeout=20)) for _ in range(2)]
        await running(server, 1)  # the kept connections are busy: what follows needs new, deaf ones
        start = time.monotonic()
        outcomes = await calls(ledger, client, 4, timeout=0.5, pad="b" * size)
        assert time.monotonic() - start < 5
        assert all(isinstance(one, CallTimeout) for one in outcomes), outcomes
        if size > 20 * MIB:
            assert all(map(surely_unsent, outcomes)), "no server runs half a request"
        else:
            assert all(map(perhaps_sent, outcomes)) or size > 100_000
        server.deaf = False
        server.release.set()
        await asyncio.gather(*held)
        assert succeeded(await ledger.call(client, timeout=20))
    ledger.check(server.executed)


@either_era
async def test_a_call_that_waits_for_a_connection_is_unsent_when_its_time_is_over(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server, max_connections=2) as client:
        busy = [asyncio.create_task(ledger.call(client, "slow", timeout=20)) for _ in range(2)]
        await running(server, 2)
        outcomes = await calls(ledger, client, 10, timeout=0.3)
        assert all(type(one) is CallTimeout and not one.sent for one in outcomes)
        server.release.set()
        assert all(map(succeeded, await asyncio.gather(*busy)))
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert len(server.executed) == 3


@either_era
@pytest.mark.parametrize("latency", [0.0, 0.003])
async def test_deadlines_that_pass_at_any_moment_are_reported_correctly(web: Web, era: str, latency: float) -> None:
    ledger, server, dice = Ledger(), await web.server(era=era), random.Random(7)
    line = await web.line(server, lambda number: Fault(latency=latency))
    async with web.client(line) as client:
        await ledger.call(client)
        for _ in range(5):
            mix = [{"pad": BIG} if dice.random() < 0.3 else {} for _ in range(30)]
            await asyncio.gather(*(ledger.call(client, timeout=10 ** dice.uniform(-4, -0.7), **how) for how in mix))
        assert succeeded(await ledger.call(client, timeout=20))
    await eventually(lambda: not server.connections and not server.in_call, what="all that was sent has arrived")
    ledger.check(server.executed)
    assert ledger.count(surely_unsent) >= 1
    assert ledger.count(perhaps_sent) >= 1


# ---- cancelled callers and progress


async def test_a_cancelled_caller_is_free_at_once_and_the_server_learns_of_it(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        task = asyncio.create_task(ledger.call(client, "silent", timeout=60))
        await running(server, 1)
        start = time.monotonic()
        task.cancel()
        assert cancelled(await task)
        assert time.monotonic() - start < 1
        await wait_for_cancellation(server, era, "n0")
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


async def test_callers_cancelled_at_any_moment_do_no_harm(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        for turns in range(1, 31):
            beside = asyncio.create_task(ledger.call(client))
            task = asyncio.create_task(ledger.call(client, pad=BIG if turns % 2 else ""))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await task
            assert succeeded(await beside)
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
async def test_progress_resets_the_idle_time_out_and_silence_does_not(web: Web, era: str) -> None:
    ledger, server, ticks = Ledger(), await web.server(era=era), []
    async with web.client(server) as client:
        result = await client.call_tool(
            "tick",
            {"nonce": "t", "every": 0.15, "count": 6},
            timeout=20,
            idle_timeout=0.6,
            on_progress=lambda progress, total, message: ticks.append(progress),
        )
        assert result.text == "t"
        assert ticks == [1, 2, 3, 4, 5, 6]
        for tool, how in (("silent", {}), ("events", {"text": ": x\n\n", "then": "hang"}), ("drip", {"of": "body"})):
            start = time.monotonic()
            with pytest.raises(UnansweredTimeout):
                await client.call_tool(tool, {"nonce": ledger.open(), **how}, timeout=20, idle_timeout=0.3)
            assert time.monotonic() - start < 5


@either_era
async def test_the_whole_deadline_holds_though_progress_comes(web: Web, era: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        with pytest.raises(UnansweredTimeout):
            await client.call_tool(
                "tick", {"every": 0.05, "count": 1000}, timeout=0.4, idle_timeout=5, on_progress=lambda *_: None
            )


@either_era
async def test_a_time_out_of_one_call_leaves_the_calls_beside_it_alone(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        beside = [asyncio.create_task(ledger.call(client, "slow", seconds=0.6)) for _ in range(10)]
        outcomes = await calls(ledger, client, 10, "silent", timeout=0.2)
        assert all(type(one) is UnansweredTimeout for one in outcomes)
        assert all(map(succeeded, await asyncio.gather(*beside)))
    ledger.check(server.executed)


# ---- health and the end


async def test_three_unanswered_calls_and_an_unanswered_ping_are_a_dead_connection(web: Web, era: str) -> None:
    clock = Clock()
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        await ledger.call(client)
        gate = server.gate("any", "silent")
        for _ in range(3):
            assert isinstance(await ledger.call(client, timeout=0.1), CallTimeout)
        await eventually(lambda: client.status.state is not ConnectionState.CONNECTED, what="noticed")
        await turns()  # it is asked whether it lives
        await clock.advance(HEALTH_TIMEOUT - 1)
        assert client.connected
        await clock.advance(1)
        await eventually(lambda: not client.connected, what="given up")
        gate.times = 0
        assert succeeded(await ledger.call(client, timeout=20))
        assert client.status.state is ConnectionState.CONNECTED
    ledger.check(server.executed)


@pytest.mark.parametrize("count", [1, 50])
async def test_closing_with_calls_in_flight_ends_each_with_an_honest_outcome(web: Web, era: str, count: int) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    client = web.client(server)
    await client.connect()
    pending = [asyncio.create_task(ledger.call(client, "slow", timeout=60)) for _ in range(count)]
    await running(server, count)
    start = time.monotonic()
    await client.close()
    outcomes = await asyncio.gather(*pending)
    assert time.monotonic() - start < 5
    assert all(isinstance(one, OutcomeUnknown) for one in outcomes), outcomes[:1]
    assert own_tasks() == []
    ledger.check(server.executed)


@either_era
async def test_closing_while_calls_wait_to_be_sent_reports_them_as_unsent(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    client = web.client(server, max_connections=2)
    busy = [asyncio.create_task(ledger.call(client, "slow", timeout=60)) for _ in range(2)]
    await running(server, 2)
    waiting = [asyncio.create_task(ledger.call(client, timeout=60)) for _ in range(10)]
    await asyncio.sleep(0)
    await client.close()
    assert all(isinstance(one, OutcomeUnknown) for one in await asyncio.gather(*busy))
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, TransportError) and not one.sent for one in outcomes), outcomes[:1]
    ledger.check(server.executed)
    assert len(server.executed) == 2


async def test_closing_while_connecting_is_bounded_and_leaves_nothing(web: Web) -> None:
    server = await web.server()
    server.gate("any", "silent")
    client = web.client(server)
    connecting = asyncio.create_task(client.connect())
    await eventually(lambda: server.requests)
    start = time.monotonic()
    await client.close()
    assert time.monotonic() - start < 3
    outcome = (await asyncio.gather(connecting, return_exceptions=True))[0]
    assert isinstance(outcome, tc.ToolcribError)
    assert own_tasks() == []


async def test_a_server_that_never_answers_the_handshake_ends_at_the_connect_time_out(web: Web) -> None:
    server = await web.server()
    server.gate("any", "silent")
    start = time.monotonic()
    with pytest.raises(tc.ConnectError):
        await web.client(server, connect_timeout=0.6).connect()
    assert time.monotonic() - start < 5
