"""The state of one server of a hub, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..catalog.tokens import estimate_tokens
from ..types import ConnectionState, ConnectionStatus, Prompt, Resource, ResourceTemplate, ServerInfo, Tool

_CONNECTED = frozenset({ConnectionState.CONNECTED, ConnectionState.DEGRADED})


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server of a hub at one moment.

    `tools` are all that the server lists, under their qualified names, hidden ones included: this is for the operator
    of the hub, `list_tools` for its callers. `last_error` is why the server does not work as it should; None if it
    does.
    """

    name: str
    config: Any
    status: ConnectionStatus
    server_info: ServerInfo | None = None
    tools: tuple[Tool, ...] = field(default=(), repr=False)
    resources: tuple[Resource, ...] = field(default=(), repr=False)
    resource_templates: tuple[ResourceTemplate, ...] = field(default=(), repr=False)
    prompts: tuple[Prompt, ...] = field(default=(), repr=False)
    last_error: Exception | None = None
    display_name: str = ""
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
