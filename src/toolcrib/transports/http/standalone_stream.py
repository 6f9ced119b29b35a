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

LONGEST: Final = 30.0
TRIES: Final = 2
"""Failures in a row at opening a stream again before it is given up."""


class StandaloneStream:
    """Opened once, and again where it ends. `headers` gives those of the session, `refused` the reason."""

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
        self._stood = False
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep())

    async def opened(self, seconds: float) -> None:
        """Wait until the stream is open or was refused, at most `seconds`."""
        await asyncio.wait([self._opened], timeout=seconds)

    def stop(self) -> None:
        """Close the stream."""
        self._task.cancel()

    async def _keep(self) -> None:
        failures, reason = 0, None
        while True:
            try:
                failures, reason = (0 if await self._stand() else failures + 1), None
            except SessionExpired:
                return
            except (ConnectError, ConnectionLost, OutcomeUnknown, CallTimeout, RateLimited) as exc:
                failures, reason = failures + 1, exc
            except ToolcribError as exc:
                log.debug("the server offers no standing stream: %s", exc)
                return
            finally:
                self._note_open()
            if failures > TRIES:
                # A server that cannot be reached is gone; a stream that it does not keep open is no loss.
                if isinstance(reason, TransportError) and not reason.sent:
                    self._lose(ConnectionLost(f"the server is gone: {reason.message}"))
                    return
                if reason is None or not self._stood:
                    return
            longer = min(2.0 ** min(failures - 1, 5), LONGEST) if reason is not None else 0.0
            await asyncio.sleep(max(self._place.wait, longer))

    async def _stand(self) -> bool:
        """One stream from its beginning to its end: True if it was worth its while."""
        place, clock = self._place, asyncio.get_running_loop().time
        headers = self._headers()
        if place.id is not None:
            headers["Last-Event-ID"] = place.id
        response = await self._client.send("GET", headers)
        try:
            if response.status >= 400:
                # A server that has no such stream says so in many ways; only one that had it can have forgotten us.
                raise await self._refused(response, self._stood)
            if response.status != 200 or response.content_type != EVENTS:
                raise ProtocolError("a GET was not answered with an event stream", status=response.status)
            self._stood = True
            self._note_open()
            began, seen = clock(), place.seen
            await self._events.follow(self._client.chunks(response), place, None)
            return place.seen > seen or clock() - began > place.wait
        finally:
            response.close()

    def _note_open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)
