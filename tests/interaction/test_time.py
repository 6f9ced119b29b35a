"""Deadlines, idle time-outs, cancelled callers, and calls that wait for their turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Clock, Place, eventually, soon
from tests.interaction.marks import client_side, per_protocol


async def asleep(harness: Place, c: tc.Client, **options: Any) -> asyncio.Task[tc.ToolResult]:
    """Start a call that the server receives and does not answer."""
    before = harness.journal.calls.count("sleeper")
    call = asyncio.create_task(c.call_tool("sleeper", **options))
    await eventually(lambda: harness.journal.calls.count("sleeper") > before)
    return call


def sleeper_ids(harness: Place) -> list[int]:
    return [call["id"] for call in harness.journal.got("tools/call") if call["params"]["name"] == "sleeper"]


# ---- deadlines


@pytest.mark.transport
async def test_a_passed_deadline_is_reported_as_unanswered_and_cancels_the_request(
    harness: Place, clock: Clock
) -> None:
    async with harness.client(name="y") as c:
        call = await asleep(harness, c, timeout=20)
        clock.advance(21)
        with pytest.raises(tc.UnansweredTimeout) as caught:
            await soon(call)
        error = caught.value
        assert isinstance(error, TimeoutError)
        assert isinstance(error, tc.OutcomeUnknown)
        assert (error.sent, error.server, error.tool) == (True, "y", "sleeper")
        await eventually(lambda: harness.journal.taken_back() == sleeper_ids(harness))
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert harness.journal.lives == 1


async def test_a_call_before_its_deadline_is_not_ended(harness: Place, clock: Clock) -> None:
    async with harness.client() as c:
        call = await asleep(harness, c, timeout=20)
        clock.advance(15)
        await c.call_tool("wake")
        assert (await soon(call)).text == "good morning"
    assert harness.journal.taken_back() == []


@client_side
async def test_without_its_own_timeout_a_call_uses_the_clients(harness: Place, clock: Clock) -> None:
    async with harness.client(execution_timeout=60) as c:
        call = await asleep(harness, c)
        clock.advance(50)
        await c.call_tool("echo", {"text": "x"})
        assert not call.done()
        clock.advance(11)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(call)


@client_side
async def test_the_default_is_30_seconds(harness: Place, clock: Clock) -> None:
    async with harness.client() as c:
        call = await asleep(harness, c)
        clock.advance(25)
        await c.call_tool("echo", {"text": "x"})
        assert not call.done()
        clock.advance(6)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(call)


@client_side
async def test_none_means_no_timeout(harness: Place, clock: Clock) -> None:
    async with harness.client(execution_timeout=5) as c:
        call = await asleep(harness, c, timeout=None)
        clock.advance(100_000)
        await c.call_tool("wake")
        assert (await soon(call)).text == "good morning"


@per_protocol
async def test_lists_have_the_discovery_timeout(harness: Place, clock: Clock) -> None:
    async with harness.client(
        server_options={"silent": {"tools/list": 0}}, discovery_timeout=50, execution_timeout=5
    ) as c:
        listing = asyncio.create_task(c.list_tools())
        await eventually(lambda: harness.journal.got("tools/list"))
        clock.advance(40)
        await c.list_prompts()
        assert not listing.done()
        clock.advance(11)
        with pytest.raises(tc.CallTimeout):
            await soon(listing)


@pytest.mark.transport
async def test_a_deadline_that_passes_while_connecting_sent_nothing(harness: Place, clock: Clock) -> None:
    c = harness.client(server_options={"silent": {"server/discover": 0, "initialize": 0}}, connect_timeout=90)
    call = asyncio.create_task(c.call_tool("echo", {"text": "x"}, timeout=5))
    await eventually(lambda: harness.journal.entries("got"))
    clock.advance(6)
    with pytest.raises(tc.CallTimeout) as caught:
        await soon(call)
    assert caught.value.sent is False
    assert not isinstance(caught.value, tc.OutcomeUnknown)
    await c.close()
    assert harness.journal.got("notifications/cancelled") == [], "the first words are never cancelled"


# ---- silence


@pytest.mark.transport
async def test_progress_ends_a_silence_and_only_silence_ends_the_call(harness: Place, clock: Clock) -> None:
    received: list[float] = []
    async with harness.client() as c:
        call = await asleep(harness, c, timeout=1000, idle_timeout=20, on_progress=lambda p, *_: received.append(p))
        for times in range(1, 6):
            clock.advance(15)
            await c.call_tool("nudge")
            await eventually(lambda n=times: len(received) == n)  # type: ignore[misc]
        assert not call.done()
        clock.advance(21)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(call)
        await eventually(lambda: harness.journal.taken_back() == sleeper_ids(harness))


async def test_progress_does_not_move_the_deadline(harness: Place, clock: Clock) -> None:
    received: list[float] = []
    async with harness.client() as c:
        call = await asleep(harness, c, timeout=40, idle_timeout=30, on_progress=lambda p, *_: received.append(p))
        clock.advance(25)
        await c.call_tool("nudge")
        await eventually(lambda: received)
        clock.advance(16)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(call)


async def test_the_clients_idle_timeout_holds_where_a_call_has_none(harness: Place, clock: Clock) -> None:
    async with harness.client(idle_timeout=10) as c:
        impatient, patient = await asleep(harness, c), await asleep(harness, c, idle_timeout=None)
        clock.advance(11)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(impatient)
        assert not patient.done()
        await c.call_tool("wake")
        assert (await soon(patient)).text == "good morning"


# ---- cancelled callers


@pytest.mark.transport
async def test_a_cancelled_call_is_reported_to_the_server_and_affects_no_other(harness: Place) -> None:
    async with harness.client() as c:
        cancelled, other = await asleep(harness, c), await asleep(harness, c)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await eventually(lambda: harness.journal.taken_back() == sleeper_ids(harness)[:1])
        await c.call_tool("wake")
        assert (await soon(other)).text == "good morning"


async def test_a_timeout_around_the_call_is_a_cancelled_caller_too(harness: Place, clock: Clock) -> None:
    async with harness.client() as c:
        call = asyncio.create_task(asyncio.wait_for(c.call_tool("sleeper"), 5))
        await eventually(lambda: sleeper_ids(harness))
        clock.advance(6)
        with pytest.raises(TimeoutError) as caught:
            await soon(call)
        assert not isinstance(caught.value, tc.ToolcribError)
        await eventually(lambda: harness.journal.taken_back() == sleeper_ids(harness))


@pytest.mark.transport
async def test_a_cancelled_list_asks_for_no_further_page(harness: Place) -> None:
    async with harness.client(server_options={"page": 1, "silent": {"tools/list": 0}}) as c:
        listing = asyncio.create_task(c.list_tools())
        await eventually(lambda: harness.journal.got("tools/list"))
        listing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listing
        await eventually(lambda: harness.journal.taken_back("tools/list"))
        await c.ping()
    assert len(harness.journal.got("tools/list")) == 1


# ---- turns


@client_side
async def test_calls_above_max_in_flight_wait_for_their_turn(harness: Place) -> None:
    async with harness.client(max_in_flight=2) as c:
        one, two = await asleep(harness, c), await asleep(harness, c)
        waiting = asyncio.create_task(c.call_tool("wake"))
        await asyncio.sleep(0)
        assert not waiting.done()
        one.cancel()
        assert (await soon(waiting)).text == "woken"
        assert (await soon(two)).text == "good morning"


@client_side
async def test_waiting_for_a_turn_counts_against_the_deadline_and_sends_nothing(harness: Place, clock: Clock) -> None:
    async with harness.client(max_in_flight=1) as c:
        call = await asleep(harness, c, timeout=None)
        waiting = asyncio.create_task(c.call_tool("echo", {"text": "x"}, timeout=5))
        await asyncio.sleep(0)
        clock.advance(6)
        with pytest.raises(tc.CallTimeout) as caught:
            await soon(waiting)
        assert caught.value.sent is False
        call.cancel()
        await c.ping()
    assert harness.journal.calls == ["sleeper"]


@client_side
async def test_a_cancelled_call_gives_its_turn_back(harness: Place) -> None:
    async with harness.client(max_in_flight=1) as c:
        for _ in range(3):
            call = await asleep(harness, c)
            queued = asyncio.create_task(c.call_tool("echo", {"text": "never"}))
            await asyncio.sleep(0)
            queued.cancel()
            call.cancel()
            await asyncio.gather(call, queued, return_exceptions=True)
        assert (await soon(c.call_tool("echo", {"text": "x"}))).text == "x"


@pytest.mark.transport
async def test_many_calls_at_once_get_their_own_answers(harness: Place) -> None:
    async with harness.client(max_in_flight=8) as c:
        results = await asyncio.gather(*(c.call_tool("echo", {"text": f"n{n}"}) for n in range(100)))
    assert [result.text for result in results] == [f"n{n}" for n in range(100)]
