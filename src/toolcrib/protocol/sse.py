"""Parses `text/event-stream` into events, in linear time for any chunk sizes, with a limit on the size of an event."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Final, NamedTuple

from .framing import HEAD, Oversized
from .limits import MAX_MESSAGE

# Bytes of a line with a name, an id or a time. Only data may be longer.
MAX_FIELD: Final = 64 * 1024
# More digits than this are not a reasonable time, and int() rejects very long ones.
RETRY_DIGITS: Final = 18

_LONGEST_NAME: Final = len(b"event:")
_SHORT_FIELDS: Final = (b"event:", b"id:", b"retry:")


class SseEvent(NamedTuple):
    event: str
    """The event's type, `message` if the block names none."""
    data: str
    id: str | None
    """The id in this block, None if it has none; an empty id resets the last one."""
    retry: int | None
    """The reconnection time in this block in milliseconds, None if it has none."""


class SseParser:
    """Splits a byte stream into events by the rules of the HTML standard.

    Unlike there, a block without data but with an id or a retry is an event too: servers use such blocks to prepare a
    stream for resumption.
    """

    __slots__ = (
        *("_limit", "_opening", "_after_cr"),
        *("_line", "_ignoring", "_passing"),
        *("_data", "_event", "_id", "_retry"),
    )

    _data: bytes | bytearray | None
    _event: str
    _id: str | None
    _retry: int | None

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._opening: bytes | None = b""  # the stream's first bytes, while they may still become a byte order mark
        self._after_cr = False
        self._line = bytearray()  # the beginning of an incomplete line
        self._ignoring = False  # whether the rest of an incomplete line is skipped
        self._passing = False  # whether the block exceeded a limit and is skipped up to its blank line
        self._forget()

    def feed(self, data: bytes) -> list[SseEvent | Oversized]:
        """Return the events that these bytes complete, and an `Oversized` as soon as an event exceeds the limit."""
        if self._opening is not None:
            data = self._after_byte_order_mark(self._opening + data)
        if self._after_cr and data:
            # A CR at the end of a chunk has already ended its line: a following LF belongs to it.
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if not data:
            return []
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, tail = data.split(b"\n")
        events: list[SseEvent | Oversized] = []
        if lines:
            if self._ignoring:
                self._ignoring = False
                del lines[0]
            elif self._line:
                self._line += lines[0]
                lines[0] = bytes(self._line)
                self._line.clear()
        for line in lines:
            if not line:
                self._end(events)
            elif not self._passing:
                self._take(line, events)
        if tail and not self._ignoring:
            self._keep(tail, events)
        return events

    def _after_byte_order_mark(self, data: bytes) -> bytes:
        if len(data) < len(BOM_UTF8) and BOM_UTF8.startswith(data):
            self._opening = data
            return b""
        self._opening = None
        return data.removeprefix(BOM_UTF8)

    def _take(self, line: bytes, events: list[SseEvent | Oversized]) -> None:
        """Process a complete line that is not blank."""
        if line.startswith(b"data:"):
            self._add(line[6:] if line.startswith(b" ", 5) else line[5:], events)
        elif len(line) > MAX_FIELD:
            if line.startswith(_SHORT_FIELDS):
                self._pass_over(line[:HEAD], events)
        else:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                self._event = value.decode("utf-8", "replace")
            elif name == b"id":
                if b"\0" not in value:
                    self._id = value.decode("utf-8", "replace")
            elif name == b"retry":
                if value.isdigit() and len(value) <= RETRY_DIGITS:
                    self._retry = int(value)
            elif name == b"data":
                self._add(value, events)

    def _add(self, value: bytes, events: list[SseEvent | Oversized]) -> None:
        """Add a line of data. Only a second line makes a copy."""
        held: bytes | bytearray = value
        if self._data is not None:
            held = bytearray(self._data) if isinstance(self._data, bytes) else self._data
            held += b"\n"
            held += value
        if len(held) > self._limit:
            self._pass_over(held[: min(HEAD, self._limit + 1)], events)
        else:
            self._data = held

    def _keep(self, tail: bytes, events: list[SseEvent | Oversized]) -> None:
        """Keep a part of an incomplete line; limits are checked as soon as the field's name is known."""
        if self._passing:
            self._ignoring = True
            return
        line = self._line
        line += tail
        if len(line) < _LONGEST_NAME:
            return
        if line.startswith(b"data:"):
            start = 6 if line.startswith(b" ", 5) else 5
            held = 0 if self._data is None else len(self._data) + 1
            if held + len(line) - start <= self._limit:
                return
            self._add(bytes(line[start:]), events)
        elif line.startswith(_SHORT_FIELDS):
            if len(line) <= MAX_FIELD:
                return
            self._pass_over(line[:HEAD], events)
        line.clear()
        self._ignoring = True

    def _pass_over(self, head: bytes | bytearray, events: list[SseEvent | Oversized]) -> None:
        events.append(Oversized(bytes(head)))
        self._passing = True
        self._forget()

    def _end(self, events: list[SseEvent | Oversized]) -> None:
        """Add the event of a block that a blank line has completed."""
        data = self._data
        if data is not None or self._id is not None or self._retry is not None:
            text = "" if data is None else data.decode("utf-8", "replace")
            events.append(SseEvent(self._event or "message", text, self._id, self._retry))
        self._passing = False
        self._forget()

    def _forget(self) -> None:
        self._data = None
        self._event = ""
        self._id = None
        self._retry = None
