"""`toolcrib auth status`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...config import HttpServer, SseServer, mask_urls
from ...config.servers import URLS
from ...diagnostics.sign_in_state import (
    SignInState,
    StoredSignIns,
    describe_expiry,
    list_stored_sign_ins,
    obstacle_to_sign_in,
    state_of,
    stored_status,
)
from ...errors import ConfigError
from ...settings import ServerEntry
from ...settings.keys import SIGN_INS
from ..console import Column, Styled, is_terminal, note, show_json, show_table
from ..exit_codes import Exit, complain_of
from ..lazy_command import Invocation
from ..server_sign_in import describe_server
from ..target import choose, choose_remote, settings_files
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
_STYLES: Final = {
    SignInState.SIGNED_IN: "green",
    SignInState.EXPIRED: "bold red",
    SignInState.INVALID: "bold red",
}


@dataclass(frozen=True, slots=True)
class _ServerStatus:
    """What is stored for one server, or why its settings are invalid."""

    name: str
    """The name in the settings; the masked URL if the server is in no entry."""
    state: SignInState
    status: SignInStatus | None = None
    error: ConfigError | None = None
    account: str = ""


async def command(invocation: Invocation, server: str | None, config: Path | None, as_json: bool) -> Exit:
    """Show the stored sign-ins at remote servers."""
    stored = StoredSignIns()
    if server is not None:
        found = [await _find(choose_remote(server, config))]
    else:
        entries = _entries(config)
        found = [await _find(entry) for entry in entries if _is_remote(entry)]
        if config is None:
            stored = await list_stored_sign_ins()
            found += _without_entry(stored, entries)
    if as_json:
        show_json([_as_json(each) for each in found])
    else:
        show_table(_COLUMNS, [_row(each) for each in found])
        if not found:
            note(_nothing_found(config))
        elif is_terminal() and not any(each.status for each in found):
            note(f"`{invocation.login(server)}` signs you in")
    errors = [each.error for each in found if each.error is not None]
    for error in errors:
        complain_of(error)
    files = {error.file for error in errors}
    for error in stored.errors:
        if error.file not in files:
            files.add(error.file)
            note(f"warning: {error}", "yellow")
    if errors:
        return Exit.CONFIG
    missing = server is not None and not any(each.state is SignInState.SIGNED_IN for each in found)
    return Exit.DENIED if missing else Exit.OK


def _entries(config: Path | None) -> Sequence[ServerEntry]:
    """Return the servers of the settings; none if there are no settings."""
    return choose((), config, ()).settings.entries if settings_files(config) else ()


def _is_remote(entry: ServerEntry) -> bool:
    """Return whether a server is behind a URL; an invalid entry counts if it names a URL, or options of a sign-in."""
    if entry.config is None:
        return any(key in entry.raw for key in (*URLS, *SIGN_INS))
    return isinstance(entry.config, HttpServer | SseServer)


async def _find(entry: ServerEntry) -> _ServerStatus:
    name, obstacle = describe_server(entry), obstacle_to_sign_in(entry)
    if obstacle is not None:
        return _ServerStatus(name, state_of(None, obstacle), error=entry.error)
    assert isinstance(entry.config, HttpServer | SseServer)
    try:
        status = await stored_status(entry.config)
    except ConfigError as exc:
        return _ServerStatus(name, SignInState.INVALID, error=exc)
    return _ServerStatus(name, state_of(status), status)


def _without_entry(stored: StoredSignIns, entries: Sequence[ServerEntry]) -> list[_ServerStatus]:
    """Return the stored sign-ins at servers that are in no entry: those that were made by URL."""
    known = {url for entry in entries for url in _urls_of(entry)}
    return [
        _ServerStatus(mask_urls(status.server), state_of(status), status, account=account)
        for account, status in stored.found
        if status.server not in known
    ]


def _urls_of(entry: ServerEntry) -> list[Any]:
    if isinstance(entry.config, HttpServer | SseServer):
        return [entry.config.url]
    return [url for key in URLS if isinstance(url := entry.raw.get(key), str)]


def _nothing_found(config: Path | None) -> str:
    if config is not None:
        return "the settings have no remote servers"
    what = "the settings have no remote servers" if settings_files(None) else "no settings found"
    return f"{what}, and no sign-in is stored; `toolcrib auth login URL` signs in to a server"


def _as_json(found: _ServerStatus) -> dict[str, Any]:
    account = {"account": found.account} if found.account else {}
    error = {"error": str(found.error)} if found.error is not None else {}
    return status_as_json(found.name, found.status, found.state) | account | error


def _row(found: _ServerStatus) -> list[Any]:
    status = found.status
    name = f"{found.name} (account {found.account})" if found.account else found.name
    state = Styled(found.state, _STYLES.get(found.state, "dim"))
    if status is None:
        return [name, state, "", "", "", "", ""]
    expiry = "" if status.expires_at is None else describe_expiry(status.expires_at)
    renewable = "yes" if status.can_renew else "no"
    return [name, state, mask_urls(status.issuer), status.client_id, " ".join(status.scopes), expiry, renewable]
