"""Decompresses bodies piece by piece, so that a decompression bomb never takes much memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from ..errors import ProtocolError

ACCEPTED: Final = "gzip, deflate"

PIECE: Final = 256 * 1024
"""The most bytes that are decompressed at once."""


class Decompressor:
    """Decompresses one body of the given `Content-Encoding`; `identity` is passed through."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ProtocolError(f"unsupported Content-Encoding {self._encoding[:40]!r}: expected {ACCEPTED}")
        self._plain = self._encoding in ("", "identity")
        self._engine: zlib._Decompress | None = None
        self._opened = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed data of these bytes in pieces."""
        if self._plain:
            yield data
            return
        try:
            piece = b""
            # After a full piece, zlib may hold more output even if all input is consumed.
            while data or (self._engine is not None and len(piece) == PIECE):
                if self._engine is None:
                    # A gzip body may have several members in sequence, with zeros between and after them.
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
            raise ProtocolError(f"the response is not valid {self._encoding}: {exc}") from None

    def _window(self, data: bytes) -> int:
        if self._encoding != "deflate":
            return 16 + zlib.MAX_WBITS
        # Some servers send raw deflate, others wrap it in zlib as the standard requires.
        return zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS
