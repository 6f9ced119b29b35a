"""Watching a server for changes: what each watcher receives, on which loop, and how often."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import eventually, turns
from toolcrib.protocol.limits import MAX_ITEMS
from toolcrib.server.changes import UPDATED, ChangeWatchers

TOOLS, PROMPTS = "notifications/tools/list_changed", "notifications/prompts/list_changed"


async def test_each_listener_receives_only_what_it_requested() -> None:
    changes, tools, prompts, one = ChangeWatchers(), [], [], []
    changes.watch({"toolsListChanged": True, "promptsListChanged": False}, lambda *news: tools.append(news))
    changes.watch({"promptsListChanged": True}, lambda *news: prompts.append(news))
    changes.watch({"resourceSubscriptions": ["file:///a"]}, lambda *news: one.append(news))
    changes.publish(TOOLS)
    changes.publish(PROMPTS)
    changes.publish(UPDATED, "file:///a")
    changes.publish(UPDATED, "file:///b")
    await turns()
    assert tools == [(TOOLS, {})]
    assert prompts == [(PROMPTS, {})]
    assert one == [(UPDATED, {"uri": "file:///a"})]


async def test_many_changes_within_a_turn_are_one() -> None:
    changes, received = ChangeWatchers(), []
    changes.watch(
        {"toolsListChanged": True, "resourceSubscriptions": ["a:b", "a:c"]}, lambda *news: received.append(news)
    )
    for _ in range(3):
        changes.publish(TOOLS)
        changes.publish(UPDATED, "a:b")
        changes.publish(UPDATED, "a:c")
    assert received == []
    await turns()
    assert received == [(TOOLS, {}), (UPDATED, {"uri": "a:b"}), (UPDATED, {"uri": "a:c"})]
    changes.publish(TOOLS)
    await turns()
    assert received[3:] == [(TOOLS, {})]


async def test_a_listener_that_left_receives_nothing_not_even_pending_changes() -> None:
    changes, received = ChangeWatchers(), []
    watch = changes.watch({"toolsListChanged": True}, lambda *news: received.append(news))
    changes.publish(TOOLS)
    await watch.close()
    await watch.close()
    changes.publish(TOOLS)
    await turns()
    assert received == []
    assert len(changes) == 0


async def test_a_change_from_another_thread_is_delivered_on_the_watchers_loop() -> None:
    changes, received = ChangeWatchers(), []
    changes.watch({"toolsListChanged": True}, lambda *_: received.append(threading.current_thread()))
    await asyncio.to_thread(changes.publish, TOOLS)
    await eventually(lambda: received)
    assert received == [threading.current_thread()]


async def test_a_watch_whose_loop_has_ended_is_forgotten_and_does_no_harm() -> None:
    changes, received = ChangeWatchers(), []

    async def elsewhere() -> None:
        changes.watch({"toolsListChanged": True}, lambda *_: None)
        changes.publish(TOOLS)

    await asyncio.to_thread(asyncio.run, elsewhere())
    changes.watch({"toolsListChanged": True}, lambda *news: received.append(news))
    assert len(changes) == 2
    changes.publish(TOOLS)
    await turns()
    assert received == [(TOOLS, {})]
    assert len(changes) == 1


async def test_a_listener_that_fails_does_not_keep_changes_from_others(caplog: pytest.LogCaptureFixture) -> None:
    changes, received = ChangeWatchers(), []

    def bad(*_: Any) -> None:
        raise ValueError("no ears")

    changes.watch({"toolsListChanged": True}, bad)
    changes.watch({"toolsListChanged": True}, lambda *news: received.append(news))
    changes.publish(TOOLS)
    await turns()
    assert received == [(TOOLS, {})]
    assert "no ears" in caplog.text


async def test_what_is_accepted_is_what_is_watched() -> None:
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": "yes",
        "odd": True,
        "resourceSubscriptions": ["a:b", "a:b"],
    }
    watch = ChangeWatchers().watch(wanted, lambda *_: None)
    assert watch.accepted == {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        [],
        {"resourceSubscriptions": "a:b"},
        {"resourceSubscriptions": [1]},
        {"resourceSubscriptions": ["a:b"] * (MAX_ITEMS + 1)},
    ],
    ids=["nothing", "a list", "one text", "numbers", "too many"],
)
async def test_an_invalid_subscription_is_refused(wanted: Any) -> None:
    with pytest.raises(tc.RemoteError, match="notifications") as caught:
        ChangeWatchers().watch(wanted, lambda *_: None)
    assert caught.value.code == -32602
