"""Changes at the server: received by their subscribers, also after a restart of the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Place, eventually, soon
from tests.interaction.marks import MODERN, OLDER, client_side

TEXT, BLOB = "memo://text", "memo://blob"


async def touched(c: tc.Client, *uris: str) -> None:
    for uri in uris:
        await c.call_tool("touch", {"uri": uri})


async def received(changes: Any, number: int) -> list[tc.Change]:
    return [await soon(anext(changes)) for _ in range(number)]


def subscribed(harness: Place) -> list[str]:
    """Return the URIs of each subscription request to the server."""
    if harness.modern:
        wishes = [message["params"]["notifications"] for message in harness.journal.got("subscriptions/listen")]
        return [uri for wish in wishes for uri in wish.get("resourceSubscriptions", ())]
    return [message["params"]["uri"] for message in harness.journal.got("resources/subscribe")]


@pytest.mark.transport
async def test_a_changed_list_is_received(harness: Place) -> None:
    async with harness.client() as c, c.listen() as changes:
        for kind in ("tools", "prompts", "resources"):
            await c.call_tool("grow", {"kind": kind})
            assert await received(changes, 1) == [tc.Change(kind)]  # type: ignore[arg-type]


async def test_only_the_requested_kinds_are_received(harness: Place) -> None:
    async with harness.client() as c, c.listen(tools=False, resources=False) as changes:
        for kind in ("tools", "resources", "prompts"):
            await c.call_tool("grow", {"kind": kind})
        assert await received(changes, 1) == [tc.Change("prompts")]


@pytest.mark.transport
async def test_a_changed_resource_is_received_by_subscribers_of_its_uri(harness: Place) -> None:
    async with harness.client() as c, c.listen(TEXT) as changes, c.listen(BLOB) as others:
        await touched(c, BLOB, TEXT)
        assert await received(changes, 1) == [tc.Change("resource", TEXT)]
        assert await received(others, 1) == [tc.Change("resource", BLOB)]
    assert TEXT in subscribed(harness)


async def test_a_resource_without_subscribers_is_not_reported(harness: Place) -> None:
    async with harness.client() as c, c.listen(TEXT) as changes:
        await touched(c, BLOB, "memo://both", TEXT)
        assert await received(changes, 1) == [tc.Change("resource", TEXT)]


@pytest.mark.transport
async def test_all_listeners_receive_the_same_changes_in_order(harness: Place) -> None:
    expected = [tc.Change("resource", TEXT), tc.Change("tools"), tc.Change("resource", TEXT)]
    async with harness.client() as c, c.listen(TEXT) as one, c.listen(TEXT) as two:
        await touched(c, TEXT)
        await c.call_tool("grow")
        await touched(c, TEXT)
        for changes in (one, two):
            assert await received(changes, 3) == expected


async def test_two_subscribers_of_one_resource_are_one_for_the_server(harness: Place) -> None:
    async with harness.client() as c:
        async with c.listen(TEXT) as one, c.listen(TEXT):
            await touched(c, TEXT)
            assert await received(one, 1) == [tc.Change("resource", TEXT)]
        assert subscribed(harness) == [TEXT]


async def test_a_listener_that_leaves_does_not_affect_the_other(harness: Place) -> None:
    async with harness.client() as c, c.listen(TEXT) as stays:
        async with c.listen(TEXT):
            pass
        await touched(c, TEXT)
        assert await received(stays, 1) == [tc.Change("resource", TEXT)]


@OLDER
async def test_after_the_last_subscriber_left_a_legacy_server_is_notified(harness: Place) -> None:
    async with harness.client() as c:
        async with c.listen(TEXT, BLOB):
            pass
        left = [message["params"]["uri"] for message in harness.journal.got("resources/unsubscribe")]
        assert sorted(left) == [BLOB, TEXT]


@MODERN
async def test_after_the_last_one_left_a_modern_server_gets_a_new_listening_without_it(harness: Place) -> None:
    async with harness.client() as c:
        async with c.listen(TEXT):
            pass
        await eventually(lambda: len(harness.journal.got("subscriptions/listen")) == 3)
        first, second, third = harness.journal.got("subscriptions/listen")
        assert second["params"]["notifications"]["resourceSubscriptions"] == [TEXT]
        assert "resourceSubscriptions" not in third["params"]["notifications"]
        await eventually(lambda: len(harness.journal.taken_back("subscriptions/listen")) == 2)
        ended = harness.journal.taken_back("subscriptions/listen")
        assert ended == [first["id"], second["id"]], "the old one goes after the new one is there"


async def test_subscribe_and_unsubscribe_by_hand(harness: Place) -> None:
    async with harness.client() as c, c.listen(BLOB) as changes:
        await c.subscribe(TEXT)
        await c.subscribe(TEXT)
        await c.unsubscribe(TEXT)
        assert subscribed(harness).count(TEXT) == 1
        await c.unsubscribe(TEXT)
        await c.unsubscribe(TEXT)
        await touched(c, TEXT, BLOB)
        assert await received(changes, 1) == [tc.Change("resource", BLOB)]


async def test_subscribing_connects_if_need_be(harness: Place) -> None:
    c = harness.client()
    await c.subscribe(TEXT)
    assert c.connected
    async with c.listen(TEXT) as changes:
        await touched(c, TEXT)
        assert await received(changes, 1) == [tc.Change("resource", TEXT)]


@OLDER
async def test_a_refused_subscription_is_reported_and_forgotten(harness: Place) -> None:
    async with harness.client(server_options={"odd": {"resources/subscribe": 7}}) as c:
        for _ in range(2):
            with pytest.raises(tc.ProtocolError):
                await c.subscribe(TEXT)
        with pytest.raises(tc.ProtocolError):
            await c.listen(TEXT).__aenter__()
    assert len(harness.journal.got("resources/subscribe")) == 3
    assert harness.journal.got("resources/unsubscribe") == []


@client_side
async def test_listening_must_be_entered(harness: Place) -> None:
    async with harness.client() as c:
        with pytest.raises(tc.UsageError, match="async with"):
            await anext(c.listen())


@client_side
async def test_a_listener_that_left_receives_nothing_more(harness: Place) -> None:
    async with harness.client() as c:
        async with c.listen() as changes:
            waiting = asyncio.create_task(anext(changes, None))
            await asyncio.sleep(0)
        assert await soon(waiting) is None


@pytest.mark.transport
async def test_closing_the_client_ends_the_listening(harness: Place) -> None:
    c = await harness.client().connect()
    changes = await c.listen().__aenter__()
    waiting = asyncio.create_task(anext(changes, None))
    await asyncio.sleep(0)
    await c.close()
    assert await soon(waiting) is None


# ---- after a restart


async def restarted(harness: Place, c: tc.Client) -> None:
    """Crash the server and wait until it is connected again."""
    lives = harness.journal.lives
    with pytest.raises(tc.OutcomeUnknown):
        await c.call_tool("die", {"nonce": f"n{lives}"})
    if not harness.hears_of_death:
        await c.list_prompts()
    await eventually(lambda: harness.journal.lives == lives + 1 and c.connected)


SYNTHETIC = {tc.Change("tools"), tc.Change("prompts"), tc.Change("resources"), tc.Change("resource", TEXT)}


@pytest.mark.transport
async def test_after_a_restart_possibly_missed_changes_are_reported_and_new_ones_received(
    harness: Place, relisten_soon: None
) -> None:
    async with harness.client() as c, c.listen(TEXT) as changes:
        await restarted(harness, c)
        assert set(await received(changes, 4)) == SYNTHETIC
        await touched(c, TEXT)
        await c.call_tool("grow")
        assert await received(changes, 2) == [tc.Change("resource", TEXT), tc.Change("tools")]
    assert subscribed(harness) == [TEXT] * 2


@pytest.mark.transport
async def test_after_a_disconnect_the_next_connection_restores_the_listening(harness: Place) -> None:
    async with harness.client() as c, c.listen(TEXT) as changes:
        await c.disconnect()
        await c.connect()
        assert set(await received(changes, 4)) == SYNTHETIC
        await touched(c, TEXT)
        assert await received(changes, 1) == [tc.Change("resource", TEXT)]


@pytest.mark.transport
async def test_a_subscription_by_hand_is_restored_too(harness: Place, relisten_soon: None) -> None:
    async with harness.client() as c:
        await c.subscribe(TEXT)
        await restarted(harness, c)
        await eventually(lambda: subscribed(harness) == [TEXT] * 2)


@pytest.mark.transport
async def test_a_listening_lives_through_several_restarts(harness: Place, relisten_soon: None) -> None:
    async with harness.client() as c, c.listen() as changes:
        for _ in range(3):
            await restarted(harness, c)
            assert set(await received(changes, 3)) == {tc.Change("tools"), tc.Change("prompts"), tc.Change("resources")}
            await c.call_tool("grow")
            assert await received(changes, 1) == [tc.Change("tools")]
    assert harness.journal.lives == 4


@MODERN
async def test_a_modern_server_without_change_notifications_is_not_asked_for_them(harness: Place) -> None:
    async with harness.client(server_options={"capabilities": {"tools": {}}}) as c, c.listen():
        await c.list_tools()
    assert harness.journal.got("subscriptions/listen") == []


@pytest.mark.transport
@MODERN
async def test_a_listening_that_the_server_ends_is_begun_again(harness: Place, relisten_soon: None) -> None:
    async with harness.client() as c, c.listen(TEXT) as changes:
        await c.call_tool("hang_up")
        assert set(await received(changes, 4)) == SYNTHETIC
        await touched(c, TEXT)
        assert await received(changes, 1) == [tc.Change("resource", TEXT)]
    assert harness.journal.lives == 1


@pytest.mark.transport
async def test_a_change_is_reported_once_while_one_listen_request_replaces_another(harness: Place) -> None:
    events: list[tc.events.ToolsChanged] = []
    async with harness.client() as c:
        c.on(tc.events.ToolsChanged, events.append)
        async with c.listen(TEXT) as changes:
            await c.call_tool("grow")
            await c.ping()
            assert await received(changes, 1) == [tc.Change("tools")]
            await touched(c, TEXT)
            assert await received(changes, 1) == [tc.Change("resource", TEXT)]
    assert len(events) == 1
