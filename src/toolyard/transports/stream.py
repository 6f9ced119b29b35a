"""JSON-RPC over a duplex stream of whole messages: ids, answers, deadlines, progress, the peer's own requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ..errors import (
    CallTimeout,
    ConnectionLost,
    OutcomeUnknown,
    ProtocolError,
    RemoteError,
    UnansweredTimeout,
    UsageError,
)
from ..events import Delivery
from ..protocol import jsonrpc, limits
from ..protocol.eras import NEVER_CANCELLED
from ..protocol.jsonrpc import Message
from ..protocol.metadata import PROGRESS_TOKEN, with_meta
from ..types import Wire
from .channel import PLAIN, Counters, Inbound, RequestOptions

log = logging.getLogger("toolyard.transports")

COURTESY = 5.0
"""Seconds that a `notifications/cancelled` may wait for a peer that does not read."""


class Ticket(Protocol):
    """A message on its way out. `sent` is True from the moment when its first byte was handed over."""

    sent: bool


class Receiver(Protocol):
    """Who takes what comes in over a link."""

    def on_message(self, message: Any) -> None:
        """A JSON value arrived."""
        ...

    def on_garbage(self, error: ProtocolError, head: bytes) -> None:
        """Something arrived that is no message."""
        ...

    def on_lost(self, error: Exception) -> None:
        """The link has ended by itself."""
        ...


class Link(Protocol):
    """What a `StreamChannel` stands on. It keeps its own queue, so that what was not handed over can be taken back."""

    async def open(self, receiver: Receiver) -> None:
        """Connect; raises `ConnectError`."""
        ...

    def send(self, message: Message) -> Ticket:
        """Put a message into the queue; raises `UsageError` if it cannot be written as JSON."""
        ...

    def withdraw(self, ticket: Ticket) -> bool:
        """Take a message back: True if not one byte of it was, or ever will be, handed over."""
        ...

    async def close(self, *, hurry: bool) -> None:
        """End it. Never raises."""
        ...


class _Pending:
    """A request that waits for its answer."""

    __slots__ = ("deadline", "future", "held_since", "idle_timeout", "idle_until", "method", "progress", "ticket")

    def __init__(self, method: str, future: asyncio.Future[Wire], options: RequestOptions) -> None:
        self.method = method
        self.future = future
        self.deadline = options.deadline
        self.idle_timeout = options.idle_timeout
        self.idle_until: float | None = None
        self.held_since: float | None = None
        self.progress = Delivery(options.on_progress, "progress handler") if options.on_progress is not None else None
        self.ticket: Ticket

    def due(self) -> float | None:
        if self.idle_until is None:
            return self.deadline
        return self.idle_until if self.deadline is None else min(self.deadline, self.idle_until)

    def put_off(self, seconds: float) -> None:
        if self.deadline is not None:
            self.deadline += seconds
        if self.idle_until is not None:
            self.idle_until += seconds


class StreamChannel:
    """A `Channel` over a `Link`. Everything happens on the event loop, and on its read callback where possible."""

    def __init__(self, link: Link, counters: Counters | None = None) -> None:
        self.counters = counters or Counters()
        self._link = link
        self._inbound: Inbound
        self._loop: asyncio.AbstractEventLoop
        self._last_id = 0
        self._pending: dict[int, _Pending] = {}
        self._asked: dict[jsonrpc.RequestId, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._held = 0
        self._garbage_in_a_row = 0
        self._ended: Exception | None = None

    async def open(self, inbound: Inbound) -> None:
        """Open the link."""
        self._inbound = inbound
        self._loop = asyncio.get_running_loop()
        await self._link.open(self)

    # ---- out -------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Wire | None, *, options: RequestOptions = PLAIN) -> Wire:
        """Send a request and wait for its one outcome."""
        if self._ended is not None:
            raise ConnectionLost(f"the connection is gone: {self._ended}") from self._ended
        id = self._last_id = self._last_id + 1
        if options.on_progress is not None or options.idle_timeout is not None:
            params = with_meta(params, {PROGRESS_TOKEN: id})
        if options.on_id is not None:
            options.on_id(id)
        if options.deadline is not None and options.deadline <= self._loop.time():
            raise CallTimeout("the deadline passed before the call could be sent")
        entry = _Pending(method, self._loop.create_future(), options)
        entry.ticket = self._link.send(jsonrpc.request(id, method, params))
        self._pending[id] = entry
        if entry.deadline is not None or entry.idle_timeout is not None:
            self._watch(entry)
        try:
            answer = await entry.future
        except asyncio.CancelledError:
            if entry.future.cancelled():
                self._abandon(id, entry, "the caller was cancelled")
            else:
                entry.future.exception()  # the answer came in the same turn: seen, so that nobody reports it as lost
            raise
        finally:
            self._pending.pop(id, None)
        if entry.progress is not None:
            until = self._loop.time() + COURTESY
            with contextlib.suppress(TimeoutError):  # a handler that hangs does not keep the answer
                async with asyncio.timeout_at(until if entry.deadline is None else min(until, entry.deadline)):
                    await entry.progress.drained()
        return answer

    async def notify(self, method: str, params: Wire | None = None) -> None:
        """Send a notification."""
        if self._ended is None:
            self._link.send(jsonrpc.notification(method, params))

    def _abandon(self, id: int, entry: _Pending, reason: str) -> bool:
        """Give a request up; True if it was never sent. Else the peer is told, if it still reads."""
        if self._link.withdraw(entry.ticket):
            return True
        if entry.method not in NEVER_CANCELLED and self._ended is None:
            courtesy = self._link.send(
                jsonrpc.notification("notifications/cancelled", {"requestId": id, "reason": reason})
            )
            if not courtesy.sent:
                self._loop.call_later(COURTESY, self._link.withdraw, courtesy)
        return False

    # ---- deadlines: one timer for all, moved only when an earlier one comes ----------------------------------

    def _watch(self, entry: _Pending) -> None:
        if entry.idle_timeout is not None:
            entry.idle_until = self._loop.time() + entry.idle_timeout
        if self._held:
            entry.held_since = self._loop.time()
        due = entry.deadline if entry.idle_until is None else entry.due()
        if due is not None and (self._timer is None or due < self._timer_at):
            self._set_timer(due)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(when, self._expire), when

    def _expire(self) -> None:
        self._timer = None
        if self._held:
            return
        now = self._loop.time() + 0.001
        earliest: float | None = None
        for id, entry in list(self._pending.items()):
            due = entry.due()
            if due is None or entry.future.done():
                continue
            if due > now:
                earliest = due if earliest is None else min(earliest, due)
            elif self._abandon(id, entry, "the deadline passed"):
                entry.future.set_exception(CallTimeout("the deadline passed before the call could be sent"))
            else:
                entry.future.set_exception(
                    UnansweredTimeout(
                        "no answer within the deadline; the call was handed over and may have been executed"
                    )
                )
        if earliest is not None:
            self._set_timer(earliest)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let no deadline pass."""
        self._held += 1
        if self._held == 1:
            now = self._loop.time()
            for entry in self._pending.values():
                entry.held_since = now
        try:
            yield
        finally:
            self._held -= 1
            if self._held == 0:
                self._resume()

    def _resume(self) -> None:
        now = self._loop.time()
        for entry in self._pending.values():
            if entry.held_since is not None:
                entry.put_off(now - entry.held_since)
                entry.held_since = None
        if self._timer is not None:
            self._timer.cancel()
        self._expire()

    # ---- in --------------------------------------------------------------------------------------------------

    def on_message(self, message: Any) -> None:
        """Sort what came: plain answers first, for they are the many."""
        if type(message) is dict:
            id, result = message.get("id"), message.get("result")
            if type(id) is int and type(result) is dict and "error" not in message and "method" not in message:
                entry = self._pending.get(id)
                if entry is not None and not entry.future.done():
                    entry.future.set_result(result)
                    self.counters.received += 1
                    self._garbage_in_a_row = 0
                    return
            if "method" not in message and "id" in message:
                self._on_answer(message)
            elif isinstance(message.get("method"), str):
                self._on_call(message)
            else:
                self.on_garbage(ProtocolError("neither request nor answer", sample=reprlib.repr(message)), b"")
                return
            self.counters.received += 1
            self._garbage_in_a_row = 0
        elif type(message) is list and message:  # a batch, as 2025-03-26 allows
            for part in message:
                self.on_message(part if type(part) is dict else None)
        else:
            self.on_garbage(ProtocolError("JSON, but no message", sample=reprlib.repr(message)), b"")

    def _on_answer(self, message: Message) -> None:
        id = message.get("id")
        entry = self._pending.get(id if type(id) is int else jsonrpc.correlate(id) or 0)
        if entry is None or entry.future.done():
            self.counters.unmatched += 1
            return
        outcome = jsonrpc.outcome(message)
        if type(outcome) is dict:
            entry.future.set_result(outcome)
        elif isinstance(outcome, Exception):
            entry.future.set_exception(outcome)

    def _on_call(self, message: Message) -> None:
        method, params = message["method"], message.get("params")
        params = params if type(params) is dict else {}
        if "id" in message:
            self._on_request(message["id"], method, params)
            return
        if method == "notifications/progress":
            self._on_progress(params)
        elif method == "notifications/cancelled":
            self._on_cancelled(params.get("requestId"))
        self._inbound.on_notification(method, params)

    def _on_progress(self, params: Wire) -> None:
        entry = self._pending.get(jsonrpc.correlate(params.get(PROGRESS_TOKEN)) or 0)
        progress = _number(params.get("progress"))
        if entry is None or progress is None:
            return
        if entry.idle_timeout is not None:
            now = self._loop.time()
            # While held, what was held so far will be added again when it ends: this silence begins only now.
            entry.idle_until = (now if entry.held_since is None else entry.held_since) + entry.idle_timeout
        if entry.progress is not None:
            message = params.get("message")
            entry.progress(progress, _number(params.get("total")), message if isinstance(message, str) else None)

    def _on_cancelled(self, id: Any) -> None:
        task = self._asked.pop(id, None) if jsonrpc.is_id(id) else None
        if task is not None:
            task.cancel()

    def _on_request(self, id: Any, method: str, params: Wire) -> None:
        if self._ended is not None or not self._inbound.takes_requests or not jsonrpc.is_id(id):
            self.counters.dropped += 1
        elif len(self._asked) >= limits.MAX_INBOUND:
            self.counters.dropped += 1
            self._link.send(jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, "too many requests at once"))
        else:
            self._asked[id] = self._loop.create_task(self._answer(id, method, params))

    async def _answer(self, id: jsonrpc.RequestId, method: str, params: Wire) -> None:
        try:
            reply = jsonrpc.result(id, await self._inbound.on_request(method, params))
            jsonrpc.encode(reply)  # what JSON cannot say is the handler's fault, and the peer must not wait for it
        except RemoteError as exc:
            reply = jsonrpc.error(id, exc.code, exc.message, _sayable(exc.data))
        except (Exception, asyncio.CancelledError) as exc:
            if id not in self._asked:
                return  # the peer cancelled it, or the channel ended: no reply
            log.exception("answering %s failed", method)
            reply = jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, f"{type(exc).__name__} in the client's handler")
        if self._asked.pop(id, None) is not None:
            self._link.send(reply)

    def on_garbage(self, error: ProtocolError, head: bytes) -> None:
        """Count it.

        If it was meant as an answer, its caller need not wait; if there is no end to it, end it ourselves.
        """
        self.counters.garbage += 1
        self.counters.last_garbage = error.sample
        self._garbage_in_a_row += 1
        if self._garbage_in_a_row == 1:
            log.warning("the server sent what is no message (%s): %r", error.message, error.sample)
        id = jsonrpc.spot_id(head)
        entry = self._pending.get(id) if id is not None else None
        if entry is not None and not entry.future.done():
            entry.future.set_exception(error)
        if self._garbage_in_a_row > limits.MAX_GARBAGE:
            self.on_lost(
                ProtocolError(f"more than {limits.MAX_GARBAGE} lines in a row were no messages", sample=error.sample)
            )

    # ---- the end ---------------------------------------------------------------------------------------------

    def on_lost(self, error: Exception) -> None:
        """The link has ended by itself: every call that waits gets its outcome now."""
        if self._ended is None:
            self._end(error)
            self._inbound.on_closed(error)

    def _end(self, error: Exception) -> None:
        self._ended = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._asked.values():
            task.cancel()
        self._asked.clear()
        for entry in self._pending.values():
            if entry.future.done():
                continue
            failure: ConnectionLost | OutcomeUnknown
            if self._link.withdraw(entry.ticket):
                failure = ConnectionLost(f"{error}; the call was never sent")
            else:
                failure = OutcomeUnknown(f"{error}; the call was handed over and may have been executed")
            failure.__cause__ = error
            entry.future.set_exception(failure)

    async def close(self, *, hurry: bool = False) -> None:
        """End the calls that wait, then the link."""
        if self._ended is None:
            self._end(ConnectionLost("the connection was closed"))
        await self._link.close(hurry=hurry)


def _sayable(data: Any) -> Any:
    """What a handler put on its error, if JSON can say it."""
    try:
        jsonrpc.encode(data)
    except UsageError:
        return None
    return data


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
