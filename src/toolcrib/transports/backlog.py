"""Limits the replies and notifications that wait to be sent to a server.

The number of requests is limited by the callers. Replies are caused by the server: one that sends requests and reads
nothing could use up the client's memory or sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..errors import ConnectionLost
from ..protocol import jsonrpc, limits
from ..protocol.jsonrpc import Message

DELIVERY_SECONDS: Final = 30.0
"""Limit for posting a reply or a notification over HTTP, including the wait for a turn."""


class Backlog:
    """Counts waiting replies and notifications, and their bytes.

    `on_full` is called when a message would exceed the limits and cannot be dropped.
    """

    __slots__ = ("_count", "_large", "_on_full", "_small")

    def __init__(self, on_full: Callable[[ConnectionLost], None]) -> None:
        self._on_full = on_full
        self._count = 0
        self._small = 0
        self._large = 0

    def add(self, message: Message, size: int) -> bool:
        """Count a message of `size` bytes; returns False if the limits are exceeded and it must not be sent."""
        if self._admits(size):
            self._count += 1
            self._add_bytes(size, size)
            return True
        # Cancellations can be dropped: without one, the server only does unnecessary work.
        if message.get("method") != "notifications/cancelled":
            self._on_full(self._error())
        return False

    def remove(self, size: int) -> None:
        """Stop counting a message: it was sent or withdrawn."""
        self._count -= 1
        self._add_bytes(size, -size)

    def _admits(self, size: int) -> bool:
        # Large replies have a separate limit: a slow server that receives a few images must not be dropped.
        if self._count >= limits.MAX_QUEUED:
            return False
        if size <= limits.SMALL_REPLY:
            return self._small + size <= limits.MAX_QUEUED_BYTES
        return self._large + size <= limits.MAX_QUEUED_LARGE_BYTES

    def _add_bytes(self, size: int, change: int) -> None:
        if size <= limits.SMALL_REPLY:
            self._small += change
        else:
            self._large += change

    def _error(self) -> ConnectionLost:
        size = self._small + self._large
        return ConnectionLost(
            f"the connection was dropped: the server sends requests but does not read the replies "
            f"({self._count:,} replies and notifications of {size:,} bytes in total are waiting to be sent)"
        )


def encode_to_keep(message: Message) -> bytes:
    """Encode a message that may be queued: as a copy, because the encoder's buffer is up to eight times larger."""
    return bytes(memoryview(jsonrpc.encode(message)))
