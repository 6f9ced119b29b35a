"""Splits a byte stream into lines, in linear time for any chunk sizes, with a limit on the length of a line."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Final

from .limits import MAX_MESSAGE

HEAD: Final = 1024


@dataclass(frozen=True, slots=True)
class Oversized:
    """The beginning of a line that exceeded the limit; the rest of the line is skipped."""

    head: bytes


class LineFramer:
    """Splits a byte stream into lines.

    CRLF is accepted; blank lines, and a byte order mark at the beginning of the stream, are dropped.
    """

    __slots__ = ("_beginning", "_buffer", "_limit", "_skipping")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._beginning = True
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the lines that these bytes complete, and an `Oversized` as soon as a line exceeds the limit."""
        if self._beginning and (data := self._without_mark(data)) == b"":
            return []
        *complete, tail = data.split(b"\n")
        lines: list[bytes | Oversized] = []
        if complete and not self._buffer and not self._skipping and len(data) <= self._limit and b"\r" not in data:
            lines += filter(None, complete)
            complete = []
        for piece in complete:
            if self._buffer or self._skipping:
                self._keep(piece, lines)
                piece = bytes(self._buffer)
                self._buffer.clear()
                self._skipping = False
            if len(piece) > self._limit:
                lines.append(Oversized(piece[:HEAD]))
            elif piece := piece.rstrip(b"\r"):
                lines.append(piece)
        if tail:
            self._keep(tail, lines)
        return lines

    def _without_mark(self, data: bytes) -> bytes:
        """Return the bytes without a byte order mark; none while they may still be the beginning of one."""
        data = bytes(self._buffer) + data
        self._buffer.clear()
        if len(data) < len(BOM_UTF8) and BOM_UTF8.startswith(data):
            self._buffer += data
            return b""
        self._beginning = False
        return data.removeprefix(BOM_UTF8)

    def _keep(self, piece: bytes, lines: list[bytes | Oversized]) -> None:
        if self._skipping:
            return
        self._buffer += piece
        if len(self._buffer) > self._limit:
            lines.append(Oversized(bytes(self._buffer[:HEAD])))
            self._buffer.clear()
            self._skipping = True
