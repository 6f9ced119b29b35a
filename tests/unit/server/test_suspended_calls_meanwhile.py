"""Suspended calls while they wait: their limits, and the receivers of notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kit import Clock, turns
from tests.unit.server.suspended_calls_kit import (
    YES,
    Desk,
    Working,
    cancelled,
    one_question,
    others,
    questions,
    timers,
    waiting,
)
from toolcrib.errors import RemoteError
from toolcrib.protocol import jsonrpc
from toolcrib.server import suspended_calls
from toolcrib.server.handler import BackChannel
from toolcrib.server.suspended_calls import OUTCOME_TTL
from toolcrib.types import Wire


@pytest.fixture(autouse=True)
async def _nothing_is_left() -> AsyncIterator[None]:
    yield
    assert (others(), timers()) == (set(), [])


# ---- room ----------------------------------------------------------------------------------------------------


async def too_many(desk: Desk, **options: Any) -> bool:
    """Return whether a limit was reached; the call is then cancelled."""
    before = desk.cancelled
    with pytest.raises(RemoteError) as caught:
        await desk.call(**options)
    await turns()
    return (caught.value.code, desk.cancelled) == (-32603, before + 1)


async def test_the_number_of_calls_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended_calls, "MAX_SUSPENDED", 3)
    clock, desk = Clock(), Desk(one_question, ttl=60)
    states = [(await desk.call(principal=name))["requestState"] for name in "abc"]
    assert await too_many(desk, principal="d")
    assert desk.places[2] == {"a": 1, "b": 1, "c": 1}
    assert await desk.call(states[0], {"go": YES}, principal="a") == {"said": YES}
    assert await too_many(desk, principal="d"), "an outcome that is kept takes its place"
    await clock.advance(OUTCOME_TTL + 0.1)
    questions(await desk.call(principal="d"))
    assert await too_many(desk, principal="a")
    desk.parking.close()
    await turns()
    assert desk.places == (0, 0, {})


async def test_the_number_of_calls_per_principal_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended_calls, "MAX_EACH", 2)
    desk = Desk(one_question)
    alice = {"sub": "alice"}  # cannot be hashed
    for _ in range(2):
        questions(await desk.call(principal=dict(alice)))
    assert await too_many(desk, principal=dict(alice))
    questions(await desk.call(principal="bob"))
    assert desk.places[2] == {"{'sub': 'alice'}": 2, "bob": 1}
    desk.parking.close()
    await turns()


async def test_the_number_of_bytes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"name": "tool", "arguments": {"text": "x" * 1_000}}
    size = len(jsonrpc.encode({**params, "_meta": {}}))
    monkeypatch.setattr(suspended_calls, "MAX_BYTES", 2 * size)
    desk = Desk(one_question)
    for _ in range(2):
        questions(await desk.call(params=params))
    assert desk.places[1] == 2 * size
    assert await too_many(desk, params={"name": "tool"})
    desk.parking.close()
    await turns()
    assert desk.places[1] == 0
    questions(await desk.call(params=params))
    desk.parking.close()
    await turns()


async def test_without_auth_one_client_may_use_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended_calls, "MAX_EACH", 1)
    monkeypatch.setattr(suspended_calls, "MAX_SUSPENDED", 3)
    desk = Desk(one_question)
    for _ in range(3):
        questions(await desk.call())
    assert await too_many(desk)
    desk.parking.close()
    await turns()


async def test_a_call_takes_one_place_in_all_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended_calls, "MAX_EACH", 1)

    async def tool(back: BackChannel) -> Any:
        for _ in range(4):
            await one_question(back)

    desk = Desk(tool)
    result = await desk.call(principal="alice")
    for _ in range(4):
        assert desk.places[2] == {"alice": 1}
        result = await desk.call(result["requestState"], {"go": YES}, principal="alice")
    assert result == {"said": None}
    desk.parking.close()


# ---- notifications --------------------------------------------------------------------------------------------


class Recorder:
    """Records notifications."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    async def __call__(self, method: str, params: Wire) -> None:
        self.received.append((method, params["n"]))


async def test_only_the_latest_waiting_request_is_notified() -> None:
    tool, outlets = Working(), [Recorder() for _ in range(3)]
    desk = Desk(tool)
    state = (await desk.call(outlet=outlets[0]))["requestState"]
    await tool.back_channel.notify("m", {"n": "suspended"})
    first = await waiting(desk, state, outlet=outlets[1])
    await tool.back_channel.notify("m", {"n": 1})
    second = await waiting(desk, state, outlet=outlets[2])
    third = await waiting(desk, state)  # it takes none
    await tool.back_channel.notify("m", {"n": 2})
    await cancelled(second)
    await tool.back_channel.notify("m", {"n": 3})
    tool.free.set()
    await asyncio.gather(first, third)
    await tool.back_channel.notify("m", {"n": "over"})
    await tool.back_channel.pause()
    assert [each.received for each in outlets] == [[], [("m", 1), ("m", 3)], [("m", 2)]]
    desk.parking.close()


async def test_notifications_during_a_call_belong_to_the_request_that_waits() -> None:
    tool = Working()
    desk = Desk(tool)
    state = (await desk.call(id=1, meta={"progressToken": "one"}, level="error"))["requestState"]
    exchange = desk.exchanges[0]
    assert (exchange.id, exchange.meta, exchange.peer.log_level) == (1, {"progressToken": "one"}, "error")
    waits = await waiting(desk, state, id=2, meta={"progressToken": "two"}, level="debug")
    assert (exchange.id, exchange.meta, exchange.peer.log_level) == (2, {"progressToken": "two"}, "debug")
    assert exchange.headers == {"x-request": "2"}
    later = await waiting(desk, state, id=3)
    assert (exchange.id, exchange.meta, exchange.peer.log_level) == (3, {}, None)
    tool.free.set()
    await asyncio.gather(waits, later)
    desk.parking.close()
