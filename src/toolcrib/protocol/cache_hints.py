"""Cache hints: how long a server lets us keep an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..types import Wire


@dataclass(frozen=True, slots=True)
class CacheHint:
    """`ttl` in seconds; None if the server said nothing. Without a word about it an answer is private."""

    ttl: float | None = None
    scope: Literal["public", "private"] = "private"

    def joined(self, other: CacheHint) -> CacheHint:
        """The hint for two pages together: the shorter life, the narrower scope."""
        known = [ttl for ttl in (self.ttl, other.ttl) if ttl is not None]
        both_public = self.scope == other.scope == "public"
        return CacheHint(min(known) if known else None, "public" if both_public else "private")


def cache_hint(answer: Wire) -> CacheHint:
    """The hint on one answer; a negative life is none at all, and what is not a number was never said."""
    ttl = answer.get("ttlMs")
    seconds = max(0.0, ttl / 1000) if isinstance(ttl, int | float) and not isinstance(ttl, bool) else None
    return CacheHint(seconds, "public" if answer.get("cacheScope") == "public" else "private")
