"""Somebody else's text, made fit for our errors, logs and terminals."""

from __future__ import annotations

from .limits import SAMPLE


def printable(text: str | bytes, limit: int = SAMPLE) -> str:
    """The beginning of `text`: newlines and tabs stay, other control, bidi and zero-width characters do not."""
    head = text[:limit].decode("utf-8", "replace") if isinstance(text, bytes) else text[:limit]
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in head)


def one_line(text: str | bytes, limit: int = SAMPLE) -> str:
    """The same on one line."""
    return " ".join(printable(text, limit).split())
