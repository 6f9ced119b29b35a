"""Changes at the server: heard by who asked for them, also after the server was restarted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolyard as ty
from tests.interaction.kit import Place, eventually, soon
from tests.interaction.marks import MODERN, OLDER, client_side

TEXT, BLOB = "memo://text", "memo://blob"


async def touched(c: ty.Client, *uris: str) -> None:
    for uri in uris:
        await c.call_tool("touch", {"uri": uri})


async def heard(changes: Any, number: int) -> list[ty.Change]:
    return [await soon(anext(changes)) for _ in range(number)]


def subscribed(yard: Place) -> list[str]:
    """The URIs that the server was asked to tell about, one asking after the other."""
    if yard.modern:
        wishes = [message["params"]["notifications"] for message in yard.journal.got("subscriptions/listen")]
        return [uri for wish in wishes for uri in wish.get("resourceSubscriptions", ())]
    return [message["params"]["uri"] for message in yard.journal.got("resources/subscribe")]


@pytest.mark.transport
async def test_a_changed_list_is_heard(yard: Place) -> None:
    async with yard.client() as c, c.listen() as changes:
        for kind in ("tools", "prompts", "resources"):
            await c.call_tool("grow", {"kind": kind})
            assert await heard(changes, 1) == [ty.Change(kind)]  # type: ignore[arg-type]


async def test_only_the_asked_kinds_are_heard(yard: Place) -> None:
    async with yard.client() as c, c.listen(tools=False, resources=False) as changes:
        for kind in ("tools", "resources", "prompts"):
            await c.call_tool("grow", {"kind": kind})
        assert await heard(changes, 1) == [ty.Change("prompts")]


@pytest.mark.transport
async def test_a_changed_resource_is_heard_by_who_asked_for_its_uri(yard: Place) -> None:
    async with yard.client() as c, c.listen(TEXT) as changes, c.listen(BLOB) as others:
        await touched(c, BLOB, TEXT)
        assert await heard(changes, 1) == [ty.Change("resource", TEXT)]
        assert await heard(others, 1) == [ty.Change("resource", BLOB)]
    assert TEXT in subscribed(yard)


async def test_a_resource_that_nobody_asked_for_is_not_told(yard: Place) -> None:
    async with yard.client() as c, c.listen(TEXT) as changes:
        await touched(c, BLOB, "memo://both", TEXT)
        assert await heard(changes, 1) == [ty.Change("resource", TEXT)]


@pytest.mark.transport
async def test_all_who_listen_hear_the_same_in_order(yard: Place) -> None:
    expected = [ty.Change("resource", TEXT), ty.Change("tools"), ty.Change("resource", TEXT)]
    async with yard.client() as c, c.listen(TEXT) as one, c.listen(TEXT) as two:
        await touched(c, TEXT)
        await c.call_tool("grow")
        await touched(c, TEXT)
        for changes in (one, two):
            assert await heard(changes, 3) == expected


async def test_two_who_want_the_same_resource_are_one_to_the_server(yard: Place) -> None:
    async with yard.client() as c:
        async with c.listen(TEXT) as one, c.listen(TEXT):
            await touched(c, TEXT)
            assert await heard(one, 1) == [ty.Change("resource", TEXT)]
        assert subscribed(yard) == [TEXT]


async def test_one_who_leaves_takes_nothing_from_the_other(yard: Place) -> None:
    async with yard.client() as c, c.listen(TEXT) as stays:
        async with c.listen(TEXT):
            pass
        await touched(c, TEXT)
        assert await heard(stays, 1) == [ty.Change("resource", TEXT)]


@OLDER
async def test_after_the_last_one_left_an_older_server_is_told(yard: Place) -> None:
    async with yard.client() as c:
        async with c.listen(TEXT, BLOB):
            pass
        left = [message["params"]["uri"] for message in yard.journal.got("resources/unsubscribe")]
        assert sorted(left) == [BLOB, TEXT]


@MODERN
async def test_after_the_last_one_left_a_modern_server_gets_a_new_listening_without_it(yard: Place) -> None:
    async with yard.client() as c:
        async with c.listen(TEXT):
            pass
        await eventually(lambda: len(yard.journal.got("subscriptions/listen")) == 3)
        first, second, third = yard.journal.got("subscriptions/listen")
        assert second["params"]["notifications"]["resourceSubscriptions"] == [TEXT]
        assert "resourceSubscriptions" not in third["params"]["notifications"]
        await eventually(lambda: len(yard.journal.taken_back("subscriptions/listen")) == 2)
        ended = yard.journal.taken_back("subscriptions/listen")
        assert ended == [first["id"], second["id"]], "the old one goes after the new one is there"


async def test_subscribe_and_unsubscribe_by_hand(yard: Place) -> None:
    async with yard.client() as c, c.listen(BLOB) as changes:
        await c.subscribe(TEXT)
        await c.subscribe(TEXT)
        await c.unsubscribe(TEXT)
        assert subscribed(yard).count(TEXT) == 1
        await c.unsubscribe(TEXT)
        await c.unsubscribe(TEXT)
        await touched(c, TEXT, BLOB)
        assert await heard(changes, 1) == [ty.Change("resource", BLOB)]


async def test_subscribing_connects_if_need_be(yard: Place) -> None:
    c = yard.client()
    await c.subscribe(TEXT)
    assert c.connected
    async with c.listen(TEXT) as changes:
        await touched(c, TEXT)
        assert await heard(changes, 1) == [ty.Change("resource", TEXT)]


@OLDER
async def test_a_refused_subscription_is_told_and_forgotten(yard: Place) -> None:
    async with yard.client(yard={"odd": {"resources/subscribe": 7}}) as c:
        for _ in range(2):
            with pytest.raises(ty.ProtocolError):
                await c.subscribe(TEXT)
        with pytest.raises(ty.ProtocolError):
            await c.listen(TEXT).__aenter__()
    assert len(yard.journal.got("resources/subscribe")) == 3
    assert yard.journal.got("resources/unsubscribe") == []


@client_side
async def test_listening_must_be_entered(yard: Place) -> None:
    async with yard.client() as c:
        with pytest.raises(ty.UsageError, match="async with"):
            await anext(c.listen())


@client_side
async def test_who_has_left_hears_nothing_more(yard: Place) -> None:
    async with yard.client() as c:
        async with c.listen() as changes:
            waiting = asyncio.create_task(anext(changes, None))
            await asyncio.sleep(0)
        assert await soon(waiting) is None


@pytest.mark.transport
async def test_closing_the_client_ends_the_listening(yard: Place) -> None:
    c = await yard.client().connect()
    changes = await c.listen().__aenter__()
    waiting = asyncio.create_task(anext(changes, None))
    await asyncio.sleep(0)
    await c.close()
    assert await soon(waiting) is None


# ---- after a restart


async def restarted(yard: Place, c: ty.Client) -> None:
    """The server dies and is there again."""
    lives = yard.journal.lives
    with pytest.raises(ty.OutcomeUnknown):
        await c.call_tool("die", {"nonce": f"n{lives}"})
    if not yard.hears_of_death:
        await c.list_prompts()
    await eventually(lambda: yard.journal.lives == lives + 1 and c.connected)


SYNTHETIC = {ty.Change("tools"), ty.Change("prompts"), ty.Change("resources"), ty.Change("resource", TEXT)}


@pytest.mark.transport
async def test_after_a_restart_what_may_have_been_missed_is_told_and_new_changes_are_heard(
    yard: Place, relisten_soon: None
) -> None:
    async with yard.client() as c, c.listen(TEXT) as changes:
        await restarted(yard, c)
        assert set(await heard(changes, 4)) == SYNTHETIC
        await touched(c, TEXT)
        await c.call_tool("grow")
        assert await heard(changes, 2) == [ty.Change("resource", TEXT), ty.Change("tools")]
    assert subscribed(yard) == [TEXT] * 2


@pytest.mark.transport
async def test_after_a_disconnect_the_next_connection_restores_the_listening(yard: Place) -> None:
    async with yard.client() as c, c.listen(TEXT) as changes:
        await c.disconnect()
        await c.connect()
        assert set(await heard(changes, 4)) == SYNTHETIC
        await touched(c, TEXT)
        assert await heard(changes, 1) == [ty.Change("resource", TEXT)]


@pytest.mark.transport
async def test_a_subscription_by_hand_is_restored_too(yard: Place, relisten_soon: None) -> None:
    async with yard.client() as c:
        await c.subscribe(TEXT)
        await restarted(yard, c)
        await eventually(lambda: subscribed(yard) == [TEXT] * 2)


@pytest.mark.transport
async def test_a_listening_lives_through_several_restarts(yard: Place, relisten_soon: None) -> None:
    async with yard.client() as c, c.listen() as changes:
        for _ in range(3):
            await restarted(yard, c)
            assert set(await heard(changes, 3)) == {ty.Change("tools"), ty.Change("prompts"), ty.Change("resources")}
            await c.call_tool("grow")
            assert await heard(changes, 1) == [ty.Change("tools")]
    assert yard.journal.lives == 4


@MODERN
async def test_a_modern_server_without_news_to_tell_is_not_asked_to(yard: Place) -> None:
    async with yard.client(yard={"capabilities": {"tools": {}}}) as c, c.listen():
        await c.list_tools()
    assert yard.journal.got("subscriptions/listen") == []


@pytest.mark.transport
@MODERN
async def test_a_listening_that_the_server_ends_is_begun_again(yard: Place, relisten_soon: None) -> None:
    async with yard.client() as c, c.listen(TEXT) as changes:
        await c.call_tool("hang_up")
        assert set(await heard(changes, 4)) == SYNTHETIC
        await touched(c, TEXT)
        assert await heard(changes, 1) == [ty.Change("resource", TEXT)]
    assert yard.journal.lives == 1


@pytest.mark.transport
async def test_a_change_is_told_once_also_while_one_listening_replaces_another(yard: Place) -> None:
    told: list[ty.events.ToolsChanged] = []
    async with yard.client() as c:
        c.on(ty.events.ToolsChanged, told.append)
        async with c.listen(TEXT) as changes:
            await c.call_tool("grow")
            await c.ping()
            assert await heard(changes, 1) == [ty.Change("tools")]
            await touched(c, TEXT)
            assert await heard(changes, 1) == [ty.Change("resource", TEXT)]
    assert len(told) == 1
