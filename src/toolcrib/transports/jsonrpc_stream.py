"""JSON-RPC over a duplex stream of whole messages: ids, answers, deadlines, progress, requests of the peer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from .._util.futures import retrieve
from ..config import SecretMask
from ..errors import ConnectionLost, ProtocolError
from ..protocol import jsonrpc, limits
from ..protocol.jsonrpc import Message
from ..protocol.sanitize import one_line
from ..protocol.versions import NEVER_CANCELLED
from ..types import Wire
from .channel import PLAIN, Counters, Inbound, RequestOptions
from .inbound import Inbox
from .pending import COURTESY_TIMEOUT, PendingRequest, PendingRequests, lost_error, timeout_error


class Ticket(Protocol):
    """A queued message. `sent` is True from the moment when its first byte was handed over."""

    sent: bool


class Receiver(Protocol):
    """Receives the messages and the end of a link."""

    def on_message(self, message: Any) -> None:
        """Handle a JSON value."""
        ...

    def on_malformed(self, error: ProtocolError, head: bytes) -> None:
        """Handle data that is not a JSON-RPC message; `head` is its beginning."""
        ...

    def on_refused(self, id: jsonrpc.RequestId, error: Exception) -> None:
        """Fail the request with this id: it was not delivered, or the server rejected it."""
        ...

    def on_lost(self, error: Exception) -> None:
        """Handle the end of the link, if it ended by itself."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Return a context in which no deadline passes."""
        ...


class Link(Protocol):
    """The transport below a `StreamChannel`, with a queue from which an unsent message can be withdrawn."""

    async def open(self, receiver: Receiver) -> None:
        """Connect; raises `ConnectError`."""
        ...

    def send(self, message: Message) -> Ticket:
        """Put a message into the queue; raises `UsageError` if it cannot be written as JSON."""
        ...

    def withdraw(self, ticket: Ticket) -> bool:
        """Withdraw a message; returns True if no byte of it was handed over, or ever will be."""
        ...

    async def close(self, *, force: bool) -> None:
        """Close the link. Never raises."""
        ...


class _Sent(PendingRequest):
    """A request that was given to the link."""

    __slots__ = ("future", "ticket")

    def __init__(self, method: str, options: RequestOptions, ticket: Ticket, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(method, options)
        self.ticket = ticket
        self.future: asyncio.Future[Wire] = loop.create_future()


class StreamChannel:
    """A `Channel` over a `Link`. Everything runs on the event loop, if possible in its read callback."""

    over_http = False

    def __init__(self, link: Link, counters: Counters | None = None, secrets: SecretMask | None = None) -> None:
        self.counters = counters or Counters()
        self.secrets = secrets
        self._link = link
        self._pending: PendingRequests[_Sent] = PendingRequests(self._too_late)
        self._inbox = Inbox(self.counters, self._pending, link.send)

    async def open(self, inbound: Inbound) -> None:
        """Open the link."""
        self._inbox.inbound = inbound
        await self._link.open(self)

    # ---- out -------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Wire | None, *, options: RequestOptions = PLAIN) -> Wire:
        """Send a request and wait for its outcome."""
        pending = self._pending
        id = pending.begin(options)
        ticket = self._link.send(jsonrpc.request(id, method, options.with_progress_token(params, id)))
        entry = _Sent(method, options, ticket, pending.loop)
        pending.add(id, entry)
        try:
            answer = await entry.future
        except asyncio.CancelledError:
            if entry.future.cancelled():
                self._abandon(id, entry, "the caller was cancelled")
            else:
                retrieve(entry.future)  # the answer arrived in the same iteration of the loop
            raise
        finally:
            pending.pop(id, None)
        if entry.progress is not None:
            await entry.deliver_progress()
        return answer

    async def notify(self, method: str, params: Wire | None = None) -> None:
        """Send a notification."""
        if self._pending.ended is None:
            self._link.send(jsonrpc.notification(method, params))

    def _abandon(self, id: int, entry: _Sent, reason: str) -> bool:
        """Give up a request; returns True if it was never sent. Otherwise the peer gets a cancellation."""
        if self._link.withdraw(entry.ticket):
            return True
        if entry.method not in NEVER_CANCELLED and self._pending.ended is None:
            courtesy = self._link.send(
                jsonrpc.notification("notifications/cancelled", {"requestId": id, "reason": reason})
            )
            if not courtesy.sent:
                self._pending.loop.call_later(COURTESY_TIMEOUT, self._link.withdraw, courtesy)
        return False

    def _too_late(self, id: int, entry: _Sent) -> None:
        if not entry.future.done():
            unsent = self._abandon(id, entry, "the deadline passed")
            entry.future.set_exception(timeout_error(sent=not unsent))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Return a context in which no deadline passes."""
        with self._inbox.inbound.held(), self._pending.hold():
            yield

    # ---- in --------------------------------------------------------------------------------------------------

    def on_message(self, message: Any) -> None:
        """Dispatch a message; plain answers first, because they are the most frequent."""
        if type(message) is dict:
            id, result = message.get("id"), message.get("result")
            if type(id) is int and type(result) is dict and "error" not in message and "method" not in message:
                entry = self._pending.get(id)
                if entry is not None and not entry.future.done():
                    entry.future.set_result(result)
                    self.counters.received += 1
                    self._inbox.malformed_in_a_row = 0
                    return
            if "method" not in message and "id" in message:
                self._on_answer(message)
            elif isinstance(message.get("method"), str):
                self._inbox.take(message)
            else:
                self.on_malformed(ProtocolError("neither request nor answer", sample=self._sample(message)), b"")
                return
            self.counters.received += 1
            self._inbox.malformed_in_a_row = 0
        elif type(message) is list and message:  # a batch, as 2025-03-26 allows
            for part in message:
                self.on_message(part if type(part) is dict else None)
        else:
            self.on_malformed(ProtocolError("JSON, but not a message", sample=self._sample(message)), b"")

    def _sample(self, message: Any) -> str:
        return one_line(repr(message), mask=self.secrets)

    def _on_answer(self, message: Message) -> None:
        id = message.get("id")
        entry = self._pending.get(id if type(id) is int else jsonrpc.correlate(id) or 0)
        if entry is None or entry.future.done():
            self.counters.unmatched += 1
            return
        outcome = jsonrpc.outcome(message, self.secrets)
        if type(outcome) is dict:
            entry.future.set_result(outcome)
        elif isinstance(outcome, Exception):
            entry.future.set_exception(outcome)

    def on_malformed(self, error: ProtocolError, head: bytes) -> None:
        """Count a malformed message.

        If its id can be read, the request of that id fails with it. Too many in a row end the connection.
        """
        endless = self._inbox.note_malformed(error)
        id = jsonrpc.spot_id(head)
        entry = self._pending.get(id) if id is not None else None
        if entry is not None and not entry.future.done():
            entry.future.set_exception(error)
        if endless:
            self.on_lost(
                ProtocolError(f"more than {limits.MAX_MALFORMED} malformed messages in a row", sample=error.sample)
            )

    def on_refused(self, id: jsonrpc.RequestId, error: Exception) -> None:
        """Fail one request: the link could not deliver it, or the server rejected it."""
        entry = self._pending.get(id) if type(id) is int else None
        if entry is not None and not entry.future.done():
            entry.future.set_exception(error)

    # ---- the end ---------------------------------------------------------------------------------------------

    def on_lost(self, error: Exception) -> None:
        """Fail every pending request: the link has ended by itself."""
        if self._end(error):
            self._inbox.inbound.on_closed(error)

    def _end(self, reason: Exception) -> bool:
        """Fail every pending request; returns False if the channel has ended before."""
        if not self._pending.refuse(reason):
            return False
        self._pending.stop()
        self._inbox.close()
        for entry in self._pending.values():
            if not entry.future.done():
                entry.future.set_exception(lost_error(reason, sent=not self._link.withdraw(entry.ticket)))
        return True

    def stderr_tail(self) -> str:
        """Return the end of the stderr of the server's process; empty if the link has no process."""
        tail = getattr(self._link, "stderr_tail", None)
        return tail() if tail is not None else ""

    @property
    def may_download(self) -> bool:
        """Whether the command of the server's process may have to download the server first."""
        return bool(getattr(self._link, "may_download", False))

    async def close(self, *, force: bool = False) -> None:
        """Fail the pending requests, then close the link."""
        self._end(ConnectionLost("the connection was closed"))
        await self._link.close(force=force)
