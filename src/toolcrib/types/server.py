"""The server, the state of its connection, and how it is kept."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from .wire import Wire


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Who answers at the other end, as it says itself. For people to read, not to decide by."""

    name: str = ""
    version: str = ""
    title: str | None = None
    protocol_version: str = ""
    capabilities: Wire = field(default_factory=dict, hash=False)
    instructions: str | None = None


class ConnectionState(enum.StrEnum):
    """The one vocabulary for the state of a connection, a hub's server and a source."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DEGRADED = "degraded"
    FAILED = "failed"
    NEEDS_AUTH = "needs-auth"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionStatus:
    """A state, why, and since when (seconds of the epoch, for people; no deadline is measured by it).

    Equal to its state: `status == State.CONNECTED`, `status == "connected"`, `status in (State.FAILED, ...)`. Two
    statuses are equal if state, reason and time are.
    """

    state: ConnectionState
    reason: str = ""
    since: float = 0.0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ConnectionStatus):
            return (self.state, self.reason, self.since) == (other.state, other.reason, other.since)
        return self.state == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.state)  # that of the `ConnectionState` and of the text, which can be equal to this

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else str(self.state)


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """How a lost connection is made again: `base_delay`, doubled up to `max_delay`, give or take `jitter_factor`.

    After `max_retries` failed attempts in a row the next request connects. None keeps trying until the client is
    disconnected or closed, also if the first connection fails; only a server that rejects the credentials waits for
    the next request.
    """

    base_delay: float = 1.0
    max_delay: float = 30.0
    max_retries: int | None = 3
    jitter_factor: float = 0.3


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What a dynamic tool filter sees of the one who asks."""

    agent: Any = None
    server_name: str | None = None
    run_context: Any = None
