"""The identity of this program at an authorisation server, and how it authenticates requests to the token endpoint."""

from __future__ import annotations

import base64
import os
import secrets
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote_plus

from .._util.threads import call_function
from ..config import wrong
from ..errors import AuthError, ConfigError
from .well_known import ServerMetadata

BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"
NONE: Final = "none"
PRIVATE_KEY_JWT: Final = "private_key_jwt"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_SECONDS: Final = 300
"""The life of an assertion that authenticates the client."""
_KEY_FORMS: Final = "a private key as PEM, a PEM file, a JWK, or a function that signs"
INSTALL: Final = 'pip install "toolcrib[oauth]"'

_ALGORITHMS: Final = {
    "RSA": ("RS256", "PS256"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA", "Ed25519"),
}
"""The algorithms for each kind of key, the preferred one first."""

Signer = Callable[[Mapping[str, Any]], str | Awaitable[str]]
PrivateKey = str | bytes | Path | Mapping[str, Any] | Signer
"""A key as PEM text, a PEM file, a JWK, or a function that signs the claims of an assertion and returns the JWT."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A client that an authorisation server knows."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    auth_method: str = NONE
    issuer: str | None = None
    """The issuer that the client is bound to; None for any."""
    origin: Literal["configured", "metadata_url", "registered"] = "configured"
    secret_expires_at: float | None = None
    redirect_uri: str | None = None
    private_key: PrivateKey | None = field(default=None, repr=False)
    is_unconfirmed: bool = False
    """Whether another sign-in was begun with a registered client and not completed: it may have been forgotten."""

    @property
    def is_registered(self) -> bool:
        """Whether the client was registered by this program, which may register another one."""
        return self.origin == "registered"


def choose_method(client_secret: str | None, private_key: PrivateKey | None, supported: tuple[str, ...] | None) -> str:
    """Return the method for a configured client: with a key or secret the one that the server supports."""
    if private_key is not None:
        return PRIVATE_KEY_JWT
    if client_secret is None:
        return NONE
    return POST if supported is not None and BASIC not in supported and POST in supported else BASIC


async def authenticate(
    client: ClientIdentity, form: Mapping[str, str], metadata: ServerMetadata
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the form and the headers of a token request that is authenticated by the client's method."""
    authenticated = dict(form)
    headers: list[tuple[str, str]] = []
    if client.auth_method == BASIC:
        # RFC 6749, 2.3.1: both parts are form-encoded first.
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret or '')}"
        headers.append(("Authorization", "Basic " + base64.b64encode(pair.encode()).decode()))
        return authenticated, headers
    if client.client_id:  # a workload may have none
        authenticated["client_id"] = client.client_id
    if client.auth_method == POST:
        authenticated["client_secret"] = client.client_secret or ""
    elif client.auth_method == PRIVATE_KEY_JWT:
        authenticated["client_assertion_type"] = ASSERTION_TYPE
        authenticated["client_assertion"] = await _client_assertion(client, metadata)
    return authenticated, headers


def check_private_key(key: PrivateKey | None) -> PrivateKey | None:
    """Return the key; raises `ConfigError` if it is not a supported kind. Files are read when a token is requested."""
    given: Any = key
    if given is not None and not callable(given) and not (isinstance(given, str | bytes | Path | Mapping) and given):
        raise wrong("private_key", _KEY_FORMS, key)
    return key


def one_credential() -> ConfigError:
    """Return the error for a client with both kinds of credentials, or with none if one is required."""
    return ConfigError("client_secret, private_key: expected one of them", key="client_secret")


async def _client_assertion(client: ClientIdentity, metadata: ServerMetadata) -> str:
    now = int(time.time())
    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": metadata.issuer,
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
    key = client.private_key
    assert key is not None
    if callable(key):
        signed = await call_function(key, claims)
        if not isinstance(signed, str):
            raise AuthError(f"private_key: expected a function that returns a JWT, got {type(signed).__name__}")
        return signed
    return sign(claims, key, metadata.token_endpoint_auth_algorithms)


def sign(
    claims: Mapping[str, Any], key: str | bytes | Path | Mapping[str, Any], accepted: tuple[str, ...] | None
) -> str:
    """Return a JWT with these claims; `accepted` are the algorithms that its recipient accepts, None for any."""
    try:
        from joserfc import jwt  # noqa: PLC0415  # an optional dependency
        from joserfc.errors import JoseError  # noqa: PLC0415
        from joserfc.jwk import ECKey, OKPKey, RSAKey  # noqa: PLC0415
    except ImportError as exc:
        message = f"joserfc: expected to be installed, got no such package. Run: {INSTALL}"
        raise ConfigError(message, key="private_key", expected=INSTALL) from exc
    reason = "of another kind"
    loaded: RSAKey | ECKey | OKPKey | None = None
    try:
        material = _key_material(key)
        for kind in (RSAKey, ECKey, OKPKey):
            with suppress(JoseError, ValueError, TypeError):  # a key of another kind
                loaded = kind.import_key(material)
                break
    except OSError as exc:
        where = f" ({key})" if isinstance(key, Path) else ""  # a text may be the key itself
        reason = f"{exc.strerror or type(exc).__name__}{where}"
    if loaded is not None and not loaded.is_private:
        reason, loaded = "a public key", None
    if loaded is None:  # outside the handlers: an exception may contain the key
        message = f"private_key: expected {_KEY_FORMS}, got {reason}"
        raise ConfigError(message, key="private_key", expected=_KEY_FORMS)
    public = loaded.as_dict(private=False)
    known = _ALGORITHMS.get(str(public.get("crv") or public.get("kty")), ())
    algorithm = next((each for each in known if accepted is None or each in accepted), None)
    if algorithm is None:
        raise AuthError(
            f"private_key: expected a key for one of {', '.join(accepted or ())}, got one for "
            f"{', '.join(known) or 'none'}. Use another key, or a function that signs"
        )
    header: dict[str, Any] = {"alg": algorithm, "typ": "JWT"}
    if "kid" in public:
        header["kid"] = public["kid"]
    with warnings.catch_warnings():
        # "EdDSA" is deprecated in favour of "Ed25519" (RFC 9864), which few servers know yet.
        warnings.simplefilter("ignore")
        return jwt.encode(header, dict(claims), loaded, algorithms=[algorithm])


def _key_material(key: str | bytes | Path | Mapping[str, Any]) -> Any:
    if isinstance(key, Mapping):
        return dict(key)
    if isinstance(key, Path) or (isinstance(key, str) and "-----BEGIN" not in key):
        return Path(os.path.expanduser(key)).read_bytes()
    return key
