"""The claims of an access token: which tokens are accepted, and the principal that a token stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

LATEST_TIME: Final = 2**53
"""Times above it (in seconds since 1970) are not accepted: they are mistakes, and floats cannot hold them."""
ID_TOKEN_CLAIMS: Final = ("at_hash", "c_hash")
"""Claims of ID tokens, which are issued to a client and must not be used as access tokens."""
KIND_CLAIMS: Final = ("token_use", "token_type", "typ")
"""The claims that name the kind of a token: those of Cognito and Hydra, of introspection responses, and of Keycloak."""
OTHER_KINDS: Final = frozenset({"id", "id_token", "refresh", "refresh_token", "offline", "logout", "logout_token"})
"""Kinds of tokens that are issued to clients and authorisation servers, and must not be used as access tokens."""
CLIENT_ID_CLAIMS: Final = ("client_id", "azp", "cid", "appid")
"""The claims that name the client: the standard's, and those of OpenID Connect, Okta and Entra."""


class TokenRejected(Exception):
    """Raised for a token that is not accepted. The reason is for the debug log, and is never sent to the client."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenPrincipal:
    """The owner of a verified access token; `TokenVerifier` returns it, and tools find it as `ctx.principal`.

    Principals are equal if issuer and subject are equal, so a renewed token continues the sessions of the one before.
    For a token that a client obtained for itself, `subject` is None, and the client id takes its place.
    """

    issuer: str
    subject: str | None
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    expires_at: float | None = None
    """When the token is no longer accepted, in seconds since 1970; None if unknown."""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All claims of the token, or the introspection response."""

    @property
    def _identity(self) -> tuple[str, str | None, str | None]:
        return self.issuer, self.subject, self.client_id if self.subject is None else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenPrincipal) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The rules that the claims of a token must satisfy."""

    audiences: frozenset[str]
    leeway: float
    max_age: float | None = None

    def read(self, claims: Mapping[str, Any], issuer: str, now: float, *, needs_expiry: bool = True) -> TokenPrincipal:
        """Return the principal of an issuer's token; raises `TokenRejected` if a rule is violated."""
        self._check_times(claims, now, needs_expiry)
        if not self.audiences.intersection(_strings(claims.get("aud"))):
            raise TokenRejected("aud: the token was issued for another resource")
        if claims.get("cnf") is not None:
            raise TokenRejected("cnf: the token is bound to a key, and must not be used as a bearer token")
        if any(name in claims for name in ID_TOKEN_CLAIMS) or ("nonce" in claims and not _scopes(claims)):
            raise TokenRejected("this is an ID token")
        is_event = isinstance(claims.get("events"), Mapping)  # a logout token, for example
        if is_event or any(str(claims.get(name)).lower() in OTHER_KINDS for name in KIND_CLAIMS):
            raise TokenRejected("not an access token")
        subject = _text(claims, "sub")
        client_id = next((found for name in CLIENT_ID_CLAIMS if (found := _text(claims, name))), None)
        if subject is None and client_id is None:
            raise TokenRejected("sub: missing")
        return TokenPrincipal(
            issuer,
            None if subject == client_id else subject,
            client_id,
            _scopes(claims),
            self._expiry(claims),
            claims,
        )

    def _expiry(self, claims: Mapping[str, Any]) -> float | None:
        """Return when an accepted token expires or exceeds the maximum age; None if neither is known."""
        times = [claims["exp"]] if "exp" in claims else []
        if self.max_age is not None:
            times.append(claims["iat"] + self.max_age)
        return float(min(times)) if times else None

    def _check_times(self, claims: Mapping[str, Any], now: float, needs_expiry: bool) -> None:
        expires, starts, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
        if expires is None and needs_expiry:
            raise TokenRejected("exp: missing")
        if expires is not None and expires + self.leeway <= now:
            raise TokenRejected("exp: the token has expired")
        if starts is not None and starts - self.leeway > now:
            raise TokenRejected("nbf: the token is not valid yet")
        if issued is not None and issued - self.leeway > now:
            raise TokenRejected("iat: the token was issued in the future")
        if self.max_age is not None and (issued is None or issued + self.max_age + self.leeway <= now):
            raise TokenRejected("iat: the token is too old")


def audiences_of(resource: str) -> tuple[str, ...]:
    """Return the spellings of a resource in `aud`: one, or two for an origin, which has the path "" or "/"."""
    return (resource.rstrip("/"), resource.rstrip("/") + "/") if urlsplit(resource).path in ("", "/") else (resource,)


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST_TIME:
        raise TokenRejected(f"{name}: not a time")
    return value


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise TokenRejected(f"{name}: not a string")
    return value or None


def _strings(value: Any) -> list[str]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes in `scope` or `scp`, each either a list or a string with spaces."""
    return frozenset(
        scope for name in ("scope", "scp") for item in _strings(claims.get(name)) for scope in item.split(" ") if scope
    )
