"""Raw requests over a connection that is made when it is needed and made again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import Final

from .._util.locks import running_loop
from ..errors import (
    AuthError,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    RemoteError,
    SessionExpired,
    ToolcribError,
    TransportError,
    UnansweredTimeout,
    UsageError,
)
from ..policy.retry import RetryBudget, call_delay, may_retry
from ..protocol.metadata import with_meta
from ..protocol.sanitize import one_line
from ..transports.channel import PLAIN, Counters, RequestOptions, mask_of
from ..types import ConnectionState, ConnectionStatus, Wire
from .handlers import Handlers
from .input_required import in_rounds
from .session import Session
from .status import STALLED_AFTER, Silence
from .supervisor import Supervisor

log = logging.getLogger("toolcrib.client")

HEALTH_TIMEOUT: Final = 5.0
UNAUTHORISED: Final = 401


class RequestExecutor:
    """One request, one outcome: deadlines, the limit of calls in flight, retries, multi-round input, health."""

    def __init__(self, supervisor: Supervisor, handlers: Handlers) -> None:
        self.name = supervisor.settings.name
        self._supervisor = supervisor
        self._handlers = handlers
        self._max_attempts = supervisor.settings.max_attempts
        self._max_in_flight = supervisor.settings.max_in_flight
        self._slots: asyncio.Semaphore | None = None
        self._closing = asyncio.Event()
        self._budget = RetryBudget()
        self._silence = Silence()
        self._unauthorised = False
        self._health_check: asyncio.Task[None] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """The one that it is used on, once it was."""

    # ---- requests --------------------------------------------------------------------------------------------

    async def request(
        self, method: str, params: Wire | None = None, *, options: RequestOptions = PLAIN, repeatable: bool = False
    ) -> Wire:
        """One request with one outcome; sent again only where that cannot run anything twice."""
        if self.loop is not asyncio._get_running_loop():  # None outside of asyncio, which `_bind` refuses
            self._bind()
        attempt, before = 0, None
        # All in one coroutine: each layer more is paid by every call.
        while True:
            session: Session | None = None
            failures = self._supervisor.breaker.failures
            # A handler that answers the server may call it in turn, while the call that it belongs to holds a slot.
            slots = None if self._handlers.open_requests else self._slots
            try:
                if failures and self._supervisor.session is not None:
                    self._supervisor.check_breaker()
                if slots is not None:
                    await self._take_slot(slots, options.deadline)
                try:
                    session = self._supervisor.session or await self._supervisor.ready(options.deadline)
                    stamp = session.agreement.stamp
                    stamped = params if stamp is None else with_meta(params, stamp)
                    answer = await session.channel.request(method, stamped, options=options)
                    if stamp is not None and answer.get("resultType", "complete") != "complete":
                        answer = await self._in_rounds(session, method, params or {}, options, answer)
                finally:
                    if slots is not None:
                        slots.release()
            except BaseException as exc:  # noqa: BLE001  # a trial must end, whatever ends it; raised again below
                self._note_trouble(session, exc, failures)
                attempt += await self._before_retry(exc, before, attempt, repeatable, options.deadline)
                before = exc
            else:
                if self._supervisor.breaker.failures or self._unauthorised:
                    self._note_success(session)
                if not self._budget.full:
                    self._budget.succeeded()
                return answer

    async def reach(self, deadline: float | None = None) -> Session:
        """The live session; connecting is tried as often as it is for a request."""
        if self.loop is not running_loop():
            self._bind()
        attempt = 0
        while True:
            try:
                return await self._supervisor.ready(deadline)
            except ToolcribError as exc:
                attempt += await self._before_retry(exc, None, attempt, False, deadline)

    def _bind(self) -> None:
        self._supervisor.bind()
        self.loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._slots = asyncio.Semaphore(self._max_in_flight) if self._max_in_flight is not None else None

    async def _in_rounds(
        self, session: Session, method: str, params: Wire, options: RequestOptions, first: Wire
    ) -> Wire:
        """The server wants something before it gives its result. A person's time is not the call's."""

        def put_off(seconds: float) -> None:
            nonlocal options
            if options.deadline is not None:
                options = options._replace(deadline=options.deadline + seconds)

        async def again(some: Wire) -> Wire:
            stamped = with_meta(some, session.agreement.stamp)
            try:
                return await session.channel.request(method, stamped, options=options)
            except (TransportError, RateLimited) as exc:
                # This round was not sent, but earlier ones were, and what they have done is unknown.
                if exc.sent:
                    raise
                kind = UnansweredTimeout if isinstance(exc, CallTimeout) else OutcomeUnknown
                raise kind(f"{exc.message}; an earlier round of the call may have been executed") from exc

        answer = first
        if first.get("resultType") == "input_required":
            try:
                mask = mask_of(session.channel)
                answer = await in_rounds(again, self._handlers.answer, method, params, first, put_off, mask)
            except (ToolcribError, UsageError) as exc:
                exc.sent = True  # the rounds are one call, and its first round was answered
                raise
        kind = answer.get("resultType", "complete")
        if kind != "complete":
            shown = one_line(str(kind), mask=mask_of(session.channel))
            raise ProtocolError(f"the server answered with a result of the unknown type {shown!r}")
        return answer

    async def _take_slot(self, slots: asyncio.Semaphore, deadline: float | None) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await slots.acquire()
        except TimeoutError:
            raise CallTimeout("the deadline passed while other calls were in flight; nothing was sent") from None

    async def _before_retry(
        self,
        exc: BaseException,
        before: BaseException | None,
        attempt: int,
        repeatable: bool,
        deadline: float | None,
    ) -> int:
        """Wait for the next attempt, or raise the error if there must be none. 1 if this one counts, 0 if not."""
        if not isinstance(exc, ToolcribError):
            raise exc
        exc.server = exc.server or self.name
        if isinstance(exc, RemoteError):
            self._supervisor.breaker.succeeded()  # an error is an answer too
        # An expired session is no trouble of the server's: a new one is made at once, shared by all who need it, and
        # the call that learned of it is not counted as tried.
        expired = isinstance(exc, SessionExpired) and not isinstance(before, SessionExpired)
        last = (attempt + 1 >= self._max_attempts and not expired) or self._supervisor.closed
        retry = not last and may_retry(exc, repeatable=repeatable)
        if isinstance(before, ToolcribError) and before.sent:
            exc.sent = True  # an earlier attempt was handed over, whatever became of this one
        if not retry:
            raise exc
        delay = 0.0 if expired else call_delay(attempt, random)
        if isinstance(exc, RateLimited) and exc.retry_after is not None:
            delay = max(delay, exc.retry_after)
        if deadline is not None and asyncio.get_running_loop().time() + delay >= deadline:
            raise exc
        if not expired and not self._budget.spend():
            raise exc
        log.debug("%s: retrying in %.2f s after: %s", self.name, delay, exc)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._closing.wait()
        if self._supervisor.closed:
            raise exc
        return 0 if expired else 1

    def _note_trouble(self, session: Session | None, exc: BaseException, failures: int) -> None:
        """What a failure on a live session says about it. Only over HTTP can it live and yet not be reached."""
        if session is not None or not isinstance(exc, ToolcribError):
            self._supervisor.breaker.trial_ended()
        if session is None:
            return
        if isinstance(exc, CallTimeout):
            self._note_silence(session)
        elif isinstance(exc, ConnectError):
            # Calls that fail together are one failure.
            if self._supervisor.breaker.failures == failures:
                self._supervisor.note_failure(exc)
            self._worsen(session, ConnectionState.DEGRADED, exc)
        elif isinstance(exc, AuthError) and exc.status == UNAUTHORISED:
            self._unauthorised = True
            self._worsen(session, ConnectionState.NEEDS_AUTH, exc)

    def _worsen(self, session: Session, state: ConnectionState, exc: ToolcribError) -> None:
        if self._supervisor.session is session:
            self._supervisor.tracker.become(state, exc.message)

    def _note_success(self, session: Session) -> None:
        self._unauthorised = False
        self._supervisor.breaker.succeeded()
        self._recovered(session)

    # ---- health ----------------------------------------------------------------------------------------------

    def _note_silence(self, session: Session) -> None:
        """A deadline passed.

        Several in a row without any message in between, and the server is asked whether it lives.
        """
        times = self._silence.note(self._supervisor.counters.received)
        if (
            times >= STALLED_AFTER
            and self._supervisor.session is session
            and (self._health_check is None or self._health_check.done())
        ):
            self._supervisor.tracker.become(ConnectionState.DEGRADED, f"{times} calls in a row were not answered")
            self._health_check = asyncio.create_task(self._check(session))

    async def _check(self, session: Session) -> None:
        try:
            await self.ping(session)
        except (ConnectError, ConnectionLost, OutcomeUnknown, CallTimeout) as exc:
            self._supervisor.lose(session, TransportError(f"the server does not answer any more ({exc.message})"))
        except ToolcribError as exc:
            log.debug("%s: an error is an answer too: %s", self.name, exc)
            self._recovered(session)
        else:
            self._recovered(session)

    def _recovered(self, session: Session) -> None:
        if (
            self._supervisor.session is session
            and self._supervisor.tracker.status.state is not ConnectionState.CONNECTED
        ):
            self._supervisor.tracker.become(ConnectionState.CONNECTED)

    async def ping(self, session: Session, timeout: float | None = HEALTH_TIMEOUT) -> None:
        """Ask for a sign of life on this very session."""
        deadline = asyncio.get_running_loop().time() + timeout if timeout is not None else None
        params = with_meta(None, session.agreement.stamp)
        await session.channel.request(session.agreement.era.health_method, params, options=RequestOptions(deadline))

    # ---- the connection itself -------------------------------------------------------------------------------

    async def disconnect(self) -> None:
        """Let go of the connection; the next request makes a new one."""
        self._supervisor.check_loop()
        if self._health_check is not None:
            self._health_check.cancel()
        await self._supervisor.disconnect()

    async def close(self) -> None:
        """Disconnect for good."""
        self._supervisor.check_loop()
        self._supervisor.closed = True
        self._closing.set()
        await self.disconnect()

    @property
    def session(self) -> Session | None:
        """The live session, if there is one."""
        return self._supervisor.session

    @property
    def status(self) -> ConnectionStatus:
        """The state, why, and since when."""
        return self._supervisor.tracker.status

    @property
    def counters(self) -> Counters:
        """What came from the server."""
        return self._supervisor.counters
