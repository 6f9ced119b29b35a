"""Event streams of the server: a queue of events, and the HTTP responses that send it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from ...protocol import jsonrpc
from ...protocol.jsonrpc import Message
from .asgi import Send

log = logging.getLogger("toolcrib.server")

KEEP_ALIVE: Final = 15.0
"""Seconds without an event after which a comment is sent, so that proxies do not close the connection as idle."""
RETRY_MILLISECONDS: Final = 500
"""Milliseconds after which a client may reconnect to resume the stream."""
BACKLOG: Final = 64
"""Events that may be queued for a slow client before senders have to wait."""
KEPT_EVENTS: Final = 512
KEPT_BYTES: Final = 1024 * 1024
"""Limits on the events of one stream that are kept for a client that resumes it or reads it slowly."""

COMMENT: Final = b":\n\n"
HEAD: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class SseStream:
    """One event stream. If it has a number, its events have ids, and it can be resumed after any of them."""

    def __init__(self, number: int | None = None, *, primes: bool = False) -> None:
        self.number = number
        self.primes = primes
        """Whether it begins with an event without a message, after which it can be resumed."""
        self.done = False
        self.opened = False
        self._events: deque[tuple[int, bytes]] = deque()
        self._requests: set[int] = set()  # the positions of the server's requests to the client
        self.size = self._unsent = 0
        self._last = 0
        self._position = 0
        self._reader: object | None = None
        self._paused = False
        self._room: asyncio.Future[None] | None = None
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()

    @property
    def has_reader(self) -> bool:
        """Whether a response is sending the stream."""
        return self._reader is not None

    # ---- in ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Mark the stream as in use: the answer will be sent as an event."""
        self.opened = True
        self._changed.set()

    def push(self, message: Message | list[Message]) -> None:
        """Queue a message."""
        text = jsonrpc.encode(message)
        if isinstance(message, dict) and "id" in message:
            self._requests.add(self._last + 1)
        self._append(text)

    def _append(self, text: bytes) -> None:
        if self.done:
            return
        self._last += 1
        data = b"data: %s\n\n" % text
        if self.number is not None:
            data = b"id: %d-%d\n%s" % (self.number, self._last, data)
        self._events.append((self._last, data))
        self.size += len(data)
        self._unsent += len(data)
        while self._too_much() and self._drop_one():
            continue
        self.open()

    def _too_much(self) -> bool:
        """Return whether an event has to be dropped.

        Events that were sent are dropped first; others only if no client reads the stream, or reads it far too slowly.
        """
        if len(self._events) <= KEPT_EVENTS and self.size <= KEPT_BYTES:
            return False
        unread = self._reader is None or len(self._events) > 2 * KEPT_EVENTS
        return unread or self._events[0][0] <= self._position

    def _drop_one(self) -> bool:
        """Drop the oldest event that is not an unsent request to the client; returns False if there is none.

        The newest event is never dropped.
        """
        for index, (position, data) in enumerate(self._events):
            if index == len(self._events) - 1:
                break
            if position <= self._position or position not in self._requests:
                del self._events[index]
                self._dropped(position, data)
                return True
        return False

    def _dropped(self, position: int, data: bytes) -> None:
        self._requests.discard(position)
        self.size -= len(data)
        if position > self._position:
            self._unsent -= len(data)

    def _has_room(self) -> bool:
        return self._last - self._position <= BACKLOG and self._unsent <= KEPT_BYTES

    async def room(self) -> None:
        """Wait while a slow client has too many events to read. Does not wait if no response is sending the stream."""
        while self._reader is not None and not self.done and not self._has_room():
            self._taken.clear()
            await self._taken.wait()

    def offer(self, message: Message | list[Message]) -> asyncio.Future[None] | None:
        """Queue a message; returns a future to wait for before the next one if too many events are queued."""
        self.push(message)
        if self._has_room() or self.done:
            return None
        if self._room is None or self._room.done():
            self._room = asyncio.get_running_loop().create_future()
        return self._room

    def finish(self, answer: bytes | None = None) -> None:
        """End the stream, after `answer` if one is given."""
        if answer is not None:
            self._append(answer)
        self.done = True
        self._changed.set()
        self._taken.set()

    # ---- out ---------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """End the current response after the events queued so far; the stream itself can be resumed."""
        self._paused = True
        self._changed.set()

    def detach(self, reader: object | None = None) -> None:
        """End the current response at once, because its client has disconnected. `reader`: only if this is it."""
        if reader is not None and reader is not self._reader:
            return
        self._reader = None
        self._changed.set()
        self._taken.set()

    def has_more_after(self, position: int) -> bool:
        """Return whether the stream has had the event at `position`, and has more events or is not finished."""
        return position < self._last or (position == self._last and not self.done)

    def attach(self) -> object:
        """Register a response that is about to send the stream, and return its token. It replaces any other one."""
        self.detach()
        self._reader = object()
        return self._reader

    async def pump(self, send: Send, reader: object, after: int | None = None) -> None:
        """Send the stream as the response with the token `reader`: unsent events, or all events after `after`."""
        if after is not None:
            self._position = after
            self._unsent = sum(len(data) for position, data in self._events if position > after)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(HEAD)})
            priming = self.primes and after is None
            await _write(send, self._priming() if priming else COMMENT)
            while self._reader is reader:
                if (due := self._due()) is not None:
                    await _write(send, due[1])
                    if self._reader is reader:
                        self._took(*due)
                elif self._paused or self.done:
                    break
                elif not await self._wait_for_change():
                    await _write(send, COMMENT)
            await send({"type": "http.response.body", "body": b""})
        except OSError as exc:
            log.debug("a client disconnected while its stream was sent: %r", exc)  # unsent events are kept
        finally:
            if self._reader is reader:
                self._paused = False
                self.detach()

    def _priming(self) -> bytes:
        """Return an event without a message, so that a client that receives nothing else can resume after it."""
        return b"id: %d-%d\nretry: %d\ndata: \n\n" % (self.number or 0, self._position, RETRY_MILLISECONDS)

    def _due(self) -> tuple[int, bytes] | None:
        """Return the next event to send, with its position."""
        due = None
        for event in reversed(self._events):
            if event[0] <= self._position:
                break
            due = event
        return due

    def _took(self, position: int, data: bytes) -> None:
        self._position = position
        self._unsent -= len(data)
        while self.number is None and self._events and self._events[0][0] <= position:
            self._dropped(*self._events.popleft())
        self._taken.set()
        if self._room is not None and not self._room.done() and self._has_room():
            self._room.set_result(None)

    async def _wait_for_change(self) -> bool:
        self._changed.clear()
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


def parse_event_id(event_id: str) -> tuple[int, int] | None:
    """Return the number of the stream and the position in an event id; None if the id is malformed."""
    number, dash, position = event_id.partition("-")
    if dash and number.isascii() and number.isdigit() and position.isascii() and position.isdigit():
        return (int(number), int(position)) if len(event_id) < 40 else None
    return None
