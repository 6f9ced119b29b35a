"""Converts failed HTTP exchanges to the errors that callers get."""

from __future__ import annotations

import errno
import os
import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import hdrs

from ...config import SecretMask, mask_urls
from ...errors import (
    AuthError,
    ConnectError,
    ConnectionLost,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    RemoteError,
    SessionExpired,
    ToolcribError,
)
from ...oauth.challenge import parse_challenges
from ...protocol import jsonrpc
from ...protocol.limits import MAX_ERROR_TEXT
from ...protocol.sanitize import one_line, printable
from .address_guard import AddressRefused

if TYPE_CHECKING:
    from aiohttp import ClientResponse

JSON = "application/json"
HTML = "text/html"


UNKNOWN_SESSION = -32000
"""The error code that many servers return for an unknown session instead of HTTP 404."""


def of_status(response: ClientResponse, text: bytes, secrets: SecretMask, *, in_session: bool) -> ToolcribError:
    """Return the error for a response with a status of 400 and above."""
    status, kind = response.status, response.content_type
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return auth_error(response, secrets)
    message = _json(text) if kind == JSON else {}
    error = _json_error(message, secrets)
    if in_session and (status == HTTPStatus.NOT_FOUND or _is_unknown_session(status, message, error)):
        words = f": {one_line(error.message)}" if error is not None else ""
        return SessionExpired(f"the session has expired (HTTP {status}{words}); nothing was executed", status=status)
    wait = _retry_after(response.headers.get(hdrs.RETRY_AFTER))
    sample = one_line(text, mask=secrets)
    shown = "" if kind == HTML else sample  # a line of an HTML page is not helpful
    if status == HTTPStatus.TOO_MANY_REQUESTS or (status == HTTPStatus.SERVICE_UNAVAILABLE and wait is not None):
        hint = f"; retry after {wait:.0f} s" if wait is not None else ""
        words = one_line(error.message) if error is not None else shown[:80]
        answer = f"HTTP {status}: {words}" if words else f"HTTP {status}"
        return RateLimited(f"the server is busy ({answer}){hint}", retry_after=wait)
    if error is not None:
        error.status = status
        return error
    what = f"HTTP {status} {one_line(response.reason or '', mask=secrets)}".strip() + (f": {shown}" if shown else "")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return OutcomeUnknown(f"the server failed: {what}", status=status)
    return ProtocolError(
        f"the server rejected the request: {what}; check that the URL is that of an MCP server",
        status=status,
        content_type=one_line(kind, mask=secrets),
        sample=sample,
    )


def of_failure(exc: Exception, secrets: SecretMask, *, sent: bool) -> ToolcribError:
    """Return the error for an exchange that failed before a status arrived."""
    failure = _of_failure(exc, secrets, sent)
    failure.__cause__ = cause_of(exc, secrets)
    return failure


def cause_of(exc: BaseException, secrets: SecretMask) -> BaseException | None:
    """Return the exception if it may be shown as a cause, else None.

    Exceptions about a response contain the whole URL, and those of the HTTP parser quote the response.
    """
    text = str(exc) + repr(exc)
    return None if "://" in text or secrets.is_in(text) else exc


def _of_failure(exc: Exception, secrets: SecretMask, sent: bool) -> ToolcribError:
    words = words_of(exc, secrets)
    if _refused_address(exc) is not None:
        return ConnectError(f"not connected: {words}", permanent=True)
    if isinstance(exc, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        advice = "set ca= to trust your own certificate authority"
        return ConnectError(f"the TLS connection failed: {words}; {advice}", permanent=True)
    if isinstance(exc, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError):
        return ConnectError(f"connecting failed: {words}")
    if isinstance(exc, aiohttp.InvalidURL):
        return ConnectError("invalid URL", permanent=True)
    if not sent:
        return ConnectionLost(f"the connection broke before the request was written: {words}")
    return OutcomeUnknown(f"the connection broke before the answer: {words}")


def _refused_address(exc: BaseException) -> AddressRefused | None:
    found = exc.os_error if isinstance(exc, aiohttp.ClientConnectorError) else exc
    return found if isinstance(found, AddressRefused) else None


def words_of(exc: BaseException, secrets: SecretMask) -> str:
    """Return the message of an exception on one line, without secrets."""
    if (refused := _refused_address(exc)) is not None:
        return one_line(str(refused.strerror), mask=secrets)
    if isinstance(exc, aiohttp.ClientConnectorError):
        # asyncio's own text is "Connect call failed", with the address once more.
        code = exc.os_error.errno
        reason = os.strerror(code) if code is not None and code in errno.errorcode else exc.strerror or exc.os_error
        return one_line(f"{exc.host}:{exc.port}: {reason}", mask=secrets)
    return one_line(mask_urls(str(exc)), mask=secrets) or type(exc).__name__


def auth_error(response: ClientResponse, secrets: SecretMask) -> AuthError:
    """Return the error for a response with status 401 or 403; it says whether the request had credentials."""
    status = response.status
    challenge = challenge_of(response, secrets)
    advice = ""
    if status != 401:
        what = f"the server requires authorisation (HTTP {status}); the credentials do not allow the request"
    elif hdrs.AUTHORIZATION in response.request_info.headers:
        what = "the server rejected the credentials (HTTP 401); check the Authorization header, or get a new token"
    else:
        what = "the server requires authorisation (HTTP 401)"
        advice = (
            "; pass auth=toolcrib.OAuth(), or oauth = {} in settings, to sign in (`toolcrib auth login` does it "
            "beforehand), or set headers={'Authorization': ...}"
        )
    shown = f"; challenge: {one_line(challenge)}" if challenge else ""
    return AuthError(f"{what}{advice}{shown}", status=status, challenge=challenge, reason=what if advice else None)


def challenge_of(response: ClientResponse, secrets: SecretMask) -> str | None:
    """Return the challenges of a response as text for errors."""
    return printable(", ".join(response.headers.getall(hdrs.WWW_AUTHENTICATE, [])), MAX_ERROR_TEXT, secrets) or None


def is_refusal(response: ClientResponse) -> bool:
    """Return whether other credentials may help: HTTP 401, or 403 because of missing scopes."""
    if response.status != HTTPStatus.FORBIDDEN:
        return response.status == HTTPStatus.UNAUTHORIZED
    challenge = parse_challenges(response.headers.getall(hdrs.WWW_AUTHENTICATE, []))
    return challenge is not None and challenge.error == "insufficient_scope"


def _json(text: bytes) -> dict[str, Any]:
    try:
        message = jsonrpc.decode(text)
    except ProtocolError:
        return {}
    return message if type(message) is dict else {}


def _json_error(message: dict[str, Any], secrets: SecretMask) -> RemoteError | None:
    error = jsonrpc.outcome(message, secrets) if isinstance(message.get("error"), dict) else None
    return error if isinstance(error, RemoteError) else None


def _is_unknown_session(status: int, message: dict[str, Any], error: RemoteError | None) -> bool:
    # An error without an id comes from the server's transport, not from the method: nothing was executed.
    refused = error is not None and error.code == UNKNOWN_SESSION and message.get("id") is None
    return refused and status == HTTPStatus.BAD_REQUEST


def _retry_after(value: str | None) -> float | None:
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
