"""One connection to one server, kept alive by one owner task.

The owner alone spawns, shakes hands, waits for the end, reconnects and closes. Callers wait for the outcome of its
attempts and do their own requests over the channel; a cancelled caller hurts nobody, and a dead server fails its own
calls at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from ..errors import (
    AuthError,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    ProtocolError,
    RateLimited,
    RemoteError,
    ToolyardError,
    TransportError,
    UsageError,
)
from ..events import ConnectionCompleted, ConnectionFailed, ConnectionStarted, Disconnected, Listeners, Reconnected
from ..policy.retry import RetryBudget, call_delay, may_retry, reconnect_delay
from ..protocol.metadata import with_meta
from ..transports.channel import PLAIN, Channel, Counters, RequestOptions
from ..types import State, Status, Wire
from .breaker import Breaker
from .dialing import Dialer
from .handlers import Handlers
from .negotiation import Agreement, Identity
from .options import Settings
from .rounds import in_rounds
from .session import Observer, Session
from .standing import STALLED_AFTER, Silence, Standing

log = logging.getLogger("toolyard.client")

HEALTH_TIMEOUT: Final = 5.0


class Unresponsive(TransportError):
    """The server lives and does not answer."""


class Connection:
    """Raw requests over a connection that is made when it is needed and made again when it is lost."""

    def __init__(
        self,
        make_channel: Callable[[Counters], Channel],
        options: Settings,
        *,
        identity: Identity,
        handlers: Handlers,
        listeners: Listeners,
        observer: Observer,
    ) -> None:
        self.options = options
        self._handlers = handlers
        self._observer = observer
        self.counters = Counters()
        self.generation = 0
        self._standing = Standing()
        self.session: Session | None = None
        self.last_agreement: Agreement | None = None
        self._dialer = Dialer(make_channel, options, self.counters, identity, handlers, observer)
        self._listeners = listeners
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: asyncio.Task[None] | None = None
        self._attempt: asyncio.Future[Session] | None = None
        self._asked = asyncio.Event()
        self._stopping = False
        self._closed = False
        self._breaker = Breaker(options.reconnect.max_delay)
        self._budget = RetryBudget()
        self._slots: asyncio.Semaphore | None = None
        self._silence = Silence()
        self._checkup: asyncio.Task[None] | None = None
        self._last_error = ""

    # ---- requests --------------------------------------------------------------------------------------------

    async def request(
        self, method: str, params: Wire | None = None, *, options: RequestOptions = PLAIN, repeatable: bool = False
    ) -> Wire:
        """One request with one outcome; sent again only where that cannot run anything twice."""
        if self._loop is not asyncio.get_running_loop():
            self._bind()
        attempt = 0
        while True:
            try:
                if self._slots is None:
                    answer = await self._send(method, params, options)
                else:
                    async with self._slot(options.deadline):
                        answer = await self._send(method, params, options)
            except ToolyardError as exc:
                exc.server = exc.server or self.options.name
                if isinstance(exc, RemoteError):
                    self._breaker.succeeded()
                delay = self._delay_before_retry(exc, attempt, repeatable, options.deadline)
                if delay is None:
                    raise
            else:
                self._breaker.succeeded()
                self._budget.succeeded()
                return answer
            log.debug("%s: %s is sent again in %.2f s", self.options.name, method, delay)
            await asyncio.sleep(delay)
            attempt += 1

    async def _send(self, method: str, params: Wire | None, options: RequestOptions) -> Wire:
        session = self.session
        if session is None:
            session = await self.ready(options.deadline)
        stamp = session.agreement.stamp
        if stamp is None:
            return await self._exchange(session, method, params, options)
        answer = await self._exchange(session, method, with_meta(params, stamp), options)
        if answer.get("resultType", "complete") == "complete":
            return answer
        return await self._send_in_rounds(session, method, params or {}, options, answer)

    async def _exchange(self, session: Session, method: str, params: Wire | None, options: RequestOptions) -> Wire:
        try:
            return await session.channel.request(method, params, options=options)
        except CallTimeout:
            self._note_silence(session)
            raise

    async def _send_in_rounds(
        self, session: Session, method: str, params: Wire, options: RequestOptions, first: Wire
    ) -> Wire:
        """The server wants something before it gives its result. A person's time is not the call's."""

        def put_off(seconds: float) -> None:
            nonlocal options
            if options.deadline is not None:
                options = replace(options, deadline=options.deadline + seconds)

        def again(some: Wire) -> Awaitable[Wire]:
            return self._exchange(session, method, with_meta(some, session.agreement.stamp), options)

        answer = first
        if first.get("resultType") == "input_required":
            answer = await in_rounds(again, self._handlers.answer, method, params, first, put_off)
        kind = answer.get("resultType", "complete")
        if kind != "complete":
            raise ProtocolError(f"the server answered with a result of the unknown type {kind!r}")
        return answer

    @asynccontextmanager
    async def _slot(self, deadline: float | None) -> AsyncIterator[None]:
        assert self._slots is not None
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise CallTimeout("the deadline passed while other calls were in flight; nothing was sent") from None
        try:
            yield
        finally:
            self._slots.release()

    def _delay_before_retry(
        self, exc: ToolyardError, attempt: int, repeatable: bool, deadline: float | None
    ) -> float | None:
        """Seconds to wait before the next attempt, or None if there must be none."""
        if attempt + 1 >= self.options.max_retries or self._closed or not may_retry(exc, repeatable=repeatable):
            return None
        delay = call_delay(attempt, random)
        if isinstance(exc, RateLimited) and exc.retry_after is not None:
            delay = max(delay, exc.retry_after)
        if deadline is not None and asyncio.get_running_loop().time() + delay >= deadline:
            return None
        return delay if self._budget.spend() else None

    # ---- health ----------------------------------------------------------------------------------------------

    def _note_silence(self, session: Session) -> None:
        """A deadline passed.

        Several in a row without any message in between, and the server is asked whether it lives.
        """
        times = self._silence.note(self.counters.received)
        if times >= STALLED_AFTER and self.session is session and (self._checkup is None or self._checkup.done()):
            self._standing.become(State.DEGRADED, f"{times} calls in a row were not answered")
            self._checkup = asyncio.create_task(self._check(session))

    async def _check(self, session: Session) -> None:
        try:
            await self.ping(session)
        except TransportError as exc:
            self._note_loss(session, Unresponsive(f"the server does not answer any more ({exc.message})"))
        except ToolyardError as exc:
            log.debug("%s: an error is an answer too: %s", self.options.name, exc)
            self._recovered(session)
        else:
            self._recovered(session)

    def _recovered(self, session: Session) -> None:
        if self.session is session and self.status.state is State.DEGRADED:
            self._standing.become(State.CONNECTED)

    async def ping(self, session: Session, timeout: float | None = HEALTH_TIMEOUT) -> None:
        """Ask for a sign of life on this very session."""
        deadline = asyncio.get_running_loop().time() + timeout if timeout is not None else None
        params = with_meta(None, session.agreement.stamp)
        await session.channel.request(session.agreement.era.health_method, params, options=RequestOptions(deadline))

    # ---- the way to a session --------------------------------------------------------------------------------

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None or (self._owner is None and self.session is None):
            self._loop = loop
            self._asked = asyncio.Event()
            limit = self.options.max_in_flight
            self._slots = asyncio.Semaphore(limit) if limit is not None else None
        elif self._loop is not loop:
            raise UsageError(
                f"the client for {self.options.name} belongs to another event loop (or to the process before a fork); "
                "make a new one here, or use toolyard.sync from several threads"
            )

    async def ready(self, deadline: float | None = None) -> Session:
        """The live session; the connection is made first if there is none. All who wait share one attempt."""
        self._bind()
        if self.session is not None:
            return self.session
        if self._closed:
            raise UsageError(f"the client for {self.options.name} is closed; make a new one")
        if self._attempt is None:
            self._check_breaker()
            self._attempt = asyncio.get_running_loop().create_future()
            self._attempt.add_done_callback(_retrieve)
        if self._owner is None:
            self._owner = asyncio.create_task(self._own(), name=f"toolyard:{self.options.name}")
        self._asked.set()
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(self._attempt)
        except TimeoutError:
            raise CallTimeout("the deadline passed while connecting; nothing was sent") from None

    def _check_breaker(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._breaker.admits(now):
            raise ConnectError(
                f"not tried: {self._breaker.failures} failures in a row, the last one: {self._last_error}; "
                f"the next trial is in {self._breaker.remaining(now):.0f} s",
                server=self.options.name,
                permanent=True,  # for this call: a retry would only meet the open breaker again
            )

    # ---- the owner -------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        tries = 0
        try:
            while True:
                try:
                    session = await self._establish()
                except ToolyardError as exc:
                    tries += 1
                    if not self._goes_on(exc, tries):
                        self._standing.become(
                            State.NEEDS_AUTH if isinstance(exc, AuthError) else State.FAILED, exc.message
                        )
                        return
                else:
                    tries = 0
                    reason = await self._live(session)
                    if self.options.reconnect.max_retries == 0:
                        self._standing.become(State.DISCONNECTED, str(reason))
                        return
                await self._pause(tries)
        finally:
            self._leave()

    def _goes_on(self, exc: ToolyardError, tries: int) -> bool:
        # A first connection that fails is its caller's business; only one that was there is made again unasked.
        permanent = isinstance(exc, ConnectError) and exc.permanent
        return self.generation > 0 and not permanent and tries < self.options.reconnect.max_retries

    async def _pause(self, tries: int) -> None:
        """Wait before the next attempt; a call that needs the connection ends the wait."""
        if self._attempt is None:
            self._asked.clear()
            delay = reconnect_delay(self.options.reconnect, tries, random)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._asked.wait()

    async def _live(self, session: Session) -> Exception:
        """Wait for the session's end, then clear away what is left of it.

        A server that does not answer any more gets less time, and so does every server when the loop ends under us.
        """
        hurry = not self._stopping
        try:
            reason = await session.ended
            hurry = isinstance(reason, Unresponsive)
            return reason
        finally:
            self._part()
            session.end(ConnectionLost("the connection was closed"))
            await session.channel.close(hurry=hurry and not self._stopping)

    def _part(self) -> None:
        """The live session is given up by us: from this moment on the status says so."""
        if self.session is not None:
            self.session = None
            self._standing.become(State.DISCONNECTED)
            self._emit_disconnected("closed by the client")

    def _leave(self) -> None:
        """The owner goes: by itself, because it was told to, or because the loop ends."""
        self._owner = None
        self._stopping = False
        self._breaker.trial_ended()
        if self._attempt is not None and not self._attempt.done():
            self._attempt.set_exception(ConnectionLost("the client was disconnected", server=self.options.name))
        self._attempt = None
        if self.status.state is State.CONNECTING:
            self._standing.become(State.DISCONNECTED)

    async def _establish(self) -> Session:
        """One attempt, and its outcome told to all who wait for it."""
        again, began = self.generation > 0, asyncio.get_running_loop().time()
        self._standing.become(State.CONNECTING)
        self._listeners.emit(ConnectionStarted(self.options.name, again))
        try:
            remembered = self.last_agreement.version if self.last_agreement is not None else None
            session = await self._dialer.dial(self.generation + 1, remembered, self._note_loss)
        except ToolyardError as exc:
            exc.server = exc.server or self.options.name
            self._last_error = exc.message
            self._breaker.failed(asyncio.get_running_loop().time())
            elapsed = asyncio.get_running_loop().time() - began
            log.info("%s: connecting failed after %.2f s: %s", self.options.name, elapsed, exc.message)
            if self._attempt is not None and not self._attempt.done():
                self._attempt.set_exception(exc)
            self._attempt = None
            self._listeners.emit(ConnectionFailed(self.options.name, again, elapsed, exc))
            raise
        self._begin(session, again, asyncio.get_running_loop().time() - began)
        return session

    def _begin(self, session: Session, again: bool, elapsed: float) -> None:
        self.generation = session.generation
        self.last_agreement = session.agreement
        self.session = session
        self._breaker.trial_ended()
        self._silence = Silence()
        self._standing.become(State.CONNECTED)
        if self._attempt is not None and not self._attempt.done():
            self._attempt.set_result(session)
        self._attempt = None
        name, version = self.options.name, session.agreement.version
        log.info("%s: connected, protocol %s, %.2f s", name, version, elapsed)
        self._listeners.emit(ConnectionCompleted(name, again, elapsed, version))
        if again:
            self._listeners.emit(Reconnected(name, session.generation))

    # ---- the end ---------------------------------------------------------------------------------------------

    def _note_loss(self, session: Session, error: Exception) -> None:
        """The session has ended by itself. From this moment on calls go the way of a new connection."""
        session.end(error)
        if self.session is not session:
            return
        self.session = None
        self._last_error = str(error)
        self._breaker.failed(asyncio.get_running_loop().time())
        self._standing.become(State.CONNECTING, str(error))
        log.warning("%s: connection lost: %s", self.options.name, error)
        self._emit_disconnected(str(error))

    def _emit_disconnected(self, reason: str) -> None:
        self._observer.on_disconnected()
        self._listeners.emit(Disconnected(self.options.name, reason))

    async def disconnect(self) -> None:
        """Let go of the connection.

        The next call makes a new one. Nothing is left behind, also if we are cancelled here.
        """
        owner = self._owner
        if owner is None:
            if self.status.state is not State.DISCONNECTED:
                self._standing.become(State.DISCONNECTED)
            return
        if not self._stopping:
            self._stopping = True
            self._part()
            owner.cancel()
        if self._checkup is not None:
            self._checkup.cancel()
        await asyncio.wait([owner])

    async def close(self) -> None:
        """Disconnect for good."""
        self._closed = True
        await self.disconnect()

    @property
    def status(self) -> Status:
        """The state, why, and since when."""
        return self._standing.status

    @property
    def closed(self) -> bool:
        """Whether it was closed for good."""
        return self._closed


def _retrieve(future: asyncio.Future[Session]) -> None:
    """An attempt that failed with nobody waiting is no lost exception: the status tells it."""
    if not future.cancelled():
        future.exception()
