"""Event streams of the server: what is said on the way to an answer, in order, and how a response brings it out."""

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
"""Seconds of silence after which a comment is sent, so that nobody on the way takes the connection for dead."""
RETRY: Final = 500
"""Milliseconds after which a client may come again for the rest."""
BACKLOG: Final = 64
"""Events that may wait for a slow client before the one who tells them waits too."""
KEPT_EVENTS: Final = 512
KEPT_BYTES: Final = 1024 * 1024
"""What is kept of a stream for a client that comes again, and what may wait for one that reads slowly."""

SILENCE: Final = b":\n\n"
HEAD: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class SseStream:
    """One stream. With a number its events have ids, and it can be resumed by them."""

    def __init__(self, number: int | None = None, *, primes: bool = False) -> None:
        self.number = number
        self.primes = primes
        """Whether it begins with an event without a message, from which it can be resumed."""
        self.done = False
        self.opened = False
        self._events: deque[tuple[int, bytes]] = deque()
        self._questions: set[int] = set()  # the positions of what the client must answer
        self.size = self._unsent = 0
        self._last = 0
        self._position = 0
        self._reader: object | None = None
        self._paused = False
        self._room: asyncio.Future[None] | None = None
        self._news = asyncio.Event()
        self._taken = asyncio.Event()

    @property
    def has_reader(self) -> bool:
        """Whether a response brings it out now."""
        return self._reader is not None

    # ---- in ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """From now on the answer comes as an event."""
        self.opened = True
        self._news.set()

    def push(self, message: Message | list[Message]) -> None:
        """Say something."""
        text = jsonrpc.encode(message)
        if isinstance(message, dict) and "id" in message:
            self._questions.add(self._last + 1)
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
        """What was sent goes first. What was not goes only if nobody reads it, or far too slowly."""
        if len(self._events) <= KEPT_EVENTS and self.size <= KEPT_BYTES:
            return False
        unread = self._reader is None or len(self._events) > 2 * KEPT_EVENTS
        return unread or self._events[0][0] <= self._position

    def _drop_one(self) -> bool:
        """The first that is no question which the client has not got; the last of all stays."""
        for index, (position, data) in enumerate(self._events):
            if index == len(self._events) - 1:
                break
            if position <= self._position or position not in self._questions:
                del self._events[index]
                self._dropped(position, data)
                return True
        return False

    def _dropped(self, position: int, data: bytes) -> None:
        self._questions.discard(position)
        self.size -= len(data)
        if position > self._position:
            self._unsent -= len(data)

    def _has_room(self) -> bool:
        return self._last - self._position <= BACKLOG and self._unsent <= KEPT_BYTES

    async def room(self) -> None:
        """Wait until a slow client has read enough. A client that has gone is not waited for: it may resume."""
        while self._reader is not None and not self.done and not self._has_room():
            self._taken.clear()
            await self._taken.wait()

    def offer(self, message: Message | list[Message]) -> asyncio.Future[None] | None:
        """Say something that need not be said at once: gives what to wait for before the next, if too much waits."""
        self.push(message)
        if self._has_room() or self.done:
            return None
        if self._room is None or self._room.done():
            self._room = asyncio.get_running_loop().create_future()
        return self._room

    def finish(self, answer: bytes | None = None) -> None:
        """Say the last thing."""
        if answer is not None:
            self._append(answer)
        self.done = True
        self._news.set()
        self._taken.set()

    # ---- out ---------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """End the response that brings it out, or is about to, after what was said so far; the stream goes on."""
        self._paused = True
        self._news.set()

    def let_go(self, reader: object | None = None) -> None:
        """End the response that brings it out at once: nobody reads it any more. `reader`: only if it is this one."""
        if reader is not None and reader is not self._reader:
            return
        self._reader = None
        self._news.set()
        self._taken.set()

    def goes_on_after(self, position: int) -> bool:
        """Whether there has been such an event, and there is more to come."""
        return position < self._last or (position == self._last and not self.done)

    def promise(self) -> object:
        """A response is about to bring it out; the latest takes over from any other."""
        self.let_go()
        self._reader = object()
        return self._reader

    async def pump(self, send: Send, reader: object, after: int | None = None) -> None:
        """Bring it out as the response that was promised: what is new, or what came after an event."""
        if after is not None:
            self._position = after
            self._unsent = sum(len(data) for position, data in self._events if position > after)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(HEAD)})
            priming = self.primes and after is None
            await _write(send, self._priming() if priming else SILENCE)
            while self._reader is reader:
                if (due := self._due()) is not None:
                    await _write(send, due[1])
                    if self._reader is reader:
                        self._took(*due)
                elif self._paused or self.done:
                    break
                elif not await self._heard_news():
                    await _write(send, SILENCE)
            await send({"type": "http.response.body", "body": b""})
        except OSError as exc:
            log.debug("a client went while it was told something: %r", exc)  # what it has not got is kept
        finally:
            if self._reader is reader:
                self._paused = False
                self.let_go()

    def _priming(self) -> bytes:
        """An event without a message, so that a client that gets nothing else can come again from there."""
        return b"id: %d-%d\nretry: %d\ndata: \n\n" % (self.number or 0, self._position, RETRY)

    def _due(self) -> tuple[int, bytes] | None:
        """The next event to be brought out."""
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

    async def _heard_news(self) -> bool:
        self._news.clear()
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                await self._news.wait()
        except TimeoutError:
            return False
        return True


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


def place_of(event_id: str) -> tuple[int, int] | None:
    """The stream and the position that an event id says; None if it is none of ours."""
    number, dash, position = event_id.partition("-")
    if dash and number.isascii() and number.isdigit() and position.isascii() and position.isdigit():
        return (int(number), int(position)) if len(event_id) < 40 else None
    return None
