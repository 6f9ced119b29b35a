"""How a connection stands: the breaker after many failures, the words of the status, a server that does not answer."""

from __future__ import annotations

import asyncio

import pytest

import toolyard as ty
from tests.interaction.kit import FAST, Clock, Place, eventually, soon
from tests.interaction.marks import CONNECTED

pytestmark = pytest.mark.usefixtures("lucky")


# ---- the breaker


async def failing(c: ty.Client, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ty.ConnectError):
            await c.connect()


@pytest.mark.transport
async def test_after_five_failures_in_a_row_nobody_tries_for_a_while(yard: Place, clock: Clock) -> None:
    policy = ty.ReconnectPolicy(max_delay=30)
    c = yard.client(yard=yard.sick(5), reconnect=policy)
    await failing(c, 5)
    lives = yard.journal.lives
    with pytest.raises(ty.ConnectError, match="5 failures in a row") as told:
        await c.call_tool("echo", {"text": "x"}, timeout=5)
    assert told.value.sent is False
    assert yard.journal.lives == lives, "it was not tried"
    clock.advance(31)
    assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert yard.journal.lives == lives + 1


async def test_a_trial_that_fails_keeps_the_breaker_open(yard: Place, clock: Clock) -> None:
    c = yard.client(yard=yard.sick(6), reconnect=ty.ReconnectPolicy(max_delay=30), max_retries=1)
    await failing(c, 5)
    clock.advance(31)
    await failing(c, 1)
    lives = yard.journal.lives
    await failing(c, 1)
    assert yard.journal.lives == lives
    clock.advance(31)
    await c.connect()
    assert c.connected


async def test_one_trial_is_made_for_all_who_come_after_the_pause(yard: Place, clock: Clock) -> None:
    options = yard.sick(6)
    c = yard.client(yard=options, reconnect=ty.ReconnectPolicy(max_delay=30))
    await failing(c, 5)
    clock.advance(31)
    before = yard.journal.lives
    calls = (c.call_tool("echo", {"text": "x"}) for _ in range(10))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, ty.ConnectError) for outcome in outcomes)
    assert yard.journal.lives == before + options["sick"] // 6


async def test_a_success_in_between_closes_the_breaker(yard: Place) -> None:
    c = yard.client(yard=yard.sick(4))
    await failing(c, 4)
    for n in range(6):
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
        with pytest.raises(ty.OutcomeUnknown):
            await c.call_tool("die", {"nonce": f"n{n}"})
    assert (await c.call_tool("echo", {"text": "x"})).text == "x"


# ---- status


@pytest.mark.transport
async def test_the_status_goes_through_its_words(yard: Place) -> None:
    c = yard.client(yard={"silent": {"server/discover": 0, "initialize": 0}})
    assert str(c.status) == "disconnected"
    connecting = asyncio.create_task(c.connect())
    await eventually(lambda: yard.journal.entries("got"))
    assert (c.status.state, c.connected) == (ty.State.CONNECTING, False)
    await c.disconnect()
    with pytest.raises(ty.ConnectionLost):
        await soon(connecting)
    assert c.status.state is ty.State.DISCONNECTED


@pytest.mark.transport
@CONNECTED
async def test_a_server_that_cannot_be_had_again_is_failed_and_each_new_call_tries(yard: Place) -> None:
    async with yard.client(yard={"doomed": 2}, reconnect=FAST, max_retries=1) as c:
        with pytest.raises(ty.OutcomeUnknown):
            await c.call_tool("die", {"nonce": "n"})
        await eventually(lambda: c.status.state is ty.State.FAILED)
        assert c.status.reason
        assert not c.connected
        assert yard.journal.lives == 1 + FAST.max_retries
        with pytest.raises(ty.ConnectError):
            await c.call_tool("echo", {"text": "x"})
        assert yard.journal.lives == 2 + FAST.max_retries


@pytest.mark.transport
@CONNECTED
async def test_without_reconnects_a_lost_connection_waits_for_the_next_call(yard: Place) -> None:
    async with yard.client(reconnect=ty.ReconnectPolicy(max_retries=0)) as c:
        with pytest.raises(ty.OutcomeUnknown):
            await c.call_tool("die", {"nonce": "n"})
        await eventually(lambda: c.status.state is ty.State.DISCONNECTED)
        assert c.status.reason
        assert yard.journal.lives == 1
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"


async def unanswered(yard: Place, c: ty.Client, clock: Clock, times: int) -> None:
    for _ in range(times):
        before = len(yard.journal.calls)
        call = asyncio.create_task(c.call_tool("sleeper", timeout=20))
        await eventually(lambda n=before: len(yard.journal.calls) > n)  # type: ignore[misc]
        clock.advance(21)
        with pytest.raises(ty.UnansweredTimeout):
            await soon(call)


@pytest.mark.transport
async def test_a_server_that_leaves_three_calls_unanswered_is_asked_whether_it_lives(yard: Place, clock: Clock) -> None:
    health, asked = ("server/discover", 1) if yard.modern else ("ping", 0)
    async with yard.client() as c:
        await unanswered(yard, c, clock, 3)
        await eventually(lambda: len(yard.journal.got(health)) == asked + 1)
        await eventually(lambda: c.status.state is ty.State.CONNECTED)
    assert yard.journal.lives == 1


@pytest.mark.transport
async def test_a_server_that_does_not_live_is_degraded_and_then_restarted(yard: Place, clock: Clock) -> None:
    health, asked = ("server/discover", 1) if yard.modern else ("ping", 0)
    async with yard.client(yard={"silent": {health: asked}}) as c:
        await unanswered(yard, c, clock, 2)
        assert c.status.state is ty.State.CONNECTED
        await unanswered(yard, c, clock, 1)
        await eventually(lambda: len(yard.journal.got(health)) == asked + 1)
        assert (c.status.state, c.connected) == (ty.State.DEGRADED, True)
        assert "3 calls" in c.status.reason
        clock.advance(6)
        await eventually(lambda: yard.journal.lives == 2 and c.connected)
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
