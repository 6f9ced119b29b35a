"""Tokens for programs, without a person: client credentials, JWT bearer assertions and cross-app access."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from .._util.threads import call_function
from ..config import check_text, mask_urls
from ..errors import AuthError
from ..types import Unset
from .account import Account, ConnectionContext
from .authorization import first_scopes
from .challenge import Challenge
from .client_auth import ClientIdentity, PrivateKey, check_private_key, choose_method
from .http import Fetch
from .issuer_discovery import canonical_resource, fetch_resource_metadata, is_local, limit_requests
from .stored_sign_in import TokenSet
from .token_requests import (
    CLIENT_CREDENTIALS,
    ID_JAG,
    JWT_BEARER,
    SUBJECT_TYPES,
    TOKEN_EXCHANGE,
    TokenRequestRejected,
    request_tokens,
)
from .well_known import ResourceMetadata, ServerMetadata, fetch_server_metadata

Assertion = str | Callable[[str], str | Awaitable[str]]
"""A JWT, or a function that gets the audience and returns one; it is called for each token."""


@dataclass(frozen=True, slots=True)
class TokenTarget:
    """The issuer, client, resource and scopes of a token request."""

    metadata: ServerMetadata
    client: ClientIdentity
    resource: str | None
    scopes: tuple[str, ...]

    @property
    def form(self) -> dict[str, str | None]:
        """The parameters that all grants have."""
        return {"resource": self.resource, "scope": " ".join(self.scopes) or None}


class ProgramGrant(Protocol):
    """How a program gets a token. The issuer is configured: the secret goes nowhere else, whatever the server says."""

    @property
    def issuer(self) -> str:
        """The issuer of the tokens."""
        ...

    @property
    def client(self) -> ClientIdentity:
        """The client of the token requests."""
        ...

    async def form(self, fetch: Fetch, target: TokenTarget, allow_loopback: bool) -> Mapping[str, str | None]:
        """Return the parameters of a token request."""
        ...


@dataclass(frozen=True, slots=True)
class ClientCredentialsGrant:
    """The client's own secret or key."""

    issuer: str
    client: ClientIdentity

    async def form(self, fetch: Fetch, target: TokenTarget, allow_loopback: bool) -> Mapping[str, str | None]:  # noqa: ARG002
        """Return the parameters of a token request."""
        return {"grant_type": CLIENT_CREDENTIALS, **target.form}


@dataclass(frozen=True, slots=True)
class JwtBearerGrant:
    """An assertion about the workload (RFC 7523)."""

    issuer: str
    client: ClientIdentity
    assertion: Assertion = field(repr=False)

    async def form(self, fetch: Fetch, target: TokenTarget, allow_loopback: bool) -> Mapping[str, str | None]:  # noqa: ARG002
        """Return the parameters of a token request, with a new assertion."""
        return {"grant_type": JWT_BEARER, "assertion": await _value(self.assertion, self.issuer), **target.form}


@dataclass(frozen=True, slots=True)
class CrossAppGrant:
    """An identity assertion (ID-JAG) that the identity provider issues for the person's token (RFC 8693)."""

    issuer: str
    client: ClientIdentity
    identity_provider: str
    """The issuer of the person's token."""
    identity_endpoint: str | None
    """The token endpoint of the identity provider; None if its metadata says."""
    identity_client: ClientIdentity
    subject: Assertion = field(repr=False)
    subject_type: str

    async def form(self, fetch: Fetch, target: TokenTarget, allow_loopback: bool) -> Mapping[str, str | None]:
        """Exchange the person's token at the identity provider, and return the parameters of a token request."""
        provider = await self._provider(fetch, allow_loopback)
        method = choose_method(
            self.identity_client.client_secret, self.identity_client.private_key, provider.token_endpoint_auth_methods
        )
        exchange = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": self.issuer,
            "subject_token": await _value(self.subject, self.identity_provider),
            "subject_token_type": SUBJECT_TYPES[self.subject_type],
            **target.form,
        }
        answer = await request_tokens(fetch, provider, replace(self.identity_client, auth_method=method), exchange)
        if answer.issued_token_type != ID_JAG or answer.token_type != "n_a":
            raise AuthError(
                f"{mask_urls(self.identity_provider)}: expected an ID-JAG (token_type N_A), got another token",
                status=401,
            )
        return {"grant_type": JWT_BEARER, "assertion": answer.access_token, **target.form}

    async def _provider(self, fetch: Fetch, allow_loopback: bool) -> ServerMetadata:
        if self.identity_endpoint is not None:
            return ServerMetadata(self.identity_provider, token_endpoint=self.identity_endpoint)
        return await _metadata(fetch, self.identity_provider, allow_loopback)


class ProgramFlow:
    """A `Flow` without a person: a token that is refused or has expired is replaced by a new one."""

    def __init__(
        self,
        grant: ProgramGrant,
        account: Account,
        connection: ConnectionContext,
        *,
        scopes: tuple[str, ...] | None,
        resource: str | Unset | None,
    ) -> None:
        self._grant = grant
        self._account = account
        self._connection = connection
        self._scopes = scopes
        self._resource = resource
        self._challenge: Challenge | None = None

    async def renew(self, used: TokenSet) -> TokenSet | None:
        """Return another token for the same scopes."""
        return await self._request(used, used.scopes_requested)

    async def sign_in(
        self, challenge: Challenge | None, used: TokenSet | None, *, more_scopes: bool, allow_legacy: bool
    ) -> TokenSet:
        """Return a token for the scopes of the challenge."""
        del allow_legacy  # the issuer is configured
        self._challenge = challenge
        wanted: tuple[str, ...] | None = None
        if more_scopes and used is not None and challenge is not None:
            used.check_new_scopes(challenge.scope)
            wanted = tuple(dict.fromkeys((*used.scopes_requested, *challenge.scope)))
        return await self._request(used, wanted, is_sign_in=True)

    async def _request(
        self, used: TokenSet | None, scopes: tuple[str, ...] | None, *, is_sign_in: bool = False
    ) -> TokenSet:
        async with self._account.lock():
            current = self._account.tokens
            is_newer = current is not None and (used is None or current.access_token != used.access_token)
            if current is not None and is_newer:
                if current.covers(scopes or ()):
                    return current
                scopes = tuple(dict.fromkeys((*current.scopes_requested, *(scopes or ()))))
            if is_sign_in:
                self._account.check_sign_in(scopes or ())
            fetch, local = limit_requests(self._connection.fetch), is_local(self._connection.server_url)
            found = await fetch_resource_metadata(fetch, self._connection.server_url, self._challenge)
            self._check_issuer(found)
            metadata = await _metadata(fetch, self._grant.issuer, local)
            target = self._target(metadata, found, scopes, used)
            form = await self._grant.form(fetch, target, local)
            try:
                answer = await request_tokens(fetch, metadata, target.client, form)
            except TokenRequestRejected as exc:
                raise AuthError(exc.message, status=401) from exc
            tokens = TokenSet.from_response(
                metadata, target.client, target.resource, target.scopes, answer, is_for_program=True
            )
            if is_sign_in:
                self._account.begin_sign_in(scopes or ())  # only tokens count: a failing issuer is asked again
            self._account.tokens, self._account.is_loaded = tokens, True
            return tokens

    def _check_issuer(self, found: ResourceMetadata | None) -> None:
        if found is not None and found.authorization_servers and self._grant.issuer not in found.authorization_servers:
            names = ", ".join(map(mask_urls, found.authorization_servers))
            raise AuthError(
                f"issuer: expected one of those that the server names ({names}), got {self._grant.issuer}. "
                "Nothing was sent to it",
                status=401,
            )

    def _target(
        self,
        metadata: ServerMetadata,
        found: ResourceMetadata | None,
        scopes: tuple[str, ...] | None,
        used: TokenSet | None,
    ) -> TokenTarget:
        client = self._grant.client
        if not client.auth_method:
            supported = metadata.token_endpoint_auth_methods
            client = replace(client, auth_method=choose_method(client.client_secret, client.private_key, supported))
        resource = self._resource
        if isinstance(resource, Unset):
            resource = canonical_resource(self._connection.server_url)
            if found is not None:
                resource = found.resource
            elif used is not None:
                resource = used.resource  # only a challenge names the metadata, and this connection has seen none
        if scopes is None:
            challenged = self._challenge.scope if self._challenge is not None else ()
            scopes = first_scopes(self._scopes, challenged, found.scopes_supported if found is not None else ())
        return TokenTarget(metadata, client, resource, scopes)


async def _metadata(fetch: Fetch, issuer: str, allow_loopback: bool) -> ServerMetadata:
    found = await fetch_server_metadata(fetch, issuer, allow_loopback=allow_loopback)
    if found is None:
        raise AuthError(f"{mask_urls(issuer)}: no metadata found. Check issuer=", status=401)
    return found


async def _value(given: Assertion, audience: str) -> str:
    if isinstance(given, str):
        return given
    value = await call_function(given, audience)
    if not isinstance(value, str) or not value:
        raise AuthError(f"expected a function that returns a token, got {type(value).__name__}")
    return value


def program_client(
    client_id: str | None,
    client_secret: str | None,
    private_key: PrivateKey | None,
    auth_method: str | None,
    *,
    prefix: str = "",
) -> ClientIdentity:
    """Return the client of a program; an empty `auth_method` is chosen by what the server supports.

    Errors name the options with the prefix.
    """
    if client_id is not None:
        check_text(f"{prefix}client_id", client_id)
    if client_secret is not None:
        check_text(f"{prefix}client_secret", client_secret)
    return ClientIdentity(client_id or "", client_secret, auth_method or "", private_key=check_private_key(private_key))
