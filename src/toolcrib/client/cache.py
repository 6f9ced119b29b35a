"""What a server listed, kept while it is fresh. One cache belongs to one client and is shared with nobody."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

from ..defaults import CACHE_TTL_SECONDS
from ..protocol.cache_hints import CacheHint

TTL: Final = CACHE_TTL_SECONDS
"""Seconds that a list is kept if the client decides; a positive hint of the server beats it."""


class Use(enum.Enum):
    """Whose word on freshness counts."""

    NEVER = "never"
    """Do not use the cache: ask the server."""
    HINTED = "hinted"
    """Only the server's hint."""
    ALWAYS = "always"
    """The server's hint if it is above 0, else `TTL`: the user asked for caching."""


@dataclass(frozen=True, slots=True)
class _Entry:
    items: tuple[Any, ...]
    stored: float
    hint: CacheHint


class ListCache:
    """Lists by key `mcp:{server_identifier}:{resource_type}`. Knows no clock: the time is given, and is monotonic."""

    def __init__(self, server_identifier: str) -> None:
        self._server_identifier = server_identifier
        self._entries: dict[str, _Entry] = {}

    def key(self, resource_type: str) -> str:
        """The key of a list."""
        return f"mcp:{self._server_identifier}:{resource_type}"

    def put(self, resource_type: str, items: tuple[Any, ...], hint: CacheHint, now: float) -> None:
        """Keep a list."""
        self._entries[self.key(resource_type)] = _Entry(items, now, hint)

    def get(self, resource_type: str, now: float, use: Use) -> tuple[Any, ...] | None:
        """The list while it is fresh."""
        entry = self._entries.get(self.key(resource_type))
        if entry is None or use is Use.NEVER:
            return None
        ttl = entry.hint.ttl
        if use is Use.ALWAYS:
            ttl = ttl or TTL
        return entry.items if ttl is not None and now < entry.stored + ttl else None

    def drop(self, *resource_types: str) -> None:
        """Forget these lists, or all."""
        if not resource_types:
            self._entries.clear()
        for resource_type in resource_types:
            self._entries.pop(self.key(resource_type), None)
