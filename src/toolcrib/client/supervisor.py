"""One connection to one server, kept alive by one owner task.

The owner alone spawns, shakes hands, waits for the end, reconnects and closes. Callers wait for the outcome of its
attempts and do their own requests over the session's channel; a cancelled caller hurts nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

from .._util.futures import retrieve
from .._util.locks import running_loop
from ..errors import (
    AuthError,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    RateLimited,
    ToolcribError,
    UsageError,
)
from ..events import (
    ConnectionCompleted,
    ConnectionFailed,
    ConnectionStarted,
    Disconnected,
    Listeners,
    Reconnected,
)
from ..policy.retry import reconnect_delay
from ..protocol.sanitize import one_line
from ..transports.channel import Channel, Counters
from ..types import ConnectionState, ReconnectPolicy
from .breaker import Breaker
from .connector import Connector
from .handlers import Handlers
from .negotiation import Agreement, Identity
from .options import ResolvedOptions
from .session import Observer, Session
from .status import MAX_REASON, StatusTracker

log = logging.getLogger("toolcrib.client")

StartGate = Callable[[], AbstractAsyncContextManager[None]]
"""Entered around each attempt to connect. A hub limits by it how many servers start at the same time."""

USUAL_RETRIES: Final = ReconnectPolicy().max_retries or 0
"""Failed attempts in a row after which the status is `failed`, if the policy is to keep trying."""


class Supervisor:
    """Makes the session when it is needed, and makes it again when it is lost."""

    def __init__(
        self,
        ways: list[Callable[[Counters], Channel]],
        settings: ResolvedOptions,
        *,
        identity: Identity,
        handlers: Handlers,
        listeners: Listeners,
        observer: Observer,
        start_gate: StartGate | None = None,
    ) -> None:
        self.settings = settings
        retries = settings.reconnect.max_retries
        self._max_retries = USUAL_RETRIES if retries is None else retries
        self._keeps_trying = retries is None
        self._start_gate: StartGate = nullcontext if start_gate is None else start_gate
        self._dialing = False
        self.session: Session | None = None
        self.generation = 0
        self.last_agreement: Agreement | None = None
        self.counters = Counters()
        self.breaker = Breaker(settings.reconnect.max_delay)
        self.tracker = StatusTracker()
        self.closed = False
        self._connector = Connector(ways, settings, self.counters, identity, handlers, observer)
        self._listeners = listeners
        self._observer = observer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: asyncio.Task[None] | None = None
        self._attempt: asyncio.Future[Session] | None = None
        self._asked = asyncio.Event()
        self._leaving: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._last_error = ""

    # ---- the way to a session --------------------------------------------------------------------------------

    def bind(self) -> None:
        """Belong to the running event loop, or say that this is another one."""
        loop = running_loop()
        if self._loop is not loop:
            self.check_loop()
            self._loop = loop
            self._asked = asyncio.Event()

    def check_loop(self) -> None:
        """A client that is connected belongs to its loop, and to its process."""
        if self._owner is not None and self._loop is not running_loop():
            raise UsageError(
                f"the client for {self.settings.name} belongs to another event loop (or to the process before a fork); "
                "make a new one here, or use toolcrib.sync from several threads"
            )

    async def ready(self, deadline: float | None = None) -> Session:
        """The live session; the connection is made first if there is none. All who wait share one attempt."""
        self.bind()
        while True:
            if self.session is not None:
                return self.session
            if not self._stopping or self._owner is None:
                break
            await self._until_left(self._owner, deadline)
        if self.closed:
            raise UsageError(f"the client for {self.settings.name} is closed; make a new one")
        if self._attempt is None:
            if not self._dialing:
                self.check_breaker()  # an attempt under way is shared, whatever the breaker says
            self._attempt = asyncio.get_running_loop().create_future()
            self._attempt.add_done_callback(retrieve)
        if self._owner is None:
            self._owner = asyncio.create_task(self._own(), name=f"toolcrib:{self.settings.name}")
            # A task that is cancelled before its first step never enters its `try`, so `finally` alone is not enough.
            self._owner.add_done_callback(self._on_owner_done)
        self._asked.set()
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(self._attempt)
        except ToolcribError as exc:
            # Several callers share this failure: each gets its own copy to fill in and to keep.
            failure = copy.copy(exc)
            failure.sent = False  # whatever went wrong concerned the connection, not the call
            raise failure from exc.__cause__
        except TimeoutError:
            raise CallTimeout("the deadline passed while connecting; nothing was sent") from None

    def note_failure(self, error: ToolcribError) -> None:
        """The server could not be reached."""
        self._last_error = error.message
        self.breaker.failed(asyncio.get_running_loop().time())

    async def _until_left(self, owner: asyncio.Task[None], deadline: float | None) -> None:
        """Wait for the end of a disconnect that is under way: what comes after it connects again."""
        timeout = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        await asyncio.wait([owner], timeout=timeout)
        if not owner.done():
            raise CallTimeout("the deadline passed while the last connection was being closed; nothing was sent")

    def check_breaker(self) -> None:
        """Raise the open breaker's error; when its time is over, one trial is let through."""
        now = asyncio.get_running_loop().time()
        if not self.breaker.admits(now):
            raise ConnectError(
                f"not tried: {self.breaker.failures} failures in a row, the last one: {self._last_error}; "
                f"the next trial is in {self.breaker.remaining(now):.0f} s",
                server=self.settings.name,
                permanent=True,  # for this call: a retry would only meet the open breaker again
            )

    # ---- the owner -------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        tries = 0
        try:
            while True:
                try:
                    session = await self._establish()
                except ToolcribError as exc:
                    tries += 1
                    if isinstance(exc, AuthError):
                        self.tracker.become(ConnectionState.NEEDS_AUTH, exc.message)
                        return
                    if not self._is_expected_back(exc, tries):
                        self.tracker.become(ConnectionState.FAILED, exc.message)
                        if not self._keeps_trying:
                            return
                else:
                    reason = await self._live(session)
                    # A server that shakes hands and dies, again and again, is not there because it shook hands.
                    tries = self.breaker.failures - 1
                    if tries >= self._max_retries and self._attempt is None:
                        self.tracker.become(
                            ConnectionState.DISCONNECTED if tries == 0 else ConnectionState.FAILED, str(reason)
                        )
                        if not self._keeps_trying:
                            return
                await self._pause(tries)
        finally:
            # A loop that was left without being closed ends us when nothing works any more; the rest is done at exit.
            if self._loop is not None and not self._loop.is_closed():
                self._leave()

    def _on_owner_done(self, owner: asyncio.Task[None]) -> None:
        if self._owner is owner:
            self._leave()

    def _is_expected_back(self, exc: ToolcribError, tries: int) -> bool:
        """Return whether the server was connected before, and has retries left."""
        permanent = isinstance(exc, ConnectError) and exc.permanent
        return self.generation > 0 and not permanent and tries < self._max_retries

    async def _pause(self, tries: int) -> None:
        """Wait before the next attempt; a call that needs the connection ends the wait."""
        if self._attempt is None:
            self._asked.clear()
            delay = reconnect_delay(self.settings.reconnect, tries, random)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._asked.wait()

    async def _live(self, session: Session) -> Exception:
        """Wait for the session's end, then clear away what is left of it.

        Only a server that we leave in peace gets all its time: one that failed is in the way of its successor, and when
        the loop ends under us there is none left.
        """
        try:
            reason = await session.ended
        except asyncio.CancelledError:
            # Lost and disconnected in the same turn of the loop; our own cancellation cancels the future, too.
            lost = session.ended.done() and not session.ended.cancelled()
            self._part()
            session.end(ConnectionLost("the connection was closed"))
            await session.channel.close(force=lost or not self._stopping)
            raise
        if self.session is session:  # it ended before we had begun with it
            self.lose(session, reason)
        if session.channel.over_http:
            # It is in nobody's way, and its other calls may yet hear their own end.
            self._see_off(session.channel)
        else:
            await session.channel.close(force=True)
        return reason

    def _see_off(self, channel: Channel) -> None:
        task = asyncio.create_task(channel.close())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _part(self) -> None:
        """The live session is given up by us: from this moment on the status says so."""
        if self.session is not None:
            self.session = None
            self.tracker.become(ConnectionState.DISCONNECTED)
            self._emit_disconnected("closed by the client")

    def _leave(self) -> None:
        """The owner goes: by itself, because it was told to, or because the loop ends."""
        stopped, self._owner, self._stopping, self._dialing = self._stopping, None, False, False
        self.breaker.trial_ended()
        if self._attempt is not None and not self._attempt.done():
            self._attempt.set_exception(ConnectionLost("the client was disconnected", server=self.settings.name))
        self._attempt = None
        state = self.tracker.status.state
        if state is ConnectionState.CONNECTING or (stopped and state is not ConnectionState.DISCONNECTED):
            self.tracker.become(ConnectionState.DISCONNECTED)

    async def _establish(self) -> Session:
        """Make one attempt to connect, once the gate is open."""
        async with self._start_gate():
            self._dialing = True
            try:
                return await self._dial()
            finally:
                self._dialing = False

    async def _dial(self) -> Session:
        """Connect, and resolve the futures of the callers that wait for the outcome."""
        again, began = self.generation > 0, asyncio.get_running_loop().time()
        self.tracker.become(ConnectionState.CONNECTING)
        self._listeners.emit(ConnectionStarted(self.settings.name, again))
        try:
            remembered = self.last_agreement.version if self.last_agreement is not None else None
            session = await self._connector.dial(self.generation + 1, remembered, self.lose)
        except ToolcribError as exc:
            exc.server = exc.server or self.settings.name
            self._last_error = exc.message
            if not isinstance(exc, AuthError | RateLimited):  # a refusal is a sign of life
                self.breaker.failed(asyncio.get_running_loop().time())
            elapsed = asyncio.get_running_loop().time() - began
            log.info("connecting failed after %.2f s: %s", elapsed, exc)
            if self._attempt is not None and not self._attempt.done():
                self._attempt.set_exception(exc)
            self._attempt = None
            self._listeners.emit(ConnectionFailed(self.settings.name, again, elapsed, exc))
            raise
        self._begin(session, again, asyncio.get_running_loop().time() - began)
        return session

    def _begin(self, session: Session, again: bool, elapsed: float) -> None:
        self.generation = session.generation
        self.last_agreement = session.agreement
        self.session = session
        self.breaker.connected()
        self.tracker.become(ConnectionState.CONNECTED)
        if self._attempt is not None and not self._attempt.done():
            self._attempt.set_result(session)
        self._attempt = None
        name, version = self.settings.name, session.agreement.version
        log.info("%s: connected, protocol %s, %.2f s", name, version, elapsed)
        self._listeners.emit(ConnectionCompleted(name, again, elapsed, version))
        if again:
            self._listeners.emit(Reconnected(name, session.generation))

    # ---- the end ---------------------------------------------------------------------------------------------

    def lose(self, session: Session, error: Exception) -> None:
        """The session has ended by itself. From this moment on calls go the way of a new connection."""
        session.end(error)
        if self.session is not session:
            return
        self.session = None
        reason = self._last_error = one_line(str(error), MAX_REASON)  # it may be the exception of a foreign transport
        now = asyncio.get_running_loop().time()
        if now - session.began > self.settings.reconnect.max_delay:
            self.breaker.succeeded()  # it lived long enough to be taken for healthy, though nobody may have called
        self.breaker.failed(now)
        self.tracker.become(ConnectionState.CONNECTING, reason)
        log.warning("%s: connection lost: %s", self.settings.name, reason)
        self._emit_disconnected(reason)

    def _emit_disconnected(self, reason: str) -> None:
        self._observer.on_disconnected()
        self._listeners.emit(Disconnected(self.settings.name, reason))

    async def disconnect(self) -> None:
        """Let go of the connection.

        The next call makes a new one. Nothing is left behind, also if we are cancelled here.
        """
        self.check_loop()
        owner = self._owner
        if owner is None:
            if self.tracker.status.state is not ConnectionState.DISCONNECTED:
                self.tracker.become(ConnectionState.DISCONNECTED)
        elif not self._stopping:
            self._stopping = True
            self._part()
            owner.cancel()
        if self._leaving:
            # Every closing task has taken its first step before it is cancelled; else it would close nothing.
            await asyncio.sleep(0)
            for task in self._leaving:
                task.cancel()
        ending = {*self._leaving, *([owner] if owner is not None else [])}
        if ending:
            await asyncio.wait(ending)
