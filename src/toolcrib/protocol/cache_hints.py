"""Cache hints: how long a client may keep a server's response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..types import Wire


@dataclass(frozen=True, slots=True)
class CacheHint:
    """A response's lifetime `ttl` in seconds, None if the server states none, and its scope, by default private."""

    ttl: float | None = None
    scope: Literal["public", "private"] = "private"

    def joined(self, other: CacheHint) -> CacheHint:
        """Return the hint for two pages together: the shorter lifetime, the narrower scope."""
        known = [ttl for ttl in (self.ttl, other.ttl) if ttl is not None]
        both_public = self.scope == other.scope == "public"
        return CacheHint(min(known) if known else None, "public" if both_public else "private")


def cache_hint(answer: Wire) -> CacheHint:
    """Return the hint of a response; a negative lifetime counts as 0, one that is not a number as missing."""
    ttl = answer.get("ttlMs")
    seconds = max(0.0, ttl / 1000) if isinstance(ttl, int | float) and not isinstance(ttl, bool) else None
    return CacheHint(seconds, "public" if answer.get("cacheScope") == "public" else "private")
