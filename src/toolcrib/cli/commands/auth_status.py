"""`toolcrib auth status`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...config import HttpServer, SseServer, mask_urls
from ...config.servers import URLS
from ...diagnostics.sign_in_state import describe_expiry, is_usable, obstacle_to_sign_in, stored_status
from ...errors import ConfigError
from ...settings import ServerEntry
from ...settings.keys import SIGN_INS
from ..console import Column, Styled, is_terminal, note, show_json, show_table
from ..exit_codes import Exit, complain_of
from ..lazy_command import Invocation
from ..target import choose, choose_remote
from .auth_login import status_as_json

if TYPE_CHECKING:
    from ...oauth.providers import SignInStatus

_COLUMNS: Final = (
    Column("server", "bold"),
    "status",
    Column("issuer", optional=1),
    Column("client", optional=3),
    Column("scopes", text=True),
    Column("token", optional=2),
    Column("renewable", optional=4),
)
_OBSTACLES: Final = {"credentials": "has its own credentials", "off": "sign-in turned off"}


@dataclass(frozen=True, slots=True)
class _ServerStatus:
    """What is stored for one server, or why its settings are invalid."""

    entry: ServerEntry
    status: SignInStatus | None = None
    error: ConfigError | None = None


async def command(invocation: Invocation, server: str | None, config: Path | None, as_json: bool) -> Exit:
    """Show the stored sign-ins at remote servers."""
    if server is not None:
        entries = [choose_remote(server, config)]
    else:
        entries = [entry for entry in choose((), config, ()).settings.entries if _is_remote(entry)]
    found = [await _find(entry) for entry in entries]
    if as_json:
        show_json([_as_json(each) for each in found])
    else:
        show_table(_COLUMNS, [_row(each) for each in found])
        if not entries:
            note("the settings have no remote servers")
        elif is_terminal() and not any(each.status for each in found):
            note(f"`{invocation.login(server)}` signs you in")
    errors = [each.error for each in found if each.error is not None]
    for error in errors:
        complain_of(error)
    if errors:
        return Exit.CONFIG
    missing = server is not None and not any(each.status is not None and is_usable(each.status) for each in found)
    return Exit.DENIED if missing else Exit.OK


def _is_remote(entry: ServerEntry) -> bool:
    """Return whether a server is behind a URL; an invalid entry counts if it names a URL, or options of a sign-in."""
    if entry.config is None:
        return any(key in entry.raw for key in (*URLS, *SIGN_INS))
    return isinstance(entry.config, HttpServer | SseServer)


async def _find(entry: ServerEntry) -> _ServerStatus:
    if entry.error is not None:
        return _ServerStatus(entry, error=entry.error)
    if obstacle_to_sign_in(entry) is not None:
        return _ServerStatus(entry)
    assert isinstance(entry.config, HttpServer | SseServer)
    try:
        return _ServerStatus(entry, await stored_status(entry.config))
    except ConfigError as exc:
        return _ServerStatus(entry, error=exc)


def _as_json(found: _ServerStatus) -> dict[str, Any]:
    error = {"error": str(found.error)} if found.error is not None else {}
    return status_as_json(found.entry, found.status) | error


def _row(found: _ServerStatus) -> list[Any]:
    entry, status = found.entry, found.status
    if found.error is not None:
        return [entry.name, Styled("invalid", "bold red"), "", "", "", "", ""]
    if status is None:
        obstacle = obstacle_to_sign_in(entry)
        return [entry.name, Styled(_OBSTACLES.get(str(obstacle), "not signed in"), "dim"), "", "", "", "", ""]
    state = Styled("signed in", "green") if is_usable(status) else Styled("expired", "bold red")
    expiry = "" if status.expires_at is None else describe_expiry(status.expires_at)
    renewable = "yes" if status.can_renew else "no"
    return [entry.name, state, mask_urls(status.issuer), status.client_id, " ".join(status.scopes), expiry, renewable]
