"""Somebody else's text, made fit for our errors, logs and terminals."""

from __future__ import annotations

from typing import Any, Final, Protocol

from .limits import SAMPLE

WINDOW: Final = 64 * 1024
"""Characters or bytes of a text that are masked before it is cut. The limits of what is shown are below that."""


class Mask(Protocol):
    """Hides the secrets that one connection knows of."""

    def mask(self, text: str, *, cut: bool = False) -> str:
        """Return `text` without secrets; `cut`: its end is missing, so the beginning of a secret there is one too."""
        ...

    def mask_data(self, value: Any) -> Any:
        """Return a JSON value without secrets in its strings."""
        ...


def printable(text: str | bytes, limit: int = SAMPLE, mask: Mask | None = None, *, cut: bool = False) -> str:
    """Return the beginning of `text`: newlines and tabs stay, other control, bidi and zero-width characters do not.

    With a mask it is masked before it is cut to `limit`, so that no part of a secret is left; `cut` says that the end
    of `text` itself is missing.
    """
    if mask is not None:
        cut = cut or len(text) > WINDOW
        head = text[:WINDOW]
        if isinstance(head, bytes):
            head = head.decode("utf-8", "replace")
            if cut:
                head = head.rstrip("\N{REPLACEMENT CHARACTER}")  # the last character may have been cut too
        text = mask.mask(head, cut=cut)
    head = text[:limit].decode("utf-8", "replace") if isinstance(text, bytes) else text[:limit]
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in head)


def one_line(text: str | bytes, limit: int = SAMPLE, mask: Mask | None = None, *, cut: bool = False) -> str:
    """Return the same on one line."""
    return " ".join(printable(text, limit, mask, cut=cut).split())
