"""Events reach sync and async listeners in order, and a failing listener affects nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import pickle
from typing import Any

import pytest

from toolcrib import events
from toolcrib.events import (
    ConnectionCompleted,
    ConnectionFailed,
    ConnectionStarted,
    Delivery,
    Disconnected,
    Event,
    GroupChanged,
    InventoryChanged,
    Listeners,
    PromptsChanged,
    Reconnected,
    ResourcesChanged,
    SignInStarted,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionStarted,
    ToolsChanged,
)

EVENTS = [
    ConnectionStarted("s", True),
    ConnectionCompleted("s", False, 0.5, "2026-07-28"),
    ConnectionFailed("s", True, 0.5, ValueError("why")),
    Disconnected("s", "why"),
    Reconnected("s", 2),
    SignInStarted("s", "https://login.example.com"),
    ToolExecutionStarted("s", "t", {"a": 1}),
    ToolExecutionCompleted("s", "t", 0.5),
    ToolExecutionFailed("s", "t", 0.5, ValueError("why")),
    ToolsChanged("s"),
    ResourcesChanged("s"),
    PromptsChanged("s"),
    InventoryChanged("s", added=("a",)),
    GroupChanged("s", "readers"),
]


def numbered(count: int) -> list[Event]:
    return [Reconnected("s", number) for number in range(count)]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_frozen_names_its_server_and_pickles(event: Event) -> None:
    assert event.server == "s"
    assert type(pickle.loads(pickle.dumps(event))) is type(event)
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.server = "other"  # type: ignore[misc]


def test_every_event_is_tried_here() -> None:
    public = {each for each in vars(events).values() if isinstance(each, type) and issubclass(each, Event)}
    assert public - {Event} == {type(event) for event in EVENTS}


def test_a_listener_receives_only_its_kind_and_a_general_listener_receives_all() -> None:
    listeners, one, every = Listeners(), [], []
    listeners.on(Disconnected, one.append)
    listeners.on(Event, every.append)
    for event in EVENTS:
        listeners.emit(event)
    assert one == [EVENTS[3]]
    assert every == EVENTS


def test_a_listener_that_was_stopped_receives_nothing_more() -> None:
    listeners, received = Listeners(), []
    assert not listeners.entries
    stop = listeners.on(Event, received.append)
    assert listeners.entries
    listeners.emit(EVENTS[0])
    stop()
    stop()
    listeners.emit(EVENTS[1])
    assert received == [EVENTS[0]]
    assert not listeners.entries


def test_only_listeners_that_take_events_of_calls_observe_calls() -> None:
    listeners = Listeners()
    listeners.on(Disconnected, print)
    assert not listeners.observe_calls
    for kind in (Event, ToolExecutionStarted, ToolExecutionCompleted, ToolExecutionFailed):
        first, second = listeners.on(kind, print), listeners.on(kind, print)
        first()
        assert listeners.observe_calls
        second()
        assert not listeners.observe_calls


def test_stopping_one_of_two_equal_listeners_leaves_the_other() -> None:
    listeners, received = Listeners(), []
    stop = listeners.on(Event, received.append)
    listeners.on(Event, received.append)
    stop()
    stop()
    listeners.emit(EVENTS[0])
    assert received == [EVENTS[0]]


def test_a_listener_may_stop_itself_and_add_others_during_an_event() -> None:
    listeners, received = Listeners(), []

    def once(event: Event) -> None:
        stop()
        received.append(event)
        listeners.on(Event, received.append)

    stop = listeners.on(Event, once)
    listeners.emit(EVENTS[0])
    listeners.emit(EVENTS[1])
    assert received == [EVENTS[0], EVENTS[1]]


def test_a_sync_listener_that_raises_is_logged_and_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    listeners, received = Listeners(), []

    def bad(event: Event) -> None:
        raise ValueError("my own fault")

    listeners.on(Event, bad)
    listeners.on(Event, received.append)
    with caplog.at_level(logging.ERROR, "toolcrib.events"):
        listeners.emit(EVENTS[0])
    assert received == [EVENTS[0]]
    assert "my own fault" in caplog.text


async def test_an_async_listener_receives_events_in_order_and_one_at_a_time() -> None:
    received: list[int] = []
    inside = 0

    async def listener(event: Reconnected) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        for _ in range(event.generation % 3):  # some take longer than those that come after them
            await asyncio.sleep(0)
        received.append(event.generation)
        inside -= 1

    delivery = Delivery(listener, "listener")
    for event in numbered(50):
        delivery(event)
        if event.generation % 7 == 0:  # type: ignore[attr-defined]
            await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await delivery.drained()
    assert received == list(range(50))


async def test_an_async_listener_that_raises_still_receives_the_next_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received: list[Event] = []

    async def bad(event: Event) -> None:
        received.append(event)
        await asyncio.sleep(0)
        raise ValueError("my own fault")

    delivery = Delivery(bad, "listener")
    for event in EVENTS[:3]:
        delivery(event)
    await delivery.drained()
    assert received == EVENTS[:3]
    assert caplog.text.count("ValueError: my own fault") == 3


async def test_a_listener_that_waits_for_something_cancelled_receives_the_next_events_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A cancellation inside the listener is like any exception."""
    received: list[int] = []

    async def unlucky(event: Reconnected) -> None:
        received.append(event.generation)
        if event.generation == 0:
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

    delivery = Delivery(unlucky, "listener")
    for event in numbered(3):
        delivery(event)
    async with asyncio.timeout(5):
        await delivery.drained()
    delivery(Reconnected("s", 3))
    async with asyncio.timeout(5):
        await delivery.drained()
    assert received == [0, 1, 2, 3]


async def test_a_slow_async_listener_delays_nothing_and_keeps_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BACKLOG", 10)
    listeners, quick, slow = Listeners(), [], []
    go_on = asyncio.Event()

    async def listener(event: Reconnected) -> None:
        await go_on.wait()
        slow.append(event.generation)

    listeners.on(Reconnected, listener)
    listeners.on(Reconnected, quick.append)
    for event in numbered(1000):
        listeners.emit(event)
    assert len(quick) == 1000
    go_on.set()
    async with asyncio.timeout(5):
        while len(slow) < 11:
            await asyncio.sleep(0)
    assert slow == [0, *range(990, 1000)]


def test_what_is_kept_for_a_slow_listener_is_bounded() -> None:
    assert Delivery(print, "listener")._backlog.maxlen == events.BACKLOG == 10_000


async def test_no_task_is_left_without_work() -> None:
    before = asyncio.all_tasks()

    async def listener(*args: Any) -> None:
        await asyncio.sleep(0)

    delivery = Delivery(listener, "listener")
    delivery(1)
    assert len(asyncio.all_tasks() - before) == 1
    await delivery.drained()
    await delivery.drained()
    assert asyncio.all_tasks() == before
