"""Custom transports: the `MessageStream` protocol, an implementation in memory, and the link over any of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, runtime_checkable

from ..errors import ConnectError, ConnectionLost, ToolcribError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Message
from .backlog import Backlog
from .jsonrpc_stream import Receiver, Ticket

log = logging.getLogger("toolcrib.transports")

CLOSE_SECONDS = 5.0
"""Maximum number of seconds for closing a stream."""


@runtime_checkable
class MessageStream(Protocol):
    """A custom transport: whole JSON-RPC messages as dicts, in order, in both directions.

    Pass a `Client` a callable that makes one; it is called again for every new connection:
    `Client(lambda: MyStream(...))`. The callable may also return an async context manager that yields one.
    """

    async def send(self, message: Message) -> None:
        """Hand a message over; returns when it can no longer be withdrawn.

        An exception ends the connection. The message counts as handed over: a request raises `OutcomeUnknown` with
        `sent=True`.
        """
        ...

    async def receive(self) -> Message:
        """Return the next message; raises `EOFError` at the end."""
        ...

    async def close(self) -> None:
        """End the stream in both directions."""
        ...


class _Direction:
    """The messages in one direction between two ends; None marks the end."""

    def __init__(self) -> None:
        self.messages: deque[Message | None] = deque()
        self.arrived = asyncio.Event()

    def put(self, message: Message | None) -> None:
        """Add a message."""
        self.messages.append(message)
        self.arrived.set()


class MemoryStream:
    """One end of a stream in memory; `pair()` makes both."""

    def __init__(self, incoming: _Direction, outgoing: _Direction) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False

    @classmethod
    def pair(cls) -> tuple[MemoryStream, MemoryStream]:
        """Return two connected ends: each receives the messages that the other sends."""
        one, other = _Direction(), _Direction()
        return cls(one, other), cls(other, one)

    async def send(self, message: Message) -> None:
        """Hand a message to the other end."""
        if self._closed:
            raise ConnectionLost("this end of the stream is closed")
        self._outgoing.put(message)

    async def receive(self) -> Message:
        """Return the next message of the other end."""
        incoming = self._incoming
        while not incoming.messages:
            if self._closed:
                raise EOFError
            incoming.arrived.clear()
            await incoming.arrived.wait()
        message = incoming.messages.popleft()
        if message is None:
            incoming.messages.append(None)
            raise EOFError
        return message

    async def close(self) -> None:
        """End both directions."""
        if not self._closed:
            self._closed = True
            self._outgoing.put(None)
            self._incoming.arrived.set()


class _Letter:
    __slots__ = ("counted", "message", "sent")

    def __init__(self, message: Message) -> None:
        self.message: Message | None = message
        self.sent = False
        self.counted = 0
        """The size, if the message counts against the limit of the backlog."""


class MessageLink:
    """A link over a `MessageStream`.

    One task opens and closes the stream: a context manager must not be entered in one task and exited in another.
    """

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[MessageStream]]) -> None:
        self._connect = connect
        self._queue: deque[_Letter] = deque()
        self._backlog = Backlog(self._drop)
        self._receiver: Receiver | None = None
        self._work = asyncio.Event()
        self._closing = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._lost = False

    async def open(self, receiver: Receiver) -> None:
        """Enter the stream in its own task."""
        self._receiver = receiver
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(receiver, opened))
        try:
            await asyncio.shield(opened)
        except asyncio.CancelledError:
            self._owner.cancel()
            raise

    def send(self, message: Message) -> Ticket:
        """Queue a message."""
        size = len(jsonrpc.encode(message))  # a message without a JSON form must fail its caller, not the shared stream
        letter = _Letter(message)
        if self._lost:
            return letter
        if not ("id" in message and "method" in message):
            if not self._backlog.add(message, size):
                return letter
            letter.counted = size
        self._queue.append(letter)
        self._work.set()
        return letter

    def _drop(self, error: ConnectionLost) -> None:
        if self._receiver is not None:
            self._receiver.on_lost(error)

    def _uncount(self, letter: _Letter) -> None:
        if letter.counted:
            self._backlog.remove(letter.counted)
            letter.counted = 0

    def withdraw(self, ticket: Ticket) -> bool:
        """Withdraw a message; returns False if it was handed over."""
        if ticket.sent:
            return False
        assert isinstance(ticket, _Letter)
        ticket.message = None
        self._uncount(ticket)
        return True

    async def _own(self, receiver: Receiver, opened: asyncio.Future[None]) -> None:
        reason: Exception = ConnectionLost("the transport ended")
        try:
            async with self._connect() as stream:
                opened.set_result(None)
                reader = asyncio.create_task(self._read(stream, receiver))
                writer = asyncio.create_task(self._write(stream))
                closing = asyncio.create_task(self._closing.wait())
                parts: list[asyncio.Task[Any]] = [reader, writer, closing]
                try:
                    await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
                    reason = next((e for e in map(_failure, parts) if e is not None), reason)
                finally:
                    for part in parts:
                        part.cancel()
                    await asyncio.gather(*parts, return_exceptions=True)
        except Exception as exc:  # noqa: BLE001  # a custom transport may raise anything
            if not opened.done():
                opened.set_exception(_connect_error(exc))
                return
            if not self._closing.is_set():
                reason = exc
        finally:
            self._lost = True
            if not opened.done():
                opened.cancel()
            elif not self._closing.is_set() and not opened.cancelled() and opened.exception() is None:
                receiver.on_lost(reason)

    async def _read(self, stream: MessageStream, receiver: Receiver) -> None:
        with contextlib.suppress(EOFError):
            while True:
                receiver.on_message(await stream.receive())

    async def _write(self, stream: MessageStream) -> None:
        while True:
            while self._queue:
                letter = self._queue.popleft()
                if letter.message is not None:
                    letter.sent = True
                    self._uncount(letter)
                    await stream.send(letter.message)
            self._work.clear()
            await self._work.wait()

    async def close(self, *, force: bool) -> None:
        """Close the stream. If that takes too long, log a warning and abandon it."""
        self._closing.set()
        if self._owner is None or self._owner.done():
            return
        await asyncio.wait([self._owner], timeout=CLOSE_SECONDS / 10 if force else CLOSE_SECONDS)
        if not self._owner.done():
            log.warning("a transport did not close within %s s and was abandoned", CLOSE_SECONDS)
            self._owner.cancel()


@asynccontextmanager
async def closing_stream(stream: MessageStream) -> AsyncIterator[MessageStream]:
    """Close the stream on exit."""
    try:
        yield stream
    finally:
        await stream.close()


def _failure(task: asyncio.Task[Any]) -> Exception | None:
    exc = task.exception() if task.done() and not task.cancelled() else None
    return exc if isinstance(exc, Exception) else None


def _connect_error(exc: Exception) -> ToolcribError:
    if isinstance(exc, ToolcribError):
        return exc
    error = ConnectError(f"the transport could not be opened: {type(exc).__name__}: {exc}")
    error.__cause__ = exc
    return error
