"""Sanitizes texts from peers for errors, logs and terminals."""

from __future__ import annotations

from typing import Any, Final, Protocol

from .limits import SAMPLE

MAX_MASKED: Final = 64 * 1024
"""Characters or bytes of a text that are masked before it is cut; more than any limit of what is shown."""


class Mask(Protocol):
    """An object that masks the secrets of one connection."""

    def mask(self, text: str, *, cut: bool = False) -> str:
        """Return `text` with secrets masked; if its end is `cut` off, also the beginning of a secret there."""
        ...

    def mask_data(self, value: Any) -> Any:
        """Return a JSON value with the secrets in its strings masked."""
        ...


def printable(text: str | bytes, limit: int = SAMPLE, mask: Mask | None = None, *, cut: bool = False) -> str:
    """Return the beginning of `text` with control, bidi and zero-width characters replaced; newlines and tabs stay.

    With a mask, the text is masked before it is cut to `limit`, so that no part of a secret is left; `cut` is True if
    the end of `text` itself is missing.
    """
    if mask is not None:
        cut = cut or len(text) > MAX_MASKED
        head = text[:MAX_MASKED]
        if isinstance(head, bytes):
            head = head.decode("utf-8", "replace")
            if cut:
                head = head.rstrip("\N{REPLACEMENT CHARACTER}")  # the last character may have been cut too
        text = mask.mask(head, cut=cut)
    head = text[:limit].decode("utf-8", "replace") if isinstance(text, bytes) else text[:limit]
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in head)


def one_line(text: str | bytes, limit: int = SAMPLE, mask: Mask | None = None, *, cut: bool = False) -> str:
    """Return the beginning of `text` on one line, sanitized as by `printable`."""
    return " ".join(printable(text, limit, mask, cut=cut).split())
