"""Faults of HTTP+SSE: the stream breaks, a POST is refused, the endpoint event is wrong."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import MIB, Provider, Web, bounded, calls, running
from tests.faults.http_sse import BadSseServer
from tests.faults.kit import FAST, Ledger, cancelled, eventually, own_tasks, succeeded, succeeds, surely_unsent
from toolcrib.errors import (
    AuthError,
    CallTimeout,
    ConnectError,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    ToolcribError,
    UnansweredTimeout,
)
from toolcrib.types import ConnectionState

SECRET = "c4n4ry-51c0"


async def started(web: Web, **options: Any) -> BadSseServer:
    server = BadSseServer(**options)
    web.servers.append(await server.start())
    return server


def client_of(web: Web, server: BadSseServer, **options: Any) -> tc.Client:
    config = {name: options.pop(name) for name in ("headers", "verify") if name in options}
    web.clients.append(tc.Client(tc.SseServer(server.url, **config), **{"reconnect": FAST, **options}))
    return web.clients[-1]


async def test_calls_progress_and_questions_go_their_way(web: Web) -> None:
    ledger, server, ticks = Ledger(), await started(web), []
    async with client_of(web, server, progress_handler=lambda n, *_: ticks.append(n), roots=["/tmp"]) as client:
        assert all(map(succeeded, await calls(ledger, client, 50)))
        assert succeeded(await ledger.call(client, "tick", every=0.01, count=3))
        assert ticks == [1, 2, 3]
        assert "file:///tmp" in (await client.call_tool("ask", {"method": "roots/list"})).text
    ledger.check(server.executed)


async def test_an_http_url_that_refuses_posts_is_tried_as_sse(web: Web) -> None:
    server = await started(web)
    server.verbs = {**server.verbs, "POST": server.verbs["POST"]}
    gate = server.gate("server/discover", "status", status=405)
    server.gate("initialize", "status", status=405, times=1)
    async with web.client(server) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
        assert client.server_info is not None
    assert gate.times is None


@pytest.mark.parametrize("then", ["reset", "fin"])
async def test_a_stream_that_breaks_leaves_what_was_sent_unknown_and_the_next_call_connects_again(
    web: Web, then: str
) -> None:
    ledger, server = Ledger(), await started(web)
    async with client_of(web, server) as client:
        tasks = [asyncio.create_task(ledger.call(client, "slow", timeout=30)) for _ in range(50)]
        await running(server, 50)
        start = time.monotonic()
        server.cut(then)
        outcomes = await asyncio.gather(*tasks)
        assert time.monotonic() - start < 2
        assert all(type(one) is OutcomeUnknown for one in outcomes), outcomes[:1]
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert len(server.received("initialize")) == 2


@pytest.mark.parametrize(
    "how, kind",
    [
        ({"status": 500}, OutcomeUnknown),
        ({"status": 400}, ProtocolError),
        ({"status": 401}, AuthError),
        ({"status": 403}, AuthError),
        ({"status": 429, "headers": {"Retry-After": "60"}}, RateLimited),
        ({"status": 302, "headers": {"Location": "/x"}}, ProtocolError),
    ],
)
async def test_a_refused_post_fails_its_own_call_and_no_other(
    web: Web, how: dict[str, Any], kind: type[Exception]
) -> None:
    ledger, server = Ledger(), await started(web)
    async with client_of(web, server) as client:
        beside = [asyncio.create_task(ledger.call(client, "slow", timeout=30)) for _ in range(20)]
        await running(server, 20)
        server.gate("tools/call", "status", times=1, **how)
        outcome = await ledger.call(client, timeout=10)
        assert isinstance(outcome, kind), outcome
        server.release.set()
        assert all(map(succeeded, await asyncio.gather(*beside)))
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert len(server.received("initialize")) == 1


async def test_a_post_that_is_reset_fails_its_own_call_and_no_other(web: Web) -> None:
    ledger, server = Ledger(), await started(web)
    async with client_of(web, server) as client:
        beside = [asyncio.create_task(ledger.call(client, "slow", timeout=30)) for _ in range(20)]
        await running(server, 20)
        assert type(await ledger.call(client, "die")) is OutcomeUnknown
        server.release.set()
        assert all(map(succeeded, await asyncio.gather(*beside)))
    ledger.check(server.executed)


async def test_a_hundred_callers_and_a_401_make_one_refresh(web: Web) -> None:
    ledger, server, provider = Ledger(), await started(web, tokens={"t1"}), Provider("t1", "t2", seconds=0.05)
    async with client_of(web, server, auth=provider) as client:
        await ledger.call(client)
        server.tokens = {"t2"}
        assert all(map(succeeded, await calls(ledger, client, 100, timeout=30)))
        assert provider.refreshes == 1
    ledger.check(server.executed)


async def test_a_401_without_credentials_is_an_auth_error(web: Web) -> None:
    server = await started(web, tokens={"t"})
    client = client_of(web, server)
    with pytest.raises(AuthError) as caught:
        await client.connect()
    assert caught.value.challenge == server.challenge
    assert client.status.state is ConnectionState.NEEDS_AUTH


@pytest.mark.parametrize("how", [{}, {"head": True}])
async def test_the_deadline_holds_and_the_server_is_notified(web: Web, how: dict[str, Any]) -> None:
    ledger, server = Ledger(), await started(web)
    async with client_of(web, server) as client:
        outcome = await ledger.call(client, "silent", timeout=0.3, **how)
        assert type(outcome) is UnansweredTimeout, outcome
        await eventually(lambda: server.cancelled == ["n0"])
        task = asyncio.create_task(ledger.call(client, "slow", timeout=60))
        await eventually(lambda: server.executed["n1"])
        task.cancel()
        assert cancelled(await task)
        await eventually(lambda: server.cancelled == ["n0", "n1"])
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


async def test_a_deaf_server_does_not_stretch_the_deadline_and_half_a_request_never_runs(web: Web) -> None:
    ledger, server = Ledger(), await started(web, receive=64 * 1024)
    async with client_of(web, server) as client:
        await ledger.call(client)
        server.deaf = True
        held = asyncio.create_task(ledger.call(client, "silent", timeout=5))
        await eventually(lambda: server.executed["n1"])  # the kept connection is busy: what follows needs a deaf one
        outcomes = await calls(ledger, client, 3, timeout=0.5, pad="b" * (30 * MIB))
        assert all(isinstance(one, CallTimeout) for one in outcomes)
        assert all(map(surely_unsent, outcomes))
        server.deaf = False
        held.cancel()
        await held
        await succeeds(lambda: client.call_tool("echo", {"nonce": "x"}, timeout=5))
    ledger.check(server.executed)


TRICKS = [
    "http://127.0.0.1:{other}/messages?session=$SESSION",
    "//127.0.0.1:{other}/messages?session=$SESSION",
    "http://127.0.0.1:{port}@127.0.0.1:{other}/messages",
    "https://127.0.0.1:{port}/messages",
    "http://localhost:{port}/messages",
    "http://[::1",
    "file:///etc/passwd",
    "javascript:alert(1)",
]


@pytest.mark.parametrize("endpoint", TRICKS)
async def test_an_endpoint_elsewhere_is_refused_and_gets_nothing(web: Web, endpoint: str) -> None:
    server, other = await started(web), await web.server()
    server.endpoint = endpoint.replace("{port}", str(server.port)).replace("{other}", str(other.port))
    client = client_of(web, server, headers={"Authorization": f"Bearer {SECRET}"}, connect_timeout=5)
    with pytest.raises(ToolcribError) as caught:
        await client.connect()
    assert not isinstance(caught.value, TimeoutError)
    assert "did not answer" not in str(caught.value), "reported at once, not by a time-out"
    assert SECRET not in str(caught.value)
    assert (other.requests, other.accepted) == ([], 0)
    assert all(one.verb == "GET" for one in server.requests)


@pytest.mark.parametrize(
    "how",
    [
        {"do": "events", "text": "", "then": "end"},
        {"do": "events", "text": "data: {}\n\n", "then": "fin"},
        {"do": "events", "text": ": nothing\n\n", "then": "hang"},
        {"do": "status", "status": 200, "body": "<h1>", "type": "text/html"},
        {"do": "status", "status": 404},
        {"do": "status", "status": 500},
        {"do": "die"},
        {"do": "silent"},
    ],
)
async def test_a_stream_that_does_not_open_is_a_connect_error_in_time(web: Web, how: dict[str, Any]) -> None:
    server = await started(web)
    server.gate("GET", **how)
    start = time.monotonic()
    with pytest.raises(ConnectError) as caught:
        await client_of(web, server, connect_timeout=0.7).connect()
    assert not caught.value.sent
    assert time.monotonic() - start < 4


async def test_a_redirected_stream_goes_nowhere_else(web: Web) -> None:
    server, other = await started(web), await web.server()
    server.gate("GET", "redirect", to=other.url)
    with pytest.raises(ToolcribError, match=str(other.port)):
        await client_of(web, server, headers={"Authorization": f"Bearer {SECRET}"}).connect()
    assert (other.requests, other.accepted) == ([], 0)


async def test_garbage_and_oversized_events_are_counted_and_the_connection_lives(web: Web) -> None:
    ledger, server = Ledger(), await started(web)
    async with client_of(web, server) as client:
        (session,) = server.sessions.values()
        assert session.standing is not None
        for junk in (
            b"data: hello\n\n",
            b"data: 42\n\n",
            b'data: "\xff\xfe"\n\n',
            b"event: endpoint\ndata: //evil/\n\n",
        ):
            session.standing.events.append(junk)
        assert all(map(succeeded, await calls(ledger, client, 5)))
        assert client.counters.malformed == 3
        with bounded(memory=80 * MIB, within=10):
            session.standing.events += [b"data: ", *[b"a" * MIB] * 40, b"\n\n"]
            assert all(map(succeeded, await calls(ledger, client, 5, timeout=20)))
        assert client.counters.malformed == 4
    ledger.check(server.executed)


async def test_closing_with_calls_in_flight_leaves_nothing(web: Web) -> None:
    ledger, server = Ledger(), await started(web)
    client = client_of(web, server)
    pending = [asyncio.create_task(ledger.call(client, "slow", timeout=60)) for _ in range(20)]
    await running(server, 20)
    start = time.monotonic()
    await client.close()
    assert all(isinstance(one, OutcomeUnknown) for one in await asyncio.gather(*pending))
    assert time.monotonic() - start < 3
    assert own_tasks() == []
    await eventually(lambda: not server.sessions)
    ledger.check(server.executed)
