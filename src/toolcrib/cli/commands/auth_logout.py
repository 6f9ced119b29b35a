"""`toolcrib auth logout`."""

from __future__ import annotations

from pathlib import Path

from ...config import HttpServer, SseServer
from ...diagnostics.sign_in_state import make_provider
from ...errors import AuthError, ConnectError
from ..console import note, say
from ..exit_codes import Exit
from ..lazy_command import Invocation
from ..target import choose_remote


async def command(_invocation: Invocation, server: str, config: Path | None) -> Exit:
    """Sign out of a remote server."""
    entry = choose_remote(server, config)
    assert isinstance(entry.config, HttpServer | SseServer)
    try:
        was_signed_in = await make_provider(entry.config).logout(entry.config.url)
    except (AuthError, ConnectError) as exc:
        say(f"signed out of {entry.name}: its tokens were removed here")
        note(f"warning: they could not be revoked, and stay valid until they expire: {exc}", "yellow")
        return Exit.FAILED
    say(f"signed out of {entry.name}" if was_signed_in else f"not signed in to {entry.name}: nothing to do")
    return Exit.OK
