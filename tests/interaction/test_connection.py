"""The lifecycle of a connection: opened on demand, closed, reopened, ended for good."""

from __future__ import annotations

import asyncio

import pytest

import toolcrib as tc
from tests.interaction.kit import Clock, Place, eventually, soon
from tests.interaction.marks import OLDER, client_side, only

NO_VERDICT = {"silent": {"server/discover": 0, "initialize": 0}}


async def test_connecting_twice_is_connecting_once(harness: Place) -> None:
    c = harness.client()
    assert await c.connect() is c
    since = c.status.since
    await c.connect()
    async with c:
        assert c.status.since == since
    assert harness.journal.lives == 1


@pytest.mark.transport
async def test_without_with_the_first_call_connects(harness: Place) -> None:
    c = harness.client()
    assert harness.journal.lives == 0, "nothing is started before it is needed"
    assert (await c.call_tool("echo", {"text": "a"})).text == "a"
    assert c.connected
    await c.close()


async def test_all_concurrent_callers_share_one_connection(harness: Place) -> None:
    c = harness.client()
    results = await asyncio.gather(*(c.call_tool("echo", {"text": str(n)}) for n in range(20)))
    assert [result.text for result in results] == [str(n) for n in range(20)]
    assert harness.journal.lives == 1


@pytest.mark.transport
async def test_after_disconnect_the_next_call_connects_again(harness: Place) -> None:
    async with harness.client() as c:
        info = c.server_info
        await c.disconnect()
        assert (c.connected, c.status.state, c.server_info) == (False, tc.ConnectionState.DISCONNECTED, None)
        assert (await c.call_tool("echo", {"text": "again"})).text == "again"
        assert (c.connected, c.server_info) == (True, info)
        assert harness.journal.lives == 2


async def test_disconnecting_twice_or_before_connecting_is_nothing(harness: Place) -> None:
    c = harness.client()
    await c.disconnect()
    await c.connect()
    await c.disconnect()
    await c.disconnect()
    assert c.status.state is tc.ConnectionState.DISCONNECTED
    assert harness.journal.lives == 1


@pytest.mark.transport
async def test_close_is_final(harness: Place) -> None:
    c = harness.client()
    async with c:
        await c.list_tools()
    await c.close()
    for use in (c.connect, c.list_tools, c.list_prompts, c.ping, lambda: c.call_tool("echo")):
        with pytest.raises(tc.UsageError, match="closed"):
            await use()
    with pytest.raises(tc.UsageError, match="closed"):
        await c.__aenter__()
    assert harness.journal.lives == 1


@pytest.mark.transport
async def test_closing_fails_the_calls_in_flight(harness: Place) -> None:
    c = await harness.client().connect()
    sleeping = asyncio.create_task(c.call_tool("sleeper"))
    await eventually(lambda: "sleeper" in harness.journal.calls)
    await c.close()
    with pytest.raises(tc.OutcomeUnknown):
        await soon(sleeping)


@pytest.mark.transport
async def test_disconnecting_fails_the_calls_in_flight_and_no_later_one(harness: Place) -> None:
    c = await harness.client().connect()
    sleeping = asyncio.create_task(c.call_tool("sleeper"))
    await eventually(lambda: "sleeper" in harness.journal.calls)
    await c.disconnect()
    with pytest.raises(tc.OutcomeUnknown):
        await soon(sleeping)
    assert (await c.call_tool("echo", {"text": "b"})).text == "b"


@client_side
async def test_a_with_block_that_raises_closes_all_the_same(harness: Place) -> None:
    c = harness.client()
    with pytest.raises(KeyError):
        async with c:
            raise KeyError("the caller's own")
    with pytest.raises(tc.UsageError):
        await c.connect()


@pytest.mark.transport
async def test_a_failed_connect_leaves_a_clean_state(harness: Place) -> None:
    c = harness.client(server_options=harness.sick(1))
    with pytest.raises(tc.ConnectError) as caught:
        await c.connect()
    assert caught.value.sent is False
    assert caught.value.server == c.name
    assert (c.connected, c.status.state, c.server_info) == (False, tc.ConnectionState.FAILED, None)
    assert c.status.reason
    await c.connect()
    assert (c.status.state, c.status.reason) == (tc.ConnectionState.CONNECTED, "")
    assert (await c.call_tool("echo", {"text": "c"})).text == "c"


@only(ways=["stdio"])
async def test_a_child_that_dies_at_the_start_is_reported_with_its_exit_code(harness: Place) -> None:
    with pytest.raises(tc.StartError) as caught:
        await harness.client(server_options=harness.sick(9)).connect()
    assert caught.value.exit_code == 7


@pytest.mark.transport
async def test_a_silent_server_is_given_up_after_connect_timeout(harness: Place, clock: Clock) -> None:
    c = harness.client(server_options=NO_VERDICT, connect_timeout=60)
    connecting = asyncio.create_task(c.connect())
    await eventually(lambda: harness.journal.entries("got"))
    clock.advance(61)
    with pytest.raises(tc.ConnectError, match="connect_timeout=60"):
        await soon(connecting)
    assert c.status.state is tc.ConnectionState.FAILED


@pytest.mark.transport
@only(eras=["modern", "older"])
async def test_a_server_that_is_slow_to_answer_is_asked_in_both_ways(harness: Place, clock: Clock) -> None:
    c = harness.client(server_options={"silent": {"server/discover": 0}}, connect_timeout=60)
    connecting = asyncio.create_task(c.connect())
    await eventually(lambda: harness.journal.got("server/discover"))
    clock.advance(11)
    await eventually(lambda: harness.journal.got("initialize"))
    if harness.modern:
        clock.advance(60)
        with pytest.raises(tc.ConnectError):
            await soon(connecting)
    else:
        await soon(connecting)
        assert (await c.call_tool("echo", {"text": "d"})).text == "d"


async def test_a_cancelled_caller_does_not_end_the_attempt_of_another(harness: Place) -> None:
    c = harness.client()
    first, second = (asyncio.create_task(c.call_tool("echo", {"text": name})) for name in ("one", "two"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await soon(second)).text == "two"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert harness.journal.lives == 1


@pytest.mark.transport
async def test_the_era_is_remembered_for_the_next_connection(harness: Place) -> None:
    async with harness.client() as c:
        await c.disconnect()
        await c.connect()
        assert c.server_info is not None
        assert c.server_info.protocol_version == harness.version
    probes = {"modern": 2, "older": 1, "legacy": 0}[harness.era]
    assert len(harness.journal.got("server/discover")) == probes
    assert len(harness.journal.got("initialize")) == (0 if harness.modern else 2)


@pytest.mark.transport
@OLDER
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-03-26", "2024-11-05"])
async def test_older_revisions_are_accepted(harness: Place, revision: str) -> None:
    async with harness.client(server_options={"revision": revision}) as c:
        assert c.server_info is not None
        assert c.server_info.protocol_version == revision
        assert (await c.call_tool("echo", {"text": "e"})).text == "e"


@OLDER
async def test_an_unknown_revision_is_reported_with_both_sides(harness: Place) -> None:
    with pytest.raises(tc.ConnectError, match=r"1999-01-01.*2025-11-25") as caught:
        await harness.client(server_options={"revision": "1999-01-01"}).connect()
    assert caught.value.permanent is True


@only(eras=["modern"])
async def test_a_modern_server_of_unknown_versions_only_is_reported_with_both_sides(harness: Place) -> None:
    with pytest.raises(tc.ConnectError, match=r"2031-01-01.*2026-07-28") as caught:
        await harness.client(server_options={"supported": ["2031-01-01"]}).connect()
    assert caught.value.permanent is True


@pytest.mark.transport
async def test_two_clients_of_one_server_are_two_connections(harness: Place) -> None:
    async with harness.client() as one, harness.client() as two:
        await one.close()
        assert (await two.call_tool("echo", {"text": "f"})).text == "f"
    assert harness.journal.lives == 2


async def test_a_client_belongs_to_its_event_loop(harness: Place) -> None:
    async with harness.client() as c:

        def elsewhere() -> str:
            with pytest.raises(tc.UsageError) as caught:
                asyncio.run(c.call_tool("echo", {"text": "g"}))
            return str(caught.value)

        assert "another event loop" in await asyncio.to_thread(elsewhere)
        assert (await c.call_tool("echo", {"text": "h"})).text == "h"
