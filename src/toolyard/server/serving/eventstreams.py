"""Event streams of the server: what is said on the way to an answer, in order, and how a response brings it out."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from ...protocol import jsonrpc
from ...protocol.jsonrpc import Message
from .asgi import Send

KEEP_ALIVE: Final = 15.0
"""Seconds of silence after which a comment is sent, so that nobody on the way takes the connection for dead."""
RETRY: Final = 500
"""Milliseconds after which a client may come again for the rest."""
BACKLOG: Final = 64
"""Events that may wait for a slow client before the one who tells them waits too."""
KEPT_EVENTS: Final = 512
KEPT_BYTES: Final = 1024 * 1024
"""What is kept of a stream for a client that comes again."""

HEAD: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Stream:
    """One stream. With a number its events have ids, and it can be resumed by them."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number
        self.done = False
        self.opened = False
        self.answer: Message | None = None
        """What was all there was to say, if nothing came before it."""
        self._events: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._last = 0
        self._position = 0
        self._reader: object | None = None
        self._paused = False
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
        if self.done:
            return
        self._last += 1
        data = b"data: " + jsonrpc.encode(message) + b"\n\n"
        if self.number is not None:
            data = b"id: %d-%d\n%s" % (self.number, self._last, data)
        self._events.append((self._last, data))
        self._size += len(data)
        while len(self._events) > KEPT_EVENTS or (self._size > KEPT_BYTES and len(self._events) > 1):
            self._size -= len(self._events.popleft()[1])
        self.open()

    async def room(self) -> None:
        """Wait for a slow client. For one that has gone nobody waits: it may come again."""
        while self._reader is not None and self._last - self._position > BACKLOG and not self.done:
            self._taken.clear()
            await self._taken.wait()

    def finish(self, answer: Message | None = None) -> None:
        """Say the last thing."""
        if self.done:
            return
        if self.opened and answer is not None:
            self.push(answer)
        self.answer = answer
        self.done = True
        self._news.set()

    # ---- out ---------------------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Wait until it is known whether there is a stream at all."""
        while not (self.opened or self.done):
            await self._wait()

    def pause(self) -> None:
        """End the response that brings it out, or is about to, after what was said so far; the stream goes on."""
        self._paused = True
        self._news.set()

    def let_go(self) -> None:
        """End the response that brings it out at once: nobody reads it any more."""
        self._reader = None
        self._news.set()
        self._taken.set()

    async def pump(self, send: Send, after: int | None = None, *headers: tuple[bytes, bytes]) -> None:
        """Bring it out as a response: all of it, or what came after an event. The latest response takes over."""
        self.let_go()
        reader = self._reader = object()
        if after is not None:
            self._position = after
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*HEAD, *headers]})
            if self.number is not None and after is None:
                await self._write(send, b"id: %d-0\nretry: %d\ndata: \n\n" % (self.number, RETRY))
            else:
                await self._write(send, b":\n\n")
            while self._reader is reader:
                for position, data in [pair for pair in self._events if pair[0] > self._position]:
                    await self._write(send, data)
                    if self._reader is not reader:
                        break
                    self._position = position
                    self._taken.set()
                    if self.number is None:
                        self._size -= len(self._events.popleft()[1])
                if self._reader is not reader or self._paused or (self.done and self._position == self._last):
                    break
                if not await self._wait(KEEP_ALIVE):
                    await self._write(send, b":\n\n")
            await send({"type": "http.response.body", "body": b""})
        except OSError:
            pass  # the client has gone; what it has not got is kept
        finally:
            self._paused = False
            if self._reader is reader:
                self.let_go()

    async def _write(self, send: Send, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    async def _wait(self, seconds: float | None = None) -> bool:
        if self._position == self._last or self._reader is None:
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return False
        return True


def place_of(event_id: str) -> tuple[int, int] | None:
    """The stream and the position that an event id says; None if it is none of ours."""
    number, dash, position = event_id.partition("-")
    if dash and number.isascii() and number.isdigit() and position.isascii() and position.isdigit():
        return (int(number), int(position)) if len(event_id) < 40 else None
    return None
