"""The status of one server of a hub: what its client reports, plus what only the hub knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ..errors import ConnectionLost, ToolcribError
from ..protocol.sanitize import one_line
from ..types import ConnectionState, ConnectionStatus

MAX_REASON: Final = 2_000
"""Characters of an error that a status or a log line shows."""
WAITING: Final = "waiting for its turn to start"
"""Reason in the status of a server that `max_parallel_starts` delays."""

TOOLS: Final = "tools"
"""The one list without which a server is of no use."""


class StartPhase(Enum):
    """How far the start of a server is."""

    NOT_REQUESTED = "not requested"
    RUNNING = "running"
    WAITING = "waiting"
    """For a slot of the start queue; also when it reconnects."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """The facts from which the status of a server is derived."""

    connection: ConnectionStatus
    """As the client reports it."""
    phase: StartPhase
    listed: bool
    """Whether the tools were listed at least once."""
    connect_error: ToolcribError | None = None
    """Why the last attempt to connect failed; None if it did not."""
    list_errors: Mapping[str, ToolcribError] = field(default_factory=dict)
    """Why the last attempt to fetch a list failed, by the name of the list."""
    transient: bool = False
    """Whether it is connected for each call only."""
    idle: bool = False
    """Whether it was disconnected because no call used it."""


def derive_status(facts: StatusFacts) -> ConnectionStatus:
    """Return the status that a hub shows for a server."""
    state, reason = _derive(facts)
    return ConnectionStatus(state, reason, facts.connection.since)


def _derive(facts: StatusFacts) -> tuple[ConnectionState, str]:
    connection, errors = facts.connection, facts.list_errors
    match connection.state, facts.phase:
        case ConnectionState.CONNECTED, _:
            if (error := errors.get(TOOLS)) is not None:
                return ConnectionState.DEGRADED, f"its tools could not be listed: {show_error(error)}"
            if not facts.listed:
                return ConnectionState.CONNECTING, "its tools are being listed"
            if (name := _first_list(errors)) is not None:
                return ConnectionState.DEGRADED, describe_error(name, errors[name])
        case _, StartPhase.WAITING:
            return ConnectionState.CONNECTING, WAITING
        case ConnectionState.DISCONNECTED, phase if not connection.reason:
            if phase is StartPhase.NOT_REQUESTED:
                return ConnectionState.DISCONNECTED, "not started yet"
            if phase is StartPhase.RUNNING:
                return ConnectionState.CONNECTING, "being started"
            if facts.transient and (error := errors.get(TOOLS)) is not None:
                return ConnectionState.FAILED, show_error(error)
            if facts.transient:
                return ConnectionState.DISCONNECTED, "transient: connected for each call"
            return ConnectionState.DISCONNECTED, "idle" if facts.idle else ""
    return connection.state, one_line(connection.reason, MAX_REASON)


def find_last_error(facts: StatusFacts, server: str) -> ToolcribError | None:
    """Return why a server does not work as it should; None if it does."""
    errors, connection = facts.list_errors, facts.connection
    if error := facts.connect_error or errors.get(TOOLS):
        return error
    if connection.state not in (ConnectionState.CONNECTED, ConnectionState.DISABLED) and connection.reason:
        return ConnectionLost(one_line(connection.reason, MAX_REASON), server=server)
    name = _first_list(errors)
    return None if name is None else errors[name]


def _first_list(errors: Mapping[str, ToolcribError]) -> str | None:
    """Return the same one each time if several lists are missing."""
    return min((name for name in errors if name != TOOLS), default=None)


def describe_error(name: str, error: ToolcribError) -> str:
    """Return why a list could not be fetched, for a log line or a status."""
    return f"its {name.replace('_', ' ')} could not be listed: {show_error(error)}"


def show_error(error: ToolcribError) -> str:
    """Return the message of an error in one printable line: a server may have written part of it."""
    return one_line(error.message, MAX_REASON)
