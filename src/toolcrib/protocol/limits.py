"""Limits on what a peer may send or cause."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message."""

MAX_DEPTH: Final = 128
"""Levels of nested containers in one message."""

MAX_DIGITS: Final = 4_300
"""Digits of one integer: Python's own limit, because the time to parse one is quadratic."""

MAX_PAGES: Final = 100
"""Pages of one list. Cursors are opaque, so only this limit ends an endless list."""

MAX_ITEMS: Final = 5_000
"""Entries of one list."""

MAX_ROUNDS: Final = 10
"""Times that a server may ask for more input before it answers one request."""

MAX_MALFORMED: Final = 1_000
"""Consecutive lines that are not messages, after which the peer is considered broken."""

MAX_INBOUND: Final = 256
"""Requests of the server that are handled at the same time."""

MAX_ID: Final = 16_384
"""Characters of the id of a server's request."""

MAX_INBOUND_BYTES: Final = 2 * MAX_MESSAGE
"""Bytes of the server's requests that are handled at the same time."""

MAX_QUEUED: Final = 4_096
"""Replies and notifications that wait to be sent to the server. Beyond it the connection is dropped."""

MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
"""Bytes of small queued replies, which a server can cause at will."""

SMALL_REPLY: Final = 64 * 1024
"""Bytes up to which a reply is small. Larger replies carry content that a handler of the client has produced."""

MAX_QUEUED_LARGE_BYTES: Final = 8 * MAX_MESSAGE
"""Bytes of large queued replies."""

MAX_POSTS: Final = 16
"""Replies and notifications that are posted over HTTP at the same time; further ones wait."""

MAX_LINGERING: Final = 16
"""Event streams that are read to their end after their response; further ones are closed immediately."""

MAX_ERROR_TEXT: Final = 4_000
"""Characters of the message of an error response."""

SAMPLE: Final = 200
"""Characters of a peer's text that an error or a log line shows."""
