"""Calls that are given up: the server is told, its tool ends, and the connection is whole."""

from __future__ import annotations

import asyncio

import pytest

import toolyard as ty
from tests.peers.kit import EACH_TRANSPORT, PEERS, SDK1, SDK2_MODERN, Chosen, Yard, eventually, over_http

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def naps(yard: Yard) -> list[str]:
    answer = await yard.client.call_tool("nap_log")
    entries: list[str] = answer.raw["structuredContent"]["result"]
    return entries


async def ended(yard: Yard, before: int) -> list[str]:
    """How the naps since then went, once one of them has ended."""

    async def those() -> list[str] | None:
        entries = (await naps(yard))[before:]
        return entries if entries[-1:] != ["started"] else None

    entries: list[str] = await eventually(those, what="the nap ended")
    return entries


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_cancelled_caller_cancels_the_tool(yard: Yard) -> None:
    before, asleep = len(await naps(yard)), asyncio.Event()
    call = asyncio.create_task(yard.client.call_tool("nap", {"seconds": 60}, on_progress=lambda *_: asleep.set()))
    async with asyncio.timeout(20):
        await asleep.wait()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert await ended(yard, before) == ["started", "cancelled"]
    assert yard.client.connected


@pytest.mark.peers(Chosen(PEERS, [SDK1, *over_http(SDK2_MODERN)], over_http(SDK2_MODERN)))
async def test_a_passed_deadline_cancels_the_tool_and_tells_that_it_was_sent(yard: Yard) -> None:
    before = len(await naps(yard))

    with pytest.raises(ty.UnansweredTimeout) as late:
        await yard.client.call_tool("nap", {"seconds": 60}, timeout=1)

    assert late.value.sent and late.value.tool == "nap"
    assert await ended(yard, before) == ["started", "cancelled"]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_one_cancelled_call_leaves_the_others_alone(yard: Yard) -> None:
    asleep = asyncio.Event()
    call = asyncio.create_task(yard.client.call_tool("nap", {"seconds": 60}, on_progress=lambda *_: asleep.set()))
    async with asyncio.timeout(20):
        await asleep.wait()
    others = [asyncio.create_task(yard.client.call_tool("echo", {"text": str(n)})) for n in range(16)]

    call.cancel()

    assert [result.text for result in await asyncio.gather(*others)] == [str(n) for n in range(16)]
    with pytest.raises(asyncio.CancelledError):
        await call
