"""One attempt to connect: a channel opened and a version agreed on in time, or a clear error and nothing left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
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
from .session import Observer, Session

OnLoss = Callable[[Session, Exception], None]


OLDER: Final = frozenset({400, 404, 405, 406, 415})
"""Statuses with which a server of HTTP+SSE refuses what is posted to its stream's URL."""


STDERR_SHOWN: Final = 300
"""Characters of the end of a server's stderr in the message of an error; `ConnectError.stderr` has more."""


class _Limit:
    """The time for connecting, which stands still while a person authorises."""

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._scope = scope
        self._holds = 0
        self._left: float | None = None
        self.over = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """While entered, it does not pass."""
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


class Connector:
    """Makes sessions with one server. `ways` are how it may be reached: the second one if it refuses the first."""

    def __init__(
        self,
        ways: list[Callable[[Counters], Channel]],
        settings: ResolvedOptions,
        counters: Counters,
        identity: Identity,
        handlers: Handlers,
        observer: Observer,
    ) -> None:
        self._ways = ways
        self._over_http = False
        self._settings = settings
        self._counters = counters
        self._identity = identity
        self._handlers = handlers
        self._observer = observer
        self._limit: _Limit
        self._channel: object = None

    async def dial(self, generation: int, remembered: str | None, on_loss: OnLoss) -> Session:
        """A new session. `remembered` is the version of the last one."""
        settings = self._settings
        try:
            async with asyncio.timeout(settings.connect_timeout) as scope:
                self._limit = limit = _Limit(scope)
                try:
                    return await self._dial(generation, remembered, on_loss)
                finally:
                    limit.over = True
        except TimeoutError as exc:
            if isinstance(exc, ToolcribError):
                raise
            raise self._no_answer() from None

    def stderr_tail(self) -> str:
        """Return the end of what the server's process wrote to stderr in the latest attempt; empty without a process.

        It has neither secrets nor control characters.
        """
        return self._channel.stderr_tail() if isinstance(self._channel, ProcessChannel) else ""

    async def _dial(self, generation: int, remembered: str | None, on_loss: OnLoss) -> Session:
        try:
            return await self._open(self._ways[0], self._settings.mode, generation, remembered, on_loss)
        except ConnectError as exc:
            way = self._second_way(exc, remembered)
            if way is None:
                raise
            first = exc
        # Out here, and the error below too: in the handler each would get the other as its context.
        try:
            session = await self._open(way, "legacy", generation, None, on_loss)
        except AuthError:
            raise  # it is such a server, and wants to know who we are
        except ToolcribError:
            session = None
        if session is None:
            raise first
        self._ways.sort(key=lambda each: each is not way)  # the next time this one first
        return session

    def _second_way(self, exc: ConnectError, remembered: str | None) -> Callable[[Counters], Channel] | None:
        """How to try once more in the older mode, if what failed may only have been the wrong question."""
        if exc.status in OLDER and len(self._ways) > 1 and self._settings.mode in ("auto", "legacy"):
            return self._ways[1]
        # Some servers, and some transports, die of a first request that they do not know: no verdict yet. Over HTTP one
        # request is the end of nobody: a failed one is only that.
        deaf = isinstance(exc, StartError) and not exc.input_consumed
        sure = self._over_http or exc.permanent or deaf
        return None if self._settings.mode != "auto" or remembered or sure else self._ways[0]

    async def _open(
        self,
        way: Callable[[Counters], Channel],
        mode: str,
        generation: int,
        remembered: str | None,
        on_loss: OnLoss,
    ) -> Session:
        try:
            channel = way(self._counters)
        except Exception as exc:
            raise _connect_error(exc) from exc
        self._channel, self._over_http = channel, channel.over_http
        session = Session(
            channel,
            generation,
            handlers=self._handlers,
            observer=self._observer,
            on_loss=on_loss,
            held=self._limit.held,
        )
        try:
            await channel.open(session)
            limit = self._settings.connect_timeout
            agreement = await negotiate(
                channel,
                self._identity,
                mode=mode,
                remembered=remembered,
                patience=None if limit is None else limit / 3,  # leaves time for the older question
            )
            if agreement.handshake:
                await channel.notify("notifications/initialized")
        except GeneratorExit:  # the loop was left with us in it: nothing can be awaited, the exit ends the server
            raise
        except BaseException as exc:  # a cancelled attempt leaves nothing behind either
            await channel.close(force=True)
            error = _connect_error(exc)
            if isinstance(error, ConnectError) and not error.stderr:
                error.stderr = self.stderr_tail()
            if error is exc:
                raise
            cause = error.__cause__ if error is exc.__cause__ else exc
        else:
            session.begin(agreement)
            return session
        raise error from cause  # out here: its own consequence must not become its context

    def _no_answer(self) -> ConnectError:
        counters = self._counters
        noise = (
            f"; it wrote {counters.malformed} lines that are no messages, such as {counters.last_malformed!r}: "
            "a server may write nothing but MCP to stdout, logs go to stderr"
            if counters.malformed
            else ""
        )
        stderr = self.stderr_tail()
        said = f"; its stderr ends with: {last}" if (last := one_line(stderr[-STDERR_SHOWN:], STDERR_SHOWN)) else ""
        downloads = isinstance(self._channel, ProcessChannel) and self._channel.may_download
        advice = (
            "the package may still be being downloaded: raise connect_timeout, or run the command once in a terminal"
            if downloads
            else "is it an MCP server, and is it only slow to start? then raise connect_timeout"
        )
        return ConnectError(
            f"the server did not answer within connect_timeout={self._settings.connect_timeout} s{noise}{said}; "
            f"{advice}",
            stderr=stderr,
        )


def _connect_error(exc: BaseException) -> BaseException:
    """The error of an attempt, in the words of somebody who wanted to connect."""
    if isinstance(exc, OutcomeUnknown | ConnectionLost):
        if isinstance(exc.__cause__, ConnectError):
            return exc.__cause__
        if exc.status is not None:
            return ConnectError(exc.message, status=exc.status)
        return ConnectError(f"the connection ended before the server answered: {mask_urls(str(exc.__cause__ or exc))}")
    if isinstance(exc, RemoteError):
        sick = exc.status is not None and exc.status >= 500
        return ConnectError(f"the server refused to connect: {one_line(exc.message)} [{exc.code}]", permanent=not sick)
    if isinstance(exc, ProtocolError) and exc.status is not None:
        return ConnectError(exc.message, status=exc.status, permanent=True)
    if isinstance(exc, ProtocolError):
        exc.sent = False  # what was answered wrongly was our own question, not the caller's
    if isinstance(exc, Exception) and not isinstance(exc, ToolcribError):
        return ConnectError(f"connecting failed: {type(exc).__name__}: {exc}")
    return exc
