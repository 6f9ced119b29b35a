"""Tools for text: plain functions, called in the process of the caller."""

from __future__ import annotations

import re
from collections import Counter

import toolcrib as tc

server = tc.ToolServer("words", version="1.0.0")


@server.tool
def count(text: str) -> dict[str, int]:
    """Count the words, sentences and characters of a text."""
    return {
        "words": len(text.split()),
        "sentences": len(re.findall(r"[.!?]+", text)),
        "characters": len(text),
    }


@server.tool
def most_common(text: str, limit: int = 3) -> list[str]:
    """Return the most frequent words of a text."""
    return [word for word, _ in Counter(re.findall(r"\w+", text.lower())).most_common(limit)]
