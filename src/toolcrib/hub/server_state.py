"""The state of one server of a hub, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..catalog.tokens import estimate_tokens
from ..types import ConnectionState, ConnectionStatus, Prompt, Resource, ResourceTemplate, ServerInfo, Tool

_CONNECTED = frozenset({ConnectionState.CONNECTED, ConnectionState.DEGRADED})


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server of a hub at one moment, for the operator of the hub.

    `tools` and the other lists include what the rules of the hub hide from callers; callers use `list_tools`.
    """

    name: str
    """The name of the server in the hub and in qualified names."""
    config: Any
    """The config of the server, or another object that the hub was given for it."""
    status: ConnectionStatus
    """The state of the connection, why, and since when."""
    server_info: ServerInfo | None = None
    """Name, version, capabilities and instructions of the server; None before the first connection."""
    tools: tuple[Tool, ...] = field(default=(), repr=False)
    """All tools that the server lists, under their qualified names, hidden ones included."""
    resources: tuple[Resource, ...] = field(default=(), repr=False)
    """All resources that the server lists."""
    resource_templates: tuple[ResourceTemplate, ...] = field(default=(), repr=False)
    """All resource templates that the server lists."""
    prompts: tuple[Prompt, ...] = field(default=(), repr=False)
    """All prompts that the server lists."""
    last_error: Exception | None = None
    """Why the server does not work as it should; None if it does."""
    display_name: str = ""
    """The name as it was given, before it was made fit for qualified names."""
    startup_seconds: float | None = None
    """A duration in seconds, not a point in time: from the start of the first connection (without the wait for its turn
    to start) until the tools were listed; None before."""

    @property
    def since(self) -> float:
        """Since when the status is in force, in seconds of the epoch."""
        return self.status.since

    @property
    def connected(self) -> bool:
        """Whether there is a live connection."""
        return self.status.state in _CONNECTED

    @property
    def tokens(self) -> int:
        """About how many tokens of a model's context all of its tools take."""
        return sum(map(estimate_tokens, self.tools))
