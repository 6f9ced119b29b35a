"""One connection to one server: its session, status, circuit breaker and health, kept by one owner task.

The owner task alone connects, waits for the end of the session, reconnects and closes. Callers wait for the outcome of
its attempts and make their own requests over the session's channel; a cancelled caller affects no other caller.

Longer than 400 lines: the phases of the owner task and the status, breaker and health that they change are one state.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import enum
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

from .._util.futures import retrieve
from .._util.locks import running_loop
from .._util.tasks import TaskSet
from ..errors import (
    AuthError,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    OutcomeUnknown,
    RateLimited,
    RemoteError,
    ToolcribError,
    TransportError,
    UsageError,
)
from ..events import (
    ConnectionCompleted,
    ConnectionFailed,
    ConnectionStarted,
    Disconnected,
    Listeners,
    Reconnected,
    SignInStarted,
)
from ..policy.retry import reconnect_delay
from ..protocol.metadata import with_meta
from ..protocol.sanitize import one_line
from ..transports.channel import Counters, RequestOptions
from ..types import ConnectionState, ConnectionStatus, ReconnectPolicy
from .breaker import Breaker
from .connector import Connector, Way
from .handlers import Handlers
from .negotiation import Identity
from .options import ResolvedOptions
from .session import Observer, Session
from .status import MAX_REASON, STALLED_AFTER, Silence, StatusTracker

log = logging.getLogger("toolcrib.client")

StartGate = Callable[[], AbstractAsyncContextManager[None]]
"""Entered around each attempt to connect; its exit must not wait. A hub uses it to limit concurrent starts."""

USUAL_RETRIES: Final = ReconnectPolicy().max_retries or 0
"""Failed attempts in a row after which the status is `failed`, if the policy is to keep trying."""
HEALTH_TIMEOUT: Final = 5.0
"""Seconds in which a server that left several requests unanswered must answer a ping."""
UNAUTHORISED: Final = 401
WAITING: Final = "waiting for a person to sign in"


class Phase(enum.Enum):
    """The phases of the owner task."""

    IDLE = "idle"
    """No owner task; the next request starts one."""
    CONNECTING = "connecting"
    """Waits at the start gate, or makes an attempt to connect."""
    LIVE = "live"
    """Waits for the end of the session."""
    LOST = "lost"
    """The session ended by itself: closes its channel."""
    WAITING = "waiting"
    """Waits for the time of the next attempt, or for a request."""
    STOPPING = "stopping"
    """Was cancelled, and closes what is open."""
    CLOSING = "closing"
    """Was cancelled by `close`, and closes what is open."""
    CLOSED = "closed"
    """No owner task, and none can be started."""


_STOPS: Final = frozenset({Phase.STOPPING, Phase.CLOSING})

PHASES: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.IDLE: frozenset({Phase.CONNECTING, Phase.CLOSED}),
    Phase.CONNECTING: frozenset({Phase.LIVE, Phase.WAITING, Phase.IDLE, *_STOPS}),
    Phase.LIVE: frozenset({Phase.LOST, *_STOPS}),
    Phase.LOST: frozenset({Phase.CONNECTING, Phase.WAITING, Phase.IDLE, *_STOPS}),
    Phase.WAITING: frozenset({Phase.CONNECTING, Phase.IDLE, *_STOPS}),
    Phase.STOPPING: frozenset({Phase.IDLE, Phase.CLOSING}),
    Phase.CLOSING: frozenset({Phase.CLOSED}),
    Phase.CLOSED: frozenset(),
}
"""The phases that can follow each phase. Only the end of the event loop leads from `WAITING` to `IDLE`."""


class Supervisor:
    """Makes the session when it is needed, makes it again when it is lost, and is the only writer of the status."""

    def __init__(
        self,
        ways: list[Way],
        settings: ResolvedOptions,
        *,
        identity: Identity,
        handlers: Handlers,
        listeners: Listeners,
        start_gate: StartGate | None = None,
        keep_trying: bool = False,
    ) -> None:
        self.settings = settings
        self.session: Session | None = None
        """The live session."""
        self.failures = 0
        """Failures recorded since the server last answered a request; 0 on a healthy connection."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the client was last used in."""
        self.counters = Counters()
        self._policy = settings.reconnect
        self._max_retries = USUAL_RETRIES if self._policy.max_retries is None else self._policy.max_retries
        self._keeps_trying = keep_trying or self._policy.max_retries is None
        self._start_gate: StartGate = nullcontext if start_gate is None else start_gate
        self._listeners = listeners
        self._observers: list[Observer] = []
        self._connector = Connector(
            ways, settings, self.counters, identity, handlers, self._observers, on_lost=self._lose
        )
        self._tracker = StatusTracker()
        self._breaker = Breaker(self._policy.max_delay)
        self._silence = Silence()
        self._health_check: asyncio.Task[None] | None = None
        self._unauthorised = False
        self._last_error = ""
        self._generation = 0
        self._version: str | None = None
        self._phase = Phase.IDLE
        self._owner: asyncio.Task[None] | None = None
        self._outcome: asyncio.Future[Session] | None = None
        """The outcome of the current or the next attempt; None while no caller waits for it."""
        self._requested = asyncio.Event()
        self._closing = asyncio.Event()
        self._closings = TaskSet()

    @property
    def status(self) -> ConnectionStatus:
        """The state of the connection, why, and since when."""
        return self._tracker.status

    @property
    def closed(self) -> bool:
        """Whether the client was closed."""
        return self._phase is Phase.CLOSED or self._phase is Phase.CLOSING

    def add_observer(self, observer: Observer) -> None:
        """Pass the server's notifications, and the begin and end of each connection, to `observer`."""
        self._observers.append(observer)

    # ---- what callers use ------------------------------------------------------------------------------------

    def bind(self) -> None:
        """Belong to the running event loop; raise `UsageError` while there is a connection in another one."""
        loop = running_loop()
        if self.loop is not loop:
            self.check_loop()
            self.loop = loop
            self._closing = asyncio.Event()

    def check_loop(self) -> None:
        """Raise `UsageError` if there is a connection that belongs to another event loop or process."""
        if self._owner is not None and self.loop is not running_loop():
            raise UsageError(
                f"the client for {self.settings.name} belongs to another event loop (or to the process before a fork); "
                "make a new one here, or use toolcrib.sync from several threads"
            )

    async def connect(self, deadline: float | None = None) -> Session:
        """Return the live session; connect first if there is none. Callers that wait share one attempt."""
        self.bind()
        while self._phase is Phase.STOPPING and self._owner is not None:
            await self._wait_for_end(self._owner, deadline)
        if self.session is not None:
            return self.session
        if self.closed:
            raise UsageError(f"the client for {self.settings.name} is closed; make a new one")
        if self._outcome is None:
            if self._phase is not Phase.CONNECTING:
                self.check_breaker()  # a running attempt is shared, even if the breaker is open
            self._outcome = asyncio.get_running_loop().create_future()
            self._outcome.add_done_callback(retrieve)
        if self._phase is Phase.IDLE:
            self._enter(Phase.CONNECTING)
            self._owner = asyncio.create_task(self._own(), name=f"toolcrib:{self.settings.name}")
            # Not in a `finally` of the task: if it is cancelled before its first step, it never enters a `try`.
            self._owner.add_done_callback(self._on_owner_done)
        self._requested.set()
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(self._outcome)
        except ToolcribError as exc:
            # Several callers share this failure: each gets its own copy to fill in and to keep.
            failure = copy.copy(exc)
            failure.sent = False  # whatever went wrong concerned the connection, not the call
            raise failure from exc.__cause__
        except TimeoutError:
            raise CallTimeout("the deadline passed while connecting; nothing was sent") from None

    async def _wait_for_end(self, owner: asyncio.Task[None], deadline: float | None) -> None:
        """Wait until a running disconnect has ended."""
        timeout = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        await asyncio.wait([owner], timeout=timeout)
        if not owner.done():
            raise CallTimeout("the deadline passed while the last connection was being closed; nothing was sent")

    def check_breaker(self) -> None:
        """Raise `ConnectError` if the breaker is open; when its pause is over, let one trial through."""
        now = asyncio.get_running_loop().time()
        if not self._breaker.admits(now):
            raise ConnectError(
                f"not tried: {self._breaker.failures} failures in a row, the last one: {self._last_error}; "
                f"the next trial is in {self._breaker.remaining(now):.0f} s",
                server=self.settings.name,
                permanent=True,  # for this call: a retry would only meet the open breaker again
            )

    async def wait_closed(self, timeout: float) -> bool:
        """Wait until the client is closed, at most `timeout` seconds, and return whether it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._closing.wait()
        return self.closed

    async def disconnect(self) -> None:
        """End the connection; the next request makes a new one. Nothing is left behind, even if this is cancelled."""
        self.check_loop()
        await self._stop(Phase.STOPPING)

    async def close(self) -> None:
        """Disconnect for good."""
        self.bind()
        self._closing.set()
        await self._stop(Phase.CLOSING)

    # ---- what callers report ---------------------------------------------------------------------------------

    def record_success(self, session: Session) -> None:
        """Record that a request was answered. Needed only while `failures` is not 0."""
        self._unauthorised = False
        self._breaker.succeeded()
        self._count_failures()
        self._recover(session)

    def record_failure(self, session: Session | None, exc: BaseException, failures: int) -> None:
        """Record how a request failed; `session` is None if it did not get one.

        Only over HTTP can a session live and yet not be reached. Requests that fail together count once: `failures`
        is the number from before the request, and a failure that was recorded since then includes this one.
        """
        if session is not None or not isinstance(exc, ToolcribError):
            self._breaker.trial_ended()
        if session is None:
            return
        if isinstance(exc, CallTimeout):
            self.record_timeout(session)
        elif isinstance(exc, RemoteError):
            self._breaker.succeeded()  # an error is an answer
        elif isinstance(exc, ConnectError):
            if self.failures == failures:
                self._last_error = exc.message
                self._breaker.failed(asyncio.get_running_loop().time())
            self._impair(session, ConnectionState.DEGRADED, exc)
        elif isinstance(exc, AuthError) and exc.status == UNAUTHORISED:
            self._unauthorised = True
            self._impair(session, ConnectionState.NEEDS_AUTH, exc)
        self._count_failures()

    def note_sign_in(self, issuer: str | None) -> None:
        """Show in the status that a person is asked to sign in, and emit an event; None clears it."""
        status = self._tracker.status
        if issuer is not None:
            self._tracker.become(status.state, f"{WAITING} at {issuer}")
            self._listeners.emit(SignInStarted(self.settings.name, issuer))
        elif status.reason.startswith(WAITING):
            self._tracker.become(status.state)

    def record_timeout(self, session: Session) -> None:
        """Record that a deadline passed. After several in a row without any message, ping the server."""
        times = self._silence.note(self.counters.received)
        if (
            times >= STALLED_AFTER
            and self.session is session
            and (self._health_check is None or self._health_check.done())
        ):
            self._tracker.become(ConnectionState.DEGRADED, f"{times} calls in a row were not answered")
            self._health_check = session.start_task(self._check_health(session))

    def _impair(self, session: Session, state: ConnectionState, exc: ToolcribError) -> None:
        if self.session is session:
            self._tracker.become(state, exc.message)

    def _recover(self, session: Session) -> None:
        if self.session is session and self.status.state is not ConnectionState.CONNECTED:
            self._tracker.become(ConnectionState.CONNECTED)

    def _count_failures(self) -> None:
        self.failures = self._breaker.failures + self._unauthorised

    async def _check_health(self, session: Session) -> None:
        deadline = asyncio.get_running_loop().time() + HEALTH_TIMEOUT
        agreement = session.agreement
        try:
            params = with_meta(None, agreement.stamp)
            await session.channel.request(agreement.era.health_method, params, options=RequestOptions(deadline))
        except (ConnectError, ConnectionLost, OutcomeUnknown, CallTimeout) as exc:
            self._lose(session, TransportError(f"the server stopped answering ({exc.message})"))
        except ToolcribError as exc:
            log.debug("%s: answered a ping with an error: %s", self.settings.name, exc)
            self._recover(session)
        else:
            self._recover(session)

    # ---- the owner task --------------------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        if phase not in PHASES[self._phase]:
            raise AssertionError(f"{self._phase} cannot be followed by {phase}")
        self._phase = phase

    async def _own(self) -> None:
        """Connect, wait for the end of the session and connect again, as long as the policy says."""
        failed = 0
        while True:
            session = await self._attempt(failed + 1)
            reason = None if session is None else await self._wait_for_loss(session)
            if self._phase in _STOPS:
                return  # a transport or a handler of the user swallowed the cancellation
            if reason is None:
                failed += 1
            else:
                # A completed handshake does not reset the count: a server may end after every handshake.
                failed = self._breaker.failures - 1
                if failed >= self._max_retries and self._outcome is None:
                    state = ConnectionState.DISCONNECTED if failed == 0 else ConnectionState.FAILED
                    self._tracker.become(state, str(reason))
            if not self._goes_on():
                self._finish()
                return
            await self._pause(failed)
            self._enter(Phase.CONNECTING)

    def _goes_on(self) -> bool:
        """Return whether the next attempt is made without a request for it."""
        if self._keeps_trying:
            return self.status.state is not ConnectionState.NEEDS_AUTH
        return self.status.state is ConnectionState.CONNECTING

    async def _pause(self, failed: int) -> None:
        """Wait before the next attempt; a request that needs the connection ends the wait."""
        if self._outcome is not None:
            return
        self._enter(Phase.WAITING)
        self._requested = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(reconnect_delay(self._policy, failed, random)):
                await self._requested.wait()

    async def _attempt(self, number: int) -> Session | None:
        """Make one attempt to connect, the `number`th in a row without success; return None if it fails."""
        async with self._start_gate():
            again, clock = self._generation > 0, asyncio.get_running_loop().time
            began = clock()
            self._tracker.become(ConnectionState.CONNECTING)
            self._listeners.emit(ConnectionStarted(self.settings.name, again))
            try:
                session = await self._connector.connect(self._generation + 1, self._version)
            except ToolcribError as exc:
                self._fail(exc, number, clock() - began)
                return None
            if self._phase in _STOPS:  # as in `_own`
                await session.channel.close(force=True)
                return None
            self._begin(session, clock() - began)
            return session

    def _fail(self, exc: ToolcribError, number: int, elapsed: float) -> None:
        """Record a failed attempt, the `number`th in a row, and raise its error for the callers that wait."""
        exc.server = exc.server or self.settings.name
        self._last_error = exc.message
        if not isinstance(exc, AuthError | RateLimited):  # a rejection is a sign of life
            self._breaker.failed(asyncio.get_running_loop().time())
            self._count_failures()
        again = self._generation > 0
        permanent = isinstance(exc, ConnectError) and exc.permanent
        if isinstance(exc, AuthError):
            self._tracker.become(ConnectionState.NEEDS_AUTH, exc.message)
        elif not again or permanent or number >= self._max_retries:
            self._tracker.become(ConnectionState.FAILED, exc.message)
        log.info("connecting failed after %.2f s: %s", elapsed, exc)
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(exc)
        self._outcome = None
        self._listeners.emit(ConnectionFailed(self.settings.name, again, elapsed, exc))

    def _begin(self, session: Session, elapsed: float) -> None:
        """Make the session the live one, and return it to the callers that wait."""
        self._enter(Phase.LIVE)
        again, self._generation = self._generation > 0, session.generation
        self._version = session.agreement.version
        self.session = session
        self._breaker.connected()
        self._tracker.become(ConnectionState.CONNECTED)
        # Before the callers go on: their requests must not overtake the subscriptions.
        for observer in self._observers:
            session.start_task(observer.on_connected(session))
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(session)
        self._outcome = None
        log.info("%s: connected, protocol %s, %.2f s", self.settings.name, self._version, elapsed)
        self._listeners.emit(ConnectionCompleted(self.settings.name, again, elapsed, self._version))
        if again:
            self._listeners.emit(Reconnected(self.settings.name, session.generation))

    async def _wait_for_loss(self, session: Session) -> Exception:
        """Wait until the session ends by itself, close what is left of it, and return the reason.

        Only a server that is disconnected on request gets time to end: one that failed blocks its successor, and a
        closing event loop cannot wait.
        """
        try:
            await asyncio.wait([session.ended])
        except asyncio.CancelledError:
            requested = self._phase in _STOPS
            lost = session.ended.done()  # lost and disconnected in the same turn of the loop
            if not requested:
                self._enter(Phase.STOPPING)
                self._part()
            session.end(ConnectionLost("the connection was closed"))
            await session.channel.close(force=lost or not requested)
            raise
        reason = session.ended.result()
        if self.session is session:  # it ended during the handshake
            self._lose(session, reason)
        if session.channel.over_http:
            # It does not block its successor, and its other requests may still get their own outcome.
            self._closings.create(session.channel.close())
        else:
            await session.channel.close(force=True)
        return reason

    def _lose(self, session: Session, error: Exception) -> None:
        """End a session that failed. From now on requests wait for a new connection."""
        session.end(error)
        if self.session is not session:
            return
        self._enter(Phase.LOST)
        self.session = None
        reason = self._last_error = one_line(str(error), MAX_REASON)  # it may be the exception of a foreign transport
        now = asyncio.get_running_loop().time()
        if now - session.began > self._policy.max_delay:
            self._breaker.succeeded()  # it lived long enough to count as healthy, even if it was not used
        self._breaker.failed(now)
        self._count_failures()
        self._tracker.become(ConnectionState.CONNECTING, reason)
        log.warning("%s: connection lost: %s", self.settings.name, reason)
        self._announce_end(reason, error)

    # ---- the end ---------------------------------------------------------------------------------------------

    async def _stop(self, phase: Phase) -> None:
        """Cancel the owner task and wait until everything is closed. `phase` is `STOPPING` or `CLOSING`."""
        owner = self._owner
        if owner is None:
            if phase is Phase.CLOSING and not self.closed:
                self._enter(Phase.CLOSED)
            self._leave_status()
        elif self._phase not in _STOPS:
            self._enter(phase)
            self._part()
            owner.cancel()
        elif phase is Phase.CLOSING and not self.closed:
            self._enter(phase)
        if self._closings:
            # Every task has taken its first step before it is cancelled; else it would close nothing.
            await asyncio.sleep(0)
            self._closings.cancel()
        ending = {*self._closings, *([owner] if owner is not None else [])}
        if ending:
            await asyncio.wait(ending)

    def _part(self) -> None:
        """Give up the live session: from this moment on the status says so."""
        if self.session is not None:
            self.session = None
            self._leave_status()
            self._announce_end("closed by the client")

    def _leave_status(self) -> None:
        if self.status.state is not ConnectionState.DISCONNECTED:
            self._tracker.become(ConnectionState.DISCONNECTED)

    def _announce_end(self, reason: str, error: Exception | None = None) -> None:
        for observer in self._observers:
            observer.on_disconnected()
        self._listeners.emit(Disconnected(self.settings.name, reason, error))

    def _on_owner_done(self, owner: asyncio.Task[None]) -> None:
        if self._owner is owner:
            self._finish()

    def _finish(self) -> None:
        """Clean up after the owner task, which gave up, was stopped, or was cancelled with the event loop."""
        stopped = self._phase in _STOPS
        self._owner = None
        self._enter(Phase.CLOSED if self._phase is Phase.CLOSING else Phase.IDLE)
        self._breaker.trial_ended()
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(ConnectionLost("the client was disconnected", server=self.settings.name))
        self._outcome = None
        if stopped or self.status.state is ConnectionState.CONNECTING:
            self._leave_status()
