"""What servers tell of their own accord: logs, changed lists, updated resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import toolyard as ty
from tests.peers.kit import (
    EACH_TRANSPORT,
    FASTMCP_MODERN,
    PEERS,
    SDK1,
    SDK2_MODERN,
    Chosen,
    Peer,
    Yard,
    eventually,
    first,
    over_each_transport,
    over_http,
    over_sse,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNTER = "yard://counter"
# FastMCP 4 serves no subscriptions.
LISTENING = EACH_TRANSPORT.where(lambda peer: peer.has_subscriptions)
SUBSCRIBABLE = pytest.mark.peers(LISTENING)
UNSUBSCRIBABLE = [peer for peer in PEERS if not peer.has_subscriptions]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_logs_from_the_asked_level_on_reach_the_handler(yard: Yard, peer: Peer) -> None:
    yard.logged.clear()

    await yard.client.call_tool("chatter", {"words": ["one", "two", "three", "four"]})

    words: list[Any] = ["three", "four"]
    if peer.framework == "fastmcp4":
        words = [{"msg": word, "extra": None} for word in words]
    assert yard.logged == [ty.LogMessage("warning", words[0], "yard"), ty.LogMessage("error", words[1], "yard")]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_changed_list_of_tools_is_told_and_listed_anew(yard: Yard) -> None:
    events: list[ty.events.ToolsChanged] = []
    stop = yard.client.on(ty.events.ToolsChanged, events.append)
    try:
        async with yard.client.listen(prompts=False, resources=False) as changes:
            await yard.client.list_tools(use_cache=False)
            await yard.client.call_tool("grow")
            assert await first(changes) == ty.Change("tools")
            assert "bloom" in [tool.name for tool in await yard.client.list_tools(use_cache=True)]
            assert (await yard.client.call_tool("bloom")).text == "bloom"

            await yard.client.call_tool("cut")
            assert await first(changes) == ty.Change("tools")
    finally:
        stop()

    assert "bloom" not in [tool.name for tool in await yard.client.list_tools(use_cache=True)]
    assert len(events) == 2


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_change_right_after_the_listening_began_is_not_missed(
    peer: Peer, server_of: Callable[..., ty.ServerConfig]
) -> None:
    client = ty.Client(server_of(peer), mode=peer.mode)
    try:
        async with client.listen() as changes:
            await client.call_tool("grow")
            assert await first(changes) == ty.Change("tools")
    finally:
        await client.close()


@SUBSCRIBABLE
async def test_one_change_is_told_once(yard: Yard) -> None:
    async with yard.client.listen(COUNTER) as changes:
        await yard.client.call_tool("grow")
        await yard.client.call_tool("touch")
        heard = [await first(changes), await first(changes)]
        await yard.client.call_tool("cut")

    assert heard == [ty.Change("tools"), ty.Change("resource", COUNTER)]


@pytest.mark.peers(Chosen(*[over_each_transport(SDK2_MODERN)] * 2, over_http(SDK2_MODERN)))
@pytest.mark.usefixtures("short_waits")
async def test_a_listening_that_the_server_ends_is_opened_again(yard: Yard) -> None:
    async with yard.client.listen(COUNTER, tools=False, prompts=False, resources=False) as changes:
        await yard.client.call_tool("hang_up")
        assert await first(changes) == ty.Change("resource", COUNTER)  # what may have been missed
        await yard.client.call_tool("touch")
        assert await first(changes) == ty.Change("resource", COUNTER)


@SUBSCRIBABLE
async def test_updates_come_between_subscribe_and_unsubscribe(yard: Yard) -> None:
    async with yard.client.listen(COUNTER, tools=False, prompts=False, resources=False) as changes:
        await yard.client.call_tool("touch")
        assert await first(changes) == ty.Change("resource", COUNTER)
        value = (await yard.client.call_tool("touch")).text
        assert await first(changes) == ty.Change("resource", COUNTER)
    assert (await yard.client.read_resource(COUNTER)).text == value

    async def only_the_answer_comes() -> bool:
        before = yard.client.counters.received
        await yard.client.call_tool("touch")
        return yard.client.counters.received == before + 1

    await eventually(only_the_answer_comes, what="the server stopped telling")


@SUBSCRIBABLE
async def test_subscribe_by_hand_is_heard_by_who_listens_to_that_resource(yard: Yard) -> None:
    await yard.client.subscribe(COUNTER)
    async with yard.client.listen(COUNTER) as changes:
        await yard.client.call_tool("touch")
        assert await first(changes) == ty.Change("resource", COUNTER)
    # The listener has gone, the subscription by hand is still there until it is undone.
    async with yard.client.listen(COUNTER) as changes:
        await yard.client.call_tool("touch")
        assert await first(changes) == ty.Change("resource", COUNTER)
    await yard.client.unsubscribe(COUNTER)


@pytest.mark.slow
@pytest.mark.peers(Chosen(UNSUBSCRIBABLE, over_http(FASTMCP_MODERN)))
async def test_a_server_without_subscriptions_refuses_one_and_goes_on(yard: Yard) -> None:
    with pytest.raises(ty.RemoteError) as refusal:
        await yard.client.subscribe(COUNTER)

    assert refusal.value.code == -32601
    assert (await yard.client.call_tool("echo", {"text": "still here"})).text == "still here"


@pytest.mark.peers(
    Chosen(
        LISTENING.of("nightly"),
        [*over_http(SDK1, SDK2_MODERN), *over_sse(SDK1, SDK2_MODERN)],
        over_http(SDK2_MODERN),
    )
)
async def test_subscriptions_live_through_a_new_connection(
    peer: Peer, server_of: Callable[..., ty.ServerConfig]
) -> None:
    client = ty.Client(server_of(peer), mode=peer.mode)
    async with client, client.listen(COUNTER, tools=False, prompts=False, resources=False) as changes:
        await client.disconnect()
        await client.connect()
        assert await first(changes) == ty.Change("resource", COUNTER)  # what may have been missed
        await client.call_tool("touch")
        assert await first(changes) == ty.Change("resource", COUNTER)
