"""Answers that are too large, too deep, or expand too far: a prompt error, bounded memory, and the next call works."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.faults.http_kit import MIB, Web, bounded
from tests.faults.kit import Ledger, either_era, eventually, outcome_of, succeeded
from toolcrib.errors import AuthError, OutcomeUnknown, ProtocolError, RateLimited, UnansweredTimeout

TOO_LARGE: dict[str, dict[str, Any]] = {
    "100 MB of JSON, length announced": {"size": 100 * MIB, "length": True},
    "100 MB of JSON": {"size": 100 * MIB},
    "endless JSON": {},
    "an event of 100 MB": {"size": 100 * MIB, "as": "event"},
    "an endless event": {"as": "event"},
    "an event of endless lines": {"as": "lines"},
    "endless HTML": {"type": "text/html"},
}


@either_era
@pytest.mark.parametrize("name", TOO_LARGE)
async def test_a_body_above_the_cap_is_refused_soon_with_bounded_memory(web: Web, era: str, name: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        beside = asyncio.create_task(ledger.call(client, "slow", seconds=0.3))
        with bounded(memory=80 * MIB, within=10):
            outcome = await ledger.call(client, "huge", timeout=30, **TOO_LARGE[name])
        assert isinstance(outcome, ProtocolError), outcome
        assert len(str(outcome)) + len(outcome.sample) < 1000
        await eventually(lambda: "n0" not in server.in_call, what="the client does not wait for the rest")
        assert succeeded(await beside)
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("status, kind", [(500, OutcomeUnknown), (400, ProtocolError)])
async def test_the_endless_body_of_an_error_status_does_not_hide_the_status(
    web: Web, era: str, status: int, kind: type[Exception]
) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        with bounded(memory=40 * MIB, within=10), pytest.raises(kind) as caught:
            await client.call_tool("huge", {"status": status, "type": "text/html"}, timeout=30)
        assert getattr(caught.value, "status", None) == status


@either_era
@pytest.mark.parametrize("shape", ["json", "event"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_small_body_that_expands_to_a_gigabyte_is_refused_soon_with_bounded_memory(
    web: Web, era: str, encoding: str, shape: str
) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        with bounded(memory=80 * MIB, within=10):
            outcome = await ledger.call(client, "bomb", timeout=30, size=1024 * MIB, encoding=encoding, **{"as": shape})
        assert isinstance(outcome, ProtocolError), outcome
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
async def test_a_bomb_does_not_stop_the_calls_beside_it(web: Web, era: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client, web.client(server) as calm:
        bombs = [asyncio.create_task(client.call_tool("bomb", {"size": 1024 * MIB}, timeout=30)) for _ in range(4)]
        slowest = 0.0
        while not all(task.done() for task in bombs):
            start = time.monotonic()
            await calm.call_tool("echo", {})
            slowest = max(slowest, time.monotonic() - start)
        assert all(
            isinstance(outcome, ProtocolError) for outcome in await asyncio.gather(*bombs, return_exceptions=True)
        )
        assert slowest < 2


@either_era
@pytest.mark.parametrize("shape", ["json", "event"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw-deflate"])
async def test_an_honest_compressed_answer_is_read(web: Web, era: str, encoding: str, shape: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        assert (await client.call_tool("squeezed", {"nonce": "x", "encoding": encoding, "as": shape})).text == "x"
    said = server.received("tools/call")[-1].header("accept-encoding") or ""
    assert "br" not in said and "zstd" not in said, "what we cannot open with bounded memory is not asked for"


@either_era
@pytest.mark.parametrize("shape", ["json", "event", "lines"])
async def test_a_body_below_the_cap_arrives_whole(web: Web, era: str, shape: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        result = await client.call_tool("huge", {"size": 15 * MIB, "as": shape}, timeout=30)
        assert len(result.raw["pad"]) + sum(map(len, result.raw.get("pads", []))) > 14 * MIB


@either_era
async def test_a_long_comment_before_the_answer_is_passed_over_with_bounded_memory(web: Web, era: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        with bounded(memory=80 * MIB, within=15):
            outcome = await outcome_of(client.call_tool("huge", {"size": 50 * MIB, "as": "comment"}, timeout=30))
        assert succeeded(outcome) or isinstance(outcome, ProtocolError), outcome
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


@either_era
@pytest.mark.parametrize("shape", ["json", "event"])
@pytest.mark.parametrize("depth", [200, 100_000])
async def test_an_answer_too_deep_is_reported_soon_and_does_not_crash(
    web: Web, era: str, depth: int, shape: str
) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        with bounded(memory=80 * MIB, within=10):
            outcome = await ledger.call(client, "deep", depth=depth, **{"as": shape})
        assert isinstance(outcome, ProtocolError), outcome
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("shape", ["json", "event"])
async def test_an_answer_below_the_depth_limit_arrives_whole(web: Web, era: str, shape: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        result = await client.call_tool("deep", {"depth": 100, "as": shape})
        assert str(result.data).count("{") == 100


@either_era
@pytest.mark.parametrize("method", ["notifications/message", "notifications/progress", "notifications/x"])
async def test_a_flood_of_notifications_does_not_hinder_the_answer(web: Web, era: str, method: str) -> None:
    server = await web.server(era=era, event_ids=False)
    async with web.client(server, log_handler=lambda message: None) as client:
        result = await client.call_tool("flood", {"nonce": "f", "count": 5_000, "method": method}, timeout=30)
        assert result.text == "f"
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


@either_era
async def test_an_endless_flood_of_notifications_ends_at_the_deadline_with_bounded_memory(web: Web, era: str) -> None:
    server = await web.server(era=era, event_ids=False)
    async with web.client(server, log_handler=lambda message: None) as client:
        with bounded(memory=20 * MIB, within=10), pytest.raises(UnansweredTimeout):
            await client.call_tool("flood", {}, timeout=0.7)
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


@either_era
async def test_arguments_of_30_mb_arrive(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        assert succeeded(await ledger.call(client, pad="b" * (30 * MIB), timeout=30))
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("status, kind", [(413, ProtocolError), (429, RateLimited), (401, AuthError)])
async def test_a_refusal_that_comes_before_the_body_was_read_is_received(
    web: Web, era: str, status: int, kind: type[Exception]
) -> None:
    ledger, server = Ledger(), await web.server(era=era, hasty=status)
    async with web.client(server, max_attempts=1) as client:
        outcome = await ledger.call(client, pad="b" * (30 * MIB), timeout=20)
        assert isinstance(outcome, kind), outcome
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert len(server.executed) == 1
