"""Busy servers: the client waits within the deadline, otherwise reports the delay; no call runs twice."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.faults.http_kit import Web, calls
from tests.faults.kit import FAST, Ledger, either_era, lucky, outcome_of, succeeded, surely_unsent
from toolcrib.errors import ConnectError, OutcomeUnknown, RateLimited
from toolcrib.protocol import limits
from toolcrib.types import ConnectionState


def json_error(code: int, ident: str = "$ID") -> dict[str, str]:
    body = f'{{"jsonrpc": "2.0", "id": {ident}, "error": {{"code": {code}, "message": "no", "data": {{}}}}}}'
    return {"type": "application/json", "body": body}


def date_in(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@either_era
async def test_a_pause_that_fits_into_the_deadline_is_kept_and_the_call_runs_once(web: Web, era: str) -> None:
    async def one(status: int, body: dict[str, str]) -> None:
        ledger, server = Ledger(), await web.server(era=era)
        async with web.client(server) as client:
            server.gate("tools/call", "status", status=status, headers={"Retry-After": "1"}, times=1, **body)
            start = time.monotonic()
            assert succeeded(await ledger.call(client, timeout=20))
            assert time.monotonic() - start >= 0.95
            assert len(server.received("tools/call")) == 2
        ledger.check(server.executed)

    await asyncio.gather(*(one(status, body) for status in (429, 503) for body in ({}, json_error(-32000))))


async def test_a_pause_given_as_a_date_is_kept(web: Web) -> None:
    ledger, server = Ledger(), await web.server()
    async with web.client(server) as client:
        server.gate("tools/call", "status", status=429, headers={"Retry-After": date_in(2.5)}, times=1)
        start = time.monotonic()
        assert succeeded(await ledger.call(client, timeout=20))
        assert time.monotonic() - start >= 1, "dates have no fractions"
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("after", ["60", "date"])
async def test_a_pause_beyond_the_deadline_is_reported_at_once(web: Web, era: str, status: int, after: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        value = date_in(60) if after == "date" else after
        server.gate("tools/call", "status", status=status, headers={"Retry-After": value})
        start = time.monotonic()
        outcome = await ledger.call(client, timeout=5)
        assert time.monotonic() - start < 2, "no use to wait"
        assert isinstance(outcome, RateLimited), outcome
        assert outcome.retry_after is not None
        assert 50 < outcome.retry_after <= 61
        assert surely_unsent(outcome)
        assert len(server.received("tools/call")) == 1
        assert client.status.state is ConnectionState.CONNECTED, "it is busy, not dead"
    ledger.check(server.executed)


async def test_a_server_that_stays_busy_is_asked_at_most_max_attempts_times(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server, max_attempts=2) as client:
        server.gate("tools/call", "status", status=429, headers={"Retry-After": "0"})
        outcome = await ledger.call(client, timeout=20)
        assert isinstance(outcome, RateLimited)
        assert len(server.received("tools/call")) == 2
    ledger.check(server.executed)


async def test_a_429_that_says_no_sensible_pause_is_tried_again_by_our_own(web: Web) -> None:
    async def one(headers: dict[str, str]) -> None:
        ledger, server = Ledger(), await web.server()
        async with web.client(server) as client:
            server.gate("tools/call", "status", status=429, headers=headers, times=1)
            outcome = await ledger.call(client, timeout=20)
            assert succeeded(outcome), (headers, outcome)
        ledger.check(server.executed)

    odd = ("soon", "-5", "1e9", "", "Thu, 99 Foo 2026 00:00:00 GMT", date_in(-100))
    await asyncio.gather(one({}), *(one({"Retry-After": value}) for value in odd))


@pytest.mark.parametrize(
    "value", ["9" * 400, date_in(1e9), "Fri, 31 Dec 9999 23:59:59 GMT"], ids=["digits", "decades", "last date"]
)
async def test_an_absurd_pause_does_not_crash(web: Web, value: str) -> None:
    ledger, server = Ledger(), await web.server()
    async with web.client(server) as client:
        server.gate("tools/call", "status", status=429, headers={"Retry-After": value}, times=1)
        assert isinstance(await ledger.call(client, timeout=5), RateLimited)
    ledger.check(server.executed)


async def test_a_503_without_a_pause_may_have_been_executed_and_is_not_sent_again(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        server.gate("tools/call", "status", status=503)
        outcome = await ledger.call(client, timeout=20)
        assert type(outcome) is OutcomeUnknown
        assert outcome.status == 503
        assert len(server.received("tools/call")) == 1
    ledger.check(server.executed)


@either_era
async def test_many_callers_of_a_busy_server_get_one_honest_outcome_each(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        server.gate("tools/call", "status", status=429, headers={"Retry-After": "0"}, times=60)
        outcomes = await calls(ledger, client, 100, timeout=30)
        assert all(succeeded(one) or isinstance(one, RateLimited) for one in outcomes)
        assert ledger.count(succeeded) >= 40
    ledger.check(server.executed)


# ---- while connecting


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_is_busy_while_connecting_is_waited_for_and_its_era_is_not_guessed(
    web: Web, status: int
) -> None:
    ledger, server = Ledger(), await web.server()
    server.gate("any", "status", status=status, headers={"Retry-After": "1"}, times=1)
    async with asyncio.timeout(20):
        client = web.client(server, reconnect=FAST)
        assert succeeded(await ledger.call(client, timeout=15))
    assert client.server_info is not None
    assert client.server_info.protocol_version == "2026-07-28"
    assert server.received("initialize") == [], "a busy server does not decide the era"
    ledger.check(server.executed)


async def test_a_server_that_is_busy_for_long_while_connecting_says_for_how_long(web: Web) -> None:
    server = await web.server()
    server.gate("any", "status", status=429, headers={"Retry-After": "77"})
    outcome = await outcome_of(web.client(server).call_tool("echo", {}, timeout=5))
    assert isinstance(outcome, RateLimited)
    assert outcome.retry_after == 77
    assert surely_unsent(outcome)


SICK = {
    "type": "application/json",
    "body": '{"jsonrpc": "2.0", "id": $ID, "error": {"code": -32603, "message": "sick"}}',
}


@pytest.mark.parametrize(
    "how",
    [
        {"do": "status", "status": 500},
        {"do": "status", "status": 500, **SICK},
        {"do": "die"},
        {"do": "status", "status": 502},
    ],
)
async def test_a_failure_of_the_probe_does_not_decide_the_era(
    web: Web, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    ledger, server = Ledger(), await web.server()
    server.gate("server/discover", times=1, **how)
    client = web.client(server)
    assert succeeded(await ledger.call(client, timeout=20))
    assert client.server_info is not None
    assert client.server_info.protocol_version == "2026-07-28"
    ledger.check(server.executed)


@pytest.mark.parametrize(
    "how",
    [
        {"status": 400},
        {"status": 404},
        {"status": 400, **json_error(-32600, "null")},
        {"status": 404, **json_error(-32601)},
        {"status": 406, "type": "text/html", "body": "<p>"},
    ],
)
async def test_a_4xx_that_is_not_modern_means_the_legacy_era(web: Web, how: dict[str, Any]) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    server.gate("server/discover", "status", **how)
    client = web.client(server)
    assert succeeded(await ledger.call(client, timeout=20))
    assert client.server_info is not None
    assert client.server_info.protocol_version == "2025-11-25"
    ledger.check(server.executed)


async def test_a_modern_error_to_the_probe_is_not_answered_with_a_handshake(web: Web) -> None:
    server = await web.server()
    server.gate("server/discover", "status", status=400, **json_error(-32021))
    with pytest.raises(ConnectError):
        await web.client(server).connect()
    assert server.received("initialize") == []


async def test_streams_that_stay_open_after_their_answers_do_not_use_up_sockets(web: Web) -> None:
    server = await web.server(era="legacy")
    answer = 'data: {"jsonrpc": "2.0", "id": $ID, "result": {"content": []}}\n\n'
    async with web.client(server) as client:
        for _ in range(60):
            await client.call_tool("events", {"text": answer, "then": "hang"}, timeout=5)
        assert len(server.connections) <= limits.MAX_LINGERING + 4
