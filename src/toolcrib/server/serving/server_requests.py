"""Requests of the server to its client, which only the legacy era has."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from ...errors import ProtocolError, RemoteError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import INTERNAL_ERROR, Message
from ...types import Wire
from ..requests import Send, say

log = logging.getLogger("toolcrib.server")


MAX_QUESTIONS: Final = 256
"""Requests to one client that may wait for their answers. A client that does not read still has to get each of them."""


class ServerRequests:
    """Those that wait for their answers, by ids of our own; each waits `patience` seconds."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send = send
        self._patience = patience
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Wire]] = {}
        self._closed = False

    async def ask(self, method: str, params: Wire, send: Send | None = None) -> Wire:
        """The client's answer. A question that is given up is taken back. `send`: on which way it goes out."""
        send = send or self._send
        if self._closed:
            raise _gone()
        if len(self._waiting) >= MAX_QUESTIONS:
            raise RemoteError(INTERNAL_ERROR, "too many requests wait for the client's answers")
        id = self._last_id = self._last_id + 1
        answer: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        given_up = "the request that it belongs to is over"
        try:
            await say(send, jsonrpc.request(id, method, params))
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            given_up = "no answer in time"
            raise RemoteError(INTERNAL_ERROR, "the client did not answer in time") from None
        finally:
            del self._waiting[id]
            if (answer.cancelled() or not answer.done()) and not self._closed:
                send(jsonrpc.notification("notifications/cancelled", {"requestId": id, "reason": given_up}))

    def take(self, message: Message) -> None:
        """An answer; one that nobody waits for is nothing."""
        said = jsonrpc.outcome(message)
        if isinstance(said, ProtocolError):
            said = RemoteError(INTERNAL_ERROR, f"the client gave {said.message}")
        if not self._settle(jsonrpc.correlate(message.get("id")), said):
            log.debug("an answer of the client to nothing that was asked")

    def garbled(self, head: bytes, error: ProtocolError) -> bool:
        """Whether what cannot be read was going to be an answer; then it is one."""
        what = f"the client's answer was no message: {error.message}"
        return self._settle(jsonrpc.spot_id(head), RemoteError(INTERNAL_ERROR, what))

    def _settle(self, id: int | None, said: Any) -> bool:
        waiting = self._waiting.get(id or 0)
        if waiting is None or waiting.done():
            return False
        if isinstance(said, RemoteError):
            waiting.set_exception(said)
        else:
            waiting.set_result(said)
        return True

    def close(self) -> None:
        """Nobody answers any more."""
        self._closed = True
        for id in list(self._waiting):
            self._settle(id, _gone())


def _gone() -> RemoteError:
    return RemoteError(INTERNAL_ERROR, "the client is gone")
