"""Every transition of a supervisor: by directed tests, and by random sequences of events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import toolcrib as tc
from tests.unit.client.scripted import ScriptedServer, Step, recorded_transitions
from tests.unit.kit import eventually, turns
from toolcrib.client.status import TRANSITIONS
from toolcrib.client.supervisor import PHASES, Phase
from toolcrib.errors import AuthError, CallTimeout, ConnectError, RemoteError, ToolcribError, UsageError
from toolcrib.types import ConnectionState

ALLOWED: set[Step] = {(before, after) for before, follow in PHASES.items() for after in follow}
ALLOWED |= {(before, after) for before, follow in TRANSITIONS.items() for after in follow}

REJECTED = AuthError("unauthorized", status=401)
UNREACHABLE = ConnectError("unreachable")
UNANSWERED = CallTimeout("no answer")


def policy(max_retries: int | None, delay: float = 0.001) -> tc.ReconnectPolicy:
    return tc.ReconnectPolicy(base_delay=delay, max_delay=delay, max_retries=max_retries, jitter_factor=0.0)


SOON, NEVER = policy(None), policy(None, 1_000.0)


def client_of(server: ScriptedServer, reconnect: tc.ReconnectPolicy = SOON) -> tc.Client:
    return tc.Client(server, mode="legacy", reconnect=reconnect, max_attempts=1, name="scripted")


def phase_of(client: tc.Client) -> Phase:
    return client._supervisor._phase


async def ended(client: tc.Client, *tasks: Awaitable[Any]) -> None:
    """Close the client; every pending call must have an outcome, and nothing may be left."""
    async with asyncio.timeout(5):
        await client.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        await turns()
    assert phase_of(client) is Phase.CLOSED
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def failing(call: Awaitable[Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        await call


# ---- directed: phases ----------------------------------------------------------------------------------------


async def a_client_that_was_never_used_is_closed() -> None:
    client = client_of(ScriptedServer())
    await ended(client)
    with pytest.raises(UsageError):
        await client.ping()


async def a_lost_session_is_made_again() -> None:
    server = ScriptedServer()
    client = await client_of(server).connect()
    server.lose()
    assert phase_of(client) is Phase.LOST
    await eventually(lambda: client.connected)
    await ended(client)


async def a_caller_waits_while_a_lost_session_is_closed() -> None:
    server = ScriptedServer()
    client = await client_of(server, NEVER).connect()
    server.closes.clear()
    server.lose()
    await turns()
    call = asyncio.create_task(client.ping())
    await turns()
    assert phase_of(client) is Phase.LOST
    server.closes.set()
    await call
    await ended(client)


async def a_lost_session_is_not_made_again_unasked() -> None:
    server = ScriptedServer()
    client = await client_of(server, policy(0)).connect()
    server.lose()
    await eventually(lambda: phase_of(client) is Phase.IDLE)
    assert client.status.state is ConnectionState.DISCONNECTED
    await client.ping()
    await ended(client)


async def a_first_attempt_fails() -> None:
    server = ScriptedServer()
    server.refusal = UNREACHABLE
    client = client_of(server, policy(3))
    await failing(client.connect(), ConnectError)
    assert (phase_of(client), client.status.state) == (Phase.IDLE, ConnectionState.FAILED)
    server.refusal = None
    await client.connect()
    await ended(client)


async def a_failed_client_is_disconnected() -> None:
    server = ScriptedServer()
    server.refusal = UNREACHABLE
    client = client_of(server, policy(3))
    await failing(client.connect(), ConnectError)
    await client.disconnect()
    assert client.status.state is ConnectionState.DISCONNECTED
    await ended(client)


async def credentials_are_rejected_and_then_accepted() -> None:
    server = ScriptedServer()
    server.refusal = REJECTED
    client = client_of(server)
    await failing(client.connect(), AuthError)
    assert (phase_of(client), client.status.state) == (Phase.IDLE, ConnectionState.NEEDS_AUTH)
    server.refusal = None
    await client.connect()
    await ended(client)


async def until_lost(client: tc.Client, server: ScriptedServer) -> None:
    await client.connect()
    server.closes.clear()
    server.lose()
    await turns()


async def until_waiting(client: tc.Client, server: ScriptedServer) -> None:
    server.refusal = UNREACHABLE
    await failing(client.connect(), ConnectError)
    await eventually(lambda: phase_of(client) is Phase.WAITING)


async def until_connecting(client: tc.Client, server: ScriptedServer) -> None:
    server.answers_handshake.clear()
    call = asyncio.create_task(client.connect())
    call.add_done_callback(lambda task: task.cancelled() or task.exception())
    await turns()


async def until_live(client: tc.Client, server: ScriptedServer) -> None:
    await client.connect()


PLACES = {
    Phase.CONNECTING: until_connecting,
    Phase.LIVE: until_live,
    Phase.LOST: until_lost,
    Phase.WAITING: until_waiting,
}


def stopped(phase: Phase, end: str) -> Callable[[], Coroutine[Any, Any, None]]:
    async def scenario() -> None:
        server = ScriptedServer()
        client = client_of(server, NEVER)
        await PLACES[phase](client, server)
        assert phase_of(client) is phase
        ending = asyncio.create_task(getattr(client, end)())
        await turns(1)
        server.closes.set()
        await ending
        assert client.status.state is ConnectionState.DISCONNECTED
        assert phase_of(client) is (Phase.CLOSED if end == "close" else Phase.IDLE)
        await ended(client)

    return scenario


def left_with_the_loop(phase: Phase) -> Callable[[], Coroutine[Any, Any, None]]:
    """Cancel every remaining task, as `asyncio.run` does at its end."""

    async def scenario() -> None:
        server = ScriptedServer()
        client = client_of(server, NEVER)
        await PLACES[phase](client, server)
        server.closes.set()
        (owner,) = [task for task in asyncio.all_tasks() if task.get_name() == "toolcrib:scripted"]
        owner.cancel()
        await eventually(lambda: phase_of(client) is Phase.IDLE)
        assert not client.connected
        await ended(client)

    return scenario


def cancellation_is_swallowed(refusal: Exception | None, end: str) -> Callable[[], Coroutine[Any, Any, None]]:
    """A user's transport may catch `CancelledError`: the attempt then continues, and still ends."""

    async def scenario() -> None:
        server = ScriptedServer()
        client = client_of(server, NEVER)
        server.swallows_cancellation, server.refusal = True, refusal
        await until_connecting(client, server)
        await getattr(client, end)()
        assert client.status.state is ConnectionState.DISCONNECTED
        assert [channel.closed for channel in server.channels] == [True]
        await ended(client)

    return scenario


async def a_disconnect_becomes_a_close() -> None:
    server = ScriptedServer()
    client = await client_of(server).connect()
    server.closes.clear()
    leaving = asyncio.create_task(client.disconnect())
    await turns()
    closing = asyncio.create_task(client.close())
    await turns()
    assert phase_of(client) is Phase.CLOSING
    server.closes.set()
    await ended(client, leaving, closing)


# ---- directed: states of a session that lives ----------------------------------------------------------------


async def states_of_a_session() -> None:
    """Over HTTP a session can live although the server cannot be reached, or rejects the credentials."""
    server = ScriptedServer(over_http=True)
    client = await client_of(server, NEVER).connect()

    async def ping(failure: Exception | None, state: ConnectionState) -> None:
        server.failure = failure
        if failure is None:
            await client.ping()
        else:
            await failing(client.ping(), type(failure))
        assert client.status.state is state

    for failure, state in [
        (UNREACHABLE, ConnectionState.DEGRADED),
        (None, ConnectionState.CONNECTED),
        (REJECTED, ConnectionState.NEEDS_AUTH),
        (UNREACHABLE, ConnectionState.DEGRADED),
        (REJECTED, ConnectionState.NEEDS_AUTH),
        (None, ConnectionState.CONNECTED),
    ]:
        await ping(failure, state)
    await ended(client)


def session_in(failure: Exception, end: str) -> Callable[[], Coroutine[Any, Any, None]]:
    async def scenario() -> None:
        server = ScriptedServer(over_http=True)
        client = await client_of(server, NEVER).connect()
        server.failure = failure
        await failing(client.ping(), type(failure))
        if end == "lost":
            server.lose()
            assert client.status.state is ConnectionState.CONNECTING
        else:
            await client.disconnect()
            assert client.status.state is ConnectionState.DISCONNECTED
        await ended(client)

    return scenario


def unanswered(answers_ping: bool) -> Callable[[], Coroutine[Any, Any, None]]:
    """Let three deadlines in a row pass without any message, so that the client pings the server."""

    async def scenario() -> None:
        server = ScriptedServer()
        client = await client_of(server, NEVER).connect()
        server.failure = UNANSWERED
        for _ in range(3):
            await failing(client.ping(), CallTimeout)
        assert client.status.state is ConnectionState.DEGRADED
        server.failure = RemoteError(-32601, "no such method") if answers_ping else UNANSWERED
        await turns()
        assert client.connected == answers_ping
        assert client.status.state is (ConnectionState.CONNECTED if answers_ping else ConnectionState.CONNECTING)
        await ended(client)

    return scenario


DIRECTED: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
    scenario.__name__: scenario
    for scenario in (
        a_client_that_was_never_used_is_closed,
        a_lost_session_is_made_again,
        a_caller_waits_while_a_lost_session_is_closed,
        a_lost_session_is_not_made_again_unasked,
        a_first_attempt_fails,
        a_failed_client_is_disconnected,
        credentials_are_rejected_and_then_accepted,
        a_disconnect_becomes_a_close,
        states_of_a_session,
    )
}
DIRECTED |= {f"{end} while {phase.value}": stopped(phase, end) for phase in PLACES for end in ("disconnect", "close")}
DIRECTED |= {f"the loop ends while {phase.value}": left_with_the_loop(phase) for phase in PLACES}
DIRECTED |= {
    f"{state} and {end}": session_in(failure, end)
    for state, failure in (("degraded", UNREACHABLE), ("needs-auth", REJECTED))
    for end in ("lost", "disconnected")
}
DIRECTED |= {
    f"{end} while connecting, {outcome} all the same": cancellation_is_swallowed(refusal, end)
    for outcome, refusal in (("connected", None), ("refused", UNREACHABLE), ("rejected", REJECTED))
    for end in ("disconnect", "close")
}
DIRECTED |= {f"no answers, ping answered: {answered}": unanswered(answered) for answered in (True, False)}


@pytest.mark.parametrize("scenario", DIRECTED.values(), ids=DIRECTED)
async def test_a_supervisor_can(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with asyncio.timeout(10):
        await scenario()


# ---- any order -----------------------------------------------------------------------------------------------

REFUSALS: list[Exception | None] = [None, None, UNREACHABLE, ConnectError("wrong", permanent=True), REJECTED]
FAILURES: list[Exception | None] = [None, None, UNREACHABLE, REJECTED, UNANSWERED, RemoteError(-32603, "failed")]
STATES = {
    Phase.IDLE: {ConnectionState.DISCONNECTED, ConnectionState.FAILED, ConnectionState.NEEDS_AUTH},
    Phase.LIVE: {ConnectionState.CONNECTED, ConnectionState.DEGRADED, ConnectionState.NEEDS_AUTH},
    Phase.LOST: {ConnectionState.CONNECTING},
    Phase.WAITING: {ConnectionState.CONNECTING, ConnectionState.FAILED},
    Phase.CLOSED: {ConnectionState.DISCONNECTED},
}
"""The states that a connection can have in each phase; in the others it has that of the phase before until it ends."""
TURNS = st.integers(-1, 4)
"""Turns of the loop before the next rule; -1 is none, so that the next rule acts in the same turn as this one."""


class OneSupervisor(RuleBasedStateMachine):
    """Everything that callers, the server and the event loop can do, in the same turn of the loop or a few apart."""

    @initialize(max_retries=st.sampled_from([0, 1, 3, None, None]), over_http=st.booleans(), delay=st.booleans())
    def begin(self, max_retries: int | None, over_http: bool, delay: bool) -> None:
        self.loop = asyncio.new_event_loop()
        self.policy = policy(max_retries, 1_000.0 if delay else 0.0)
        self.server = ScriptedServer(over_http=over_http)
        self.client = client_of(self.server, self.policy)
        self.tasks: list[asyncio.Task[Any]] = []

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 10))

    def start(self, work: Coroutine[Any, Any, Any], count: int) -> None:
        self.tasks.append(self.loop.create_task(work))
        self.turn(count)

    def turn(self, count: int) -> None:
        if count >= 0:
            self.run(turns(count))

    # --- callers

    @rule(count=TURNS)
    def connect(self, count: int) -> None:
        self.start(self.client.connect(), count)

    @rule(failure=st.sampled_from(FAILURES), count=TURNS)
    def call(self, failure: Exception | None, count: int) -> None:
        self.server.failure = failure
        self.start(self.client.call_tool("echo", timeout=None), count)

    @rule(failure=st.sampled_from(FAILURES))
    def answered_call(self, failure: Exception | None) -> None:
        self.call(failure, 8)

    @rule(count=TURNS)
    def disconnect(self, count: int) -> None:
        self.start(self.client.disconnect(), count)

    @precondition(lambda self: self.tasks)
    @rule(which=st.integers(0, 99), count=TURNS)
    def cancel(self, which: int, count: int) -> None:
        self.tasks[which % len(self.tasks)].cancel()
        self.turn(count)

    @rule(count=TURNS)
    def close_and_begin_anew(self, count: int) -> None:
        self.start(self.client.close(), count)
        self.finish()
        self.client = client_of(self.server, self.policy)

    # --- the server

    @rule(refusal=st.sampled_from(REFUSALS))
    def answer_handshakes(self, refusal: Exception | None) -> None:
        self.server.refusal = refusal
        self.server.answers_handshake.set()
        self.run(turns())

    @rule()
    def leave_handshakes_unanswered(self) -> None:
        self.server.answers_handshake.clear()

    @rule(slow=st.booleans(), count=TURNS)
    def lose(self, slow: bool, count: int) -> None:
        if slow:
            self.server.closes.clear()
        if self.server.channels:
            self.loop.call_soon(self.server.lose)
            self.turn(count)

    @rule()
    def let_channels_close(self) -> None:
        self.server.closes.set()
        self.run(turns())

    # --- the event loop

    @rule(count=TURNS)
    def end_the_loop(self, count: int) -> None:
        """Cancel the owner task, as `asyncio.run` does at its end."""
        for task in asyncio.all_tasks(self.loop):
            if task.get_name() == "toolcrib:scripted":
                task.cancel()
        self.turn(count)

    # --- what always holds

    @invariant()
    def session_status_and_phase_agree(self) -> None:
        if not hasattr(self, "client"):
            return
        phase, state = phase_of(self.client), self.client.status.state
        assert self.client.connected == (phase is Phase.LIVE)
        assert state in STATES.get(phase, set(ConnectionState)), (phase, state)

    def finish(self) -> None:
        """End everything: callers have an outcome, channels are closed, no task is left."""
        self.server.closes.set()
        self.server.answers_handshake.set()

        async def end() -> None:
            await self.client.close()
            await asyncio.wait_for(asyncio.gather(*self.tasks, return_exceptions=True), 5)
            await turns()

        self.run(end())
        for task in self.tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                assert isinstance(error, ToolcribError | UsageError), error
        self.tasks = []
        assert phase_of(self.client) is Phase.CLOSED
        assert self.client.status.state is ConnectionState.DISCONNECTED
        assert asyncio.all_tasks(self.loop) == set()
        assert all(channel.closed for channel in self.server.channels if channel.opened)

    def teardown(self) -> None:
        if hasattr(self, "client"):
            try:
                self.finish()
            finally:
                self.loop.close()


RANDOM = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_any_order_of_events_takes_only_transitions_of_the_tables_and_directed_tests_take_the_rest() -> None:
    with recorded_transitions() as seen:
        run_state_machine_as_test(OneSupervisor, settings=RANDOM)
        by_chance = set(seen)
        for scenario in DIRECTED.values():
            asyncio.run(scenario())
    assert by_chance <= ALLOWED
    assert len(by_chance) > len(ALLOWED) / 2, "the machine does little by itself"
    assert ALLOWED - seen == set(), "transitions that no test takes: remove them from the table, or test them"


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_any_order_of_events_for_long() -> None:
    long = settings(RANDOM, max_examples=3_000, stateful_step_count=50, derandomize=False, print_blob=True)
    run_state_machine_as_test(OneSupervisor, settings=long)


async def test_a_transition_that_is_not_in_the_table_is_an_error() -> None:
    supervisor = client_of(ScriptedServer())._supervisor
    with pytest.raises(AssertionError, match=r"Phase\.IDLE cannot be followed by Phase\.LIVE"):
        supervisor._enter(Phase.LIVE)
