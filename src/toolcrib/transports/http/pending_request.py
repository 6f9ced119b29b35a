"""One request over HTTP while it waits, and what is left to read after its answer."""

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

AFTERMATH: Final = 1.0
"""Seconds to read on after the answer: a stream that ends leaves a connection that can be used again."""
VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class PendingHttpRequest(PendingRequest):
    """A request that waits for its response, in the task that made it.

    A deadline that passes, an outcome that arrives on another stream and the end of the channel cancel the exchange.
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
        """Set the outcome and cancel the exchange: the outcome arrived on another stream, or never will."""
        if self.outcome is None and not self.cancellation.requested:
            self.outcome = outcome
            self.cancellation.cancel()


async def read_on(response: ClientResponse) -> None:
    """Read what follows the answer, which is nothing but the stream's end."""
    try:
        async with asyncio.timeout(AFTERMATH):
            for _ in range(16):
                if not await response.content.readany():
                    response.release()
                    break
    except (ClientError, OSError, TimeoutError) as exc:
        log.debug("a stream did not end after its answer: %r", exc)
    finally:
        response.close()


def session_id(value: str | None) -> str | None:
    """The id that a server gave, if it can be sent back."""
    if not value:
        return None
    if VISIBLE.fullmatch(value):
        return value
    raise ProtocolError("the server gave a session id that is not made of visible ASCII characters")
