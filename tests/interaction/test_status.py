"""The status of a connection: the breaker after many failures, the reasons, a server that does not answer."""

from __future__ import annotations

import asyncio

import pytest

import toolcrib as tc
from tests.interaction.kit import FAST, Clock, Place, eventually, soon
from tests.interaction.marks import CONNECTED

pytestmark = pytest.mark.usefixtures("lucky")


# ---- the breaker


async def failing(c: tc.Client, times: int) -> None:
    for _ in range(times):
        with pytest.raises(tc.ConnectError):
            await c.connect()


@pytest.mark.transport
async def test_after_five_failures_in_a_row_no_attempt_is_made_for_a_while(harness: Place, clock: Clock) -> None:
    policy = tc.ReconnectPolicy(max_delay=30)
    c = harness.client(server_options=harness.sick(5), reconnect=policy)
    await failing(c, 5)
    lives = harness.journal.lives
    with pytest.raises(tc.ConnectError, match="5 failures in a row") as caught:
        await c.call_tool("echo", {"text": "x"}, timeout=5)
    assert caught.value.sent is False
    assert harness.journal.lives == lives, "it was not tried"
    clock.advance(31)
    assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert harness.journal.lives == lives + 1


async def test_a_trial_that_fails_keeps_the_breaker_open(harness: Place, clock: Clock) -> None:
    c = harness.client(server_options=harness.sick(6), reconnect=tc.ReconnectPolicy(max_delay=30), max_retries=1)
    await failing(c, 5)
    clock.advance(31)
    await failing(c, 1)
    lives = harness.journal.lives
    await failing(c, 1)
    assert harness.journal.lives == lives
    clock.advance(31)
    await c.connect()
    assert c.connected


async def test_one_trial_is_made_for_all_callers_after_the_pause(harness: Place, clock: Clock) -> None:
    options = harness.sick(6)
    c = harness.client(server_options=options, reconnect=tc.ReconnectPolicy(max_delay=30))
    await failing(c, 5)
    clock.advance(31)
    before = harness.journal.lives
    calls = (c.call_tool("echo", {"text": "x"}) for _ in range(10))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, tc.ConnectError) for outcome in outcomes)
    assert harness.journal.lives == before + options["sick"] // 6


async def test_a_success_in_between_closes_the_breaker(harness: Place) -> None:
    c = harness.client(server_options=harness.sick(4))
    await failing(c, 4)
    for n in range(6):
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
        with pytest.raises(tc.OutcomeUnknown):
            await c.call_tool("die", {"nonce": f"n{n}"})
    assert (await c.call_tool("echo", {"text": "x"})).text == "x"


# ---- status


@pytest.mark.transport
async def test_the_status_goes_through_its_words(harness: Place) -> None:
    c = harness.client(server_options={"silent": {"server/discover": 0, "initialize": 0}})
    assert str(c.status) == "disconnected"
    connecting = asyncio.create_task(c.connect())
    await eventually(lambda: harness.journal.entries("got"))
    assert (c.status.state, c.connected) == (tc.ConnectionState.CONNECTING, False)
    await c.disconnect()
    with pytest.raises(tc.ConnectionLost):
        await soon(connecting)
    assert c.status.state is tc.ConnectionState.DISCONNECTED


@pytest.mark.transport
@CONNECTED
async def test_a_server_that_cannot_be_had_again_is_failed_and_each_new_call_tries(harness: Place) -> None:
    async with harness.client(server_options={"doomed": 2}, reconnect=FAST, max_retries=1) as c:
        with pytest.raises(tc.OutcomeUnknown):
            await c.call_tool("die", {"nonce": "n"})
        await eventually(lambda: c.status.state is tc.ConnectionState.FAILED)
        assert c.status.reason
        assert not c.connected
        assert harness.journal.lives == 1 + FAST.max_retries
        with pytest.raises(tc.ConnectError):
            await c.call_tool("echo", {"text": "x"})
        assert harness.journal.lives == 2 + FAST.max_retries


@pytest.mark.transport
@CONNECTED
async def test_without_reconnects_a_lost_connection_waits_for_the_next_call(harness: Place) -> None:
    async with harness.client(reconnect=tc.ReconnectPolicy(max_retries=0)) as c:
        with pytest.raises(tc.OutcomeUnknown):
            await c.call_tool("die", {"nonce": "n"})
        await eventually(lambda: c.status.state is tc.ConnectionState.DISCONNECTED)
        assert c.status.reason
        assert harness.journal.lives == 1
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"


async def unanswered(harness: Place, c: tc.Client, clock: Clock, times: int) -> None:
    for _ in range(times):
        before = len(harness.journal.calls)
        call = asyncio.create_task(c.call_tool("sleeper", timeout=20))
        await eventually(lambda n=before: len(harness.journal.calls) > n)  # type: ignore[misc]
        clock.advance(21)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(call)


@pytest.mark.transport
async def test_a_server_that_leaves_three_calls_unanswered_is_asked_whether_it_lives(
    harness: Place, clock: Clock
) -> None:
    health, asked = ("server/discover", 1) if harness.modern else ("ping", 0)
    async with harness.client() as c:
        await unanswered(harness, c, clock, 3)
        await eventually(lambda: len(harness.journal.got(health)) == asked + 1)
        await eventually(lambda: c.status.state is tc.ConnectionState.CONNECTED)
    assert harness.journal.lives == 1


@pytest.mark.transport
async def test_a_server_that_does_not_live_is_degraded_and_then_restarted(harness: Place, clock: Clock) -> None:
    health, asked = ("server/discover", 1) if harness.modern else ("ping", 0)
    async with harness.client(server_options={"silent": {health: asked}}) as c:
        await unanswered(harness, c, clock, 2)
        assert c.status.state is tc.ConnectionState.CONNECTED
        await unanswered(harness, c, clock, 1)
        await eventually(lambda: len(harness.journal.got(health)) == asked + 1)
        assert (c.status.state, c.connected) == (tc.ConnectionState.DEGRADED, True)
        assert "3 calls" in c.status.reason
        clock.advance(6)
        await eventually(lambda: harness.journal.lives == 2 and c.connected)
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
