"""`toolcrib auth status`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...config import HttpServer, SseServer, mask_urls
from ...diagnostics.sign_in_state import describe_expiry, is_usable, obstacle_to_sign_in, stored_status
from ...settings import ServerEntry
from ..console import Column, Styled, is_terminal, note, show_json, show_table
from ..exit_codes import Exit
from ..lazy_command import Invocation
from ..target import choose, choose_remote
from .auth_login import status_as_json

if TYPE_CHECKING:
    from ...oauth.providers import SignInStatus

_COLUMNS: Final = (
    Column("server", "bold"),
    "status",
    Column("at", optional=1),
    Column("client", optional=3),
    Column("scopes", text=True),
    Column("token", optional=2),
    Column("renewable", optional=4),
)
_OBSTACLES: Final = {"credentials": "has its own credentials", "off": "turned off"}


async def command(_invocation: Invocation, server: str | None, config: Path | None, as_json: bool) -> Exit:
    """Show the stored sign-ins at remote servers."""
    if server is not None:
        entries = [choose_remote(server, config)]
    else:
        found = choose((), config, ()).settings.entries
        entries = [entry for entry in found if isinstance(entry.config, HttpServer | SseServer)]
    statuses = {entry.name: await _status_of(entry) for entry in entries}
    if as_json:
        show_json([status_as_json(entry, statuses[entry.name]) for entry in entries])
    else:
        show_table(_COLUMNS, [_row(entry, statuses[entry.name]) for entry in entries])
        if not entries:
            note("the settings have no remote servers")
        elif is_terminal() and not any(statuses.values()):
            note("`toolcrib auth login SERVER` signs you in")
    missing = server is not None and not any(each is not None and is_usable(each) for each in statuses.values())
    return Exit.DENIED if missing else Exit.OK


async def _status_of(entry: ServerEntry) -> SignInStatus | None:
    assert isinstance(entry.config, HttpServer | SseServer)
    return None if obstacle_to_sign_in(entry) else await stored_status(entry.config)


def _row(entry: ServerEntry, status: SignInStatus | None) -> list[Any]:
    if status is None:
        obstacle = obstacle_to_sign_in(entry)
        return [entry.name, Styled(_OBSTACLES.get(str(obstacle), "not signed in"), "dim"), "", "", "", "", ""]
    state = Styled("signed in", "green") if is_usable(status) else Styled("expired", "bold red")
    expiry = "" if status.expires_at is None else describe_expiry(status.expires_at)
    renewable = "yes" if status.can_renew else "no"
    return [entry.name, state, mask_urls(status.issuer), status.client_id, " ".join(status.scopes), expiry, renewable]
