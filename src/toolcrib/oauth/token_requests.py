"""Requests to token endpoints (RFC 6749, RFC 7523, RFC 8693, RFC 7009) and their answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from ..config import SecretMask, mask_urls
from ..errors import AuthError
from ..protocol.sanitize import one_line
from .client_auth import ClientIdentity, authenticate
from .http import Fetch, HttpParts, check_available, describe_error, read_object
from .well_known import ServerMetadata

CODE: Final = "authorization_code"
REFRESH: Final = "refresh_token"
CLIENT_CREDENTIALS: Final = "client_credentials"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
SUBJECT_TYPES: Final = {
    "id_token": "urn:ietf:params:oauth:token-type:id_token",
    "saml2": "urn:ietf:params:oauth:token-type:saml2",
}

_SECRET_FIELDS: Final = (
    "assertion",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "refresh_token",
    "subject_token",
    "token",
)
_TRANSIENT_ERRORS: Final = frozenset({"temporarily_unavailable", "slow_down", "server_error"})
"""Errors after which the same request may succeed later."""
_FORM: Final = "application/x-www-form-urlencoded"
MAX_LIFE_SECONDS: Final = 10 * 365 * 86_400


class TokenRequestRejected(AuthError):
    """Raised if the token endpoint rejects a request; `error` is its error code."""

    def __init__(self, message: str = "", *, error: str = "", status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.error = error

    @property
    def rejects_client(self) -> bool:
        """Whether the server rejected the client: `invalid_client`, or HTTP 401 unless it is `invalid_grant`."""
        return self.error == "invalid_client" or (self.status == 401 and self.error != "invalid_grant")


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The tokens in an answer of a token endpoint."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Epoch seconds; None if unknown."""
    scopes: tuple[str, ...] | None = None
    """The granted scopes; None if they are those that were requested."""
    token_type: str = "bearer"
    issued_token_type: str | None = None


async def request_tokens(
    fetch: Fetch, metadata: ServerMetadata, client: ClientIdentity, form: Mapping[str, str | None]
) -> TokenResponse:
    """Send a token request; raises `TokenRequestRejected`, or `ConnectError` if the server is not available."""
    if metadata.token_endpoint is None:
        raise AuthError(f"{mask_urls(metadata.issuer)}: expected a token_endpoint in the metadata, got none")
    given = {name: value for name, value in form.items() if value is not None}
    answer, mask = await _post(fetch, metadata.token_endpoint, metadata, client, given)
    return parse_token_response(answer, metadata.token_endpoint, mask)


async def revoke(fetch: Fetch, metadata: ServerMetadata, client: ClientIdentity, token: str, hint: str) -> bool:
    """Revoke a token (RFC 7009); return whether the server has done it."""
    if metadata.revocation_endpoint is None:
        return False
    form = {"token": token, "token_type_hint": hint}
    (status, _, _), _ = await _post(fetch, metadata.revocation_endpoint, metadata, client, form)
    return status == 200


async def _post(
    fetch: Fetch, url: str, metadata: ServerMetadata, client: ClientIdentity, form: Mapping[str, str]
) -> tuple[HttpParts, SecretMask]:
    authenticated, headers = await authenticate(client, form, metadata)
    secrets = [value for name, value in authenticated.items() if name in _SECRET_FIELDS]
    mask = SecretMask([*secrets, client.client_secret or ""])
    mask.add_headers(dict(headers))
    headers += [("Content-Type", _FORM), ("Accept", "application/json")]
    answer = await fetch("POST", url, headers, urlencode(authenticated).encode())
    return answer, mask


def parse_token_response(answer: HttpParts, url: str, mask: SecretMask) -> TokenResponse:
    """Return the tokens in an answer, in JSON or form-encoded; raises the errors of `request_tokens`."""
    status, headers, body = answer
    content = _read_body(headers, body)
    if content.get("error"):
        raise _refusal(content, status, url, mask)
    check_available(status, url)
    token = content.get("access_token")
    if not 200 <= status < 300 or not isinstance(token, str) or not _is_sendable(token):
        raise TokenRequestRejected(
            f"{mask_urls(url)}: expected an access token, got HTTP {status} without one",
            error="invalid_response",
            status=status,
        )
    scope = content.get("scope")
    return TokenResponse(
        token,
        _text(content.get("refresh_token")),
        _expiry(content.get("expires_in")),
        tuple(dict.fromkeys(scope.split())) if isinstance(scope, str) and scope.strip() else None,
        (_text(content.get("token_type")) or "bearer").lower(),
        _text(content.get("issued_token_type")),
    )


def _read_body(headers: Sequence[tuple[str, str]], body: bytes) -> Mapping[str, Any]:
    kind = next((value for name, value in headers if name.lower() == "content-type"), "").partition(";")[0].strip()
    if kind.lower() == _FORM:  # GitHub's form, unless JSON is requested in its own way
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    found = read_object(body)
    if found is None and kind.lower().startswith("text/plain"):
        return dict(parse_qsl(body.decode("utf-8", "replace")))
    return found or {}


def _refusal(content: Mapping[str, Any], status: int, url: str, mask: SecretMask) -> AuthError:
    error = one_line(str(content["error"]), mask=mask)
    if error in _TRANSIENT_ERRORS:
        check_available(503, url)
    if status >= 500 or status == 429:
        check_available(status, url)
    described = content.get("error_description")
    text = one_line(mask_urls(described), mask=mask) if isinstance(described, str) else ""
    words = describe_error(error, text)
    return TokenRequestRejected(
        f"{mask_urls(url)}: the token request was rejected: {words}", error=error, status=status
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _expiry(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return time.time() + min(seconds, MAX_LIFE_SECONDS) if seconds > 0 else None


def _is_sendable(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable() and " " not in token
