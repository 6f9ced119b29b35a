"""HTTP requests to authorisation servers: no cookies, no credentials of the MCP server, bounded bodies and times.

A `Fetch` makes one request. `HttpClient` of the transports has one that uses the server's proxy and address rules;
`open_fetch` opens one for code that has no connection to a server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from .._util.net import is_loopback
from .._util.proxies import proxy_of_environment
from ..config import mask_urls
from ..errors import AuthError, ConfigError, IssuerUnavailable, ProtocolError
from ..protocol.decompression import Decompressor
from ..protocol.sanitize import one_line

if TYPE_CHECKING:
    from aiohttp import ClientSession

Headers = Sequence[tuple[str, str]]
HttpParts = tuple[int, list[tuple[str, str]], bytes]
"""The status, headers and body of a response."""
Fetch = Callable[[str, str, Headers, bytes], Awaitable[HttpParts]]
"""Sends one request (method, URL, headers, body) and returns the response; it follows no redirects.

Raises `ConnectError` if there is no complete response.
"""

REQUEST_TIMEOUT: Final = 30.0
"""Seconds for one request to an authorisation server."""
MAX_BODY_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64
"""Maximum nesting of JSON documents."""
MAX_REDIRECTS: Final = 5
_RESOURCE_ADVICE: Final = (
    "The authorisation server does not accept the resource parameter: set OAuth(resource=...) to the value that it "
    "expects, or resource=None to omit it"
)
JSON_HEADERS: Final = (("Accept", "application/json"),)


async def exchange(
    session: ClientSession,
    method: str,
    url: str,
    headers: Headers,
    body: bytes,
    *,
    proxy: str | None = None,
    follow_redirects: bool = False,
    max_bytes: int = MAX_BODY_BYTES,
) -> HttpParts:
    """Make one request with a bounded time and body; raises the exceptions of aiohttp, `OSError` and `AuthError`."""
    plain = [(name, value) for name, value in headers if name.lower() != "accept-encoding"]
    async with (
        asyncio.timeout(REQUEST_TIMEOUT),
        session.request(
            method,
            url,
            data=body or None,
            headers=[*plain, ("Accept-Encoding", "identity")],
            allow_redirects=follow_redirects and method == "GET",
            max_redirects=MAX_REDIRECTS,
            proxy=proxy,
        ) as response,
    ):
        content = bytearray()
        try:
            inflater = Decompressor(response.headers.get("Content-Encoding", ""))
            async for data in response.content.iter_any():
                for piece in inflater.feed(data):
                    content += piece
                    if len(content) > max_bytes:
                        raise AuthError(f"{mask_urls(url)}: expected an answer of at most {max_bytes:,} bytes")
        except ProtocolError as exc:
            raise AuthError(f"{mask_urls(url)}: {one_line(exc.message)}") from None
        # The body is decompressed already.
        answered = [(name, value) for name, value in response.headers.items() if name.lower() != "content-encoding"]
        return response.status, answered, bytes(content)


@asynccontextmanager
async def open_fetch(given: Fetch | None = None) -> AsyncIterator[Fetch]:
    """Yield the given `Fetch`, or open one with the system's certificates and the proxies of the environment."""
    if given is not None:
        yield given
        return
    import aiohttp  # noqa: PLC0415  # slow to load, and most programs never get here

    # Without `trust_env`: aiohttp would also send the passwords in a netrc file.
    async with aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def fetch(method: str, url: str, headers: Headers, body: bytes) -> HttpParts:
            try:
                return await exchange(session, method, url, headers, body, proxy=proxy_of_environment(url))
            except (aiohttp.ClientError, OSError, ValueError) as exc:  # TimeoutError is an OSError
                words = one_line(mask_urls(str(exc))) or type(exc).__name__
                failure = IssuerUnavailable(f"{mask_urls(url)}: the request failed: {words}")
            raise failure  # outside the handler: `exc` may contain the whole URL

        yield fetch


async def get_document(fetch: Fetch, url: str) -> tuple[int, dict[str, Any] | None]:
    """Get a JSON document. Returns the status, and the object if the status is 200 and the body is one.

    Follows redirects to the same origin. Raises `ConnectError` if the server is busy or failing, since that says
    nothing about the document.
    """
    start = url
    for _ in range(MAX_REDIRECTS):
        status, headers, body = await fetch("GET", url, JSON_HEADERS, b"")
        if status in (301, 302, 303, 307, 308):
            location = next((value for name, value in headers if name.lower() == "location"), "")
            try:
                target = urljoin(url, location)
            except ValueError:
                return status, None
            if not location or not same_origin(start, target):
                return status, None
            url = target
            continue
        check_available(status, url)
        return status, read_object(body) if status == 200 else None
    return 310, None


def check_available(status: int, url: str) -> None:
    """Raise `IssuerUnavailable` if the status means that the server cannot answer now."""
    if status == 429 or status >= 500:
        raise IssuerUnavailable(
            f"{mask_urls(url)}: the authorisation server is not available (HTTP {status})", status=status
        )


def describe_error(error: str, description: str) -> str:
    """Return an OAuth error as text, with advice if the server does not accept the resource parameter."""
    words = f"{error}: {description}" if description else error
    if error == "invalid_target" or "AADSTS9010010" in description:
        words = f"{words.rstrip('.')}. {_RESOURCE_ADVICE}"
    return words.rstrip(".")


def read_object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object in this body; None if it is anything else or nested too deeply."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not _is_too_deep(value, MAX_DEPTH) else None


def _is_too_deep(value: Any, levels: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_too_deep(child, levels - 1) for child in children)


def same_origin(some: str, other: str) -> bool:
    """Return whether both URLs have the same scheme, host and port."""
    try:
        return _origin(some) == _origin(other)
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def is_secure(url: Any, *, allow_loopback: bool) -> bool:
    """Return whether this is an https URL, or with `allow_loopback` an http URL of this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except (ValueError, AttributeError, TypeError):
        return False
    if not host or "@" in parts.netloc or any(c.isspace() or not c.isprintable() for c in url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and allow_loopback and is_loopback(host))


def check_secure(key: str, url: str) -> None:
    """Raise `ConfigError` unless an option is an https URL, or an http URL of this machine."""
    if not is_secure(url, allow_loopback=True):
        raise ConfigError(f"{key}: expected an https URL, got {mask_urls(str(url))}", key=key, expected="an https URL")
