"""Whether a server can be signed in to, its stored sign-in, and how both are described."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from ..config import HttpServer, ServerConfig, SseServer, mask_urls
from ..errors import ConfigError
from ..settings import ServerEntry
from ..settings.keys import SIGN_INS

if TYPE_CHECKING:
    from ..oauth.interaction import Interact
    from ..oauth.providers import OAuth, SignInStatus
    from ..oauth.token_store import TokenStore

Obstacle = Literal["local", "invalid", "credentials", "off"]
"""Why a server has no sign-in: it has no URL, its entry is invalid, it has its own credentials, or it is turned off."""


class SignInState(StrEnum):
    """Whether the user is signed in to a server, and why not. The values are what commands print."""

    SIGNED_IN = "signed in"
    EXPIRED = "expired"
    NOT_SIGNED_IN = "not signed in"
    OFF = "sign-in turned off"
    CREDENTIALS = "has its own credentials"
    INVALID = "invalid"


def has_own_credentials(config: ServerConfig | None) -> bool:
    """Return whether a server has its own Authorization header."""
    headers = config.headers if isinstance(config, HttpServer | SseServer) else None
    return any(name.lower() == "authorization" for name in headers or ())


def obstacle_to_sign_in(entry: ServerEntry) -> Obstacle | None:
    """Return why a server cannot be signed in to; None if it can."""
    if entry.config is None:
        return "invalid"
    if not isinstance(entry.config, HttpServer | SseServer):
        return "local"
    if has_own_credentials(entry.config):
        return "credentials"
    return "off" if any(_is_off(entry.raw.get(key)) for key in SIGN_INS) else None


def _is_off(given: object) -> bool:
    return given is False or (isinstance(given, Mapping) and given.get("enabled") is False)


def make_provider(
    config: HttpServer | SseServer,
    *,
    interact: Interact = None,
    store: TokenStore | None = None,
    scopes: Sequence[str] = (),
) -> OAuth:
    """Return the provider for a server, with the options of its entry; `scopes` replace those of the entry."""
    from ..oauth.providers import OAuth  # noqa: PLC0415  # slow; only for remote servers

    given = {**(config.oauth or {}), **({"scopes": scopes} if scopes else {})}
    return OAuth(**given, interact=interact, store=store)


async def stored_status(config: HttpServer | SseServer) -> SignInStatus | None:
    """Return the stored sign-in at a server; None if there is none."""
    return await make_provider(config).status(config.url)


async def find_stored_sign_in(entry: ServerEntry) -> OAuth | None:
    """Return a provider with the stored sign-in of a server; None if there is none, or it cannot be signed in to."""
    config = entry.config
    if obstacle_to_sign_in(entry) is not None or not isinstance(config, HttpServer | SseServer):
        return None
    provider = make_provider(config)
    return provider if await provider.status(config.url) is not None else None


@dataclass(slots=True)
class StoredSignIns:
    """The sign-ins in the user's store: the account and the status of each, and why others cannot be read."""

    found: list[tuple[str, SignInStatus]] = field(default_factory=list)
    errors: list[ConfigError] = field(default_factory=list)


async def list_stored_sign_ins() -> StoredSignIns:
    """Return the sign-ins in the user's store, in the order of the servers' URLs."""
    from ..oauth.providers import OAuth  # noqa: PLC0415  # slow; only for remote servers
    from ..oauth.stored_sign_in import StoredSignIn  # noqa: PLC0415
    from ..oauth.token_store import FileTokenStore  # noqa: PLC0415

    listed = StoredSignIns()
    for path, text in (await FileTokenStore().load_all()).items():
        if isinstance(text, ConfigError):
            listed.errors.append(text)
            continue
        stored = StoredSignIn.parse(text)
        if stored is None:
            message = f"{path}: expected a stored sign-in. Remove the file and sign in again"
            listed.errors.append(ConfigError(message, file=str(path), key="store", expected="a stored sign-in"))
            continue
        try:
            status = await OAuth(interact=None, account=stored.account).status(stored.server)
        except ConfigError as exc:
            listed.errors.append(exc)
            continue
        if status is not None:
            listed.found.append((stored.account, status))
    listed.found.sort(key=lambda each: (each[1].server, each[0]))
    return listed


def state_of(status: SignInStatus | None, obstacle: Obstacle | None = None) -> SignInState:
    """Return the state of a stored sign-in, or of a server that has this obstacle to one."""
    match obstacle:
        case "invalid":
            return SignInState.INVALID
        case "credentials":
            return SignInState.CREDENTIALS
        case "off":
            return SignInState.OFF
    if status is None:
        return SignInState.NOT_SIGNED_IN
    return SignInState.SIGNED_IN if is_usable(status) else SignInState.EXPIRED


def is_usable(status: SignInStatus) -> bool:
    """Return whether a stored sign-in gives access without a person: it has not expired, or can be renewed."""
    return status.can_renew or status.expires_at is None or status.expires_at > time.time()


def describe_status(status: SignInStatus) -> str:
    """Return a sign-in on one line: where, which scopes, how long."""
    parts = [f"at {mask_urls(status.issuer)}"]
    if status.scopes:
        parts.append(f"scopes: {' '.join(status.scopes)}")
    if status.expires_at is not None:
        parts.append(f"the token {describe_expiry(status.expires_at)}")
    parts.append("renewed automatically" if status.can_renew else "cannot be renewed without you")
    return "; ".join(parts)


def describe_expiry(expires_at: float) -> str:
    """Return when a token expires, relative to now."""
    left = expires_at - time.time()
    if left <= 0:
        return "has expired"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if left >= 2 * seconds:
            return f"expires in {left / seconds:.0f} {unit}"
    return f"expires in {left:.0f} s"


def quote_url(url: str) -> str:
    """Return a URL as a word of a command line; `URL` if it contains secrets."""
    return shlex.quote(url) if mask_urls(url) == url else "URL"
