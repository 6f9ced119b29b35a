"""The stored record of one server: its tokens, and the clients that are registered for it.

A server may change its authorisation server: what belongs to the former one stays stored under its issuer.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import AuthError
from .client_auth import ClientIdentity
from .token_requests import TokenResponse
from .well_known import ServerMetadata

VERSION: Final = 1
RENEW_SECONDS: Final = 60.0
RENEW_SHARE: Final = 0.1
"""A token is renewed when less than this share of its life is left, at most `RENEW_SECONDS`."""
NOT_STORED: Final = frozenset({"private_key"})
JUST_OBTAINED_SECONDS: Final = 5.0
"""Seconds for which a new token counts as valid whatever the clock says: a clock that jumps must not cause a loop."""


@dataclass(frozen=True)
class TokenSet:
    """An access token with what is needed to use, renew and revoke it."""

    issuer: str
    client_id: str
    access_token: str = field(repr=False)
    resource: str | None = None
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Epoch seconds; None if unknown."""
    obtained_at: float = field(default_factory=time.time)
    scopes_requested: tuple[str, ...] = ()
    scopes_granted: tuple[str, ...] = ()
    token_endpoint: str | None = None
    revocation_endpoint: str | None = None
    auth_method: str = "none"
    auth_algorithms: tuple[str, ...] | None = None
    """The algorithms that the token endpoint accepts for `private_key_jwt`; None if unknown."""
    is_legacy: bool = False
    """Whether the authorisation server was found without resource metadata."""
    resource_metadata_url: str | None = None
    """Where a challenge said that the resource metadata is."""
    is_for_program: bool = False
    """Whether a program can obtain another one at any time, without a refresh token."""

    @classmethod
    def from_response(
        cls,
        metadata: ServerMetadata,
        client: ClientIdentity,
        resource: str | None,
        scopes: tuple[str, ...],
        response: TokenResponse,
        *,
        resource_metadata_url: str | None = None,
        is_for_program: bool = False,
    ) -> TokenSet:
        """Return the tokens in a response of a token endpoint, with what is needed to use them."""
        if response.token_type != "bearer":
            raise AuthError(f"token_type: expected Bearer, got {response.token_type[:40]!r}", status=401)
        return cls(
            metadata.issuer,
            client.client_id,
            response.access_token,
            resource,
            response.refresh_token,
            response.expires_at,
            scopes_requested=scopes,
            scopes_granted=scopes if response.scopes is None else response.scopes,
            token_endpoint=metadata.token_endpoint,
            revocation_endpoint=metadata.revocation_endpoint,
            auth_method=client.auth_method,
            auth_algorithms=metadata.token_endpoint_auth_algorithms,
            is_legacy=metadata.is_legacy,
            resource_metadata_url=resource_metadata_url,
            is_for_program=is_for_program,
        ).mark_new()

    @property
    def issuer_metadata(self) -> ServerMetadata:
        """The metadata of the issuer, as far as it is stored here."""
        return ServerMetadata(
            self.issuer,
            token_endpoint=self.token_endpoint,
            revocation_endpoint=self.revocation_endpoint,
            token_endpoint_auth_algorithms=self.auth_algorithms,
        )

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers that this token adds to requests."""
        return {"Authorization": f"Bearer {self.access_token}"}

    @cached_property
    def renew_at(self) -> float | None:
        """When the renewal in the background begins; None if the expiry is unknown or a person would be needed."""
        if self.expires_at is None or (self.refresh_token is None and not self.is_for_program):
            return None
        return self.expires_at - min(RENEW_SECONDS, (self.expires_at - self.obtained_at) * RENEW_SHARE)

    @cached_property
    def _created(self) -> float:
        return time.monotonic()

    def is_valid(self, now: float) -> bool:
        """Return whether the token has not expired."""
        return self.expires_at is None or now < self.expires_at or self.is_new

    @property
    def is_new(self) -> bool:
        """Whether this process obtained the token a moment ago."""
        return "_created" in self.__dict__ and time.monotonic() - self._created < JUST_OBTAINED_SECONDS

    def covers(self, scopes: Iterable[str]) -> bool:
        """Return whether these scopes were requested or granted."""
        return {*self.scopes_requested, *self.scopes_granted}.issuperset(scopes)

    def check_new_scopes(self, scopes: Iterable[str]) -> None:
        """Raise `AuthError` if the server rejects this token for scopes that it has: a new one would not help."""
        if set(self.scopes_granted).issuperset(scopes):
            words = "the server says that the token lacks scopes, but names none that it does not have"
            raise AuthError(f"{words}. Check the permissions of the account", status=403)

    def mark_new(self) -> TokenSet:
        """Remember that this process obtained the token now."""
        _ = self._created
        return self

    def with_response(self, answer: TokenResponse) -> TokenSet:
        """Return a copy with the tokens of the response to a refresh; what the response omits stays."""
        return replace(
            self,
            access_token=answer.access_token,
            refresh_token=answer.refresh_token or self.refresh_token,
            expires_at=answer.expires_at,
            obtained_at=time.time(),
            scopes_granted=self.scopes_granted if answer.scopes is None else answer.scopes,
        ).mark_new()


@dataclass(frozen=True)
class StoredSignIn:
    """The token sets and clients for one server and account. The token set that was stored last is the first."""

    server: str
    account: str = ""
    token_sets: tuple[TokenSet, ...] = ()
    clients: tuple[ClientIdentity, ...] = ()
    issuer: str | None = None
    """The issuer of the last sign-in: the server may have named another one before. None if there was none."""

    def token_sets_of(self, issuer: str | None) -> tuple[TokenSet, ...]:
        """Return the token sets of this issuer, by default of that of the last sign-in; the last stored one first."""
        wanted = issuer or self.issuer
        return tuple(each for each in self.token_sets if each.issuer == wanted)

    def with_tokens(self, tokens: TokenSet) -> StoredSignIn:
        """Return a copy with this token set as the last one; it replaces that of the same issuer, client, resource."""
        others = (each for each in self.token_sets if _identity(each) != _identity(tokens))
        return replace(self, token_sets=(tokens, *others), issuer=tokens.issuer)

    def without_tokens(self, tokens: TokenSet) -> StoredSignIn:
        """Return a copy without the token set."""
        return replace(self, token_sets=tuple(each for each in self.token_sets if _identity(each) != _identity(tokens)))

    def client_for(self, issuer: str, client_id: str | None = None) -> ClientIdentity | None:
        """Return the client that is registered with an issuer."""
        found = (each for each in self.clients if each.issuer == issuer and client_id in (None, each.client_id))
        return next((each for each in found if each.is_registered), None)

    def with_client(self, client: ClientIdentity) -> StoredSignIn:
        """Return a copy with the client: in place of the registered one of the issuer, or of the one of the same id."""
        others = (
            each
            for each in self.clients
            if (each.issuer, each.origin) != (client.issuer, client.origin)
            or (not client.is_registered and each.client_id != client.client_id)
        )
        return replace(self, clients=(client, *others))

    def without_client(self, issuer: str) -> StoredSignIn:
        """Return a copy without the registered client of an issuer and its token sets; configured clients stay."""
        client = self.client_for(issuer)
        if client is None:
            return self
        removed = issuer, client.client_id
        return replace(
            self,
            clients=tuple(each for each in self.clients if each is not client),
            token_sets=tuple(each for each in self.token_sets if (each.issuer, each.client_id) != removed),
        )

    def merge(self, newer: StoredSignIn) -> StoredSignIn:
        """Return `newer` with the token sets of this record for other issuers, and for clients that are still known."""
        issuers = {each.issuer for each in newer.token_sets}
        clients = {(each.issuer, each.client_id) for each in newer.clients}
        replaced = {_identity(each) for each in newer.token_sets}
        kept = (
            each
            for each in self.token_sets
            if _identity(each) not in replaced
            and (each.issuer not in issuers or (each.issuer, each.client_id) in clients)
        )
        return replace(newer, token_sets=(*newer.token_sets, *kept))

    def to_text(self) -> str:
        """Return this as JSON."""
        clients = [{k: v for k, v in asdict(each).items() if k not in NOT_STORED} for each in self.clients]
        document = {"version": VERSION, "server": self.server, "account": self.account, "issuer": self.issuer}
        return json.dumps({**document, "token_sets": [asdict(each) for each in self.token_sets], "clients": clients})

    @classmethod
    def from_text(cls, text: str | None, server: str, account: str) -> StoredSignIn:
        """Return what `to_text` wrote; an empty one for other texts."""
        found = cls.parse(text or "")
        return cls(server, account) if found is None else replace(found, server=server, account=account)

    @classmethod
    def parse(cls, text: str) -> StoredSignIn | None:
        """Return what `to_text` wrote, with the server and account that the text names; None for other texts."""
        try:
            document = json.loads(text)
            if not isinstance(document, dict) or document.get("version") != VERSION:
                return None
            server, account = document["server"], document["account"]
            token_sets = tuple(_read(TokenSet, each) for each in document["token_sets"])
            clients = tuple(_read(ClientIdentity, each) for each in document["clients"])
            issuer = document.get("issuer")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        if not isinstance(server, str) or not isinstance(account, str):
            return None
        return cls(server, account, token_sets, clients, issuer if isinstance(issuer, str) else None)


def _identity(tokens: TokenSet) -> tuple[str, str, str | None]:
    return tokens.issuer, tokens.client_id, tokens.resource


def _read(kind: Any, values: dict[str, Any]) -> Any:
    """Return a dataclass with these values; raises `TypeError` if one is missing or of another type."""
    hints = _hints(kind)
    known = {name: value for name, value in values.items() if name in hints and name not in NOT_STORED}
    for name, value in known.items():
        if not _fits(value, hints[name]):
            raise TypeError(f"{name}: expected {hints[name]}, got {type(value).__name__}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a JSON value is one of a field with this annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is tuple:
        return isinstance(value, list) and all(_fits(each, arguments[0]) for each in value)
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is hint


def storage_key(server: str, account: str) -> str:
    """Return the key of the store for a server and account."""
    return f"{server} {account}" if account else server
