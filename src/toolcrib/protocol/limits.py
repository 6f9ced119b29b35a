"""How much we take from a peer before we say no."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message."""

MAX_DEPTH: Final = 128
"""Containers inside of containers in one message."""

MAX_DIGITS: Final = 4_300
"""Digits of one integer: Python's own limit, because the time to read one grows with the square of its digits."""

MAX_PAGES: Final = 100
"""Pages of one list. Cursors are not judged by their value, so an endless list ends here."""

MAX_ITEMS: Final = 5_000
"""Entries of one list."""

MAX_ROUNDS: Final = 10
"""Times that a server may ask for more input before it answers one request."""

MAX_MALFORMED: Final = 1_000
"""Lines in a row that are no messages, after which the peer is taken for broken."""

MAX_INBOUND: Final = 256
"""Requests of the server that we work on at the same time."""

MAX_ID: Final = 16_384
"""Characters of the id of a server's request."""

MAX_INBOUND_BYTES: Final = 2 * MAX_MESSAGE
"""Bytes of the server's requests that we work on at the same time."""

MAX_QUEUED: Final = 4_096
"""Replies and notifications that wait to be sent to the server. Beyond it the connection is dropped."""

MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the small ones among them, which a server can cause at will."""

SMALL_REPLY: Final = 64 * 1024
"""Bytes up to which a reply is small. Larger ones carry content that a handler of ours has made."""

MAX_QUEUED_LARGE_BYTES: Final = 8 * MAX_MESSAGE
"""Bytes of the larger ones."""

MAX_POSTS: Final = 16
"""Replies and notifications that are posted over HTTP at the same time; the others wait for their turn."""

MAX_LINGERING: Final = 16
"""Event streams that are read to their end after their answer came; the others are closed at once."""

MAX_ERROR_TEXT: Final = 4_000
"""Characters of the message of an error response."""

SAMPLE: Final = 200
"""Characters of somebody else's text that an error or a log line shows."""
