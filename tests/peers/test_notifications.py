"""Notifications of servers: logs, changed lists, updated resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import toolcrib as tc
from tests.peers.kit import (
    EACH_TRANSPORT,
    FASTMCP_MODERN,
    PEERS,
    SDK1,
    SDK2_MODERN,
    Chosen,
    Peer,
    ScriptedClient,
    eventually,
    first,
    over_each_transport,
    over_http,
    over_sse,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNTER = "crib://counter"
# FastMCP 4 serves no subscriptions.
LISTENING = EACH_TRANSPORT.where(lambda peer: peer.has_subscriptions)
SUBSCRIBABLE = pytest.mark.peers(LISTENING)
UNSUBSCRIBABLE = [peer for peer in PEERS if not peer.has_subscriptions]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_logs_from_the_asked_level_on_reach_the_handler(scripted: ScriptedClient, peer: Peer) -> None:
    scripted.logged.clear()

    await scripted.client.call_tool("chatter", {"words": ["one", "two", "three", "four"]})

    words: list[Any] = ["three", "four"]
    if peer.framework == "fastmcp4":
        words = [{"msg": word, "extra": None} for word in words]
    assert scripted.logged == [tc.LogMessage("warning", words[0], "crib"), tc.LogMessage("error", words[1], "crib")]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_changed_list_of_tools_is_reported_and_listed_again(scripted: ScriptedClient) -> None:
    events: list[tc.events.ToolsChanged] = []
    stop = scripted.client.on(tc.events.ToolsChanged, events.append)
    try:
        async with scripted.client.listen(prompts=False, resources=False) as changes:
            await scripted.client.list_tools(use_cache=False)
            await scripted.client.call_tool("grow")
            assert await first(changes) == tc.Change("tools")
            assert "bloom" in [tool.name for tool in await scripted.client.list_tools(use_cache=True)]
            assert (await scripted.client.call_tool("bloom")).text == "bloom"

            await scripted.client.call_tool("cut")
            assert await first(changes) == tc.Change("tools")
    finally:
        stop()

    assert "bloom" not in [tool.name for tool in await scripted.client.list_tools(use_cache=True)]
    assert len(events) == 2


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_change_right_after_the_listening_began_is_not_missed(
    peer: Peer, server_of: Callable[..., tc.ServerConfig]
) -> None:
    client = tc.Client(server_of(peer), mode=peer.mode)
    try:
        async with client.listen() as changes:
            await client.call_tool("grow")
            assert await first(changes) == tc.Change("tools")
    finally:
        await client.close()


@SUBSCRIBABLE
async def test_one_change_is_reported_once(scripted: ScriptedClient) -> None:
    async with scripted.client.listen(COUNTER) as changes:
        await scripted.client.call_tool("grow")
        await scripted.client.call_tool("touch")
        received = [await first(changes), await first(changes)]
        await scripted.client.call_tool("cut")

    assert received == [tc.Change("tools"), tc.Change("resource", COUNTER)]


@pytest.mark.peers(Chosen(*[over_each_transport(SDK2_MODERN)] * 2, over_http(SDK2_MODERN)))
@pytest.mark.usefixtures("short_waits")
async def test_a_listening_that_the_server_ends_is_opened_again(scripted: ScriptedClient) -> None:
    async with scripted.client.listen(COUNTER, tools=False, prompts=False, resources=False) as changes:
        await scripted.client.call_tool("hang_up")
        assert await first(changes) == tc.Change("resource", COUNTER)  # what may have been missed
        await scripted.client.call_tool("touch")
        assert await first(changes) == tc.Change("resource", COUNTER)


@SUBSCRIBABLE
async def test_updates_come_between_subscribe_and_unsubscribe(scripted: ScriptedClient) -> None:
    async with scripted.client.listen(COUNTER, tools=False, prompts=False, resources=False) as changes:
        await scripted.client.call_tool("touch")
        assert await first(changes) == tc.Change("resource", COUNTER)
        value = (await scripted.client.call_tool("touch")).text
        assert await first(changes) == tc.Change("resource", COUNTER)
    assert (await scripted.client.read_resource(COUNTER)).text == value

    async def only_the_answer_comes() -> bool:
        before = scripted.client.counters.received
        await scripted.client.call_tool("touch")
        return scripted.client.counters.received == before + 1

    await eventually(only_the_answer_comes, what="the server stopped telling")


@SUBSCRIBABLE
async def test_a_manual_subscription_notifies_listeners_of_that_resource(scripted: ScriptedClient) -> None:
    await scripted.client.subscribe(COUNTER)
    async with scripted.client.listen(COUNTER) as changes:
        await scripted.client.call_tool("touch")
        assert await first(changes) == tc.Change("resource", COUNTER)
    # The listener has gone, the subscription by hand is still there until it is undone.
    async with scripted.client.listen(COUNTER) as changes:
        await scripted.client.call_tool("touch")
        assert await first(changes) == tc.Change("resource", COUNTER)
    await scripted.client.unsubscribe(COUNTER)


@pytest.mark.slow
@pytest.mark.peers(Chosen(UNSUBSCRIBABLE, over_http(FASTMCP_MODERN)))
async def test_a_server_without_subscriptions_refuses_one_and_goes_on(scripted: ScriptedClient) -> None:
    with pytest.raises(tc.RemoteError) as refusal:
        await scripted.client.subscribe(COUNTER)

    assert refusal.value.code == -32601
    assert (await scripted.client.call_tool("echo", {"text": "still here"})).text == "still here"


@pytest.mark.peers(
    Chosen(
        LISTENING.of("nightly"),
        [*over_http(SDK1, SDK2_MODERN), *over_sse(SDK1, SDK2_MODERN)],
        over_http(SDK2_MODERN),
    )
)
async def test_subscriptions_live_through_a_new_connection(
    peer: Peer, server_of: Callable[..., tc.ServerConfig]
) -> None:
    client = tc.Client(server_of(peer), mode=peer.mode)
    async with client, client.listen(COUNTER, tools=False, prompts=False, resources=False) as changes:
        await client.disconnect()
        await client.connect()
        assert await first(changes) == tc.Change("resource", COUNTER)  # what may have been missed
        await client.call_tool("touch")
        assert await first(changes) == tc.Change("resource", COUNTER)
