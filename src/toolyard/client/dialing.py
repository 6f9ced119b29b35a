"""One attempt to connect: a channel opened and a version agreed on in time, or a clear error and nothing left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..errors import (
    ConnectError,
    ConnectionLost,
    OutcomeUnknown,
    RemoteError,
    StartError,
    ToolyardError,
)
from ..protocol.text import one_line
from ..transports.channel import Channel, Counters
from .handlers import Handlers
from .negotiation import Identity, negotiate
from .options import Settings
from .session import Observer, Session

OnLoss = Callable[[Session, Exception], None]


class Dialer:
    """Makes sessions with one server."""

    def __init__(
        self,
        make_channel: Callable[[Counters], Channel],
        settings: Settings,
        counters: Counters,
        identity: Identity,
        handlers: Handlers,
        observer: Observer,
    ) -> None:
        self._make_channel = make_channel
        self._settings = settings
        self._counters = counters
        self._identity = identity
        self._handlers = handlers
        self._observer = observer

    async def dial(self, generation: int, remembered: str | None, on_loss: OnLoss) -> Session:
        """A new session. `remembered` is the version of the last one."""
        settings = self._settings
        try:
            async with asyncio.timeout(settings.connect_timeout):
                try:
                    return await self._open(settings.mode, generation, remembered, on_loss)
                except ConnectError as exc:
                    # Some servers, and some transports, die of a first request that they do not know: no verdict yet.
                    deaf = isinstance(exc, StartError) and not exc.heard
                    if settings.mode != "auto" or remembered or exc.permanent or deaf:
                        raise
                    try:
                        return await self._open("legacy", generation, None, on_loss)
                    except ConnectError:
                        raise exc from exc.__cause__
        except TimeoutError as exc:
            if isinstance(exc, ToolyardError):
                raise
            raise self._no_answer() from None

    async def _open(self, mode: str, generation: int, remembered: str | None, on_loss: OnLoss) -> Session:
        try:
            channel = self._make_channel(self._counters)
        except Exception as exc:
            raise _connect_error(exc) from exc
        session = Session(channel, generation, handlers=self._handlers, observer=self._observer, on_loss=on_loss)
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
        except BaseException as exc:  # a cancelled attempt leaves nothing behind either
            await channel.close(hurry=True)
            error = _connect_error(exc)
            if error is exc or error is exc.__cause__:
                raise error from error.__cause__
            raise error from exc
        session.begin(agreement)
        return session

    def _no_answer(self) -> ConnectError:
        counters = self._counters
        noise = (
            f"; it wrote {counters.garbage} lines that are no messages, such as {counters.last_garbage!r}: "
            "a server may write nothing but MCP to stdout, logs go to stderr"
            if counters.garbage
            else ""
        )
        return ConnectError(
            f"the server did not answer within connect_timeout={self._settings.connect_timeout} s{noise}; "
            "is it an MCP server, and is it only slow to start? then raise connect_timeout"
        )


def _connect_error(exc: BaseException) -> BaseException:
    """The error of an attempt, in the words of somebody who wanted to connect."""
    if isinstance(exc, OutcomeUnknown | ConnectionLost):
        if isinstance(exc.__cause__, ConnectError):
            return exc.__cause__
        return ConnectError(f"the connection ended before the server answered: {exc.__cause__ or exc}")
    if isinstance(exc, RemoteError):
        return ConnectError(f"the server refused to connect: {one_line(exc.message)} [{exc.code}]", permanent=True)
    if isinstance(exc, Exception) and not isinstance(exc, ToolyardError):
        return ConnectError(f"connecting failed: {type(exc).__name__}: {exc}")
    return exc
