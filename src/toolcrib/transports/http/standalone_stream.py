"""The standalone GET stream of the legacy protocol, for requests and notifications of the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from ...errors import (
    CallTimeout,
    ConnectError,
    ConnectionLost,
    IssuerUnavailable,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    SessionExpired,
    ToolcribError,
    TransportError,
)
from .client import EVENTS, HttpClient
from .sse_reader import SseReader, StreamPosition

if TYPE_CHECKING:
    from aiohttp import ClientResponse

log = logging.getLogger("toolcrib.transports")

MAX_REOPEN_SECONDS: Final = 30.0
MAX_REOPEN_FAILURES: Final = 2
"""Maximum number of failed attempts in a row to open a stream again."""


class StandaloneStream:
    """Keeps the stream open: opens it again after it ended.

    `headers` returns the headers of the session, `refused` the error for a rejected GET; `lose` ends the connection.
    """

    def __init__(
        self,
        client: HttpClient,
        events: SseReader,
        *,
        headers: Callable[[], dict[str, str]],
        refused: Callable[[ClientResponse, bool], Awaitable[ToolcribError]],
        lose: Callable[[Exception], None],
    ) -> None:
        self._client = client
        self._events = events
        self._headers = headers
        self._refused = refused
        self._lose = lose
        self._place = StreamPosition()
        self._was_open = False
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep())

    async def opened(self, seconds: float) -> None:
        """Wait until the stream is open or was rejected, at most `seconds`."""
        await asyncio.wait([self._opened], timeout=seconds)

    def stop(self) -> None:
        """Close the stream."""
        self._task.cancel()

    async def _keep(self) -> None:
        failures, reason = 0, None
        while True:
            try:
                failures, reason = (0 if await self._read_stream() else failures + 1), None
            except SessionExpired:
                return
            except (ConnectError, ConnectionLost, OutcomeUnknown, CallTimeout, RateLimited) as exc:
                failures, reason = failures + 1, exc
            except ToolcribError as exc:
                log.debug("the server has no standalone stream: %s", exc)
                return
            finally:
                self._note_open()
            if failures > MAX_REOPEN_FAILURES:
                # The connection is lost only if the server cannot be reached; the stream itself is optional.
                is_of_issuer = isinstance(reason, IssuerUnavailable)
                if isinstance(reason, TransportError) and not reason.sent and not is_of_issuer:
                    self._lose(ConnectionLost(f"the server cannot be reached: {reason.message}"))
                    return
                if reason is None or not self._was_open:
                    return
            longer = min(2.0 ** min(failures - 1, 5), MAX_REOPEN_SECONDS) if reason is not None else 0.0
            await asyncio.sleep(max(self._place.wait, longer))

    async def _read_stream(self) -> bool:
        """Read one stream to its end; returns True if it had events or lasted longer than the retry delay."""
        place, clock = self._place, asyncio.get_running_loop().time
        headers = self._headers()
        if place.id is not None:
            headers["Last-Event-ID"] = place.id
        # If the requests before this one were authorised, a person could not help: the server may lack this stream.
        may_prompt = self._was_open or not self._client.sent_credentials
        response = await self._client.send("GET", headers, may_prompt=may_prompt)
        try:
            if response.status >= 400:
                # Servers without this stream answer with various errors, so an error means an expired session only if
                # the stream was open before.
                raise await self._refused(response, self._was_open)
            if response.status != 200 or response.content_type != EVENTS:
                raise ProtocolError("a GET was not answered with an event stream", status=response.status)
            self._was_open = True
            self._note_open()
            began, seen = clock(), place.seen
            await self._events.follow(self._client.chunks(response), place, None)
            return place.seen > seen or clock() - began > place.wait
        finally:
            response.close()

    def _note_open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)
