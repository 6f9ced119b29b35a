"""Events for listeners: sync or async, in order; a failing listener affects nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import FAST, Place, eventually, soon
from tests.interaction.marks import CONNECTED, client_side
from toolcrib import events as ev


def kinds(received: list[ev.Event]) -> list[str]:
    return [type(event).__name__ for event in received]


def hearing(c: tc.Client, kind: type[ev.Event] = ev.Event) -> list[Any]:
    received: list[Any] = []
    c.on(kind, received.append)
    return received


async def test_a_first_connection_is_started_and_completed(harness: Place) -> None:
    c = harness.client(name="y")
    received = hearing(c)
    async with c:
        started, completed = received
        assert started == ev.ConnectionStarted("y", is_reconnect=False)
        assert isinstance(completed, ev.ConnectionCompleted)
        assert (completed.server, completed.is_reconnect) == ("y", False)
        assert completed.protocol_version == harness.version
        assert 0 < completed.duration < 10
    (gone,) = received[2:]
    assert isinstance(gone, ev.Disconnected)
    assert (gone.server, bool(gone.reason)) == ("y", True)


async def test_a_second_connection_is_reported_as_a_reconnect(harness: Place) -> None:
    async with harness.client() as c:
        received = hearing(c)
        await c.disconnect()
        await c.connect()
        assert kinds(received)[:4] == ["Disconnected", "ConnectionStarted", "ConnectionCompleted", "Reconnected"]
        _, started, completed, again = received[:4]
        assert (started.is_reconnect, completed.is_reconnect, again.generation) == (True, True, 2)


@pytest.mark.transport
async def test_a_failed_connection_is_reported_with_its_error(harness: Place) -> None:
    c = harness.client(server_options=harness.sick(1))
    received = hearing(c)
    with pytest.raises(tc.ConnectError) as caught:
        await c.connect()
    assert kinds(received) == ["ConnectionStarted", "ConnectionFailed"]
    failed = received[1]
    assert failed.is_reconnect is False
    assert (type(failed.error), str(failed.error)) == (type(caught.value), str(caught.value))
    assert failed.duration > 0


@pytest.mark.transport
@CONNECTED
async def test_a_lost_connection_is_made_again_automatically_and_reported(harness: Place) -> None:
    async with harness.client(reconnect=FAST) as c:
        received = hearing(c)
        with pytest.raises(tc.OutcomeUnknown):
            await c.call_tool("die", {"nonce": "n"})
        await eventually(lambda: "Reconnected" in kinds(received))
        connection = [name for name in kinds(received) if not name.startswith("Tool")]
        assert connection == ["Disconnected", "ConnectionStarted", "ConnectionCompleted", "Reconnected"]
        assert c.connected
    assert next(event for event in received if isinstance(event, ev.Disconnected)).reason
    assert harness.journal.lives == 2


async def test_a_call_emits_events_when_it_starts_and_when_it_is_answered(harness: Place) -> None:
    async with harness.client(name="y") as c:
        received = hearing(c)
        await c.call_tool("echo", {"text": "x"})
        await c.call_tool("fail")
    assert kinds(received)[:4] == ["ToolExecutionStarted", "ToolExecutionCompleted"] * 2
    started, completed, _, failed_tool = received[:4]
    assert (started.server, started.tool, started.arguments) == ("y", "echo", {"text": "x"})
    assert (completed.server, completed.tool, completed.is_error) == ("y", "echo", False)
    assert 0 < completed.duration < 10
    assert (failed_tool.tool, failed_tool.is_error) == ("fail", True)


async def test_a_call_without_an_answer_is_reported_with_its_error(harness: Place) -> None:
    async with harness.client() as c:
        received = hearing(c, ev.ToolExecutionFailed)
        with pytest.raises(tc.RemoteError) as caught:
            await c.call_tool("refuse")
        (failed,) = received
        assert (failed.tool, failed.error) == ("refuse", caught.value)
        assert 0 < failed.duration < 10


async def test_a_cancelled_call_is_reported_as_failed(harness: Place) -> None:
    async with harness.client() as c:
        received = hearing(c, ev.ToolExecutionFailed)
        call = asyncio.create_task(c.call_tool("sleeper"))
        await eventually(lambda: "sleeper" in harness.journal.calls)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert isinstance(received[0].error, asyncio.CancelledError)


@client_side
@pytest.mark.parametrize("kind", [ev.ToolExecutionStarted, ev.ToolExecutionCompleted])
async def test_one_kind_of_event_can_be_subscribed_to_alone(harness: Place, kind: type[ev.Event]) -> None:
    async with harness.client() as c:
        received = hearing(c, kind)
        await c.call_tool("echo", {"text": "x"})
        assert [type(event) for event in received] == [kind]


@pytest.mark.transport
async def test_a_changed_list_of_tools_is_reported(harness: Place) -> None:
    async with harness.client(name="y") as c:
        received = hearing(c, ev.ToolsChanged)
        await c.call_tool("grow", {"kind": "prompts"})
        await c.call_tool("grow", {"kind": "tools"})
        await eventually(lambda: received)
    assert received == [ev.ToolsChanged("y")]


async def test_after_a_reconnect_the_list_of_tools_may_have_changed(harness: Place) -> None:
    async with harness.client(name="y") as c:
        received = hearing(c, ev.ToolsChanged)
        await c.disconnect()
        await c.connect()
        await eventually(lambda: received)
    assert received == [ev.ToolsChanged("y")]


@client_side
async def test_an_async_listener_receives_one_event_after_the_other(harness: Place) -> None:
    received: list[str] = []

    async def listener(event: ev.ToolExecutionStarted) -> None:
        for _ in range(10 - int(event.tool == "fail") * 9):
            await asyncio.sleep(0)
        received.append(event.tool)

    async with harness.client() as c:
        c.on(ev.ToolExecutionStarted, listener)
        await asyncio.gather(c.call_tool("echo", {"text": "x"}), c.call_tool("fail"))
        await eventually(lambda: len(received) == 2)
    assert received == ["echo", "fail"]


@client_side
async def test_stop_ends_the_listening_and_twice_is_nothing(harness: Place) -> None:
    received: list[Any] = []
    async with harness.client() as c:
        stop = c.on(ev.ToolExecutionStarted, received.append)
        await c.call_tool("echo", {"text": "x"})
        stop()
        stop()
        await c.call_tool("echo", {"text": "x"})
    assert len(received) == 1


async def never(event: ev.Event) -> None:
    await asyncio.Event().wait()


def raising(event: ev.Event) -> None:
    raise ValueError("listener")


async def raising_later(event: ev.Event) -> None:
    await asyncio.sleep(0)
    raise ValueError("listener")


@client_side
@pytest.mark.parametrize("listener", [raising, raising_later])
async def test_a_listener_that_raises_does_no_harm(
    harness: Place, listener: Callable[[ev.Event], Any], caplog: pytest.LogCaptureFixture
) -> None:
    c = harness.client()
    c.on(ev.Event, listener)
    received = hearing(c)
    async with c:
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
        assert (await c.call_tool("grow")).text == "grown"
        await eventually(lambda: "ToolsChanged" in kinds(received))
        await eventually(lambda: "a listener for Event raised" in caplog.text)
        assert c.connected
    assert kinds(received)[:2] == ["ConnectionStarted", "ConnectionCompleted"]


@client_side
async def test_a_listener_that_never_ends_delays_nothing(harness: Place) -> None:
    c = harness.client()
    c.on(ev.Event, never)
    received = hearing(c)
    async with c:
        assert (await soon(c.call_tool("echo", {"text": "x"}))).text == "x"
    assert "ToolExecutionCompleted" in kinds(received)


@client_side
async def test_a_listener_may_call_the_client(harness: Place) -> None:
    inner: list[str] = []
    async with harness.client() as c:

        async def listener(event: ev.ToolExecutionCompleted) -> None:
            if not inner:
                inner.append("began")
                inner.append((await c.call_tool("echo", {"text": "inner"})).text)

        c.on(ev.ToolExecutionCompleted, listener)
        await c.call_tool("echo", {"text": "outer"})
        await eventually(lambda: inner == ["began", "inner"])
