"""A client's requests while they are answered, and how messages go out to it."""

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
"""The one revision that has batches."""
MAX_BATCH: Final = 100

Send = Callable[[Message | list[Message]], "asyncio.Future[None] | None"]
"""Takes a message at once and in order; raises `UsageError` for what JSON cannot say. Where the way is full, it gives a
future for the moment when there is room again: who can wait, waits for it."""


Say = Callable[[Message], Awaitable[None]]
"""Sends a message, and waits for room while the client does not read."""


async def say(send: Send, message: Message) -> None:
    """Send, and wait for room if the client does not read."""
    room = send(message)
    if room is not None:
        await asyncio.shield(room)  # others wait for it too


UNKNOWN_CLIENT: Final = Peer(LEGACY_VERSIONS[0], modern=False)
"""The client of a request before it has introduced itself. It cannot be asked anything."""


class Batch:
    """The answers to an array of requests, which are one array."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._replies: list[Message] = []
        self._open = 1  # the reading of the array itself

    def expect(self) -> None:
        """One more of them is to be answered."""
        self._open += 1

    def add(self, reply: Message | None) -> asyncio.Future[None] | None:
        """One of them is answered, or never will be."""
        if reply is not None:
            self._replies.append(reply)
        self._open -= 1
        return self._send(self._replies) if not self._open and self._replies else None


class Asker(Protocol):
    """Sends requests of the server, where the era has them."""

    async def ask(self, method: str, params: Wire) -> Wire:
        """The client's answer."""
        ...


class Request:
    """One request; it is also the way back (`BackChannel`) of its exchange."""

    __slots__ = (
        *("_asker", "_say", "batch", "headers", "id", "method", "params", "peer"),
        *("listens", "over", "size", "stopped", "task"),
    )

    def __init__(
        self,
        id: RequestId,
        method: str,
        params: Wire,
        *,
        peer: Peer,
        say: Say,
        asker: Asker,
        batch: Batch | None = None,
        headers: Mapping[str, str] = NOTHING,
        size: int = 0,
    ) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.peer = peer
        """The client of the session; a modern request has its own as soon as its `_meta` is read."""
        self.batch = batch
        self.headers = headers
        self.size = size
        """Bytes of its message, as it came."""
        self._say = say
        self._asker = asker
        self.task: asyncio.Task[None] | None = None
        self.listens = method == "subscriptions/listen"
        """It does nothing but wait, and takes no place of those at work."""
        self.stopped: asyncio.Future[None] | None = None
        """Ends the waiting of one that listens."""
        self.over = False
        """It is answered, or nobody waits for its answer."""

    def context(self) -> RequestContext:
        """What the request handler gets of it."""
        meta = self.params.get("_meta")
        return RequestContext(self.peer, self, self.id, meta if isinstance(meta, dict) else NOTHING, self.headers)

    async def notify(self, method: str, params: Wire) -> None:
        """Tell the client; once the request is over, nothing belongs to it any more."""
        if not self.over:
            await self._say(jsonrpc.notification(method, params))

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:  # noqa: ARG002  # only a modern wire names it
        """Ask the client, where a server has requests of its own."""
        if self.peer.modern:
            raise RemoteError(INTERNAL_ERROR, f"{self.method} cannot ask the client anything")
        if self.over:
            raise RemoteError(INTERNAL_ERROR, "the request that the question belongs to is over")
        return await self._asker.ask(method, params)

    async def pause(self) -> None:
        """A stream has no response that could end before the request does."""


_HEAD: Final = re.compile(rb'\s*\{(?:\s*"(?:jsonrpc|method|id)"\s*:\s*(?:"[^"\\]*"|-?\d{1,18})\s*,)+')
_ID: Final = re.compile(rb'"id"\s*:\s*(?:"([^"\\]*)"|(-?\d{1,18}))\s*,')


def spot_request(head: bytes) -> RequestId | None:
    """The id of a broken request, so that its sender need not wait for ever; None if it does not come before all else.

    What has no method may be an answer, and its id be ours.
    """
    found = _HEAD.match(head)
    id = _ID.search(found[0]) if found is not None and b'"method"' in found[0] else None
    if id is None:
        return None
    return int(id[2]) if id[2] is not None else id[1].decode("utf-8", "replace")


def is_message(value: Any) -> bool:
    """Whether it is what JSON-RPC 2.0 calls a request or a notification."""
    return value.get("jsonrpc") == "2.0" and isinstance(value.get("method"), str)
