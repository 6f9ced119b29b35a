"""Compressed bodies, opened piece by piece: what a bomb holds is never held."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from ..errors import ProtocolError

ACCEPTED: Final = "gzip, deflate"

PIECE: Final = 256 * 1024
"""Bytes that come out at once."""


class Decompressor:
    """Opens one body of the given `Content-Encoding`; `identity` goes through as it is."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ProtocolError(f"the answer is encoded as {self._encoding[:40]!r}; we asked for {ACCEPTED}")
        self._plain = self._encoding in ("", "identity")
        self._engine: zlib._Decompress | None = None
        self._opened = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes open to, in pieces."""
        if self._plain:
            yield data
            return
        try:
            piece = b""
            # A full piece may not have been all: what came in may be used up, and the engine still hold some.
            while data or (self._engine is not None and len(piece) == PIECE):
                if self._engine is None:
                    # A gzip body may have several members, one after the other, with zeros between and behind them.
                    data = data.lstrip(b"\0") if self._opened else data
                    if not data:
                        break
                    self._engine, self._opened = zlib.decompressobj(self._window(data)), True
                if piece := self._engine.decompress(data, PIECE):
                    yield piece
                data = self._engine.unconsumed_tail
                if self._engine.eof:
                    data, self._engine = self._engine.unused_data, None
        except zlib.error as exc:
            raise ProtocolError(f"the answer is no {self._encoding}: {exc}") from None

    def _window(self, data: bytes) -> int:
        if self._encoding != "deflate":
            return 16 + zlib.MAX_WBITS
        # Half of the world sends raw deflate, the other half puts it into a zlib wrapper as the standard says.
        return zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS
