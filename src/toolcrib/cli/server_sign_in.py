"""Sign-ins at remote servers: commands use stored ones, and `auth login` and prompts at a terminal make new ones."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..config import HttpServer, SseServer, as_singleton, mask_urls
from ..errors import AuthError, ConfigError, RemoteError, ToolcribError
from ..settings import ServerEntry
from .console import can_ask, note
from .exit_codes import CliError, Exit
from .interactive import TerminalUser

if TYPE_CHECKING:
    from ..oauth.interaction import Interact
    from ..oauth.providers import OAuth, SignInStatus
    from ..oauth.token_store import TokenStore

T = TypeVar("T")

Obstacle = Literal["local", "invalid", "credentials", "off"]
"""Why a server has no sign-in: it has no URL, its entry is invalid, it has its own credentials, or it is turned off."""


def obstacle_to_sign_in(entry: ServerEntry) -> Obstacle | None:
    """Return why a server cannot be signed in to; None if it can."""
    if entry.config is None:
        return "invalid"
    if not isinstance(entry.config, HttpServer | SseServer):
        return "local"
    if any(name.lower() == "authorization" for name in entry.config.headers or ()):
        return "credentials"
    given = entry.raw.get("oauth")
    is_off = given is False or (isinstance(given, Mapping) and given.get("enabled") is False)
    return "off" if is_off else None


def make_provider(
    config: HttpServer | SseServer,
    *,
    interact: Interact = None,
    store: TokenStore | None = None,
    scopes: Sequence[str] = (),
) -> OAuth:
    """Return the provider for a server, with the options of its entry; `scopes` replace those of the entry."""
    from ..oauth.providers import OAuth  # noqa: PLC0415  # only for remote servers

    given = {**(config.oauth or {}), **({"scopes": scopes} if scopes else {})}
    return OAuth(**given, interact=interact, store=store)


async def stored_status(config: HttpServer | SseServer) -> SignInStatus | None:
    """Return the stored sign-in at a server; None if there is none."""
    return await make_provider(config).status(config.url)


async def with_stored_sign_in(entry: ServerEntry) -> ServerEntry:
    """Return the entry of a server with its stored sign-in, if there is one.

    Without a stored one, the server's own rejection tells the user that a sign-in is needed; commands do not start one.
    """
    config = entry.config
    if obstacle_to_sign_in(entry) is not None or not isinstance(config, HttpServer | SseServer):
        return entry
    try:
        provider = make_provider(config)
        is_signed_in = await provider.status(config.url) is not None
    except ConfigError as exc:
        return replace(entry, config=None, error=exc)
    if is_signed_in:
        return replace(entry, client_options={**entry.client_options, "auth": provider})
    return replace(entry, config=replace(config, oauth=None)) if config.oauth is not None else entry


async def sign_in(
    entry: ServerEntry, *, use_browser: bool = True, scopes: Sequence[str] = (), timeout: float | None = None
) -> SignInStatus | None:
    """Sign in to a server, and store the sign-in in place of an earlier one; None if the server asks for none."""
    from ..client.client import Client  # noqa: PLC0415  # slow
    from ..oauth.account import Account  # noqa: PLC0415
    from ..oauth.interaction import choose_interaction  # noqa: PLC0415  # only for remote servers
    from ..oauth.token_store import FileTokenStore, MemoryTokenStore  # noqa: PLC0415

    config = entry.config
    assert isinstance(config, HttpServer | SseServer)
    interact = choose_interaction("auto") if use_browser else "paste"
    if interact is None or (interact == "paste" and not can_ask()):
        raise CliError(
            "a sign-in needs a browser, or a terminal",
            hint="run `toolcrib auth login` at a terminal, or set BROWSER to the command of a browser",
            code=Exit.DENIED,
        )
    # An earlier sign-in is kept until this one has succeeded.
    fresh, kept = MemoryTokenStore(), FileTokenStore()
    account = Account(config.url, "", kept)
    # The issuers that clients are bound to are known from the start: a secret must not go to another one.
    await Account(config.url, "", fresh).save(replace(await account.load(), grants=()))
    provider = make_provider(config, interact=_announced(interact), store=fresh, scopes=scopes)
    options: dict[str, Any] = {} if timeout is None else {"connect_timeout": timeout, "discovery_timeout": timeout}
    async with Client(as_singleton(replace(config, oauth=None)), name=entry.name, auth=provider, **options) as client:
        if await provider.status(config.url) is None:
            await _list_tools(client)  # some servers require a sign-in only here
    status = await provider.status(config.url)
    if status is not None:
        stored = await Account(config.url, "", fresh).load()
        async with account.lock():
            await account.save((await account.load()).updated(stored))
    return status


def _announced(interact: Any) -> Any:
    if interact == "browser":
        note("opening a browser to sign in; with --no-browser you can sign in on another machine")
    return interact


async def _list_tools(client: Any) -> None:
    with suppress(RemoteError):  # it has none; only whether it asks for a sign-in matters here
        await client.list_tools()


def describe(status: SignInStatus) -> str:
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


def is_usable(status: SignInStatus) -> bool:
    """Return whether a stored sign-in gives access without a person: it has not expired, or can be renewed."""
    return status.can_renew or status.expires_at is None or status.expires_at > time.time()


# ---- prompts at the terminal ---------------------------------------------------------------------------------


class SignInMayHelp(Exception):
    """Raised if something was not found, and servers that could have it were not started.

    `error` is what the user sees if none of them requires a sign-in; `refusals` are the errors of the servers, by name.
    """

    def __init__(self, error: CliError, refusals: Mapping[str, Exception]) -> None:
        super().__init__(str(error))
        self.error = error
        self.refusals = refusals


async def retry_after_sign_in(entries: Sequence[ServerEntry], work: Callable[[], Awaitable[T]]) -> T:
    """Do the work; if a server requires a sign-in and the user agrees at the terminal, sign in and do it again."""
    error: Exception
    refusals: Mapping[str, Exception]
    try:
        return await work()
    except AuthError as exc:
        error, refusals = exc, {exc.server or "": exc}
    except SignInMayHelp as exc:
        error, refusals = exc.error, exc.refusals
    if not await offer_sign_ins(entries, refusals):
        raise error
    return await work()


async def offer_sign_ins(entries: Sequence[ServerEntry], errors: Mapping[str, Exception]) -> bool:
    """Ask whether to sign in to the servers that rejected a request for the lack of it; return whether any was done."""
    known = {entry.name: entry for entry in entries if obstacle_to_sign_in(entry) is None}
    done = False
    for name, error in errors.items():
        entry = known.get(name)
        if entry is None or not isinstance(error, AuthError) or not can_ask() or not await _wants(entry, error):
            continue
        if await TerminalUser().confirm(f"Sign in to {name} now? [Y/n]"):
            status = await sign_in(entry, scopes=await _missing_scopes(entry, error))
            if status is not None:
                note(f"signed in to {name} {describe(status)}")
                done = True
    return done


async def _wants(entry: ServerEntry, error: AuthError) -> bool:
    """Return whether a server offers a sign-in, which would help against this error."""
    from ..oauth.challenge import parse_challenges  # noqa: PLC0415  # only after a rejection
    from ..oauth.http import open_fetch  # noqa: PLC0415
    from ..oauth.issuer_discovery import fetch_resource_metadata  # noqa: PLC0415

    challenge = parse_challenges([error.challenge or ""])
    if error.status == 403:
        return challenge is not None and challenge.error == "insufficient_scope"
    if error.authorization_url is not None or (challenge is not None and challenge.resource_metadata is not None):
        return True
    assert isinstance(entry.config, HttpServer | SseServer)
    try:
        async with open_fetch() as fetch:
            return await fetch_resource_metadata(fetch, entry.config.url, challenge) is not None
    except ToolcribError:
        return False


async def _missing_scopes(entry: ServerEntry, error: AuthError) -> tuple[str, ...]:
    """Return the scopes to request if the present ones are not enough: those and the missing ones."""
    from ..oauth.challenge import parse_challenges  # noqa: PLC0415  # as above

    challenge = parse_challenges([error.challenge or ""])
    if error.status != 403 or challenge is None:
        return ()
    assert isinstance(entry.config, HttpServer | SseServer)
    status = await stored_status(entry.config)
    return tuple(dict.fromkeys((*(status.scopes if status is not None else ()), *challenge.scope)))
