"""`toolcrib auth login`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...diagnostics.sign_in_state import SignInState, describe_status, state_of
from ..console import say, show_json
from ..lazy_command import Invocation
from ..server_sign_in import describe_server, sign_in
from ..target import choose_remote

if TYPE_CHECKING:
    from ...oauth.providers import SignInStatus


async def command(
    _invocation: Invocation,
    server: str,
    no_browser: bool,
    scopes: Sequence[str],
    config: Path | None,
    as_json: bool,
    timeout: float | None,
) -> None:
    """Sign in to a remote server."""
    entry = choose_remote(server, config)
    requested = [scope for each in scopes for scope in each.split()]
    status = await sign_in(entry, use_browser=not no_browser, scopes=requested, timeout=timeout)
    name = describe_server(entry)
    if as_json:
        show_json(status_as_json(name, status, state_of(status)))
    elif status is None:
        say(f"{name} does not require a sign-in")
    else:
        say(f"signed in to {name} {describe_status(status)}")


def status_as_json(name: str, status: SignInStatus | None, state: SignInState) -> dict[str, Any]:
    """Return a sign-in as a JSON object."""
    found: dict[str, Any] = {"server": name, "signed_in": state is SignInState.SIGNED_IN, "state": state}
    if status is None:
        return found
    return found | {
        "issuer": status.issuer,
        "client_id": status.client_id,
        "resource": status.resource,
        "scopes": list(status.scopes),
        "expires_at": status.expires_at,
        "can_renew": status.can_renew,
    }
