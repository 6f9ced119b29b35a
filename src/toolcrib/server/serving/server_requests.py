"""Requests of the server to its client, which exist only in the legacy era."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from ...errors import ProtocolError, RemoteError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import INTERNAL_ERROR, Message
from ...types import Wire
from ..requests import Send, send_and_wait

log = logging.getLogger("toolcrib.server")


MAX_QUESTIONS: Final = 256
"""Pending requests to one client. Each one stays queued for a client that does not read, so their number is limited."""


class ServerRequests:
    """The pending requests of the server to one client, by id; each waits `patience` seconds for its answer."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send = send
        self._patience = patience
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Wire]] = {}
        self._closed = False

    async def ask(self, method: str, params: Wire, send: Send | None = None) -> Wire:
        """Send a request to the client with `send`, and return the result.

        Raises `RemoteError` if the client answers with an error, or does not answer. A request that the server no
        longer waits for is cancelled with a notification.
        """
        send = send or self._send
        if self._closed:
            raise _session_closed()
        if len(self._waiting) >= MAX_QUESTIONS:
            raise RemoteError(INTERNAL_ERROR, "too many requests are waiting for the client's answers")
        id = self._last_id = self._last_id + 1
        answer: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        reason = "the request that it belongs to has ended"
        try:
            await send_and_wait(send, jsonrpc.request(id, method, params))
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            reason = "no answer in time"
            raise RemoteError(INTERNAL_ERROR, "the client did not answer in time") from None
        finally:
            del self._waiting[id]
            if (answer.cancelled() or not answer.done()) and not self._closed:
                send(jsonrpc.notification("notifications/cancelled", {"requestId": id, "reason": reason}))

    def take(self, message: Message) -> None:
        """Take the client's response to a request; a response to no pending request is ignored."""
        outcome = jsonrpc.outcome(message)
        if isinstance(outcome, ProtocolError):
            outcome = RemoteError(INTERNAL_ERROR, f"invalid response from the client: {outcome.message}")
        if not self._settle(jsonrpc.correlate(message.get("id")), outcome):
            log.debug("ignored a response of the client to no pending request")

    def fail_malformed(self, head: bytes, error: ProtocolError) -> bool:
        """Fail the pending request that a malformed message responds to; returns False if there is none.

        `head` is the beginning of the message.
        """
        text = f"malformed response from the client: {error.message}"
        return self._settle(jsonrpc.spot_id(head), RemoteError(INTERNAL_ERROR, text))

    def _settle(self, id: int | None, outcome: Any) -> bool:
        waiting = self._waiting.get(id or 0)
        if waiting is None or waiting.done():
            return False
        if isinstance(outcome, RemoteError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)
        return True

    def close(self) -> None:
        """Fail all pending requests, because the session was closed."""
        self._closed = True
        for id in list(self._waiting):
            self._settle(id, _session_closed())


def _session_closed() -> RemoteError:
    return RemoteError(INTERNAL_ERROR, "the session was closed")
