"""The status of a connection: the table of its states, and the count of requests without an answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from ..protocol.sanitize import one_line
from ..types import ConnectionState, ConnectionStatus

TRANSITIONS: Final[dict[ConnectionState, frozenset[ConnectionState]]] = {
    ConnectionState.DISCONNECTED: frozenset({ConnectionState.CONNECTING}),
    ConnectionState.CONNECTING: frozenset(
        {ConnectionState.CONNECTED, ConnectionState.FAILED, ConnectionState.NEEDS_AUTH, ConnectionState.DISCONNECTED}
    ),
    ConnectionState.CONNECTED: frozenset(
        {ConnectionState.DEGRADED, ConnectionState.NEEDS_AUTH, ConnectionState.CONNECTING, ConnectionState.DISCONNECTED}
    ),
    ConnectionState.DEGRADED: frozenset(
        {
            ConnectionState.CONNECTED,
            ConnectionState.NEEDS_AUTH,
            ConnectionState.CONNECTING,
            ConnectionState.DISCONNECTED,
        }
    ),
    ConnectionState.FAILED: frozenset({ConnectionState.CONNECTING, ConnectionState.DISCONNECTED}),
    ConnectionState.NEEDS_AUTH: frozenset(
        {ConnectionState.CONNECTED, ConnectionState.DEGRADED, ConnectionState.CONNECTING, ConnectionState.DISCONNECTED}
    ),
    ConnectionState.DISABLED: frozenset(),
}
"""The states that can follow each state. `DISABLED` is only for servers of a hub, without a connection."""

MAX_REASON: Final = 2_000
"""Maximum length of a status's reason, which may quote the server."""

STALLED_AFTER: Final = 3
"""Unanswered calls in a row, with no message in between, after which the server is pinged."""


def _now(state: ConnectionState, reason: str = "") -> ConnectionStatus:
    return ConnectionStatus(state, reason, time.time())


@dataclass(slots=True)
class StatusTracker:
    """Holds the status, which changes only as the table allows."""

    status: ConnectionStatus = field(default_factory=lambda: _now(ConnectionState.DISCONNECTED))

    def become(self, state: ConnectionState, reason: str = "") -> None:
        """Change to another state, or the reason of this one."""
        before = self.status.state
        if before is not state and state not in TRANSITIONS[before]:
            raise AssertionError(f"{before} cannot become {state}")
        self.status = _now(state, one_line(reason, MAX_REASON))


@dataclass(slots=True)
class Silence:
    """Counts the deadlines that passed since the server last sent a message."""

    times: int = 0
    received: int = -1

    def note(self, received: int) -> int:
        """Count another one and return how many there are in a row; `received` is the number of messages so far."""
        self.times = self.times + 1 if received == self.received else 1
        self.received = received
        return self.times
