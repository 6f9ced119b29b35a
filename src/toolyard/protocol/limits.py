"""How much we take from a peer before we say no."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message."""

MAX_DEPTH: Final = 128
"""Containers inside of containers in one message."""

MAX_PAGES: Final = 100
"""Pages of one list. Cursors are not judged by their value, so an endless list ends here."""

MAX_ITEMS: Final = 5_000
"""Entries of one list."""

MAX_ROUNDS: Final = 10
"""Times that a server may ask for more input before it answers one request."""

MAX_GARBAGE: Final = 1_000
"""Lines in a row that are no messages, after which the peer is taken for broken."""

MAX_INBOUND: Final = 256
"""Requests of the server that we work on at the same time."""

SAMPLE: Final = 200
"""Characters of somebody else's text that an error or a log line shows."""
