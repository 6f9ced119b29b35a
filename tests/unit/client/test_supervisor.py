"""The owner of a connection: when it goes on and when it gives up."""

from __future__ import annotations

import asyncio

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, PlayedServer, eventually, turns
from toolcrib.protocol import jsonrpc

FAST = tc.ReconnectPolicy(base_delay=0.001, max_delay=0.5, max_retries=3, jitter_factor=0.0)


class Mayfly:
    """A server that shakes hands and dies; so many lives, and then it stays."""

    def __init__(self, short_lives: int) -> None:
        self.short_lives = short_lives
        self.lives = 0
        self.tasks: list[asyncio.Task[None]] = []

    def __call__(self) -> tc.MemoryStream:
        ours, theirs = tc.MemoryStream.pair()
        self.lives += 1
        self.tasks.append(asyncio.ensure_future(self.live(theirs, self.lives > self.short_lives)))
        return ours

    async def live(self, stream: tc.MemoryStream, stays: bool) -> None:
        while True:
            try:
                message = await stream.receive()
            except EOFError:
                return
            if message["method"] == "initialize":
                await stream.send(jsonrpc.result(message["id"], LEGACY))
                if not stays:
                    await stream.close()
                    return
            elif "id" in message:
                await stream.send(jsonrpc.result(message["id"], {}))


async def test_a_server_that_shakes_hands_and_dies_again_and_again_is_given_up() -> None:
    mayfly = Mayfly(short_lives=1_000)
    client = tc.Client(mayfly, mode="legacy", reconnect=FAST)
    try:
        await client.connect()
        await eventually(lambda: client.status.state is tc.ConnectionState.FAILED)
        assert mayfly.lives == 1 + FAST.max_retries
        assert client.status.reason
    finally:
        await client.close()


async def test_a_server_that_dies_of_its_first_lives_and_then_answers_is_there_again() -> None:
    mayfly = Mayfly(short_lives=2)
    client = tc.Client(mayfly, mode="legacy", reconnect=FAST)
    try:
        await client.connect()
        await eventually(lambda: mayfly.lives == 3 and client.connected)
        await client.ping()
        assert client.status.state is tc.ConnectionState.CONNECTED
    finally:
        await client.close()


class Lingering(PlayedServer):
    """Its stream takes its time to close."""

    def __init__(self) -> None:
        super().__init__(initialize=LEGACY)
        self.closing, self.closed = asyncio.Event(), asyncio.Event()

    def __call__(self) -> tc.MemoryStream:
        stream = super().__call__()
        close = stream.close

        async def late() -> None:
            self.closing.set()
            await self.closed.wait()
            await close()

        stream.close = late  # type: ignore[method-assign]
        return stream


async def test_a_call_during_a_disconnect_connects_again() -> None:
    server = Lingering()
    client = await tc.Client(server, mode="legacy").connect()
    try:
        leaving = asyncio.create_task(client.disconnect())
        await server.closing.wait()
        again = asyncio.create_task(client.connect())
        await turns()
        assert not again.done(), "two connections at once would be two servers"
        server.closed.set()
        await again
        assert client.connected
        await leaving
    finally:
        await client.close()


async def test_a_call_whose_deadline_passes_during_a_disconnect_was_not_sent() -> None:
    server = Lingering()
    client = await tc.Client(server, mode="legacy").connect()
    leaving = asyncio.create_task(client.disconnect())
    await server.closing.wait()
    with pytest.raises(tc.CallTimeout, match="being closed; nothing was sent"):
        await client.ping(timeout=0.01)
    server.closed.set()
    await leaving
    await client.close()


@pytest.mark.parametrize("leave", ["close", "disconnect"])
async def test_another_event_loop_may_not_take_the_connection_away(leave: str) -> None:
    server = PlayedServer(initialize=LEGACY, ping={})
    async with tc.Client(server, mode="legacy") as client:

        def elsewhere() -> None:
            with pytest.raises(tc.UsageError, match="another event loop"):
                asyncio.run(asyncio.wait_for(getattr(client, leave)(), 5))

        await asyncio.to_thread(elsewhere)
        assert client.connected
        await client.ping()
        await client.disconnect()
        await client.ping()
        assert len(server.named("initialize")) == 2, "what was refused has not closed it either"


# ---- disconnect and close at any moment ----------------------------------------------------------------------


@pytest.mark.parametrize("later", range(8))
@pytest.mark.parametrize("end", ["disconnect", "close"])
async def test_a_client_that_is_ended_while_it_connects_is_never_stuck(end: str, later: int) -> None:
    """In the first turns the owner task is cancelled before its first step: its clean-up must not depend on it."""
    client = tc.Client(PlayedServer(initialize=LEGACY, tools__call={"content": []}), mode="legacy")
    async with asyncio.timeout(5):
        first = asyncio.ensure_future(client.connect())
        ending = asyncio.gather(turns(later), getattr(client, end)()) if later == 0 else turns(later)
        await ending
        await getattr(client, end)()
        (outcome,) = await asyncio.gather(first, return_exceptions=True)
        assert outcome is client or (isinstance(outcome, tc.ConnectionLost) and outcome.sent is False)
        assert client.status.state is tc.ConnectionState.DISCONNECTED
        if end == "close":
            with pytest.raises(tc.UsageError, match="closed"):
                await client.call_tool("echo", timeout=1)
        else:
            assert (await client.call_tool("echo", timeout=1)).text == ""
        await client.close()
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("toolcrib:")] == []


async def test_connect_and_close_in_the_same_turn_end_both() -> None:
    client = tc.Client(PlayedServer(initialize=LEGACY), mode="legacy")
    async with asyncio.timeout(5):
        connected, closed = await asyncio.gather(client.connect(), client.close(), return_exceptions=True)
    assert isinstance(connected, tc.ConnectionLost)
    assert closed is None


async def test_several_callers_survive_a_disconnect_in_the_turn_in_which_they_connect() -> None:
    client = tc.Client(PlayedServer(initialize=LEGACY, tools__call={"content": []}), mode="legacy")
    async with asyncio.timeout(10):
        calls = [client.call_tool("echo", timeout=5) for _ in range(5)]
        # `ConnectionLost` with sent=False: each call is tried again and reaches the next connection.
        *results, _ = await asyncio.gather(*calls, client.disconnect())
        assert [result.is_error for result in results] == [False] * 5
        await client.close()


async def test_a_cancelled_disconnect_still_disconnects() -> None:
    client = tc.Client(PlayedServer(initialize=LEGACY), mode="legacy")
    async with asyncio.timeout(5):
        first = asyncio.ensure_future(client.connect())
        await turns(1)
        leaving = asyncio.ensure_future(client.disconnect())
        await turns(1)
        leaving.cancel()
        with pytest.raises(tc.ConnectionLost):
            await first
        assert (await client.connect()).connected
        await client.close()


async def test_the_session_and_the_server_info_are_those_of_the_live_connection() -> None:
    client = tc.Client(PlayedServer(initialize=LEGACY), mode="legacy", name="office")
    with pytest.raises(tc.ConnectionLost, match=r"office: not connected; call connect\(\) first"):
        _ = client.session
    assert client.server_info is None
    await client.connect()
    assert client.session.agreement.server is client.server_info
    await client.disconnect()
    assert client.server_info is None
    with pytest.raises(tc.ConnectionLost):
        _ = client.session
    await client.close()
