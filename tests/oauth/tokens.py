"""The tokens of the authorisation server of the tests: signing keys, access tokens, refresh tokens in families."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet

ID_JAG = "oauth-id-jag+jwt"
ALGORITHMS = ("ES256", "RS256", "PS256", "EdDSA", "Ed25519")


class OAuthFailure(Exception):
    """Raised to answer a request with an OAuth error."""

    def __init__(self, error: str, description: str = "") -> None:
        super().__init__(error)
        self.error = error
        self.description = description


@dataclass(slots=True)
class Grant:
    """What a person or the server allowed a client."""

    client_id: str
    subject: str
    scope: str
    resource: str | None


@dataclass(slots=True)
class AccessToken:
    """An issued access token."""

    value: str
    grant: Grant
    expires_at: float
    family: Family | None = None
    is_revoked: bool = False

    @property
    def is_active(self) -> bool:
        """Whether the token is accepted now."""
        return not self.is_revoked and time.time() < self.expires_at


@dataclass(slots=True)
class Family:
    """All refresh tokens that come from one authorisation, the current one last."""

    name: str
    grant: Grant
    tokens: list[str] = field(default_factory=list)
    replaced_at: float = 0
    is_revoked: bool = False


class TokenBook:
    """Issues tokens, and knows which of them are valid."""

    def __init__(self) -> None:
        self.keys: list[ECKey] = []
        self.rotate_keys()
        self.access: dict[str, AccessToken] = {}
        self.families: dict[str, Family] = {}
        """By name (`family-1` and so on)."""
        self.presentations: Counter[str] = Counter()
        """How often each refresh token was presented to the token endpoint."""
        self._family_of: dict[str, Family] = {}

    # ---- keys --------------------------------------------------------------------------------------------------

    def rotate_keys(self, *, keep: bool = False) -> None:
        """Sign with a new key from now on; with `keep` the old ones stay published."""
        key = ECKey.generate_key("P-256", {"kid": secrets.token_hex(4), "alg": "ES256", "use": "sig"})
        self.keys = [key, *self.keys] if keep else [key]

    def published_keys(self) -> dict[str, Any]:
        """Return the JWK set."""
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def sign(self, claims: dict[str, Any], *, typ: str = "JWT") -> str:
        """Return a JWT with these claims."""
        return jwt.encode({"alg": "ES256", "kid": self.keys[0].kid, "typ": typ}, claims, self.keys[0])

    def read(self, token: str) -> jwt.Token | None:
        """Return a JWT that was signed with one of the keys; None for any other text."""
        try:
            return jwt.decode(token, KeySet([*self.keys]), algorithms=["ES256"])
        except (JoseError, ValueError):
            return None

    # ---- access tokens -----------------------------------------------------------------------------------------

    def issue_access(
        self,
        issuer: str,
        grant: Grant,
        *,
        seconds: float,
        opaque: bool,
        family: Family | None = None,
        claims: dict[str, Any] | None = None,
    ) -> AccessToken:
        """Issue an access token."""
        now = time.time()
        value = secrets.token_urlsafe(24)
        if not opaque:
            every = {
                "iss": issuer,
                "sub": grant.subject,
                "aud": grant.resource or issuer,
                "client_id": grant.client_id,
                "scope": grant.scope,
                "iat": int(now + min(seconds, 0)),
                "exp": int(now + seconds),
                "jti": value,
                **(claims or {}),
            }
            value = self.sign({name: each for name, each in every.items() if each is not None}, typ="at+jwt")
        token = AccessToken(value, grant, now + seconds, family)
        self.access[value] = token
        return token

    def find_access(self, value: str) -> AccessToken | None:
        """Return the access token if it is accepted now."""
        token = self.access.get(value)
        return token if token is not None and token.is_active else None

    def expire_access(self) -> None:
        """Make all access tokens invalid."""
        for token in self.access.values():
            token.is_revoked = True

    # ---- refresh tokens ----------------------------------------------------------------------------------------

    def start_family(self, grant: Grant) -> tuple[Family, str]:
        """Issue the first refresh token of a new family."""
        family = Family(f"family-{len(self.families) + 1}", grant)
        self.families[family.name] = family
        return family, self._next(family)

    def _next(self, family: Family) -> str:
        value = secrets.token_urlsafe(24)
        family.tokens.append(value)
        family.replaced_at = time.time()
        self._family_of[value] = family
        return value

    def present(self, value: str, client_id: str, *, rotate: bool, grace_seconds: float) -> tuple[Family, str]:
        """Exchange a refresh token for the next one; presenting one that was replaced revokes the family."""
        self.presentations[value] += 1
        family = self._family_of.get(value)
        if family is None or family.is_revoked or family.grant.client_id != client_id:
            raise OAuthFailure("invalid_grant", "unknown, expired or revoked refresh token")
        if value != family.tokens[-1]:
            in_grace = value == family.tokens[-2] and time.time() - family.replaced_at < grace_seconds
            if not in_grace:
                self.revoke_family(family)
                raise OAuthFailure("invalid_grant", "the refresh token was used already; its family is revoked")
            return family, family.tokens[-1]
        return family, self._next(family) if rotate else value

    def revoke_family(self, family: Family) -> None:
        """Revoke the refresh tokens of the family, and the access tokens that came from it."""
        family.is_revoked = True
        for token in self.access.values():
            if token.family is family:
                token.is_revoked = True

    def revoke(self, value: str, client_id: str) -> None:
        """Revoke a token of this client (RFC 7009); unknown ones are ignored."""
        family, access = self._family_of.get(value), self.access.get(value)
        if family is not None and family.grant.client_id == client_id:
            self.revoke_family(family)
        if access is not None and access.grant.client_id == client_id:
            access.is_revoked = True

    def revoke_all(self) -> None:
        """Revoke all families and access tokens."""
        for family in self.families.values():
            self.revoke_family(family)
        self.expire_access()

    def find_family(self, value: str) -> Family | None:
        """Return the family of a refresh token."""
        return self._family_of.get(value)
