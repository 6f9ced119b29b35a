"""The owner of a connection: when it retries and when it gives up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, Clock, PlayedServer, eventually, turns
from toolcrib import events
from toolcrib.client.breaker import MAX_FAILURES
from toolcrib.client.supervisor import USUAL_RETRIES
from toolcrib.protocol import jsonrpc

FAST = tc.ReconnectPolicy(base_delay=0.001, max_delay=0.5, max_retries=3, jitter_factor=0.0)


class Mayfly:
    """A server that crashes after the handshake, a number of times, and then keeps running."""

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
    """A server whose stream is slow to close."""

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
    assert no_owner()


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


# ---- a policy that keeps trying ------------------------------------------------------------------------------

PERSISTENT = tc.ReconnectPolicy(base_delay=0.001, max_delay=0.01, max_retries=None, jitter_factor=0.0)


class Unreachable(PlayedServer):
    """A server that refuses connections while `error` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(initialize=LEGACY, ping={}, tools__call={"content": []})
        self.error = error
        self.attempts = 0

    def __call__(self) -> tc.MemoryStream:
        self.attempts += 1
        if self.error is not None:
            raise self.error
        return super().__call__()


@pytest.mark.parametrize("permanent", [False, True], ids=["transient", "permanent"])
async def test_without_a_limit_of_retries_a_first_attempt_that_failed_is_repeated(permanent: bool) -> None:
    server = Unreachable(tc.ConnectError("refused", permanent=permanent))
    client = tc.Client(server, mode="legacy", reconnect=PERSISTENT, max_attempts=1)
    try:
        with pytest.raises(tc.ConnectError, match="refused"):
            await client.connect()
        assert client.status.state is tc.ConnectionState.FAILED
        assert "refused" in client.status.reason
        # Many more than those that open the breaker: attempts in the background do not ask it.
        await eventually(lambda: server.attempts > 3 * MAX_FAILURES)
        server.error = None
        await eventually(lambda: client.connected)
        await asyncio.gather(*(client.ping() for _ in range(3)))
        assert client.status.state is tc.ConnectionState.CONNECTED
    finally:
        await client.close()


async def test_without_a_limit_a_lost_server_fails_after_the_usual_retries_and_is_there_again_later() -> None:
    server = Unreachable()
    states = []
    client = tc.Client(server, mode="legacy", reconnect=PERSISTENT)
    client.on(events.ConnectionStarted, lambda _: states.append(client.status.state))
    try:
        await client.connect()
        server.error = OSError("away")
        await server.end.close()
        await eventually(lambda: client.status.state is tc.ConnectionState.FAILED)
        assert "away" in client.status.reason
        assert server.attempts > USUAL_RETRIES
        server.error = None
        await eventually(lambda: client.connected)
        assert set(states) == {tc.ConnectionState.CONNECTING}
    finally:
        await client.close()


async def test_a_server_that_dies_again_and_again_is_connected_again_and_again_without_a_limit() -> None:
    mayfly = Mayfly(short_lives=2 * MAX_FAILURES)
    client = tc.Client(mayfly, mode="legacy", reconnect=PERSISTENT)
    try:
        await client.connect()
        await eventually(lambda: mayfly.lives == 2 * MAX_FAILURES + 1 and client.connected)
        await client.ping()
    finally:
        await client.close()


async def test_rejected_credentials_are_not_tried_again_before_the_next_request() -> None:
    server = Unreachable(tc.AuthError("unauthorized"))
    client = tc.Client(server, mode="legacy", reconnect=PERSISTENT)
    try:
        with pytest.raises(tc.AuthError):
            await client.connect()
        assert client.status.state is tc.ConnectionState.NEEDS_AUTH
        await turns(20)
        assert no_owner()
        assert server.attempts == 1
        server.error = None
        await client.ping()
        assert client.status.state is tc.ConnectionState.CONNECTED
    finally:
        await client.close()


@pytest.mark.parametrize("end", ["disconnect", "close"])
async def test_the_attempts_in_the_background_end_with_disconnect_and_close(end: str) -> None:
    server = Unreachable(OSError("away"))
    client = tc.Client(server, mode="legacy", reconnect=PERSISTENT, max_attempts=1)
    with pytest.raises(tc.ConnectError):
        await client.connect()
    await eventually(lambda: server.attempts > 2)
    await getattr(client, end)()
    assert client.status.state is tc.ConnectionState.DISCONNECTED
    assert no_owner()
    await client.close()


async def test_a_caller_during_the_pause_gets_the_outcome_of_its_own_attempt() -> None:
    server = Unreachable(OSError("away"))
    policy = tc.ReconnectPolicy(base_delay=60, max_delay=60, max_retries=None, jitter_factor=0)
    client = tc.Client(server, mode="legacy", reconnect=policy, max_attempts=1)
    try:
        with pytest.raises(tc.ConnectError, match="away"):
            await client.connect()
        with pytest.raises(tc.ConnectError, match="away"):
            await client.ping()
        assert server.attempts == 2
        server.error = None
        await client.ping()
    finally:
        await client.close()


async def test_a_caller_shares_an_attempt_of_the_background_although_the_breaker_is_open() -> None:
    server = Unreachable(OSError("away"))
    policy = tc.ReconnectPolicy(base_delay=0.001, max_delay=60, max_retries=None, jitter_factor=0)
    client = tc.Client(server, mode="legacy", reconnect=policy, max_attempts=1)
    answered = asyncio.Event()

    async def initialize(_: object) -> object:
        await answered.wait()
        return LEGACY

    server.answers["initialize"] = initialize
    try:
        with pytest.raises(tc.ConnectError, match="away"):
            await client.connect()
        await eventually(lambda: server.attempts == MAX_FAILURES)
        server.error = None
        with pytest.raises(tc.ConnectError, match="not tried: 5 failures in a row"):
            await client.ping()
        await eventually(lambda: server.named("initialize"))
        call = asyncio.create_task(client.ping())
        await turns()
        answered.set()
        await call
    finally:
        await client.close()


# ---- the gate before each attempt ----------------------------------------------------------------------------


class Gate:
    """A gate that is closed until `open` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0
        self.inside = 0
        self.entered = 0

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        self.waiting += 1
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1
        self.inside += 1
        self.entered += 1
        try:
            yield
        finally:
            self.inside -= 1


async def test_each_attempt_waits_at_the_gate_which_costs_no_connect_timeout() -> None:
    clock, gate, server = Clock(), Gate(), Unreachable()
    client = tc.Client(server, mode="legacy", reconnect=FAST, connect_timeout=5, _start_gate=gate)
    try:
        connecting = asyncio.create_task(client.connect())
        await eventually(lambda: gate.waiting)
        await clock.advance(60)
        assert server.attempts == 0
        gate.open.set()
        await connecting
        assert (gate.entered, gate.inside) == (1, 0), "it is left as soon as the attempt has ended"
        await server.end.close()
        await eventually(lambda: server.attempts == 2 and client.connected)
        assert (gate.entered, gate.inside) == (2, 0)
    finally:
        await client.close()


@pytest.mark.parametrize("end", ["disconnect", "close"])
async def test_a_client_that_waits_at_the_gate_can_be_ended(end: str) -> None:
    gate, server = Gate(), Unreachable()
    client = tc.Client(server, mode="legacy", _start_gate=gate)
    connecting = asyncio.create_task(client.connect())
    await eventually(lambda: gate.waiting)
    with pytest.raises(tc.CallTimeout, match="nothing was sent"):
        await client.ping(timeout=0.01)
    await getattr(client, end)()
    with pytest.raises(tc.ConnectionLost):
        await connecting
    assert (gate.waiting, gate.inside, server.attempts) == (0, 0, 0)
    assert no_owner()
    await client.close()


def no_owner() -> bool:
    return not [task for task in asyncio.all_tasks() if task.get_name().startswith("toolcrib:")]
