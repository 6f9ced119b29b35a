"""The description of a server, the status of its connection, and the policy for reconnecting."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from .wire import Wire


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server's description of itself, for display. Do not base decisions on it: it is not verified."""

    name: str = ""
    version: str = ""
    title: str | None = None
    protocol_version: str = ""
    capabilities: Wire = field(default_factory=dict, hash=False)
    instructions: str | None = None


class ConnectionState(enum.StrEnum):
    """The state of a connection, of a hub's server, or of a source."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DEGRADED = "degraded"
    FAILED = "failed"
    NEEDS_AUTH = "needs-auth"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionStatus:
    """A state, its reason, and the time since when it holds, in seconds since the epoch, for display.

    A status equals its state: `status == ConnectionState.CONNECTED`, `status == "connected"`. Two statuses are equal if
    their states, reasons and times are.
    """

    state: ConnectionState
    reason: str = ""
    since: float = 0.0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ConnectionStatus):
            return (self.state, self.reason, self.since) == (other.state, other.reason, other.since)
        return self.state == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.state)  # the hash of the `ConnectionState` and the string that this can be equal to

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else str(self.state)


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """The delays between attempts to reconnect: `base_delay`, doubled up to `max_delay`, plus or minus `jitter_factor`.

    After `max_retries` consecutive failures, the next request connects. With None, the client keeps trying until it is
    disconnected or closed, also if the first connection fails; only if the server rejects the credentials, the next
    request connects.
    """

    base_delay: float = 1.0
    max_delay: float = 30.0
    max_retries: int | None = 3
    jitter_factor: float = 0.3


@dataclass(frozen=True, slots=True)
class FilterContext:
    """The context of a caller that a dynamic tool filter gets."""

    agent: Any = None
    server_name: str | None = None
    run_context: Any = None
