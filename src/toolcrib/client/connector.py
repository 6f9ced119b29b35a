"""Attempts to connect: each opens a channel and agrees on a version in time, or raises and cleans up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ..config import mask_urls
from ..errors import (
    AuthError,
    ConnectError,
    ConnectionLost,
    OutcomeUnknown,
    ProtocolError,
    RemoteError,
    StartError,
    ToolcribError,
)
from ..protocol.sanitize import one_line
from ..transports.channel import Channel, Counters, ProcessChannel
from .handlers import Handlers
from .negotiation import Identity, negotiate
from .options import ResolvedOptions
from .session import InboundHandler, Observer, Session

Way = Callable[[Counters], Channel]
"""Makes a channel to the server."""

OLDER: Final = frozenset({400, 404, 405, 406, 415})
"""Statuses with which an HTTP+SSE server rejects a POST to the URL of its stream."""


STDERR_SHOWN: Final = 300
"""Characters of the end of a server's stderr in the message of an error; `ConnectError.stderr` has more."""


class _Attempt:
    """One call of `Connector.connect`: its last channel, and its time limit, which pauses while a person authorises."""

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._scope = scope
        self._holds = 0
        self._left: float | None = None
        self.over = False
        self.channel: Channel | None = None

    @contextmanager
    def hold_limit(self) -> Iterator[None]:
        """Pause the time limit while the context is entered."""
        clock, until = asyncio.get_running_loop().time, self._scope.when()
        self._holds += 1
        if self._holds == 1 and until is not None and self._goes_on():
            self._left = until - clock()
            self._scope.reschedule(None)
        try:
            yield
        finally:
            self._holds -= 1
            if self._holds == 0 and self._left is not None and self._goes_on():
                self._scope.reschedule(clock() + self._left)

    def _goes_on(self) -> bool:
        return not self.over and not self._scope.expired()

    @property
    def process(self) -> ProcessChannel | None:
        """The channel if it belongs to a process, else None."""
        channel: object = self.channel
        return channel if isinstance(channel, ProcessChannel) else None

    def stderr_tail(self) -> str:
        """Return the end of the stderr of the server's process, without secrets and control characters.

        Empty without a process.
        """
        return "" if self.process is None else self.process.stderr_tail()


class Connector:
    """Makes sessions with one server.

    `ways` are the possible transports: the second is tried if the server rejects the first. `on_lost` is called with a
    session whose channel ends by itself.
    """

    def __init__(
        self,
        ways: list[Way],
        settings: ResolvedOptions,
        counters: Counters,
        identity: Identity,
        handlers: Handlers,
        observers: Sequence[Observer],
        on_lost: Callable[[Session, Exception], None],
    ) -> None:
        self._ways = ways
        self._settings = settings
        self._counters = counters
        self._identity = identity
        self._handlers = handlers
        self._observers = observers
        self._on_lost = on_lost

    async def connect(self, generation: int, remembered: str | None) -> Session:
        """Return a new session, ready for requests. `remembered` is the protocol version of the previous one."""
        try:
            async with asyncio.timeout(self._settings.connect_timeout) as scope:
                attempt = _Attempt(scope)
                try:
                    return await self._try_ways(attempt, generation, remembered)
                finally:
                    attempt.over = True
        except TimeoutError as exc:
            if isinstance(exc, ToolcribError):
                raise
            raise self._no_answer(attempt) from None

    async def _try_ways(self, attempt: _Attempt, generation: int, remembered: str | None) -> Session:
        try:
            return await self._open(attempt, self._ways[0], self._settings.mode, generation, remembered)
        except ConnectError as exc:
            way = self._second_way(attempt, exc, remembered)
            if way is None:
                raise
            first = exc
        # Outside the handler, like the error below: inside, each error would get the other as its context.
        try:
            session = await self._open(attempt, way, "legacy", generation, None)
        except AuthError:
            raise  # the server supports this transport, and requires credentials
        except ToolcribError:
            session = None
        if session is None:
            raise first
        self._ways.sort(key=lambda each: each is not way)  # try this one first next time
        return session

    def _second_way(self, attempt: _Attempt, exc: ConnectError, remembered: str | None) -> Way | None:
        """Return the transport for a second attempt in legacy mode; None if that could not help."""
        if exc.status in OLDER and len(self._ways) > 1 and self._settings.mode in ("auto", "legacy"):
            return self._ways[1]
        # Some servers and transports end when their first request is unknown to them. Over HTTP a failed request does
        # not end anything else.
        over_http = attempt.channel is not None and attempt.channel.over_http
        deaf = isinstance(exc, StartError) and not exc.input_consumed
        sure = over_http or exc.permanent or deaf
        return None if self._settings.mode != "auto" or remembered or sure else self._ways[0]

    async def _open(self, attempt: _Attempt, way: Way, mode: str, generation: int, remembered: str | None) -> Session:
        try:
            channel = way(self._counters)
        except Exception as exc:
            raise _connect_error(exc) from exc
        attempt.channel = channel
        inbound = InboundHandler(
            channel, self._handlers, self._observers, hold_limit=attempt.hold_limit, on_lost=self._on_lost
        )
        try:
            await channel.open(inbound)
            limit = self._settings.connect_timeout
            agreement = await negotiate(
                channel,
                self._identity,
                mode=mode,
                remembered=remembered,
                patience=None if limit is None else limit / 3,  # leaves time for `initialize`
            )
            if agreement.handshake:
                await channel.notify("notifications/initialized")
        except GeneratorExit:  # the loop was abandoned: nothing can be awaited; Python's exit ends the server
            raise
        except BaseException as exc:  # also closes the channel of a cancelled attempt
            await channel.close(force=True)
            error = _connect_error(exc)
            if isinstance(error, ConnectError) and not error.stderr:
                error.stderr = attempt.stderr_tail()
            if error is exc:
                raise
            cause = error.__cause__ if error is exc.__cause__ else exc
        else:
            return inbound.begin_session(generation, agreement)
        raise error from cause  # outside the handler, so that `exc` does not become its context

    def _no_answer(self, attempt: _Attempt) -> ConnectError:
        counters = self._counters
        noise = (
            f"; it wrote {counters.malformed} lines that are not MCP messages, such as {counters.last_malformed!r} "
            "(stdout is only for messages; a server must log to stderr)"
            if counters.malformed
            else ""
        )
        stderr = attempt.stderr_tail()
        tail = f"; its stderr ends with: {last}" if (last := one_line(stderr[-STDERR_SHOWN:], STDERR_SHOWN)) else ""
        downloads = attempt.process is not None and attempt.process.may_download
        advice = (
            "the package may still be downloading: increase connect_timeout, or run the command once in a terminal"
            if downloads
            else "check that it is an MCP server, and increase connect_timeout if it is slow to start"
        )
        return ConnectError(
            f"the server did not answer within connect_timeout={self._settings.connect_timeout} s{noise}{tail}; "
            f"{advice}",
            stderr=stderr,
        )


def _connect_error(exc: BaseException) -> BaseException:
    """Convert the exception of a handshake request to the error of the attempt to connect."""
    if isinstance(exc, OutcomeUnknown | ConnectionLost):
        if isinstance(exc.__cause__, ConnectError):
            return exc.__cause__
        if exc.status is not None:
            return ConnectError(exc.message, status=exc.status)
        return ConnectError(f"the connection ended before the server answered: {mask_urls(str(exc.__cause__ or exc))}")
    if isinstance(exc, RemoteError):
        temporary = exc.status is not None and exc.status >= 500
        return ConnectError(
            f"the server refused to connect: {one_line(exc.message)} [{exc.code}]", permanent=not temporary
        )
    if isinstance(exc, ProtocolError) and exc.status is not None:
        return ConnectError(exc.message, status=exc.status, permanent=True)
    if isinstance(exc, ProtocolError):
        exc.sent = False  # the malformed answer belongs to the handshake, not to the caller's request
    if isinstance(exc, Exception) and not isinstance(exc, ToolcribError):
        return ConnectError(f"connecting failed: {type(exc).__name__}: {exc}")
    return exc
