"""A bound on the replies and notifications that wait to be sent to a server.

A caller's own requests are bounded by the callers. A reply is caused by the server itself: a server that sends requests
and reads nothing could fill our memory, or use up our sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..errors import ConnectionLost
from ..protocol import jsonrpc, limits
from ..protocol.jsonrpc import Message

DELIVERY_SECONDS: Final = 30.0
"""Time in which a reply or a notification that is posted over HTTP must have been taken, waiting included."""


class Backlog:
    """Counts waiting replies and notifications, and their bytes.

    `on_full` is called when a message would exceed the limits and cannot be left out.
    """

    __slots__ = ("_count", "_large", "_on_full", "_small")

    def __init__(self, on_full: Callable[[ConnectionLost], None]) -> None:
        self._on_full = on_full
        self._count = 0
        self._small = 0
        self._large = 0

    def add(self, message: Message, size: int) -> bool:
        """Count a message of `size` bytes; returns False if it must not wait, and is not sent."""
        if self._admits(size):
            self._count += 1
            self._add_bytes(size, size)
            return True
        # A server that misses a cancellation only does needless work.
        if message.get("method") != "notifications/cancelled":
            self._on_full(self._error())
        return False

    def remove(self, size: int) -> None:
        """Stop counting a message: it was sent or withdrawn."""
        self._count -= 1
        self._add_bytes(size, -size)

    def _admits(self, size: int) -> bool:
        # Large replies have a limit of their own: a few pictures for a slow server are no reason to drop it.
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
            f"the connection was dropped: the server sends requests but does not take our replies "
            f"({self._count:,} replies and notifications of {size:,} bytes in total are waiting to be sent)"
        )


def encode_to_keep(message: Message) -> bytes:
    """Encode a message that may have to wait: a copy, because the encoder's buffer is up to eight times larger."""
    return bytes(memoryview(jsonrpc.encode(message)))
