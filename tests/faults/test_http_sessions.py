"""Legacy sessions: one expiry causes one handshake for all calls, and each session begins and ends correctly."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.faults.http_kit import Web, calls, running
from tests.faults.kit import FAST, Ledger, eventually, own_tasks, succeeded, succeeds
from toolcrib import events
from toolcrib.errors import ConnectError, OutcomeUnknown, ToolcribError, TransportError
from toolcrib.types import ConnectionState

CHANGED = {"method": "notifications/tools/list_changed"}


@pytest.mark.parametrize("body", [True, False], ids=["JSON-RPC body", "no body"])
async def test_a_hundred_callers_of_an_expired_session_share_one_new_one_and_all_succeed(web: Web, body: bool) -> None:
    ledger, server = Ledger(), await web.server(era="legacy", expired_body=body)
    async with web.client(server) as client:
        assert succeeded(await ledger.call(client))
        server.expire()
        outcomes = await calls(ledger, client, 100, timeout=30)
        assert all(map(succeeded, outcomes)), [one for one in outcomes if not succeeded(one)][:1]
        assert len(server.received("initialize")) == 2
        assert len(server.sessions) == 1
    ledger.check(server.executed)


async def test_a_second_and_third_expiry_soon_after_cost_the_hundred_callers_nothing_further(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        for _ in range(3):
            server.expire()
            outcomes = await calls(ledger, client, 100, timeout=30)
            assert all(map(succeeded, outcomes)), [one for one in outcomes if not succeeded(one)][:1]
        assert len(server.received("initialize")) <= 4
    ledger.check(server.executed)


async def test_sessions_that_expire_again_and_again_under_load_lose_and_double_nothing(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:

        async def caller() -> None:
            for _ in range(10):
                await ledger.call(client, timeout=30)

        callers = [asyncio.create_task(caller()) for _ in range(20)]
        for share in (40, 80, 120, 160):
            await eventually(lambda share=share: sum(server.executed.values()) >= share, within=20)
            server.expire()
        await asyncio.gather(*callers)
        assert ledger.count(succeeded) == 200
        assert len(server.received("initialize")) <= 5
    ledger.check(server.executed)


async def test_a_call_in_flight_when_the_session_expires_keeps_its_own_stream(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        under_way = [asyncio.create_task(ledger.call(client, "slow", seconds=0.3)) for _ in range(5)]
        await running(server, 5)
        server.expire()
        assert all(map(succeeded, await calls(ledger, client, 10)))
        outcomes = await asyncio.gather(*under_way)
        assert all(succeeded(one) or type(one) is OutcomeUnknown for one in outcomes)
        assert len(server.received("initialize")) == 2
    ledger.check(server.executed)


async def test_closing_right_after_an_expiry_leaves_nothing_behind(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    client = web.client(server)
    pending = asyncio.create_task(ledger.call(client, "silent", timeout=60))
    await running(server, 1)
    server.expire()
    await ledger.call(client)
    start = time.monotonic()
    await client.close()
    assert isinstance(await asyncio.wait_for(pending, 5), OutcomeUnknown)
    assert time.monotonic() - start < 3
    assert own_tasks() == []


async def test_a_server_that_forgets_every_session_at_once_is_not_asked_for_ever(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    server.gate("tools/call", "status", status=404)
    async with web.client(server) as client:
        outcome = await ledger.call(client, timeout=20)
        assert isinstance(outcome, TransportError), outcome
        assert not outcome.sent
        assert len(server.received("tools/call")) <= 4, "the first expiry does not fail the call"
        assert len(server.received("initialize")) <= 5
    ledger.check(server.executed)


async def test_a_new_handshake_that_fails_is_reported_to_all_callers_and_the_next_one_succeeds(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server, max_attempts=1) as client:
        await ledger.call(client)
        server.expire()
        gate = server.gate("initialize", "status", status=500)
        server.gate("server/discover", "status", status=500, times=50)
        outcomes = await calls(ledger, client, 20, timeout=10)
        assert all(isinstance(one, TransportError) and not one.sent for one in outcomes), outcomes[:1]
        gate.times = 0
        await succeeds(lambda: client.call_tool("echo", {"nonce": "x"}, timeout=5))
    ledger.check(server.executed)


# ---- its order


async def test_a_session_begins_and_ends_in_order(web: Web) -> None:
    server = await web.server(era="legacy")
    async with web.client(server) as client:
        await client.call_tool("echo", {})
        (session,) = server.sessions
    steps = [one.method for one in server.requests]
    assert steps == ["server/discover", "initialize", "GET", "notifications/initialized", "tools/call", "DELETE"]
    assert [one.header("mcp-session-id") for one in server.requests] == [None, None, *[session] * 4]
    assert [one.header("mcp-protocol-version") for one in server.requests[2:]] == ["2025-11-25"] * 4
    assert server.sessions == {}


async def test_reconnecting_begins_a_new_session_without_the_old_id(web: Web) -> None:
    server = await web.server(era="legacy")
    async with web.client(server) as client:
        for _ in range(3):
            await client.call_tool("echo", {})
            await client.disconnect()
            assert server.sessions == {}, "ended by our DELETE"
    assert {one.header("mcp-session-id") for one in server.received("initialize")} == {None}
    assert len(server.received("initialize")) == len(server.received("DELETE")) == 3


async def test_a_refused_handshake_leaves_no_session_id_for_the_next_one(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        await ledger.call(client)
        server.expire()
        body = '{"jsonrpc": "2.0", "id": $ID, "error": {"code": -32603, "message": "not yet"}}'
        stale = {"Mcp-Session-Id": "stale"}
        server.gate("initialize", "status", type="application/json", body=body, headers=stale, times=1)
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert len(server.received("initialize")) == 3
    assert {one.header("mcp-session-id") for one in server.received("initialize")} == {None}


async def test_a_server_without_session_ids_gets_none_and_no_delete(web: Web) -> None:
    server = await web.server(era="legacy", gives_session=False)
    async with web.client(server) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert {one.header("mcp-session-id") for one in server.requests} == {None}
    assert server.received("DELETE") == []
    assert [one.header("mcp-protocol-version") for one in server.received("tools/call")] == ["2025-11-25"]


async def test_a_modern_server_gets_no_session_no_get_and_no_delete(web: Web) -> None:
    server = await web.server(era="modern")
    async with web.client(server) as client:
        await client.call_tool("echo", {})
    assert {one.verb for one in server.requests} == {"POST"}
    assert all(not one.method.startswith("notifications/") for one in server.requests)
    assert {one.header("mcp-protocol-version") for one in server.requests} == {"2026-07-28"}


@pytest.mark.parametrize(
    "how", [{"do": "status", "status": 500}, {"do": "die"}, {"do": "silent"}, {"do": "status", "status": 405}]
)
async def test_a_farewell_that_fails_does_no_harm_and_is_bounded(web: Web, how: dict[str, Any]) -> None:
    server = await web.server(era="legacy")
    server.gate("DELETE", **how)
    client = web.client(server)
    await client.call_tool("echo", {})
    start = time.monotonic()
    await client.close()
    assert time.monotonic() - start < 5
    assert len(server.received("DELETE")) >= 1


@pytest.mark.parametrize("session", ["with space", "caf\u00e9", "tab\tted", "a" * 100_000])
async def test_a_session_id_that_no_header_can_carry_is_refused(web: Web, session: str) -> None:
    server = await web.server(era="legacy")
    result = '{"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}'
    body = f'{{"jsonrpc": "2.0", "id": $ID, "result": {result}}}'
    server.gate("initialize", "status", type="application/json", body=body, headers={"Mcp-Session-Id": session})
    with pytest.raises(ToolcribError):
        await web.client(server, connect_timeout=5).connect()
    assert server.received("tools/call") == []


# ---- the standing stream


async def test_the_servers_first_message_after_the_handshake_is_received(web: Web) -> None:
    server, received = await web.server(era="legacy"), []
    client = web.client(server)
    client.on(events.ToolsChanged, received.append)
    await client.connect()
    assert server.standing, "opened before the server received `initialized`"
    server.push(CHANGED)
    await eventually(lambda: received)


@pytest.mark.parametrize("status", [405, 404, 400, 501])
async def test_a_server_without_a_standing_stream_is_fine(web: Web, status: int) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    server.gate("stand", "status", status=status, times=1)
    async with web.client(server) as client:
        assert all(map(succeeded, await calls(ledger, client, 10)))
        assert client.status.state is ConnectionState.CONNECTED
    ledger.check(server.executed)


async def test_a_standing_stream_that_is_never_answered_does_not_hold_up_the_calls(web: Web) -> None:
    server = await web.server(era="legacy")
    server.gate("stand", "silent")
    start = time.monotonic()
    async with web.client(server) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert time.monotonic() - start < 5


async def test_without_streamable_there_is_no_get_stream(web: Web) -> None:
    server = await web.server(era="legacy")
    async with web.client(server, streamable=False) as client:
        assert (await client.call_tool("echo", {"nonce": "x", "as": "event"})).text == "x"
    assert server.received("GET") == []


@pytest.mark.parametrize("then", ["fin", "reset"])
async def test_a_broken_standing_stream_is_opened_again_where_it_broke(web: Web, then: str) -> None:
    server, received = await web.server(era="legacy"), []
    line = await web.line(server)
    client = web.client(line)
    client.on(events.ToolsChanged, received.append)
    await client.connect()
    server.push(CHANGED)
    await eventually(lambda: len(received) == 1)
    (standing,) = [passage for passage in line.passages if passage.verb == "GET"]
    standing.break_off(then)
    server.push(CHANGED)  # while no stream is open: it waits
    await eventually(lambda: len(received) == 2)
    assert server.received("GET")[-1].header("last-event-id") == "1-1"
    assert len(server.received("initialize")) == 1, "no reason for a new session"
    assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


async def test_a_standing_stream_that_ends_at_once_is_not_opened_in_a_hot_loop(web: Web) -> None:
    server = await web.server(era="legacy")
    server.gate("stand", "events", text="retry: 50\n\n", then="end")
    async with web.client(server, reconnect=FAST) as client:
        assert (await client.call_tool("slow", {"nonce": "x", "seconds": 0.7})).text == "x"
        assert len(server.received("GET")) <= 20
        assert (await client.call_tool("echo", {"nonce": "y"})).text == "y"


async def test_garbage_on_the_get_stream_is_counted_and_later_messages_are_received(web: Web) -> None:
    server, received = await web.server(era="legacy"), []
    client = web.client(server)
    client.on(events.ToolsChanged, received.append)
    await client.connect()
    (session,) = server.sessions.values()
    assert session.standing is not None
    for junk in (b"data: hello\n\n", b"data: [42]\n\n", b": x\n\n", b"\xff\xfe\n\n", b"data: {}\n\n"):
        session.standing.events.append(junk)
    server.push(CHANGED)
    await eventually(lambda: received)
    assert client.counters.malformed >= 3


async def test_an_attempt_to_connect_that_fails_in_the_middle_leaves_no_session_behind(web: Web) -> None:
    server = await web.server(era="legacy")
    server.gate("notifications/initialized", "status", status=500)
    with pytest.raises(ConnectError):
        await web.client(server).connect()
    await eventually(lambda: server.sessions == {}, what="each session that was begun is ended")
