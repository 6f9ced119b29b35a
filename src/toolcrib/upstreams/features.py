"""What the clients of one connection to an upstream can be asked."""

from __future__ import annotations

from typing import NamedTuple


class Features(NamedTuple):
    """What a client can be asked; no more than that is declared to the upstream."""

    elicitation: tuple[str, ...] = ()
    """The modes of elicitation; none: it cannot be asked."""
    sampling: bool = False
    roots: bool = False
