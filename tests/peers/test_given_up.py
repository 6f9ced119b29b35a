"""Cancelled calls: the server is notified, its tool ends, and the connection still works."""

from __future__ import annotations

import asyncio

import pytest

import toolcrib as tc
from tests.peers.kit import EACH_TRANSPORT, PEERS, SDK1, SDK2_MODERN, Chosen, ScriptedClient, eventually, over_http

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def naps(scripted: ScriptedClient) -> list[str]:
    answer = await scripted.client.call_tool("nap_log")
    entries: list[str] = answer.raw["structuredContent"]["result"]
    return entries


async def ended(scripted: ScriptedClient, before: int) -> list[str]:
    """Return how the naps since then ended, once one of them has ended."""

    async def those() -> list[str] | None:
        entries = (await naps(scripted))[before:]
        return entries if entries[-1:] != ["started"] else None

    entries: list[str] = await eventually(those, what="the nap ended")
    return entries


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_cancelled_caller_cancels_the_tool(scripted: ScriptedClient) -> None:
    before, asleep = len(await naps(scripted)), asyncio.Event()
    call = asyncio.create_task(scripted.client.call_tool("nap", {"seconds": 60}, on_progress=lambda *_: asleep.set()))
    async with asyncio.timeout(20):
        await asleep.wait()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert await ended(scripted, before) == ["started", "cancelled"]
    assert scripted.client.connected


@pytest.mark.peers(Chosen(PEERS, [SDK1, *over_http(SDK2_MODERN)], over_http(SDK2_MODERN)))
async def test_a_passed_deadline_cancels_the_tool_and_reports_that_it_was_sent(scripted: ScriptedClient) -> None:
    before = len(await naps(scripted))

    with pytest.raises(tc.UnansweredTimeout) as late:
        await scripted.client.call_tool("nap", {"seconds": 60}, timeout=1)

    assert late.value.sent and late.value.tool == "nap"
    assert await ended(scripted, before) == ["started", "cancelled"]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_one_cancelled_call_leaves_the_others_alone(scripted: ScriptedClient) -> None:
    asleep = asyncio.Event()
    call = asyncio.create_task(scripted.client.call_tool("nap", {"seconds": 60}, on_progress=lambda *_: asleep.set()))
    async with asyncio.timeout(20):
        await asleep.wait()
    others = [asyncio.create_task(scripted.client.call_tool("echo", {"text": str(n)})) for n in range(16)]

    call.cancel()

    assert [result.text for result in await asyncio.gather(*others)] == [str(n) for n in range(16)]
    with pytest.raises(asyncio.CancelledError):
        await call
