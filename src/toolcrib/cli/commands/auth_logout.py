"""`toolcrib auth logout`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...config import HttpServer, SseServer
from ...diagnostics.sign_in_state import make_provider, obstacle_to_sign_in, stored_status
from ...errors import AuthError, ConfigError, ConnectError
from ...settings import ServerEntry, load_settings
from ..console import note, say, show_json
from ..exit_codes import Exit
from ..lazy_command import Invocation
from ..server_sign_in import describe_server
from ..target import choose_remote, settings_files


async def command(_invocation: Invocation, server: str, config: Path | None, as_json: bool) -> Exit:
    """Sign out of a remote server."""
    from ...transports.http.auth_requests import open_fetch_for  # noqa: PLC0415  # slow: it loads aiohttp

    entry = choose_remote(server, config)
    assert isinstance(entry.config, HttpServer | SseServer)
    name = describe_server(entry)
    sharing = await _find_sharing(entry, config)
    was_signed_in, failure = True, ""
    try:
        async with open_fetch_for(entry.config) as fetch:
            was_signed_in = await make_provider(entry.config).logout(entry.config.url, fetch=fetch)
    except (AuthError, ConnectError) as exc:
        failure = str(exc)
    if as_json:
        result: dict[str, Any] = {"server": name, "signed_in": False, "was_signed_in": was_signed_in}
        if sharing:
            result["also_signed_out"] = sharing
        if failure:
            result["revocation_error"] = failure
        show_json(result)
    elif not was_signed_in:
        say(f"not signed in to {name}: nothing to do")
    else:
        say(f"signed out of {name}{' on this machine; the tokens were not revoked' if failure else ''}")
        if sharing:
            say(f"also signed out of {', '.join(sharing)}: the URL is the same")
    if failure:
        note(f"warning: the tokens stay valid at the server until they expire: {failure}", "yellow")
        return Exit.FAILED
    return Exit.OK


async def _find_sharing(entry: ServerEntry, config: Path | None) -> list[str]:
    """Return the other entries of the settings that are signed in at the same URL: a sign-out ends that too."""
    try:
        entries = load_settings(*files).entries if (files := settings_files(config)) else ()
    except ConfigError:
        return []  # the server is given by URL, so the sign-out does not need the settings
    return [other.name for other in entries if not _is_same(other, entry) and await _shares_sign_in(other, entry)]


def _is_same(other: ServerEntry, entry: ServerEntry) -> bool:
    return (other.name, other.source) == (entry.name, entry.source)


async def _shares_sign_in(other: ServerEntry, entry: ServerEntry) -> bool:
    assert isinstance(entry.config, HttpServer | SseServer)
    if obstacle_to_sign_in(other) is not None:
        return False
    assert isinstance(other.config, HttpServer | SseServer)
    try:
        return other.config.url == entry.config.url and await stored_status(other.config) is not None
    except ConfigError:
        return False  # of its options: it cannot be signed in
