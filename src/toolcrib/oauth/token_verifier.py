"""`TokenVerifier`: an `auth` hook that accepts the access tokens of OAuth issuers, and publishes resource metadata."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from .._util.net import is_loopback
from ..config import check_scopes, wrong
from ..errors import AuthError, ConfigError
from ..policy.globs import Glob
from .http import Fetch, is_secure
from .introspection import ACTIVE_SECONDS, Introspection, TokenIntrospector
from .token_claims import ClaimRules, TokenPrincipal, TokenRejected, audiences_of
from .well_known import resource_metadata_urls

log = logging.getLogger("toolcrib.oauth")

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""The algorithms that can be allowed: all of them with a public key. All are allowed by default."""
MAX_TOKEN_CHARACTERS: Final = 16 * 1024
MAX_VERIFIED: Final = 10_000
"""Verified tokens that are remembered."""
VERIFIED_SECONDS: Final = 300.0
"""Seconds for which a verified token is not verified again."""
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_REFUSAL: Final = "missing or invalid credentials"


class TokenVerifier:
    """Verifies OAuth access tokens for a `ToolServer`: `server.run("http", auth=TokenVerifier(issuer, resource))`.

    `issuer` is the authorisation server, or several; `resource` is the public URL of this MCP server, exactly as
    clients use it. A token is accepted if one of the issuers signed it for this resource and it has all `scopes`.
    Tools find its owner as `ctx.principal`, a `TokenPrincipal`. The server also publishes the metadata from which
    clients learn where to sign in. Needs the extra `oauth`.

    `tool_scopes` are required for calls of some tools, besides `scopes`: `{"delete_*": ["notes:write"]}`; `*` in a name
    matches any text. Clients that lack them are asked to sign in again with them. `scopes_supported` are further scopes
    that clients may ask for. `audiences` are accepted in `aud` besides the resource, such as the application id of
    Entra. `strict_type` accepts only tokens with the type `at+jwt`.
    `max_age` is the maximum age of a token in seconds, `leeway` the accepted difference of clocks. `introspection` is
    needed for tokens that are not JWTs. `fetch` makes the requests to the issuer instead of aiohttp.
    """

    def __init__(
        self,
        issuer: str | Iterable[str],
        resource: str,
        *,
        audiences: Iterable[str] = (),
        scopes: Iterable[str] = (),
        tool_scopes: Mapping[str, Iterable[str]] | None = None,
        scopes_supported: Iterable[str] | None = None,
        algorithms: Iterable[str] | None = None,
        strict_type: bool = False,
        max_age: float | None = None,
        leeway: float = 60.0,
        introspection: Introspection | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        jwks, signed_tokens = _import_jose()
        local = _check_resource(resource)
        issuers = _check_issuers(issuer, local)
        self.resource = resource
        self.issuers = issuers
        _check_kinds(leeway, max_age, strict_type, introspection, fetch)
        self.scopes = _check_scopes("scopes", scopes)
        self._required = frozenset(self.scopes)
        self._tool_scopes = _check_tool_scopes({} if tool_scopes is None else tool_scopes)
        supported = _check_scopes("scopes_supported", scopes_supported or ())
        self._algorithms = _check_algorithms(algorithms)
        self._signed_tokens = signed_tokens
        self._types = signed_tokens.ACCESS_TOKEN_TYPES if strict_type else signed_tokens.ANY_TYPES
        accepted = (*audiences_of(resource), *_check_strings("audiences", audiences))
        self._rules = ClaimRules(frozenset(accepted), leeway, max_age)
        self._keys = {each: jwks.IssuerKeys(each, allow_loopback=local, fetch=fetch) for each in issuers}
        self._introspector = _introspector(introspection, issuers, local, fetch)
        self._verified: dict[bytes, tuple[float, float, TokenPrincipal]] = {}
        self.metadata: Mapping[str, Any] = _describe(resource, issuers, (*self.scopes, *supported))
        """The metadata of this resource (RFC 9728)."""
        urls = resource_metadata_urls(resource)
        self.metadata_url = urls[0]
        """The URL at which clients look for the metadata. The server answers there, and at the root of its host."""
        self.documents: Mapping[str, bytes] = dict.fromkeys(
            (unquote(urlsplit(url).path) for url in urls), json.dumps(self.metadata).encode()
        )
        """The documents that the server publishes without credentials, by their paths."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(issuer={self.issuers!r}, resource={self.resource!r})"

    # ---- the hook --------------------------------------------------------------------------------------------------

    def __call__(self, headers: Mapping[str, str]) -> TokenPrincipal | Awaitable[TokenPrincipal]:
        """Return the owner of the token in these headers; raises `AuthError` with the challenge for the client.

        A token that was verified before costs a look-up, others are awaited. Raises `ConnectError` if the token cannot
        be checked because its issuer does not answer.
        """
        sent = headers.get("authorization", "")
        scheme, _, token = sent.partition(" ")
        # Of the token alone, so that spaces and the case of the scheme create no separate entries.
        digest = hashlib.sha256(token.lstrip(" ").encode()).digest()
        known = self._verified.get(digest) if scheme.lower() == "bearer" else None
        if known is not None:
            if time.time() < known[0] and time.monotonic() < known[1]:  # the wall clock may be set back
                return self._with_scopes(known[2])
            self._verified.pop(digest, None)  # another thread may have been faster
        return self._verify(self._token(sent), digest)

    def check_query(self, query: bytes) -> None:
        """Raise `AuthError` if there is a token in the query of a URL, where logs and histories would keep it."""
        if "access_token" in parse_qs(query.decode("latin-1"), keep_blank_values=True):
            message = "access_token: send it in the Authorization header, not in the URL"
            raise AuthError(message, status=400, challenge=self._challenge("invalid_request"))

    def check_calls(self, principal: TokenPrincipal, tools: Iterable[str]) -> None:
        """Raise `AuthError` with the challenge for the client if the token lacks a scope that these tools require."""
        if not self._tool_scopes:
            return
        required = [
            scope for tool in tools for name, scopes in self._tool_scopes if name.matches(tool) for scope in scopes
        ]
        if required and not principal.scopes.issuperset(required):
            raise self._insufficient((*self.scopes, *required))

    def _token(self, sent: str) -> str:
        if sent[:6].lower() != "bearer":  # none, or those of another scheme
            raise AuthError(_REFUSAL, status=401, challenge=self._challenge())
        found = _BEARER.fullmatch(sent) if len(sent) <= MAX_TOKEN_CHARACTERS else None
        if found is None:
            raise self._invalid()
        return found[1]

    async def _verify(self, token: str, digest: bytes) -> TokenPrincipal:
        try:
            if self._introspector is None or self._signed_tokens.looks_signed(token):
                principal, seconds = await self._verify_signed(token), VERIFIED_SECONDS
            else:
                principal, seconds = await self._introspect(self._introspector, token, digest), ACTIVE_SECONDS
        except TokenRejected as exc:
            log.debug("rejected an access token: %s", exc)
            raise self._invalid() from None
        until = time.time() + seconds
        if principal.expires_at is not None:
            until = min(until, principal.expires_at)
        if len(self._verified) >= MAX_VERIFIED:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = until, time.monotonic() + seconds, principal
        return self._with_scopes(principal)

    async def _verify_signed(self, token: str) -> TokenPrincipal:
        signed = self._signed_tokens.parse_signed_token(token, self._algorithms, self._types)
        issuer = signed.claims.get("iss")
        keys = self._keys.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise TokenRejected("iss: not one of the issuers")
        # The claims first, because tokens that cannot be accepted must not cause requests to the issuer.
        principal = self._rules.read(signed.claims, issuer, time.time())
        found = await keys.find(signed.key_id, signed.algorithm)
        if signed.has_signature_of(found):
            return principal
        if found and signed.has_signature_of(await keys.find_replaced(signed.key_id, signed.algorithm)):
            return principal
        raise TokenRejected("the signature is not the issuer's")

    async def _introspect(self, introspector: TokenIntrospector, token: str, digest: bytes) -> TokenPrincipal:
        claims = await introspector.inspect(token, digest)
        if claims is None:
            raise TokenRejected("the token is not active")
        # Some servers write null for members that they leave out.
        claims = {name: value for name, value in claims.items() if value is not None}
        if claims.get("iss", introspector.issuer) != introspector.issuer:
            raise TokenRejected("iss: not the issuer that was asked")
        return self._rules.read(claims, introspector.issuer, time.time(), needs_expiry=False)

    def _with_scopes(self, principal: TokenPrincipal) -> TokenPrincipal:
        if self._required <= principal.scopes:
            return principal
        raise self._insufficient(self.scopes)

    # ---- challenges ------------------------------------------------------------------------------------------------

    def _invalid(self) -> AuthError:
        return AuthError(_REFUSAL, status=401, challenge=self._challenge("invalid_token"))

    def _insufficient(self, scopes: tuple[str, ...]) -> AuthError:
        message = "the token lacks a scope that is required here"
        return AuthError(message, status=403, challenge=self._challenge("insufficient_scope", scopes))

    def _challenge(self, error: str | None = None, scopes: tuple[str, ...] | None = None) -> str:
        parts = [f'error="{error}"'] if error is not None else []
        parts.append(f'resource_metadata="{self.metadata_url}"')
        if named := dict.fromkeys(self.scopes if scopes is None else scopes):
            parts.append(f'scope="{" ".join(named)}"')
        return f"Bearer {', '.join(parts)}"


def _import_jose() -> tuple[Any, Any]:
    """Return the modules that need joserfc, which is an extra and slow to load."""
    try:
        from . import jwks, signed_tokens  # noqa: PLC0415  # see above
    except ImportError as exc:
        raise ConfigError(
            'TokenVerifier needs joserfc and cryptography: pip install "toolcrib[oauth]"',
            key="auth",
            expected='pip install "toolcrib[oauth]"',
        ) from exc
    return jwks, signed_tokens


def _describe(resource: str, issuers: tuple[str, ...], scopes: tuple[str, ...]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        document["scopes_supported"] = list(dict.fromkeys(scopes))
    return document


def _introspector(
    settings: Introspection | None, issuers: tuple[str, ...], local: bool, fetch: Fetch | None
) -> TokenIntrospector | None:
    if settings is None:
        return None
    issuer = settings.issuer or (issuers[0] if len(issuers) == 1 else None)
    if issuer not in issuers:
        expected = f"one of {', '.join(issuers)}"
        raise ConfigError(f"introspection: expected {expected} as its issuer", key="introspection", expected=expected)
    return TokenIntrospector(settings, issuer, allow_loopback=local, fetch=fetch)


def _check_resource(resource: Any) -> bool:
    """Return whether the resource is on this machine; raises `ConfigError` if it is not a URL that can be used."""
    parts = urlsplit(resource) if is_secure(resource, allow_loopback=True) else None
    if parts is None or set('#?"\\') & set(resource) or not resource.isascii():
        expected = "the public https URL of this server, without query and fragment"
        raise ConfigError(f"resource: expected {expected}, got {resource!r:.200}", key="resource", expected=expected)
    return is_loopback(parts.hostname or "")


def _check_issuers(given: Any, local: bool) -> tuple[str, ...]:
    expected = "the https URL of an authorisation server without query and fragment, or several"
    issuers = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for each in issuers or (None,):
        if not is_secure(each, allow_loopback=local) or {"?", "#"} & set(each):
            raise ConfigError(f"issuer: expected {expected}, got {each!r:.200}", key="issuer", expected=expected)
    return tuple(dict.fromkeys(issuers))


def _check_strings(key: str, given: Any) -> tuple[str, ...]:
    found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ("",)
    if not all(isinstance(each, str) and each for each in found):
        expected = "a list of strings"
        raise ConfigError(f"{key}: expected {expected}, got {given!r:.200}", key=key, expected=expected)
    return found


def _check_scopes(key: str, given: Iterable[str]) -> tuple[str, ...]:
    found = check_scopes(key, given)
    if "offline_access" in found:
        message = f"{key}: a server must not ask for offline_access; clients ask for it if they want to"
        raise ConfigError(message, key=key, expected="the scopes of this server")
    return found


def _check_tool_scopes(given: Any) -> tuple[tuple[Glob, tuple[str, ...]], ...]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise wrong("tool_scopes", 'a mapping of tool names to scopes, such as {"delete_*": ["notes:write"]}', given)
    return tuple((Glob(name), _check_scopes(f"tool_scopes[{name!r}]", scopes)) for name, scopes in given.items())


def _check_kinds(leeway: Any, max_age: Any, strict_type: Any, introspection: Any, fetch: Any) -> None:
    for key, seconds in (("leeway", leeway), ("max_age", 1 if max_age is None else max_age)):
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds < math.inf or (key == "max_age" and not seconds):
            raise wrong(key, "a positive number of seconds" if key == "max_age" else "seconds, 0 or more", seconds)
    if not isinstance(strict_type, bool):
        raise wrong("strict_type", "True or False", strict_type)
    if introspection is not None and not isinstance(introspection, Introspection):
        raise wrong("introspection", "Introspection(client_id, client_secret)", introspection)
    if fetch is not None and not callable(fetch):
        raise wrong("fetch", "a function that makes one request", fetch)


def _check_algorithms(given: Iterable[str] | None) -> frozenset[str]:
    from joserfc.jws import JWSRegistry  # noqa: PLC0415  # an extra, and slow to load

    found = _check_strings("algorithms", ALGORITHMS if given is None else given)
    unknown = [each for each in found if each not in ALGORITHMS]
    if unknown or not found:
        expected = f"some of {', '.join(ALGORITHMS)}"
        raise ConfigError(f"algorithms: expected {expected}, got {given!r:.200}", key="algorithms", expected=expected)
    return frozenset(each for each in found if each in JWSRegistry.algorithms)  # older versions lack Ed25519
