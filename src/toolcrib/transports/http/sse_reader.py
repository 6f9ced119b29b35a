"""Reads event streams and dispatches their messages; an answer may arrive on another stream than its request's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from ...config import SecretMask
from ...errors import ProtocolError, TransportError
from ...protocol import jsonrpc
from ...protocol.framing import Oversized
from ...protocol.jsonrpc import Message
from ...protocol.limits import MAX_MESSAGE
from ...protocol.sanitize import one_line
from ...protocol.sse import SseParser
from ..channel import Counters
from ..inbound import Inbox

DEFAULT_RETRY_SECONDS: Final = 1.0
"""Seconds before a stream is opened again, unless the server sends another value."""
MIN_RETRY_SECONDS: Final = 0.1
MAX_RETRY_SECONDS: Final = 3600.0


class StreamPosition:
    """How far a stream has been read, to resume it if it breaks."""

    __slots__ = ("broke", "id", "seen", "wait")

    def __init__(self) -> None:
        self.id: str | None = None
        self.wait = DEFAULT_RETRY_SECONDS
        self.seen = 0
        self.broke: TransportError | None = None


class SseReader:
    """Reads event streams.

    `deliver` is called with an answer to another request than the stream's; it returns False if none is pending.
    """

    def __init__(
        self, counters: Counters, inbox: Inbox, deliver: Callable[[int, Message], bool], secrets: SecretMask
    ) -> None:
        self._secrets = secrets
        self._counters = counters
        self._inbox = inbox
        self._deliver = deliver

    async def follow(self, chunks: AsyncIterator[bytes], place: StreamPosition, own: int | None) -> Message | None:
        """Read up to the answer to the request `own` and return it; None if the stream ends or breaks before."""
        stream = SseParser()
        try:
            async for chunk in chunks:
                for event in stream.feed(chunk):
                    if isinstance(event, Oversized):
                        self._oversized(event, own)
                        continue
                    place.seen += 1
                    if event.id is not None and event.id.isprintable():  # it must fit into a header
                        place.id = event.id or None
                    if event.retry is not None:
                        place.wait = min(max(event.retry / 1000, MIN_RETRY_SECONDS), MAX_RETRY_SECONDS)
                    if event.event == "message" and event.data:
                        answer = self._take(event.data, own)
                        if answer is not None:
                            return answer
        except ProtocolError:
            raise
        except TransportError as exc:
            place.broke = exc
        return None

    def _take(self, data: str, own: int | None) -> Message | None:
        try:
            message = jsonrpc.decode(data, self._secrets, repair=True)
        except ProtocolError as exc:
            self._note_malformed(exc, data[:1024].encode(), own)
            return None
        return self.sort(message, own)

    def sort(self, message: Any, own: int | None) -> Message | None:
        """Return the message if it is the answer to `own`; otherwise dispatch it and return None."""
        if type(message) is list and message:  # a batch, as 2025-03-26 allows
            answers = [self.sort(part, own) for part in message]
            return next((answer for answer in answers if answer is not None), None)
        if type(message) is not dict or not (isinstance(message.get("method"), str) or "id" in message):
            sample = one_line(repr(message), mask=self._secrets)
            self._note_malformed(ProtocolError("JSON, but not a message", sample=sample), b"", own)
            return None
        self.received(message)
        if "method" in message:
            self._inbox.take(message)
            return None
        id = jsonrpc.correlate(message["id"])
        if id is not None and id == own:
            return message
        if id is None or not self._deliver(id, message):
            self._counters.unmatched += 1
        return None

    def received(self, message: Message) -> Message:
        """Count a message and return it."""
        self._counters.received += 1
        self._inbox.malformed_in_a_row = 0
        return message

    def _oversized(self, event: Oversized, own: int | None) -> None:
        sample = one_line(event.head, mask=self._secrets, cut=True)
        error = ProtocolError(f"an event above the limit of {MAX_MESSAGE:,} bytes", sample=sample)
        if own is not None and jsonrpc.spot_id(event.head) in (None, own):
            raise error  # most likely the answer itself
        self._note_malformed(error, event.head, own)

    def _note_malformed(self, error: ProtocolError, head: bytes, own: int | None) -> None:
        endless = self._inbox.note_malformed(error)
        if endless or (own is not None and jsonrpc.spot_id(head) == own):
            raise error
