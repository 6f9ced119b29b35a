"""The circuit breaker, whose clock is an argument."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolcrib as tc
from tests.unit.kit import LEGACY, Clock, PlayedServer, eventually
from toolcrib.client.breaker import MAX_FAILURES, Breaker
from toolcrib.errors import ConnectError


def opened(pause: float = 30.0, now: float = 0.0) -> Breaker:
    breaker = Breaker(pause)
    for _ in range(MAX_FAILURES):
        breaker.failed(now)
    return breaker


def test_it_opens_after_five_failures_in_a_row() -> None:
    breaker = Breaker(30.0)
    for _ in range(4):
        breaker.failed(0.0)
        assert breaker.admits(0.0)
    breaker.failed(0.0)
    assert not breaker.admits(0.0)
    assert not breaker.admits(29.9)
    assert breaker.remaining(10.0) == 20.0


def test_a_success_in_between_begins_the_count_anew() -> None:
    breaker = Breaker(30.0)
    for _ in range(20):
        for _ in range(4):
            breaker.failed(0.0)
        breaker.succeeded()
    assert breaker.admits(0.0)
    assert breaker.remaining(0.0) == 0.0


def test_after_the_pause_one_trial_is_admitted_and_no_other() -> None:
    breaker = opened()
    assert breaker.admits(30.0)
    assert not breaker.admits(30.0)
    assert not breaker.admits(1000.0)


def test_a_failed_trial_opens_it_again_for_a_whole_pause() -> None:
    breaker = opened()
    assert breaker.admits(31.0)
    breaker.failed(32.0)
    assert not breaker.admits(61.9)
    assert breaker.admits(62.0)


def test_a_trial_that_succeeds_closes_it_for_all() -> None:
    breaker = opened()
    assert breaker.admits(30.0)
    breaker.succeeded()
    assert all(breaker.admits(30.0) for _ in range(100))


def test_a_trial_without_a_verdict_lets_another_one_try() -> None:
    breaker = opened()
    assert breaker.admits(30.0)
    breaker.trial_ended()
    assert breaker.admits(30.0)
    breaker.failed(30.0)
    assert not breaker.admits(59.0)


def test_a_connection_lets_requests_through_until_the_next_failure() -> None:
    breaker = opened()
    breaker.connected()
    assert all(breaker.admits(0.0) for _ in range(3))
    breaker.failed(0.0)
    assert not breaker.admits(0.0)


@given(st.lists(st.sampled_from(["fail", "succeed", "ask", "wait"])))
def test_it_never_locks_itself_for_ever(steps: list[str]) -> None:
    """In any case: once the trial has ended and the pause has passed, another attempt is allowed."""
    breaker, now = Breaker(1.0), 0.0
    for step in steps:
        now += 0.3
        if step == "fail":
            breaker.failed(now)
        elif step == "succeed":
            breaker.succeeded()
        elif step == "ask":
            breaker.admits(now)
        else:
            now += 1.0
    breaker.trial_ended()
    assert breaker.admits(now + 1.0)


class Flaky(PlayedServer):
    """A server that cannot be reached until the test repairs it."""

    broken = True

    def __call__(self) -> object:  # type: ignore[override]
        if self.broken:
            raise OSError("unreachable")
        return super().__call__()


async def broken_client() -> tuple[tc.Client, Flaky, Clock]:
    clock, server = Clock(), Flaky(initialize=LEGACY)
    client = tc.Client(server, mode="legacy", max_attempts=1)
    for _ in range(MAX_FAILURES):
        with pytest.raises(ConnectError, match="unreachable"):
            await client.connect()
    return client, server, clock


async def test_a_client_whose_server_cannot_be_reached_stops_trying_for_a_while_and_says_so() -> None:
    client, server, clock = await broken_client()
    server.broken = False
    with pytest.raises(ConnectError, match=r"not tried: 5 failures in a row, the last one: .*unreachable"):
        await client.connect()
    await clock.advance(31)
    await client.connect()
    assert client.connected
    await client.close()


async def test_a_trial_that_connected_and_was_closed_does_not_lock_the_client_out() -> None:
    client, server, clock = await broken_client()
    server.broken = False
    await clock.advance(31)
    await client.connect()
    await client.disconnect()
    await client.connect()
    assert client.connected
    await client.close()


async def test_a_trial_given_up_while_connecting_does_not_lock_the_client_out() -> None:
    client, server, clock = await broken_client()
    server.broken, server.answers = False, {"initialize": lambda params: asyncio.Event().wait()}
    await clock.advance(31)
    trial = asyncio.create_task(client.connect())
    await eventually(lambda: server.named("initialize"))
    await client.disconnect()
    with pytest.raises(tc.ConnectionLost):
        await trial
    server.answers = {"initialize": LEGACY}
    await client.connect()
    assert client.connected
    await client.close()
