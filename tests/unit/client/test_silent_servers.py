"""Servers that do not answer the first question in time: slow, mute, or dead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.client.agreeing import US, agree, channel_to
from tests.unit.kit import LEGACY, MODERN, SILENCE, PlayedServer, eventually, turns
from toolcrib.client import negotiation
from toolcrib.client.negotiation import negotiate
from toolcrib.errors import OutcomeUnknown, RemoteError
from toolcrib.protocol import jsonrpc, versions
from toolcrib.transports.message_stream import MemoryStream
from toolcrib.types import Wire

UNKNOWN_METHOD = RemoteError(-32601, "unknown method")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that a silent server gets."""
    monkeypatch.setattr(negotiation, "PROBE_SECONDS", 0.001)


@pytest.mark.usefixtures("soon")
async def test_an_old_server_that_is_mute_to_what_it_does_not_know_gets_its_handshake() -> None:
    server = PlayedServer(server__discover=SILENCE, initialize=LEGACY)
    assert (await agree(server)).era is versions.LEGACY
    await turns()
    assert "notifications/cancelled" not in server.methods


@pytest.mark.parametrize("first", ["server/discover", "initialize"])
@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.usefixtures("soon")
async def test_a_slow_server_is_asked_both_ways_and_what_it_answers_counts(first: str, modern: bool) -> None:
    """An error for one probe decides nothing while the other one is pending, whichever arrives first."""
    good, refused = ("server/discover", "initialize") if modern else ("initialize", "server/discover")
    released = {method: asyncio.Event() for method in (good, refused)}

    def answer(method: str, said: Any) -> Any:
        async def when_released(params: Wire) -> Any:
            await released[method].wait()
            return said

        return when_released

    server = PlayedServer()
    server.answers = {
        good: answer(good, MODERN if modern else LEGACY),
        refused: answer(refused, UNKNOWN_METHOD),
    }
    agreeing = asyncio.create_task(agree(server))
    await eventually(lambda: len(server.methods) == 2)
    released[first].set()
    await turns(20)
    if first == refused or not modern:  # an answered `server/discover` waits a moment for `initialize`
        assert agreeing.done() == (first == good)
    for each in released.values():
        each.set()
    assert (await agreeing).era.name == ("modern" if modern else "legacy")


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.usefixtures("soon")
async def test_a_slow_server_that_answers_both_questions_at_once_is_understood(modern: bool) -> None:
    for _ in range(20):  # which of two finished tasks is seen first is chance
        ours, theirs = MemoryStream.pair()
        agreeing = asyncio.create_task(agree(lambda stream=ours: stream))
        asked = {(message := await theirs.receive())["method"]: message["id"] for _ in range(2)}
        refused, good = ("initialize", "server/discover") if modern else ("server/discover", "initialize")
        await theirs.send(jsonrpc.error(asked[refused], -32601, "unknown method"))
        await theirs.send(jsonrpc.result(asked[good], MODERN if modern else LEGACY))
        assert (await agreeing).era.name == ("modern" if modern else "legacy")


async def test_a_slow_server_that_answered_initialize_is_legacy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of both eras answer the probe, but become legacy permanently when they read `initialize` after it."""
    monkeypatch.setattr(negotiation, "PROBE_SECONDS", 0.2)
    ours, theirs = MemoryStream.pair()
    agreeing = asyncio.create_task(agree(lambda: ours))
    asked = {(message := await theirs.receive())["method"]: message["id"] for _ in range(2)}
    await theirs.send(jsonrpc.result(asked["server/discover"], MODERN))
    await turns(20)
    await theirs.send(jsonrpc.result(asked["initialize"], LEGACY))
    assert (await agreeing).era is versions.LEGACY


@pytest.mark.usefixtures("soon")
async def test_a_slow_server_that_refuses_both_requests_is_reported_with_its_refusal_of_the_handshake() -> None:
    server = PlayedServer(server__discover=SILENCE, initialize=RemoteError(-32603, "out of order"))
    agreeing = asyncio.create_task(agree(server))
    await eventually(lambda: len(server.methods) == 2)
    await turns(20)
    assert not agreeing.done()
    await server.end.send(jsonrpc.error(server.received[0]["id"], -32601, "unknown method"))
    with pytest.raises(RemoteError, match="out of order"):
        await agreeing


@pytest.mark.usefixtures("soon")
async def test_a_server_that_dies_while_it_is_asked_ends_the_attempt_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    server = PlayedServer(server__discover=SILENCE, initialize=SILENCE)
    async with channel_to(server) as channel:
        agreeing = asyncio.create_task(negotiate(channel, US, mode="auto", remembered=None))
        await eventually(lambda: len(server.methods) == 2)
        await server.end.close()
        with pytest.raises(OutcomeUnknown):
            await agreeing
    await eventually(lambda: asyncio.all_tasks() == before)


@pytest.mark.usefixtures("soon")
async def test_an_attempt_that_is_cancelled_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    server = PlayedServer(server__discover=SILENCE, initialize=SILENCE)
    agreeing = asyncio.create_task(agree(server))
    await eventually(lambda: len(server.methods) == 2)
    agreeing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await agreeing
    await server.end.close()
    await eventually(lambda: asyncio.all_tasks() == before)
