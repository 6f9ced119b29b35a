"""The life of a connection: made when it is needed, let go, made again, ended for good."""

from __future__ import annotations

import asyncio

import pytest

import toolyard as ty
from tests.interaction.kit import Clock, Place, eventually, soon
from tests.interaction.marks import OLDER, client_side, only

NO_VERDICT = {"silent": {"server/discover": 0, "initialize": 0}}


async def test_connecting_twice_is_connecting_once(yard: Place) -> None:
    c = yard.client()
    assert await c.connect() is c
    since = c.status.since
    await c.connect()
    async with c:
        assert c.status.since == since
    assert yard.journal.lives == 1


@pytest.mark.transport
async def test_without_with_the_first_call_connects(yard: Place) -> None:
    c = yard.client()
    assert yard.journal.lives == 0, "nothing is started before it is needed"
    assert (await c.call_tool("echo", {"text": "a"})).text == "a"
    assert c.connected
    await c.close()


async def test_all_who_come_at_once_share_one_connection(yard: Place) -> None:
    c = yard.client()
    results = await asyncio.gather(*(c.call_tool("echo", {"text": str(n)}) for n in range(20)))
    assert [result.text for result in results] == [str(n) for n in range(20)]
    assert yard.journal.lives == 1


@pytest.mark.transport
async def test_after_disconnect_the_next_call_connects_again(yard: Place) -> None:
    async with yard.client() as c:
        info = c.server_info
        await c.disconnect()
        assert (c.connected, c.status.state, c.server_info) == (False, ty.State.DISCONNECTED, None)
        assert (await c.call_tool("echo", {"text": "again"})).text == "again"
        assert (c.connected, c.server_info) == (True, info)
        assert yard.journal.lives == 2


async def test_disconnecting_twice_or_before_connecting_is_nothing(yard: Place) -> None:
    c = yard.client()
    await c.disconnect()
    await c.connect()
    await c.disconnect()
    await c.disconnect()
    assert c.status.state is ty.State.DISCONNECTED
    assert yard.journal.lives == 1


@pytest.mark.transport
async def test_close_is_final(yard: Place) -> None:
    c = yard.client()
    async with c:
        await c.list_tools()
    await c.close()
    for use in (c.connect, c.list_tools, c.list_prompts, c.ping, lambda: c.call_tool("echo")):
        with pytest.raises(ty.UsageError, match="closed"):
            await use()
    with pytest.raises(ty.UsageError, match="closed"):
        await c.__aenter__()
    assert yard.journal.lives == 1


@pytest.mark.transport
async def test_closing_fails_the_calls_under_way(yard: Place) -> None:
    c = await yard.client().connect()
    sleeping = asyncio.create_task(c.call_tool("sleeper"))
    await eventually(lambda: "sleeper" in yard.journal.calls)
    await c.close()
    with pytest.raises(ty.OutcomeUnknown):
        await soon(sleeping)


@pytest.mark.transport
async def test_disconnecting_fails_the_calls_under_way_and_no_later_one(yard: Place) -> None:
    c = await yard.client().connect()
    sleeping = asyncio.create_task(c.call_tool("sleeper"))
    await eventually(lambda: "sleeper" in yard.journal.calls)
    await c.disconnect()
    with pytest.raises(ty.OutcomeUnknown):
        await soon(sleeping)
    assert (await c.call_tool("echo", {"text": "b"})).text == "b"


@client_side
async def test_a_with_block_that_raises_closes_all_the_same(yard: Place) -> None:
    c = yard.client()
    with pytest.raises(KeyError):
        async with c:
            raise KeyError("the caller's own")
    with pytest.raises(ty.UsageError):
        await c.connect()


@pytest.mark.transport
async def test_a_failed_connect_leaves_a_clean_state(yard: Place) -> None:
    c = yard.client(yard=yard.sick(1))
    with pytest.raises(ty.ConnectError) as told:
        await c.connect()
    assert told.value.sent is False
    assert told.value.server == c.name
    assert (c.connected, c.status.state, c.server_info) == (False, ty.State.FAILED, None)
    assert c.status.reason
    await c.connect()
    assert (c.status.state, c.status.reason) == (ty.State.CONNECTED, "")
    assert (await c.call_tool("echo", {"text": "c"})).text == "c"


@only(ways=["stdio"])
async def test_a_child_that_dies_at_the_start_is_told_with_its_exit_code(yard: Place) -> None:
    with pytest.raises(ty.StartError) as told:
        await yard.client(yard=yard.sick(9)).connect()
    assert told.value.exit_code == 7


@pytest.mark.transport
async def test_a_silent_server_is_given_up_after_connect_timeout(yard: Place, clock: Clock) -> None:
    c = yard.client(yard=NO_VERDICT, connect_timeout=60)
    connecting = asyncio.create_task(c.connect())
    await eventually(lambda: yard.journal.entries("got"))
    clock.advance(61)
    with pytest.raises(ty.ConnectError, match="connect_timeout=60"):
        await soon(connecting)
    assert c.status.state is ty.State.FAILED


@pytest.mark.transport
@only(eras=["modern", "handshake"])
async def test_a_server_that_is_slow_to_answer_is_asked_in_both_ways(yard: Place, clock: Clock) -> None:
    c = yard.client(yard={"silent": {"server/discover": 0}}, connect_timeout=60)
    connecting = asyncio.create_task(c.connect())
    await eventually(lambda: yard.journal.got("server/discover"))
    clock.advance(11)
    await eventually(lambda: yard.journal.got("initialize"))
    if yard.modern:
        clock.advance(60)
        with pytest.raises(ty.ConnectError):
            await soon(connecting)
    else:
        await soon(connecting)
        assert (await c.call_tool("echo", {"text": "d"})).text == "d"


async def test_a_cancelled_caller_does_not_end_the_attempt_of_another(yard: Place) -> None:
    c = yard.client()
    first, second = (asyncio.create_task(c.call_tool("echo", {"text": name})) for name in ("one", "two"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await soon(second)).text == "two"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert yard.journal.lives == 1


@pytest.mark.transport
async def test_the_era_is_remembered_for_the_next_connection(yard: Place) -> None:
    async with yard.client() as c:
        await c.disconnect()
        await c.connect()
        assert c.server_info is not None
        assert c.server_info.protocol_version == yard.version
    probes = {"modern": 2, "handshake": 1, "legacy": 0}[yard.era]
    assert len(yard.journal.got("server/discover")) == probes
    assert len(yard.journal.got("initialize")) == (0 if yard.modern else 2)


@pytest.mark.transport
@OLDER
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-03-26", "2024-11-05"])
async def test_older_revisions_are_accepted(yard: Place, revision: str) -> None:
    async with yard.client(yard={"revision": revision}) as c:
        assert c.server_info is not None
        assert c.server_info.protocol_version == revision
        assert (await c.call_tool("echo", {"text": "e"})).text == "e"


@OLDER
async def test_an_unknown_revision_is_told_with_both_sides(yard: Place) -> None:
    with pytest.raises(ty.ConnectError, match=r"1999-01-01.*2025-11-25") as told:
        await yard.client(yard={"revision": "1999-01-01"}).connect()
    assert told.value.permanent is True


@only(eras=["modern"])
async def test_a_modern_server_of_unknown_versions_only_is_told_with_both_sides(yard: Place) -> None:
    with pytest.raises(ty.ConnectError, match=r"2031-01-01.*2026-07-28") as told:
        await yard.client(yard={"supported": ["2031-01-01"]}).connect()
    assert told.value.permanent is True


@pytest.mark.transport
async def test_two_clients_of_one_server_are_two_connections(yard: Place) -> None:
    async with yard.client() as one, yard.client() as two:
        await one.close()
        assert (await two.call_tool("echo", {"text": "f"})).text == "f"
    assert yard.journal.lives == 2


@client_side
async def test_a_client_belongs_to_its_event_loop(yard: Place) -> None:
    async with yard.client() as c:

        def elsewhere() -> str:
            with pytest.raises(ty.UsageError) as told:
                asyncio.run(c.call_tool("echo", {"text": "g"}))
            return str(told.value)

        assert "another event loop" in await asyncio.to_thread(elsewhere)
        assert (await c.call_tool("echo", {"text": "h"})).text == "h"
