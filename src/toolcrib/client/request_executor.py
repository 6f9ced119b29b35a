"""Requests over a supervised connection: deadlines, the limit of requests in flight, retries."""

from __future__ import annotations

import asyncio
import logging
import random
from functools import partial
from time import monotonic

from .._util.locks import PerLoop
from ..errors import (
    CallTimeout,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    SessionExpired,
    ToolcribError,
    TransportError,
    UnansweredTimeout,
    UsageError,
)
from ..policy.retry import RetryBudget, call_delay, may_retry
from ..protocol.metadata import with_meta
from ..protocol.sanitize import one_line
from ..transports.channel import PLAIN, RequestOptions, mask_of
from ..types import Wire
from .handlers import Handlers
from .input_required import resolve_input_required
from .session import Session
from .supervisor import Supervisor

log = logging.getLogger("toolcrib.client")


class RequestExecutor:
    """Executes requests: deadlines, the limit of requests in flight, retries, multi-round input."""

    def __init__(self, supervisor: Supervisor, handlers: Handlers) -> None:
        settings = supervisor.settings
        self.name = settings.name
        self._supervisor = supervisor
        self._handlers = handlers
        self._max_attempts = settings.max_attempts
        self._slots = (
            None if settings.max_in_flight is None else PerLoop(partial(asyncio.Semaphore, settings.max_in_flight))
        )
        self._budget = RetryBudget()

    async def request(
        self, method: str, params: Wire | None = None, *, options: RequestOptions = PLAIN, repeatable: bool = False
    ) -> Wire:
        """Send a request and return its result. It is sent again only if that cannot run anything twice."""
        supervisor = self._supervisor
        if supervisor.loop is not asyncio._get_running_loop():  # noqa: SLF001  # the public one raises
            supervisor.bind()
        attempt, before = 0, None
        # All in one coroutine: each further one would slow down every call.
        while True:
            session: Session | None = None
            failures = supervisor.failures
            # A handler that answers the server may itself call it, while its own call holds a slot.
            slots = None if self._slots is None or self._handlers.open_requests else self._slots()
            try:
                if failures and supervisor.session is not None:
                    supervisor.check_breaker()
                if slots is not None:
                    await self._take_slot(slots, options.deadline)
                try:
                    session = supervisor.session or await supervisor.connect(options.deadline)
                    if options.trace is not None:
                        options.trace.connected_at = options.trace.connected_at or monotonic()
                    stamp = session.agreement.stamp
                    stamped = params if stamp is None else with_meta(params, stamp)
                    answer = await session.channel.request(method, stamped, options=options)
                    if stamp is not None and answer.get("resultType", "complete") != "complete":
                        answer = await self._continue(session, method, params or {}, options, answer)
                finally:
                    if slots is not None:
                        slots.release()
            except BaseException as exc:  # noqa: BLE001  # a trial must end in any case; raised again below
                supervisor.record_failure(session, exc, failures)
                attempt += await self._before_retry(exc, before, attempt, repeatable, options)
                before = exc
            else:
                if supervisor.failures:
                    supervisor.record_success(session)
                if not self._budget.full:
                    self._budget.succeeded()
                return answer

    async def reach(self, deadline: float | None = None) -> Session:
        """Return the live session; connects with the same retries as a request."""
        attempt = 0
        while True:
            try:
                return await self._supervisor.connect(deadline)
            except ToolcribError as exc:
                attempt += await self._before_retry(exc, None, attempt, False, RequestOptions(deadline))

    async def _continue(
        self, session: Session, method: str, params: Wire, options: RequestOptions, first: Wire
    ) -> Wire:
        """Send the server the input that it requires, and return the final result.

        The time that a person needs to answer does not count towards the deadline.
        """

        def put_off(seconds: float) -> None:
            nonlocal options
            if options.deadline is not None:
                options = options._replace(deadline=options.deadline + seconds)

        async def again(some: Wire) -> Wire:
            stamped = with_meta(some, session.agreement.stamp)
            try:
                return await session.channel.request(method, stamped, options=options)
            except (TransportError, RateLimited) as exc:
                # This round was not sent, but earlier ones were, and their effect is unknown.
                if exc.sent:
                    raise
                kind = UnansweredTimeout if isinstance(exc, CallTimeout) else OutcomeUnknown
                raise kind(f"{exc.message}; an earlier round of the call may have been executed") from exc

        answer = first
        if first.get("resultType") == "input_required":
            try:
                mask = mask_of(session.channel)
                answer = await resolve_input_required(
                    again, self._handlers.answer, method, params, first, put_off, mask
                )
            except (ToolcribError, UsageError) as exc:
                exc.sent = True  # the rounds are one call, and its first round was answered
                raise
        kind = answer.get("resultType", "complete")
        if kind != "complete":
            shown = one_line(str(kind), mask=mask_of(session.channel))
            raise ProtocolError(f"resultType: expected 'complete' or 'input_required', got {shown!r}")
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
        options: RequestOptions,
    ) -> int:
        """Wait until the next attempt is due, or raise the error if there must be none.

        Return 1 if the failed attempt counts, 0 if not.
        """
        if options.trace is not None:
            options.trace.failures += 1
        if not isinstance(exc, ToolcribError):
            raise exc
        exc.server = exc.server or self.name
        # An expired session is not a failure of the server: a new one is made at once, shared by all callers, and the
        # attempt that detected it does not count.
        expired = isinstance(exc, SessionExpired) and not isinstance(before, SessionExpired)
        last = (attempt + 1 >= self._max_attempts and not expired) or self._supervisor.closed
        retry = not last and may_retry(exc, repeatable=repeatable)
        if isinstance(before, ToolcribError) and before.sent:
            exc.sent = True  # an earlier attempt was handed over, even if this one was not
        if not retry:
            raise exc
        delay = 0.0 if expired else call_delay(attempt, random)
        if isinstance(exc, RateLimited) and exc.retry_after is not None:
            delay = max(delay, exc.retry_after)
        if options.deadline is not None and asyncio.get_running_loop().time() + delay >= options.deadline:
            raise exc
        if not expired and not self._budget.spend():
            raise exc
        log.debug("%s: retrying in %.2f s after: %s", self.name, delay, exc)
        if await self._supervisor.wait_closed(delay):
            raise exc
        return 0 if expired else 1
