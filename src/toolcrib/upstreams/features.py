"""The requests that the clients of one connection to an upstream can answer."""

from __future__ import annotations

from typing import NamedTuple


class Features(NamedTuple):
    """The requests that a client can answer; exactly these are declared to the upstream."""

    elicitation: tuple[str, ...] = ()
    """The supported modes of elicitation; empty if it is not supported."""
    sampling: bool = False
    roots: bool = False
