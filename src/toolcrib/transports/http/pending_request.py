"""A pending request over HTTP, and reading the rest of its response."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Final

from aiohttp import ClientError

from ..._util.cancellation import OwnCancellation
from ...errors import ProtocolError
from ...types import Wire
from ..channel import RequestOptions
from ..pending import PendingRequest
from .client import Body
from .sse_reader import StreamPosition

if TYPE_CHECKING:
    from aiohttp import ClientResponse

log = logging.getLogger("toolcrib.transports")

READ_ON_SECONDS: Final = 1.0
"""Seconds to read on after the answer: the connection of a stream that ends can be used again."""
VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class PendingHttpRequest(PendingRequest):
    """A request that waits for its response, in the task that made it.

    The exchange is cancelled when a deadline passes, the outcome arrives on another stream, or the channel ends.
    """

    __slots__ = ("body", "cancellation", "id", "modern", "outcome", "place", "session")

    def __init__(
        self,
        id: int,
        method: str,
        options: RequestOptions,
        body: Body,
        modern: bool,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(method, options)
        self.id = id
        self.body = body
        self.modern = modern
        self.session: str | None = None
        self.place = StreamPosition()
        self.outcome: Wire | Exception | None = None
        self.cancellation = OwnCancellation(loop)

    def end(self, outcome: Wire | Exception) -> None:
        """Set the outcome and cancel the exchange: the answer arrived on another stream, or never will."""
        if self.outcome is None and not self.cancellation.requested:
            self.outcome = outcome
            self.cancellation.cancel()


async def read_on(response: ClientResponse) -> None:
    """Read to the end of the stream after the answer, so that the connection can be used again."""
    try:
        async with asyncio.timeout(READ_ON_SECONDS):
            for _ in range(16):
                if not await response.content.readany():
                    response.release()
                    break
    except (ClientError, OSError, TimeoutError) as exc:
        log.debug("a stream did not end after its answer: %r", exc)
    finally:
        response.close()


def session_id(value: str | None) -> str | None:
    """Return the session id that a server sent; raises `ProtocolError` if it cannot be sent back."""
    if not value:
        return None
    if VISIBLE.fullmatch(value):
        return value
    raise ProtocolError("session id: expected visible ASCII characters")
