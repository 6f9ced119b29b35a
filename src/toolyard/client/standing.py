"""How a connection stands: its states as a table, and when a silence means that the server does not live any more."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from ..protocol.text import one_line
from ..types import State, Status

TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.DISCONNECTED: frozenset({State.CONNECTING, State.DISABLED}),
    State.CONNECTING: frozenset({State.CONNECTED, State.FAILED, State.NEEDS_AUTH, State.DISCONNECTED}),
    State.CONNECTED: frozenset({State.DEGRADED, State.NEEDS_AUTH, State.CONNECTING, State.DISCONNECTED}),
    State.DEGRADED: frozenset({State.CONNECTED, State.NEEDS_AUTH, State.CONNECTING, State.DISCONNECTED}),
    State.FAILED: frozenset({State.CONNECTING, State.DISCONNECTED}),
    State.NEEDS_AUTH: frozenset({State.CONNECTED, State.DEGRADED, State.CONNECTING, State.DISCONNECTED}),
    State.DISABLED: frozenset({State.DISCONNECTED}),
}
"""From each state, those that can follow."""

MAX_REASON: Final = 2_000
"""Characters of a status's reason, which may quote the server."""

STALLED_AFTER: Final = 3
"""Unanswered calls in a row, with no message in between, after which the server is asked whether it lives."""


def _now(state: State, reason: str = "") -> Status:
    return Status(state, reason, time.time())


@dataclass(slots=True)
class Standing:
    """The status; it changes only as the table allows."""

    status: Status = field(default_factory=lambda: _now(State.DISCONNECTED))

    def become(self, state: State, reason: str = "") -> None:
        """Change to another state, or the reason of this one."""
        before = self.status.state
        if before is not state and state not in TRANSITIONS[before]:
            raise AssertionError(f"{before} cannot become {state}")
        self.status = _now(state, one_line(reason, MAX_REASON))


@dataclass(slots=True)
class Silence:
    """Counts the deadlines that passed since the server last said anything."""

    times: int = 0
    received: int = -1

    def note(self, received: int) -> int:
        """Another one passed; `received` is how many messages there have been. How many in a row it is now."""
        self.times = self.times + 1 if received == self.received else 1
        self.received = received
        return self.times
