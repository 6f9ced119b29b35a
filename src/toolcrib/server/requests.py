"""The requests of a client on a stream while they are being answered, and the types of functions that send messages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from ..errors import RemoteError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import INTERNAL_ERROR, Message, RequestId
from ..protocol.versions import LEGACY_VERSIONS
from ..types import Wire
from .handler import NOTHING, Peer, RequestContext

BATCHES: Final = "2025-03-26"
"""The only protocol version with batches."""
MAX_BATCH: Final = 100

Send = Callable[[Message | list[Message]], "asyncio.Future[None] | None"]
"""Queues a message without waiting; raises `UsageError` if JSON cannot express it.

If too much is queued, it returns a future that is resolved when there is room again; callers that can wait should.
"""


SendAndWait = Callable[[Message], Awaitable[None]]
"""Sends a message, and waits for room while the client does not read."""


async def send_and_wait(send: Send, message: Message) -> None:
    """Send a message, and wait for room if the client does not read."""
    room = send(message)
    if room is not None:
        await asyncio.shield(room)  # other senders wait for the same future


UNKNOWN_CLIENT: Final = Peer(LEGACY_VERSIONS[0], modern=False)
"""The client before `initialize`: it has declared no capabilities, so the server can request nothing from it."""


class Batch:
    """Collects the answers to a batch, and sends them as one array."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._replies: list[Message] = []
        self._open = 1  # the batch itself, until all its messages are read

    def expect(self) -> None:
        """Expect one more answer."""
        self._open += 1

    def add(self, reply: Message | None) -> asyncio.Future[None] | None:
        """Take an answer, or None for a request that gets none; sends the array after the last one."""
        if reply is not None:
            self._replies.append(reply)
        self._open -= 1
        return self._send(self._replies) if not self._open and self._replies else None


class Asker(Protocol):
    """Sends requests of the server to the client (legacy era only)."""

    async def ask(self, method: str, params: Wire) -> Wire:
        """Send a request, and return the client's result."""
        ...


class Request:
    """One request; also the `BackChannel` of its `RequestContext`."""

    __slots__ = (
        *("_asker", "_send", "batch", "headers", "id", "method", "params", "peer"),
        *("listens", "over", "size", "stopped", "task"),
    )

    def __init__(
        self,
        id: RequestId,
        method: str,
        params: Wire,
        *,
        peer: Peer,
        send: SendAndWait,
        asker: Asker,
        batch: Batch | None = None,
        headers: Mapping[str, str] = NOTHING,
        size: int = 0,
    ) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.peer = peer
        """The client of the session; for a modern request, the client that its `_meta` describes."""
        self.batch = batch
        self.headers = headers
        self.size = size
        """Size of the message in bytes."""
        self._send = send
        self._asker = asker
        self.task: asyncio.Task[None] | None = None
        self.listens = method == "subscriptions/listen"
        """Whether it is a subscription, which only waits and does not count as a running request."""
        self.stopped: asyncio.Future[None] | None = None
        """Resolved to end a subscription."""
        self.over = False
        """Whether the request has been answered or cancelled."""

    def context(self) -> RequestContext:
        """Return the context for the request handler."""
        meta = self.params.get("_meta")
        return RequestContext(self.peer, self, self.id, meta if isinstance(meta, dict) else NOTHING, self.headers)

    async def notify(self, method: str, params: Wire) -> None:
        """Send a notification; it is dropped once the request has been answered or cancelled."""
        if not self.over:
            await self._send(jsonrpc.notification(method, params))

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:  # noqa: ARG002  # only modern clients see it
        """Send a request to the client, and return its result; raises -32603 in the modern era."""
        if self.peer.modern:
            raise RemoteError(INTERNAL_ERROR, f"{method}: no request can be sent to the client during {self.method}")
        if self.over:
            raise RemoteError(INTERNAL_ERROR, f"{method}: the request that it belongs to has ended")
        return await self._asker.ask(method, params)

    async def pause(self) -> None:
        """Do nothing: on a stream, no response can end before the request."""


_HEAD: Final = re.compile(rb'\s*\{(?:\s*"(?:jsonrpc|method|id)"\s*:\s*(?:"[^"\\]*"|-?\d{1,18})\s*,)+')
_ID: Final = re.compile(rb'"id"\s*:\s*(?:"([^"\\]*)"|(-?\d{1,18}))\s*,')


def spot_request(head: bytes) -> RequestId | None:
    """Return the id of a malformed request, so that its sender gets an answer; None if the id is not at its beginning.

    A message without a method may be a response, with an id of the server: for that it returns None.
    """
    found = _HEAD.match(head)
    id = _ID.search(found[0]) if found is not None and b'"method"' in found[0] else None
    if id is None:
        return None
    return int(id[2]) if id[2] is not None else id[1].decode("utf-8", "replace")


def is_message(value: Any) -> bool:
    """Return whether a JSON object is a JSON-RPC 2.0 request or notification."""
    return value.get("jsonrpc") == "2.0" and isinstance(value.get("method"), str)
