"""`toolcrib servers`."""

from __future__ import annotations

from typing import Any, Final, Unpack

from ...hub.server_state import ServerState
from ...types import ConnectionState
from ..console import Column, Styled, is_terminal, say, show_json, show_table
from ..exit_codes import complain_of_servers, without_advice
from ..lazy_command import Invocation
from ..lookup import count_hidden
from ..target import ServerParameters, open_chosen

_COLOURS: Final = {
    ConnectionState.CONNECTED: "green",
    ConnectionState.DEGRADED: "yellow",
    ConnectionState.CONNECTING: "yellow",
    ConnectionState.FAILED: "bold red",
    ConnectionState.NEEDS_AUTH: "bold red",
}
_COLUMNS: Final = (
    Column("server", "bold"),
    "status",
    Column("era", optional=2),
    "tools",
    Column("resources", optional=4),
    Column("prompts", optional=3),
    Column("tokens", optional=1),
    Column("start ms", optional=5),
)


async def command(invocation: Invocation, as_json: bool, **chosen: Unpack[ServerParameters]) -> int:
    """Show the status of the servers."""
    async with open_chosen(invocation, report_failures=False, **chosen) as session:
        states = session.hub.list_servers()
        hidden = await count_hidden(session.hub)
        if as_json:
            show_json([{**_as_json(state), "hidden_tools": hidden.get(state.name, 0)} for state in states])
        elif is_terminal():
            show_table(_COLUMNS, [_row(state) for state in states])
            for name, count in hidden.items():
                say(f"{name}: {count} hidden by rules; `toolcrib tools {name}` lists the others")
            complain_of_servers({state.name: state.last_error for state in states if state.last_error is not None})
        else:
            show_table(_COLUMNS, [[*_row(state), _error(state) or ""] for state in states])
        return session.code


def _error(state: ServerState) -> str | None:
    return None if state.last_error is None else str(without_advice(state.last_error))


def _row(state: ServerState) -> list[Any]:
    values = _as_json(state)
    status = Styled(state.status.state, _COLOURS.get(state.status.state, "dim"))
    counts = [values[key] for key in ("tools", "resources", "prompts", "tokens")]
    shown = [values["era"], *(counts if values["era"] else [""] * 4), values["start_ms"]]
    return [state.name, status, *("" if each is None else each for each in shown)]


def _as_json(state: ServerState) -> dict[str, Any]:
    info = state.server_info
    return {
        "name": state.name,
        "status": state.status.state,
        "reason": state.status.reason,
        "era": info.protocol_version if info else None,
        "server": {"name": info.name, "version": info.version} if info else None,
        "tools": len(state.tools),
        "resources": len(state.resources),
        "templates": len(state.resource_templates),
        "prompts": len(state.prompts),
        "tokens": state.tokens,
        "start_ms": None if state.startup_seconds is None else round(state.startup_seconds * 1000),
        "error": _error(state),
    }
