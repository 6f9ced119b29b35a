"""`OAuth`, which signs a person in, and the base of all objects that `auth=` takes."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from .._util.tasks import run_to_end
from ..config import check_oauth_options, check_text, mask_urls, wrong
from ..errors import AuthError, ConfigError, ConnectError, UsageError
from ..types import UNSET, Unset
from .account import Account, ConnectionContext
from .authorization import read_redirect
from .authorizer import Authorizer, Flow
from .client_auth import ClientIdentity, PrivateKey, check_private_key, one_credential
from .client_registration import check_client_metadata_url
from .http import Fetch, check_secure, is_secure, open_fetch
from .interaction import Interact, can_listen, check_interact
from .sign_in import SignInFlow, redeem
from .sign_in_options import SignInOptions, client_of
from .stored_sign_in import StoredSignIn, TokenSet
from .token_requests import revoke
from .token_store import FileTokenStore, TokenStore


@dataclass(frozen=True, slots=True)
class SignInStatus:
    """The stored sign-in at a server. Tokens are not shown."""

    server: str
    """The URL of the MCP server."""
    issuer: str
    """The authorisation server."""
    client_id: str
    """The client that the tokens were issued to."""
    resource: str | None
    """The resource that the tokens are for; None if none was requested."""
    scopes: tuple[str, ...]
    """The granted scopes."""
    expires_at: float | None
    """When the access token expires, in epoch seconds; None if unknown."""
    can_renew: bool
    """Whether a refresh token can replace it without a person."""


class AuthProvider(ABC):
    """The base of all providers. One object may serve many clients and event loops of a process."""

    extensions: ClassVar[tuple[str, ...]] = ()
    """The protocol extensions that clients with this provider declare."""

    def __init__(self, store: TokenStore, account: str) -> None:
        self._store = store
        self._account_name = account
        self._accounts: dict[str, Account] = {}

    def connect(
        self,
        server_url: str,
        fetch: Fetch,
        hold: Callable[[], AbstractContextManager[None]],
        on_waiting: Callable[[str | None], None] = lambda _: None,
        allow_legacy: bool = True,
    ) -> Authorizer:
        """Return the authorizer of a new connection to a server."""
        account = self._account(server_url)
        context = ConnectionContext(server_url, fetch, hold, on_waiting, allow_legacy)
        return Authorizer(account, self._flow(account, context))

    def for_client(self, on_waiting: Callable[[str | None], None], *, allow_legacy: bool = True) -> ObservedProvider:
        """Return this provider for one client.

        `on_waiting` is called with the issuer when a person is asked, and with None when that has ended. Without
        `allow_legacy`, servers must publish resource metadata.
        """
        return ObservedProvider(partial(self.connect, on_waiting=on_waiting, allow_legacy=allow_legacy))

    def _account(self, server_url: str) -> Account:
        command = self._login_command(server_url)
        new = Account(server_url, self._account_name, self._store, self._choose, login_command=command)
        return self._accounts.setdefault(server_url, new)

    def _login_command(self, server_url: str) -> str:  # noqa: ARG002  # providers for a person use it
        """Return the command line with which a person can sign in, if there is one."""
        return ""

    @abstractmethod
    def _choose(self, stored: StoredSignIn) -> TokenSet | None:
        """Return the stored token set that fits the options."""

    @abstractmethod
    def _flow(self, account: Account, connection: ConnectionContext) -> Flow:
        """Return the flow that obtains tokens for the account."""


@dataclass(frozen=True, slots=True)
class ObservedProvider:
    """A provider for one client, which is notified when a person is asked."""

    connect: Callable[..., Authorizer]


class OAuth(AuthProvider):
    """Signs a person in to remote servers with OAuth 2.1: `Client(url, auth=OAuth())`.

    Finds the authorisation server, identifies this program there, opens a browser once, stores the tokens and renews
    them. The defaults need no registration by hand if the server supports client registration.
    """

    def __init__(
        self,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        private_key: PrivateKey | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "Toolcrib",
        scopes: Sequence[str] | None = None,
        issuer: str | None = None,
        resource: str | Unset | None = UNSET,
        redirect_uri: str | None = None,
        interact: Interact = "auto",
        store: TokenStore | None = None,
        account: str = "",
        assume_pkce: bool = False,
    ) -> None:
        """Create the provider.

        Args:
            client_id: The id of a client that was registered by hand; `client_secret` or `private_key` if it has one.
            client_secret: The secret of that client.
            private_key: The key of that client: PEM, a PEM file, a JWK, or a function that signs.
            client_metadata_url: The https URL of a client metadata document, for servers that accept one.
            client_name: The name of this program that the consent page shows.
            scopes: The scopes to request first; default: those that the server asks for.
            issuer: The authorisation server to use; it must be one that the server names.
            resource: The resource parameter; default: what the server's metadata says. None omits it.
            redirect_uri: The address that receives the answer; default: a free port of 127.0.0.1.
            interact: `"browser"`, `"paste"` (for terminals without a browser), a function, or None to raise
                `AuthError` with the URL instead. `"auto"` is a browser if there is one, else a terminal, else None.
            store: Where tokens are stored; default: `FileTokenStore()`.
            account: Distinguishes several accounts at the same server.
            assume_pkce: Accept servers that do not state that they support PKCE.
        """
        if client_metadata_url is not None:
            check_client_metadata_url(client_metadata_url)
        checked = check_oauth_options(
            {
                "client_id": client_id,
                "client_secret": client_secret,
                "client_metadata_url": client_metadata_url,
                "scopes": scopes,
                "issuer": issuer,
                "redirect_uri": redirect_uri,
                "assume_pkce": assume_pkce,
                **({} if resource is UNSET else {"resource": resource}),
            }
        )
        super().__init__(_check_store(store), _check_account(account))
        self._has_default_store = store is None
        check_interact(interact)
        if issuer is not None:
            check_secure("issuer", issuer)
        if redirect_uri is not None:
            _check_redirect(redirect_uri, interact)
        if client_id is None and (client_secret is not None or private_key is not None):
            raise ConfigError("client_id: expected one, because a client_secret or private_key is set", key="client_id")
        if client_secret is not None and private_key is not None:
            raise one_credential()
        self._options = SignInOptions(
            **checked,
            private_key=check_private_key(private_key),
            client_name=check_text("client_name", client_name),
            interact=interact,
        )

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={value!r}"
            for name, value in (
                ("client_id", self._options.client_id),
                ("scopes", self._options.scopes),
                ("issuer", self._options.issuer),
                ("account", self._account_name or None),
            )
            if value is not None
        )
        return f"OAuth({shown})"

    def _login_command(self, server_url: str) -> str:
        options = self._options
        chosen = (options.client_id, options.client_metadata_url, options.issuer, self._account_name or None)
        # With other options, this provider would not use the sign-in of the command.
        if not self._has_default_store or options.resource is not UNSET or any(each is not None for each in chosen):
            return ""
        if mask_urls(server_url) != server_url:
            return ""
        scopes = "".join(f" --scope {shlex.quote(each)}" for each in options.scopes or ())
        return f"toolcrib auth login {shlex.quote(server_url)}{scopes}"

    def _flow(self, account: Account, connection: ConnectionContext) -> Flow:
        return SignInFlow(self._options, account, connection)

    def _choose(self, stored: StoredSignIn) -> TokenSet | None:
        """Return the stored token set that fits the options; one that can be renewed with them is preferred."""
        options = self._options
        fitting = [
            each
            for each in stored.token_sets_of(options.issuer)
            if options.client_id in (None, each.client_id) and options.resource in (UNSET, each.resource)
        ]
        renewable = (each for each in fitting if client_of(options, each, stored) is not None)
        return next(renewable, next(iter(fitting), None))

    async def status(self, server_url: str) -> SignInStatus | None:
        """Return the stored sign-in at a server; None if there is none."""
        account = self._account(server_url)
        stored = await account.load()
        tokens = self._choose(stored)
        if tokens is None:
            return None
        return SignInStatus(
            server_url,
            tokens.issuer,
            tokens.client_id,
            tokens.resource,
            tokens.scopes_granted,
            tokens.expires_at,
            tokens.refresh_token is not None and client_of(self._options, tokens, stored) is not None,
        )

    async def finish_sign_in(self, server_url: str, redirected_to: str, *, fetch: Fetch | None = None) -> SignInStatus:
        """Complete a sign-in with the URL that the person was redirected to from `AuthError.authorization_url`.

        `fetch` makes the requests instead of aiohttp, for networks with proxies or certificates of their own.
        """
        if not isinstance(redirected_to, str):
            raise wrong("redirected_to", "the URL of the redirect", redirected_to)
        account = self._account(server_url)
        answer = read_redirect(redirected_to)
        attempt = account.take_pending(answer)
        if attempt is None:
            raise UsageError(
                "finish_sign_in: no sign-in is pending for this server, or it was answered before. Call it once after "
                "an AuthError with an authorization_url, on the same OAuth object"
            )
        code = attempt.read_code(answer)
        async with open_fetch(fetch) as opened:
            await run_to_end(redeem(opened, account, attempt, code))
        status = await self.status(server_url)
        assert status is not None
        return status

    async def forget(self, server_url: str) -> bool:
        """Remove the stored tokens and registered clients of a server; return whether there were any."""
        stored = await self._account(server_url).delete()
        return stored is None or bool(stored.token_sets or stored.clients)

    async def logout(self, server_url: str, *, fetch: Fetch | None = None) -> bool:
        """Revoke the tokens at the authorisation server, if it offers that, then forget them.

        Returns whether there was a sign-in. They are forgotten even if they could not be revoked; then `AuthError` or
        `ConnectError` is raised. `fetch` makes the requests instead of aiohttp.
        """
        stored = await self._account(server_url).delete()
        if stored is None:
            message = "the stored sign-in could not be read; its tokens were not revoked, only forgotten"
            raise AuthError(f"{mask_urls(server_url)}: {message}")
        failures: list[AuthError | ConnectError] = []
        async with open_fetch(fetch) as opened:
            for tokens in stored.token_sets:
                try:
                    await self._revoke(opened, tokens, stored)
                except (AuthError, ConnectError) as exc:
                    failures.append(exc)
        if failures:
            raise failures[0]
        return bool(stored.token_sets or stored.clients)

    async def _revoke(self, fetch: Fetch, tokens: TokenSet, stored: StoredSignIn) -> None:
        # Of another client than the configured one only the id: the configured secret must not be sent there.
        client = client_of(self._options, tokens, stored) or ClientIdentity(tokens.client_id)
        if tokens.revocation_endpoint is None:
            return
        metadata = tokens.issuer_metadata
        values = ((tokens.refresh_token, "refresh_token"), (tokens.access_token, "access_token"))
        revoked = [await revoke(fetch, metadata, client, token, hint) for token, hint in values if token is not None]
        # Many servers do not revoke access tokens that are JWTs; those end with the refresh token.
        if not any(revoked):
            raise AuthError(
                f"{mask_urls(tokens.issuer)}: the server did not revoke the tokens; they were only forgotten"
            )


def _check_store(store: TokenStore | None) -> TokenStore:
    if store is None:
        return FileTokenStore()
    if isinstance(store, type) or not isinstance(store, TokenStore):
        raise wrong("store", 'a token store such as FileTokenStore("folder")', store)
    return store


def _check_account(account: Any) -> str:
    if not isinstance(account, str) or not account.isprintable():
        raise wrong("account", "a name without line breaks", account)
    return account


def _check_redirect(redirect_uri: str, interact: Interact) -> None:
    # As the specification has it: TLS, except for addresses of this machine.
    if not is_secure(redirect_uri, allow_loopback=True) or "#" in redirect_uri:
        raise wrong("redirect_uri", "an https URL, or one such as http://127.0.0.1:8765/callback", redirect_uri)
    if interact == "browser" and not can_listen(redirect_uri):
        raise wrong("redirect_uri", "an http URL of this machine with a port, because a browser is used", redirect_uri)
