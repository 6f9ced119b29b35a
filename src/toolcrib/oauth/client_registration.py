"""Client registration (RFC 7591), and the URLs of client metadata documents."""

from __future__ import annotations

import json
import time
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from .._util.net import is_loopback
from .._version import __version__
from ..config import mask_urls
from ..errors import AuthError, ConfigError
from ..protocol.sanitize import one_line
from .client_auth import BASIC, NONE, POST, ClientIdentity
from .http import Fetch, check_available, is_secure, read_object
from .well_known import ServerMetadata

_LOOPBACK_NAMES: Final = {"127.0.0.1": "localhost", "localhost": "127.0.0.1"}
MAX_EPOCH_SECONDS: Final = 1e12
"""Expiry times after this one count as never: a number that is too large cannot be converted."""
_PREFERRED: Final = (NONE, BASIC, POST)


def check_client_metadata_url(url: str) -> None:
    """Raise `ConfigError` unless this can be the URL of a client metadata document."""
    valid = is_secure(url, allow_loopback=False) and "#" not in url
    path = urlsplit(url).path if valid else ""
    if path in ("", "/") or {".", ".."} & set(unquote(path).split("/")):
        expected = "an https URL with a path, without user name, fragment and dot segments"
        message = f"client_metadata_url: expected {expected}, got {mask_urls(str(url))}"
        raise ConfigError(message, key="client_metadata_url", expected=expected)


async def register_client(
    fetch: Fetch, metadata: ServerMetadata, redirect_uri: str, *, client_name: str
) -> ClientIdentity:
    """Register a client; if the server rejects the loopback address, try its other spelling once."""
    try:
        return await _register(fetch, metadata, redirect_uri, client_name)
    except RedirectRejected:
        other = _other_spelling(redirect_uri)
        if other is None:
            raise
    return await _register(fetch, metadata, other, client_name)


class RedirectRejected(AuthError):
    """Raised if the authorisation server does not accept the redirect URI of a registration."""


async def _register(fetch: Fetch, metadata: ServerMetadata, redirect_uri: str, client_name: str) -> ClientIdentity:
    assert metadata.registration_endpoint is not None
    url = metadata.registration_endpoint
    body = _registration(metadata, redirect_uri, client_name)
    headers = (("Content-Type", "application/json"), ("Accept", "application/json"))
    status, _, content = await fetch("POST", url, headers, json.dumps(body).encode())
    check_available(status, url)
    # Some servers write null or "" for members that they leave out.
    answer = {name: value for name, value in (read_object(content) or {}).items() if value not in (None, "")}
    if not 200 <= status < 300 or not isinstance(answer.get("client_id"), str):
        words = one_line(f"{answer.get('error', f'HTTP {status}')}: {answer.get('error_description', 'no client_id')}")
        kind = RedirectRejected if answer.get("error") == "invalid_redirect_uri" else AuthError
        raise kind(
            f"{mask_urls(url)}: the registration of a client was rejected: {words}. "
            "Register a client there by hand and set client_id=",
            status=401,
        )
    return _registered(answer, metadata, redirect_uri, asked=str(body["token_endpoint_auth_method"]))


def _registration(metadata: ServerMetadata, redirect_uri: str, client_name: str) -> dict[str, Any]:
    supported = metadata.token_endpoint_auth_methods
    method = NONE if supported is None else next((each for each in _PREFERRED if each in supported), NONE)
    native = is_loopback(urlsplit(redirect_uri).hostname or "")
    return {
        "client_name": client_name,
        "application_type": "native" if native else "web",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "software_id": "toolcrib",
        "software_version": __version__,
    }


def _registered(answer: dict[str, Any], metadata: ServerMetadata, redirect_uri: str, asked: str) -> ClientIdentity:
    secret = answer.get("client_secret")
    secret = secret if isinstance(secret, str) else None
    default = asked if asked == NONE or secret is not None else NONE
    method = answer.get("token_endpoint_auth_method", default if secret is None or asked != NONE else BASIC)
    if method not in (BASIC, POST, NONE) or (method in (BASIC, POST) and secret is None):
        raise AuthError(
            f"{mask_urls(metadata.issuer)}: the registration gave the client a token_endpoint_auth_method that it "
            f"cannot use: {one_line(str(method))}. Register a client there by hand and set client_id=",
            status=401,
        )
    expires = answer.get("client_secret_expires_at")
    return ClientIdentity(
        answer["client_id"],
        secret if method != NONE else None,
        method,
        metadata.issuer,
        "registered",
        float(expires) if isinstance(expires, int | float) and 0 < expires < MAX_EPOCH_SECONDS else None,
        redirect_uri,
    )


def is_usable(client: ClientIdentity) -> bool:
    """Return whether the secret of a registered client has not expired."""
    return client.secret_expires_at is None or client.secret_expires_at > time.time()


def is_same_redirect(some: str, other: str | None) -> bool:
    """Return whether two redirect URIs are the same, or differ only in the name of this machine."""
    return other in (some, _other_spelling(some))


def _other_spelling(redirect_uri: str) -> str | None:
    parts = urlsplit(redirect_uri)
    other = _LOOPBACK_NAMES.get(parts.hostname or "")
    if other is None:
        return None
    return urlunsplit(parts._replace(netloc=f"{other}:{parts.port}" if parts.port else other))
