"""Sign-ins at remote servers: commands use stored ones, and `auth login` and prompts at a terminal make new ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..config import HttpServer, SseServer, as_singleton, mask_urls
from ..diagnostics.causes import lacks_scopes, missing_scopes, required_scopes, scope_options, wants_oauth
from ..diagnostics.sign_in_state import (
    describe_status,
    find_stored_sign_in,
    make_provider,
    obstacle_to_sign_in,
    stored_status,
)
from ..errors import AuthError, ConfigError, RemoteError, ToolcribError
from ..events import SignInStarted
from ..settings import ServerEntry
from .console import can_ask, note
from .exit_codes import CliError, Exit, code_of, without_advice
from .interactive import TerminalUser
from .lazy_command import INVOCATION

if TYPE_CHECKING:
    from ..client.client import Client
    from ..oauth.interaction import Interact
    from ..oauth.providers import SignInStatus

T = TypeVar("T")

_OF_CLIENT: Final = ("client_id", "client_metadata_url", "redirect_uri")
"""Options of an entry that an authorisation server may reject on the page for the person."""

UNAUTHORISED: Final = 401

MAX_OFFERS: Final = 2
"""Sign-ins that one command offers for a server: the first one, and one with more scopes."""


def describe_server(entry: ServerEntry) -> str:
    """Return the name of a server in the settings, or the masked URL of one that the command line gives by URL."""
    if entry.source is None and isinstance(entry.config, HttpServer | SseServer):
        return mask_urls(entry.config.url)
    return entry.name


async def with_stored_sign_in(entry: ServerEntry) -> ServerEntry:
    """Return the entry of a server with its stored sign-in, if there is one.

    Without a stored one, the server's 401 response is reported, with a hint; commands do not start a sign-in.
    """
    config = entry.config
    if obstacle_to_sign_in(entry) is not None or not isinstance(config, HttpServer | SseServer):
        return entry
    try:
        provider = await find_stored_sign_in(entry)
    except ConfigError as exc:
        return replace(entry, config=None, error=exc)
    if provider is not None:
        return replace(entry, client_options={**entry.client_options, "auth": provider})
    return replace(entry, config=replace(config, oauth=None)) if config.oauth is not None else entry


async def sign_in(
    entry: ServerEntry, *, use_browser: bool = True, scopes: Sequence[str] = (), timeout: float | None = None
) -> SignInStatus | None:
    """Sign in to a server, and store the sign-in in place of an earlier one; None if the server requires none.

    Raises `CliError` if the sign-in fails.
    """
    from ..oauth.interaction import choose_interaction  # noqa: PLC0415  # slow; only for remote servers

    assert isinstance(entry.config, HttpServer | SseServer)
    redirect_uri = (entry.config.oauth or {}).get("redirect_uri")
    interact = choose_interaction("auto", redirect_uri) if use_browser else "paste"
    if interact == "paste" and not can_ask():
        interact = None  # the server may require no sign-in
    former = await stored_status(entry.config)
    started: list[SignInStarted] = []
    try:
        status = await _sign_in(entry, interact, scopes, timeout, started.append)
    except AuthError as exc:
        if interact is None and exc.status == UNAUTHORISED:
            raise _cannot_ask(entry, redirect_uri, use_browser=use_browser) from exc
        hint = _hint_after(exc, entry, was_asked=bool(started))
        raise CliError(str(without_advice(exc)), hint=hint, code=code_of(exc)) from exc
    if former is not None and status is not None and former.issuer == status.issuer:
        _note_lost_scopes(entry, former.scopes, status.scopes)
    return status


def _note_lost_scopes(entry: ServerEntry, before: Sequence[str], now: Sequence[str]) -> None:
    """Print which scopes of the former sign-in the new one lacks, and the command that requests all of them."""
    lost = [scope for scope in before if scope not in now]
    if lost:
        command = f"{INVOCATION.get().login(entry.name)}{scope_options((*now, *lost))}"
        note(f"the former sign-in also had {' '.join(lost)}; `{command}` requests all scopes again")


def _hint_after(error: AuthError, entry: ServerEntry, *, was_asked: bool) -> str:
    """Return what to do after a failed sign-in; empty if the error says so. `was_asked`: the person was asked."""
    from ..oauth.token_requests import TokenRequestRejected  # noqa: PLC0415  # slow; only for remote servers

    assert isinstance(entry.config, HttpServer | SseServer)
    cause = error.__cause__
    if isinstance(cause, TokenRequestRejected):
        if cause.rejects_client and "client_id" in (entry.config.oauth or {}):
            return f"check client_id and client_secret of {entry.name} in the settings"
    elif was_asked or isinstance(cause, OSError):
        return ""  # the steps that `doctor` shows were completed, or the port of redirect_uri is in use
    return f"`{INVOCATION.get().doctor(entry.name)}` shows each step of the sign-in"


def _cannot_ask(entry: ServerEntry, redirect_uri: str | None, *, use_browser: bool) -> CliError:
    """Return the error for a sign-in for which there is neither a browser nor a terminal."""
    from ..oauth.interaction import can_listen  # noqa: PLC0415  # slow; only for remote servers

    command = INVOCATION.get().login(entry.name)
    if not use_browser:
        return CliError(
            "a sign-in with --no-browser needs a terminal",
            hint=f"run `{command} --no-browser` at a terminal, or omit --no-browser if there is a browser here",
            code=Exit.DENIED,
        )
    if not can_listen(redirect_uri):
        return CliError(
            "a sign-in whose redirect_uri leads to another machine needs a terminal",
            hint=f"run `{command}` at a terminal",
            code=Exit.DENIED,
        )
    return CliError(
        "a sign-in needs a browser, or a terminal",
        hint=f"run `{command}` at a terminal, or set BROWSER to the command of a browser",
        code=Exit.DENIED,
    )


async def _sign_in(
    entry: ServerEntry,
    interact: Interact,
    scopes: Sequence[str],
    timeout: float | None,
    on_started: Callable[[SignInStarted], None],
) -> SignInStatus | None:
    from ..client.client import Client  # noqa: PLC0415  # slow
    from ..oauth.staged_sign_in import StagedSignIn  # noqa: PLC0415  # only for remote servers
    from ..oauth.token_store import FileTokenStore  # noqa: PLC0415

    config = entry.config
    assert isinstance(config, HttpServer | SseServer)
    staged = await StagedSignIn.begin(config.url, FileTokenStore())
    provider = make_provider(config, interact=interact, store=staged.store, scopes=scopes)
    options: dict[str, Any] = {} if timeout is None else {"connect_timeout": timeout, "discovery_timeout": timeout}
    if interact is not None:  # else nothing is registered at the authorisation server in vain
        options["auth"] = provider
    client = Client(as_singleton(replace(config, oauth=None)), name=describe_server(entry), **options)
    client.on(SignInStarted, lambda event: _announce(event, config))
    client.on(SignInStarted, on_started)
    try:
        async with client:
            if await provider.status(config.url) is None:
                await _list_tools(client)  # some servers require a sign-in only here
    except AuthError:
        raise  # the server does not accept the new sign-in
    except ToolcribError:
        if await provider.status(config.url) is not None:
            await staged.commit()  # the person need not sign in again when the server works
            note(f"signed in to {describe_server(entry)}, but the connection failed afterwards")
        raise
    status = await provider.status(config.url)
    if status is not None:
        await staged.commit()
    return status


def _announce(event: SignInStarted, config: HttpServer | SseServer) -> None:
    """Print where the person is asked to sign in, and for how long the command waits."""
    from ..oauth.interaction import SIGN_IN_SECONDS  # noqa: PLC0415  # slow; only for remote servers

    is_configured = any(name in (config.oauth or {}) for name in _OF_CLIENT)
    note(
        f"sign in at {mask_urls(event.issuer)}; waiting up to {SIGN_IN_SECONDS / 60:.0f} minutes, Ctrl-C cancels."
        + (" If the page shows an error, check client_id and redirect_uri." if is_configured else "")
    )


async def _list_tools(client: Client) -> None:
    with suppress(RemoteError):  # it has none; only whether it requires a sign-in matters here
        await client.list_tools()


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
    offers = SignInOffers(entries)
    while True:
        error: Exception
        refusals: Mapping[str, Exception]
        try:
            return await work()
        except AuthError as exc:
            error, refusals = exc, {exc.server or "": exc}
        except SignInMayHelp as exc:
            error, refusals = exc.error, exc.refusals
        if not await offers.make(refusals):
            raise error


class SignInOffers:
    """The sign-ins that one command offers at the terminal: at most `MAX_OFFERS` for a server."""

    def __init__(self, entries: Sequence[ServerEntry]) -> None:
        self._entries = {entry.name: entry for entry in entries if obstacle_to_sign_in(entry) is None}
        self._offered: dict[str, list[tuple[str, ...]]] = {}
        """The scopes of the offers, by server; empty if the server chooses them."""

    async def make(self, errors: Mapping[str, Exception]) -> bool:
        """Offer to sign in to servers that require it; return whether the user signed in to any."""
        done = False
        for name, error in errors.items():
            entry = self._entries.get(name)
            if entry is None or not isinstance(error, AuthError) or not can_ask() or not await _helps(entry, error):
                continue
            granted = await _granted_scopes(entry) if lacks_scopes(error) else ()
            scopes, before = _scopes_for(error, granted), self._offered.setdefault(name, [])
            if scopes in before or len(before) >= MAX_OFFERS:
                continue  # a sign-in with these scopes did not help
            before.append(scopes)
            if await TerminalUser().confirm(_question(entry, error, granted)):
                status = await sign_in(entry, scopes=scopes)
                if status is not None:
                    note(f"signed in to {describe_server(entry)} {describe_status(status)}")
                    done = True
        return done


def _question(entry: ServerEntry, error: AuthError, granted: Sequence[str]) -> str:
    name = describe_server(entry)
    if not lacks_scopes(error):
        return f"Sign in to {name} now? [Y/n]"
    scopes = " ".join(scope for scope in missing_scopes(error) if scope not in granted)
    return f"{name} asks for more scopes{f' ({scopes})' if scopes else ''}. Sign in again? [Y/n]"


async def _helps(entry: ServerEntry, error: AuthError) -> bool:
    """Return whether a server offers a sign-in, which would help against this error."""
    from ..diagnostics.sign_in_steps import publishes_oauth_metadata  # noqa: PLC0415  # slow, and only errors need it

    if error.status == 403:
        return lacks_scopes(error)
    if error.authorization_url is not None or wants_oauth(error):
        return True
    return entry.config is not None and await publishes_oauth_metadata(entry.config)


async def _granted_scopes(entry: ServerEntry) -> tuple[str, ...]:
    assert isinstance(entry.config, HttpServer | SseServer)
    status = await stored_status(entry.config)
    return status.scopes if status is not None else ()


def _scopes_for(error: AuthError, granted: Sequence[str]) -> tuple[str, ...]:
    """Return the scopes to request: the granted and the missing ones if scopes are missing, else none."""
    if not lacks_scopes(error):
        return ()
    if error.authorization_url is not None:
        return required_scopes(error)
    return tuple(dict.fromkeys((*granted, *missing_scopes(error))))
