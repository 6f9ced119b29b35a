"""Requests and notifications of the peer, and malformed messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from .._util.tasks import TaskSet
from ..errors import ProtocolError, RemoteError, UsageError
from ..protocol import jsonrpc, limits
from ..protocol.jsonrpc import Message
from ..protocol.metadata import PROGRESS_TOKEN
from ..types import Wire
from .channel import UNOPENED, Counters, Inbound
from .pending import PendingRequest

log = logging.getLogger("toolcrib.transports")


class Inbox:
    """Dispatches requests and notifications of the peer. `reply` sends the answer to a request.

    `inbound` is set when the channel is opened.
    """

    def __init__(
        self, counters: Counters, pending: Mapping[int, PendingRequest], reply: Callable[[Message], object]
    ) -> None:
        self.inbound: Inbound = UNOPENED
        self._counters = counters
        self._pending = pending
        self._reply = reply
        self._asked: dict[jsonrpc.RequestId, asyncio.Task[None]] = {}
        self._running = TaskSet()
        self._running_bytes = 0
        self._closed = False
        self.malformed_in_a_row = 0

    def take(self, message: Message) -> None:
        """Handle a request or a notification."""
        method, params = message["method"], message.get("params")
        params = params if type(params) is dict else {}
        if "id" in message:
            self._on_request(message["id"], method, params)
            return
        if method == "notifications/progress":
            entry = self._pending.get(jsonrpc.correlate(params.get(PROGRESS_TOKEN)) or 0)
            if entry is not None:
                entry.on_progress(params, asyncio.get_running_loop().time())
        elif method == "notifications/cancelled":
            self._on_cancelled(params.get("requestId"))
        self.inbound.on_notification(method, params)

    def _on_cancelled(self, id: Any) -> None:
        task = self._asked.pop(id, None) if jsonrpc.is_id(id) else None
        if task is not None:
            task.cancel()

    def _on_request(self, id: Any, method: str, params: Wire) -> None:
        # The replies to two concurrent requests with the same id could not be distinguished.
        # A reply repeats the id, so a huge id would make the client send a lot.
        usable = jsonrpc.is_id(id) and not (isinstance(id, str) and len(id) > limits.MAX_ID)
        if self._closed or not self.inbound.takes_requests or not usable or id in self._asked:
            self._counters.dropped += 1
            return
        size = _size(id, params)
        # Tasks are counted, not ids: a handler may continue for a while after its request was cancelled.
        if len(self._running) >= limits.MAX_INBOUND or (
            self._running and self._running_bytes + size > limits.MAX_INBOUND_BYTES
        ):
            self._counters.dropped += 1
            self._reply(jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, "too many requests at once"))
            return
        self._running_bytes += size
        task = self._asked[id] = self._running.create(self._answer(id, method, params))
        task.add_done_callback(lambda _: self._release(size))

    def _release(self, size: int) -> None:
        self._running_bytes -= size

    async def _answer(self, id: jsonrpc.RequestId, method: str, params: Wire) -> None:
        try:
            reply = jsonrpc.result(id, await self.inbound.on_request(method, params))
            jsonrpc.encode(reply)  # raises `UsageError` here, so that the peer gets an error reply
        except RemoteError as exc:
            reply = jsonrpc.error(id, exc.code, exc.message, _json_or_none(exc.data))
        except (Exception, asyncio.CancelledError) as exc:
            if id not in self._asked:
                return  # the peer cancelled it, or the channel ended: no reply
            log.exception("answering %s failed", method)
            reply = jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, f"{type(exc).__name__} in the client's handler")
        if self._asked.pop(id, None) is not None:
            self._reply(reply)

    def note_malformed(self, error: ProtocolError) -> bool:
        """Count a malformed message; returns True if too many arrived in a row."""
        self._counters.malformed += 1
        self._counters.last_malformed = error.sample
        self.malformed_in_a_row += 1
        if self.malformed_in_a_row == 1:
            log.warning("ignoring malformed message from the server (%s): %r", error.message, error.sample)
        return self.malformed_in_a_row > limits.MAX_MALFORMED

    def close(self) -> None:
        """Cancel the handlers: their answers cannot be sent."""
        self._closed = True
        for task in self._asked.values():
            task.cancel()
        self._asked.clear()


def _size(id: Any, params: Wire) -> int:
    """Return the approximate size of a request in bytes; one from a custom transport need not be JSON."""
    try:
        return len(jsonrpc.encode([id, params]))
    except UsageError:
        return 0


def _json_or_none(data: Any) -> Any:
    """Return the data of a handler's error if it has a JSON form, else None."""
    try:
        jsonrpc.encode(data)
    except UsageError:
        return None
    return data
