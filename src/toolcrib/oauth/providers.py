"""What users give to `auth=`: `OAuth` for a person, the other classes for programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from .._util.tasks import run_to_end
from ..config import check_oauth_options, check_scopes, check_text, mask_urls, wrong
from ..errors import AuthError, ConfigError, ConnectError, UsageError
from ..types import UNSET, Unset
from .account import Account, ConnectionContext
from .authorization import read_redirect
from .authorizer import Authorizer, Flow
from .client_auth import METHODS, ClientIdentity, PrivateKey, check_private_key
from .client_registration import check_client_metadata_url
from .http import Fetch, is_secure, open_fetch
from .interaction import Interact, can_listen, check_interact
from .programs import (
    Assertion,
    ClientCredentialsGrant,
    CrossAppGrant,
    JwtBearerGrant,
    ProgramFlow,
    ProgramGrant,
    program_client,
)
from .sign_in import SignInFlow, SignInOptions, client_of, metadata_of, redeem
from .stored_sign_in import Grant, StoredSignIn
from .token_requests import SUBJECT_TYPES, revoke
from .token_store import FileTokenStore, MemoryTokenStore, TokenStore


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

    def observed(self, on_waiting: Callable[[str | None], None], *, allow_legacy: bool = True) -> ObservedProvider:
        """Return this provider for one client.

        `on_waiting` is called with the issuer when a person is asked, and with None when that has ended. Without
        `allow_legacy`, servers must publish resource metadata.
        """
        return ObservedProvider(partial(self.connect, on_waiting=on_waiting, allow_legacy=allow_legacy))

    def _account(self, server_url: str) -> Account:
        new = Account(server_url, self._account_name, self._store, self._choose)
        return self._accounts.setdefault(server_url, new)

    @abstractmethod
    def _choose(self, stored: StoredSignIn) -> Grant | None:
        """Return the stored grant that fits the options."""

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
        check_interact(interact)
        if issuer is not None:
            _check_issuer("issuer", issuer)
        if redirect_uri is not None:
            _check_redirect(redirect_uri, interact)
        if client_id is None and (client_secret is not None or private_key is not None):
            raise ConfigError("client_id: expected one, because a client_secret or private_key is set", key="client_id")
        if client_secret is not None and private_key is not None:
            raise _one_credential()
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

    def _flow(self, account: Account, connection: ConnectionContext) -> Flow:
        return SignInFlow(self._options, account, connection)

    def _choose(self, stored: StoredSignIn) -> Grant | None:
        """Return the stored grant that fits the options; one that can be renewed with them is preferred."""
        options = self._options
        fitting = [
            each
            for each in stored.grants_of(options.issuer)
            if options.client_id in (None, each.client_id) and options.resource in (UNSET, each.resource)
        ]
        renewable = (each for each in fitting if client_of(options, each, stored) is not None)
        return next(renewable, next(iter(fitting), None))

    async def status(self, server_url: str) -> SignInStatus | None:
        """Return the stored sign-in at a server; None if there is none."""
        account = self._account(server_url)
        grant = self._choose(await account.load())
        if grant is None:
            return None
        return SignInStatus(
            server_url,
            grant.issuer,
            grant.client_id,
            grant.resource,
            grant.scopes_granted,
            grant.expires_at,
            grant.refresh_token is not None,
        )

    async def finish_sign_in(self, server_url: str, redirected_to: str, *, fetch: Fetch | None = None) -> SignInStatus:
        """Complete a sign-in with the URL that the person was redirected to from `AuthError.authorization_url`.

        `fetch` makes the requests instead of aiohttp, for networks with proxies or certificates of their own.
        """
        if not isinstance(redirected_to, str):
            raise wrong("redirected_to", "the URL of the redirect", redirected_to)
        account = self._account(server_url)
        attempt, answer = account.pending, read_redirect(redirected_to)
        if attempt is None:
            raise UsageError(
                "finish_sign_in: no sign-in is pending for this server. Call it after an AuthError with an "
                "authorization_url, on the same OAuth object"
            )
        if attempt.matches(answer):  # anyone can send an answer with another state: it must not end the attempt
            account.pending = None
        code = attempt.read_code(answer)
        async with open_fetch(fetch) as opened:
            await run_to_end(redeem(opened, account, attempt, code))
        status = await self.status(server_url)
        assert status is not None
        return status

    async def forget(self, server_url: str) -> bool:
        """Remove the stored tokens and registered clients of a server; return whether there were any."""
        stored = await self._account(server_url).delete()
        return bool(stored.grants or stored.clients)

    async def logout(self, server_url: str, *, fetch: Fetch | None = None) -> bool:
        """Revoke the tokens at the authorisation server, if it offers that, then forget them.

        Returns whether there was a sign-in. They are forgotten even if they could not be revoked; then `AuthError` or
        `ConnectError` is raised. `fetch` makes the requests instead of aiohttp.
        """
        stored = await self._account(server_url).delete()
        failures: list[AuthError | ConnectError] = []
        async with open_fetch(fetch) as opened:
            for grant in stored.grants:
                try:
                    await self._revoke(opened, grant, stored)
                except (AuthError, ConnectError) as exc:
                    failures.append(exc)
        if failures:
            raise failures[0]
        return bool(stored.grants or stored.clients)

    async def _revoke(self, fetch: Fetch, grant: Grant, stored: StoredSignIn) -> None:
        # Of another client than the configured one only the id: the configured secret must not be sent there.
        client = client_of(self._options, grant, stored) or ClientIdentity(grant.client_id)
        if grant.revocation_endpoint is None:
            return
        metadata = metadata_of(grant)
        tokens = ((grant.refresh_token, "refresh_token"), (grant.access_token, "access_token"))
        revoked = [await revoke(fetch, metadata, client, token, hint) for token, hint in tokens if token is not None]
        # Many servers do not revoke access tokens that are JWTs; those end with the refresh token.
        if not any(revoked):
            raise AuthError(f"{mask_urls(grant.issuer)}: the tokens were forgotten, but the server did not revoke them")


class _Program(AuthProvider):
    """The base of providers without a person; their tokens are kept in memory, since new ones are obtained at will."""

    def __init__(self, grant: ProgramGrant, scopes: Sequence[str] | None, resource: str | Unset | None) -> None:
        super().__init__(MemoryTokenStore(), "")
        _check_issuer("issuer", grant.issuer)
        self._grant = grant
        self._scopes = None if scopes is None else check_scopes("scopes", scopes)
        self._resource = resource

    def __repr__(self) -> str:
        client_id = self._grant.client.client_id
        client = f", client_id={client_id!r}" if client_id else ""
        return f"{type(self).__name__}(issuer={self._grant.issuer!r}{client})"

    def _choose(self, stored: StoredSignIn) -> Grant | None:
        return next(iter(stored.grants), None)

    def _flow(self, account: Account, connection: ConnectionContext) -> Flow:
        return ProgramFlow(self._grant, account, connection, scopes=self._scopes, resource=self._resource)


class ClientCredentials(_Program):
    """A program that has a secret or key of its own: CI jobs, services, cron.

    `issuer` is required: the secret goes to no other authorisation server, whatever the MCP server says.
    """

    extensions = ("io.modelcontextprotocol/oauth-client-credentials",)

    def __init__(
        self,
        *,
        issuer: str,
        client_id: str,
        client_secret: str | None = None,
        private_key: PrivateKey | None = None,
        auth_method: str | None = None,
        scopes: Sequence[str] | None = None,
        resource: str | Unset | None = UNSET,
    ) -> None:
        """Create the provider; either `client_secret` or `private_key` is required.

        Args:
            issuer: The authorisation server.
            client_id: The id of this program there.
            client_secret: Its secret.
            private_key: Its key: PEM, a PEM file, a JWK, or a function that gets the claims and returns the signed JWT.
            auth_method: How the secret is sent, `"client_secret_basic"` or `"client_secret_post"`; default: as the
                authorisation server supports it.
            scopes: The scopes to request; default: those that the server asks for.
            resource: The resource parameter; default: what the server's metadata says. None omits it.
        """
        if (client_secret is None) == (private_key is None):
            raise _one_credential()
        client = program_client(client_id, client_secret, private_key, _auth_method(auth_method))
        super().__init__(ClientCredentialsGrant(issuer, client), scopes, resource)


class JwtBearer(_Program):
    """A workload with an assertion about its identity, such as the token of its platform (RFC 7523)."""

    extensions = ("io.modelcontextprotocol/auth/wif",)

    def __init__(
        self,
        *,
        issuer: str,
        assertion: Assertion,
        client_id: str | None = None,
        client_secret: str | None = None,
        scopes: Sequence[str] | None = None,
        resource: str | Unset | None = UNSET,
    ) -> None:
        """Create the provider.

        Args:
            issuer: The authorisation server.
            assertion: A JWT, or a function that gets the audience (the issuer) and returns one, for each token.
            client_id: The id of this program there, if the authorisation server requires one.
            client_secret: Its secret.
            scopes: The scopes to request; default: those that the server asks for.
            resource: The resource parameter; default: what the server's metadata says. None omits it.
        """
        client = program_client(client_id, client_secret, None, None)
        super().__init__(JwtBearerGrant(issuer, client, _check_assertion("assertion", assertion)), scopes, resource)


class CrossAppAccess(_Program):
    """Access on behalf of a person who signed in to this program with an identity provider of the organisation.

    The identity provider exchanges the person's token for an identity assertion (ID-JAG), which the authorisation
    server of the MCP server accepts.
    """

    extensions = ("io.modelcontextprotocol/enterprise-managed-authorization",)

    def __init__(
        self,
        *,
        issuer: str,
        client_id: str,
        client_secret: str | None = None,
        private_key: PrivateKey | None = None,
        idp_issuer: str,
        idp_client_id: str,
        idp_client_secret: str | None = None,
        idp_token_endpoint: str | None = None,
        subject_token: Assertion,
        subject_token_type: str = "id_token",  # noqa: S107  # not a password
        scopes: Sequence[str] | None = None,
        resource: str | Unset | None = UNSET,
    ) -> None:
        """Create the provider.

        Args:
            issuer: The authorisation server of the MCP server.
            client_id: The id of this program there.
            client_secret: Its secret there.
            private_key: Its key there.
            idp_issuer: The identity provider.
            idp_client_id: The id of this program at the identity provider.
            idp_client_secret: Its secret there.
            idp_token_endpoint: The token endpoint of the identity provider; default: what its metadata says.
            subject_token: The person's token, or a function that gets the identity provider and returns it.
            subject_token_type: `"id_token"` or `"saml2"`.
            scopes: The scopes to request; default: those that the server asks for.
            resource: The resource parameter; default: what the server's metadata says. None omits it.
        """
        if subject_token_type not in SUBJECT_TYPES:
            raise wrong("subject_token_type", " or ".join(SUBJECT_TYPES), subject_token_type)
        _check_issuer("idp_issuer", idp_issuer)
        if idp_token_endpoint is not None:
            _check_issuer("idp_token_endpoint", idp_token_endpoint)
        grant = CrossAppGrant(
            issuer,
            program_client(client_id, client_secret, private_key, None),
            idp_issuer,
            idp_token_endpoint,
            program_client(idp_client_id, idp_client_secret, None, None),
            _check_assertion("subject_token", subject_token),
            subject_token_type,
        )
        super().__init__(grant, scopes, resource)


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


def _check_assertion(key: str, assertion: Any) -> Assertion:
    if not callable(assertion) and not (isinstance(assertion, str) and assertion):
        raise wrong(key, "a token, or a function that returns one", assertion)
    return assertion  # type: ignore[no-any-return]


def _one_credential() -> ConfigError:
    return ConfigError("client_secret, private_key: expected one of them", key="client_secret")


def _check_issuer(key: str, issuer: str) -> None:
    if not is_secure(issuer, allow_loopback=True):
        raise ConfigError(
            f"{key}: expected an https URL, got {mask_urls(str(issuer))}", key=key, expected="an https URL"
        )


def _check_redirect(redirect_uri: str, interact: Interact) -> None:
    # As the specification has it: TLS, except for addresses of this machine.
    if not is_secure(redirect_uri, allow_loopback=True) or "#" in redirect_uri:
        raise wrong("redirect_uri", "an https URL, or one such as http://127.0.0.1:8765/callback", redirect_uri)
    if interact == "browser" and not can_listen(redirect_uri):
        raise wrong("redirect_uri", "an http URL of this machine with a port, because a browser is used", redirect_uri)


def _auth_method(method: str | None) -> str | None:
    if method is not None and method not in METHODS:
        raise wrong("auth_method", "one of " + ", ".join(METHODS), method)
    return method
