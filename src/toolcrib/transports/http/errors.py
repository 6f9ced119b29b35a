"""What an exchange over HTTP that went wrong means for the one who asked."""

from __future__ import annotations

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
from ...protocol import jsonrpc
from ...protocol.limits import MAX_ERROR_TEXT
from ...protocol.sanitize import one_line, printable

if TYPE_CHECKING:
    from aiohttp import ClientResponse

JSON = "application/json"
HTML = "text/html"


UNKNOWN_SESSION = -32000
"""What many servers say to a session that they do not know, where they should say 404."""


def of_status(response: ClientResponse, text: bytes, secrets: SecretMask, *, in_session: bool) -> ToolcribError:
    """The verdict on a status of 400 and above."""
    status, kind = response.status, response.content_type
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return auth_error(response, secrets)
    message = _json(text) if kind == JSON else {}
    said = _json_error(message, secrets)
    if in_session and (status == HTTPStatus.NOT_FOUND or _is_unknown_session(status, message, said)):
        words = f": {one_line(said.message)}" if said is not None else ""
        return SessionExpired(f"the session has expired (HTTP {status}{words}); nothing was executed", status=status)
    wait = _retry_after(response.headers.get(hdrs.RETRY_AFTER))
    sample = one_line(text, mask=secrets)
    shown = "" if kind == HTML else sample  # a page says nothing in a line
    if status == HTTPStatus.TOO_MANY_REQUESTS or (status == HTTPStatus.SERVICE_UNAVAILABLE and wait is not None):
        hint = f"; it asks for a pause of {wait:.0f} s" if wait is not None else ""
        words = one_line(said.message) if said is not None else shown[:80]
        said_so = f"HTTP {status}: {words}" if words else f"HTTP {status}"
        return RateLimited(f"the server is busy ({said_so}){hint}", retry_after=wait)
    if said is not None:
        said.status = status
        return said
    what = f"HTTP {status} {one_line(response.reason or '', mask=secrets)}".strip() + (f": {shown}" if shown else "")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return OutcomeUnknown(f"the server failed: {what}", status=status)
    return ProtocolError(
        f"the server refused: {what}; is this the URL of an MCP server?",
        status=status,
        content_type=one_line(kind, mask=secrets),
        sample=sample,
    )


def of_failure(exc: Exception, secrets: SecretMask, *, sent: bool) -> ToolcribError:
    """The verdict on an exchange that broke before there was a status."""
    failure = _of_failure(exc, secrets, sent)
    failure.__cause__ = cause_of(exc, secrets)
    return failure


def cause_of(exc: BaseException, secrets: SecretMask) -> BaseException | None:
    """Return the error if it may be shown as a cause.

    Errors about a response carry the whole URL, and those of the HTTP parser quote what the server sent.
    """
    text = str(exc) + repr(exc)
    return None if "://" in text or secrets.is_in(text) else exc


def _of_failure(exc: Exception, secrets: SecretMask, sent: bool) -> ToolcribError:
    words = words_of(exc, secrets)
    if isinstance(exc, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        advice = "a certificate of your own authority is given as ca="
        return ConnectError(f"no trusted connection could be made: {words}; {advice}", permanent=True)
    if isinstance(exc, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError):
        return ConnectError(f"no connection could be made: {words}")
    if isinstance(exc, aiohttp.InvalidURL):
        return ConnectError("the URL is none that can be asked", permanent=True)
    if not sent:
        return ConnectionLost(f"the connection broke before the request was written: {words}")
    return OutcomeUnknown(f"the connection broke before the answer: {words}")


def words_of(exc: BaseException, secrets: SecretMask) -> str:
    """What it says, fit to be shown."""
    if isinstance(exc, aiohttp.ClientConnectorError):
        return one_line(f"{exc.host}:{exc.port}: {exc.strerror or exc.os_error}", mask=secrets)
    return one_line(mask_urls(str(exc)), mask=secrets) or type(exc).__name__


def auth_error(response: ClientResponse, secrets: SecretMask) -> AuthError:
    status = response.status
    challenge = printable(", ".join(response.headers.getall(hdrs.WWW_AUTHENTICATE, [])), MAX_ERROR_TEXT, secrets)
    advice = (
        "give credentials that it takes: headers={'Authorization': ...} or auth=..."
        if status == 401
        else "these credentials do not allow it"
    )
    return AuthError(
        f"the server wants authorisation (HTTP {status}); {advice}"
        + (f"; it says: {one_line(challenge)}" if challenge else ""),
        status=status,
        challenge=challenge or None,
    )


def is_refusal(response: ClientResponse) -> bool:
    challenge = response.headers.get(hdrs.WWW_AUTHENTICATE, "")
    return response.status == 401 or (response.status == 403 and "insufficient_scope" in challenge)


def _json(text: bytes) -> dict[str, Any]:
    try:
        message = jsonrpc.decode(text)
    except ProtocolError:
        return {}
    return message if type(message) is dict else {}


def _json_error(message: dict[str, Any], secrets: SecretMask) -> RemoteError | None:
    said = jsonrpc.outcome(message, secrets) if isinstance(message.get("error"), dict) else None
    return said if isinstance(said, RemoteError) else None


def _is_unknown_session(status: int, message: dict[str, Any], said: RemoteError | None) -> bool:
    # Without an id it is the transport that refuses, not the method: nothing was executed.
    refused = said is not None and said.code == UNKNOWN_SESSION and message.get("id") is None
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
