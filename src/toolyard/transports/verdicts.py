"""What an exchange over HTTP that went wrong means for the one who asked."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import hdrs

from ..config import mask_urls
from ..errors import (
    AuthError,
    ConnectError,
    ConnectionLost,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    RemoteError,
    SessionExpired,
    ToolyardError,
)
from ..protocol import jsonrpc
from ..protocol.text import one_line

if TYPE_CHECKING:
    from aiohttp import ClientResponse

JSON = "application/json"
HTML = "text/html"


UNKNOWN_SESSION = -32000
"""What many servers say to a session that they do not know, where they should say 404."""


def of_status(response: ClientResponse, text: bytes, *, in_session: bool) -> ToolyardError:
    """The verdict on a status of 400 and above."""
    status, kind = response.status, response.content_type
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return auth_error(response)
    message = _json(text) if kind == JSON else {}
    said = _json_error(message)
    if in_session and (status == HTTPStatus.NOT_FOUND or _is_unknown_session(status, message, said)):
        words = f": {one_line(said.message)}" if said is not None else ""
        return SessionExpired(f"the session has expired (HTTP {status}{words}); nothing was executed", status=status)
    wait = _retry_after(response.headers.get(hdrs.RETRY_AFTER))
    sample = one_line(text)
    shown = "" if kind == HTML else sample  # a page says nothing in a line
    if status == HTTPStatus.TOO_MANY_REQUESTS or (status == HTTPStatus.SERVICE_UNAVAILABLE and wait is not None):
        hint = f"; it asks for a pause of {wait:.0f} s" if wait is not None else ""
        words = one_line(said.message) if said is not None else shown[:80]
        said_so = f"HTTP {status}: {words}" if words else f"HTTP {status}"
        return RateLimited(f"the server is busy ({said_so}){hint}", retry_after=wait)
    if said is not None:
        said.status = status
        return said
    what = f"HTTP {status} {one_line(response.reason or '')}".strip() + (f": {shown}" if shown else "")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return OutcomeUnknown(f"the server failed: {what}", status=status)
    return ProtocolError(
        f"the server refused: {what}; is this the URL of an MCP server?",
        status=status,
        content_type=kind,
        sample=sample,
    )


def of_failure(exc: Exception, *, sent: bool) -> ToolyardError:
    """The verdict on an exchange that broke before there was a status."""
    failure = _of_failure(exc, sent)
    failure.__cause__ = cause_of(exc)
    return failure


def cause_of(exc: BaseException) -> BaseException | None:
    """What may be shown as the reason: errors about a response carry the whole URL, secrets included."""
    return None if "://" in str(exc) else exc


def _of_failure(exc: Exception, sent: bool) -> ToolyardError:
    words = words_of(exc)
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


def words_of(exc: BaseException) -> str:
    """What it says, fit to be shown."""
    if isinstance(exc, aiohttp.ClientConnectorError):
        return one_line(f"{exc.host}:{exc.port}: {exc.strerror or exc.os_error}")
    return one_line(mask_urls(str(exc))) or type(exc).__name__


def auth_error(response: ClientResponse) -> AuthError:
    status = response.status
    challenge = ", ".join(response.headers.getall(hdrs.WWW_AUTHENTICATE, []))
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


def _json_error(message: dict[str, Any]) -> RemoteError | None:
    said = jsonrpc.outcome(message) if isinstance(message.get("error"), dict) else None
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
