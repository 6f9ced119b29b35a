"""`toolcrib auth logout`."""

from __future__ import annotations

from pathlib import Path

from ...config import HttpServer, SseServer
from ...diagnostics.sign_in_state import make_provider
from ...errors import AuthError, ConnectError
from ..console import note, say, show_json
from ..exit_codes import Exit
from ..lazy_command import Invocation
from ..target import choose_remote


async def command(_invocation: Invocation, server: str, config: Path | None, as_json: bool) -> Exit:
    """Sign out of a remote server."""
    from ...transports.http.auth_requests import open_fetch_for  # noqa: PLC0415  # slow: it loads aiohttp

    entry = choose_remote(server, config)
    assert isinstance(entry.config, HttpServer | SseServer)
    was_signed_in, failure = True, ""
    try:
        async with open_fetch_for(entry.config) as fetch:
            was_signed_in = await make_provider(entry.config).logout(entry.config.url, fetch=fetch)
    except (AuthError, ConnectError) as exc:
        failure = str(exc)
    if as_json:
        error = {"revocation_error": failure} if failure else {}
        show_json({"server": entry.name, "signed_in": False, "was_signed_in": was_signed_in} | error)
    elif not was_signed_in:
        say(f"not signed in to {entry.name}: nothing to do")
    else:
        say(f"signed out of {entry.name}{' on this machine; the tokens were not revoked' if failure else ''}")
    if failure:
        note(f"warning: the tokens stay valid at the server until they expire: {failure}", "yellow")
        return Exit.FAILED
    return Exit.OK
