"""Requests of auth providers to authorisation servers, over the network settings of the MCP server.

They get the server's proxy, certificate authorities and address rules, but neither its headers and cookies nor its
client certificate.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import aiohttp

from ..._util.proxies import proxy_of_environment
from ...config import HttpServer, SecretMask, SseServer, mask_urls, names_a_secret
from ...errors import AuthError, IssuerUnavailable, ToolcribError
from ...oauth.http import MAX_BODY_BYTES, Fetch, Headers, HttpParts, exchange
from . import errors, network
from .address_guard import AddressGuard

MAX_FOREIGN_BODY_BYTES: Final = 1024 * 1024
"""Maximum size of an answer to a provider of another library."""


class AuthRequests:
    """Sends the requests of the auth providers of one connection."""

    def __init__(
        self,
        server: HttpServer | SseServer,
        guard: AddressGuard | None,
        proxy_for: Callable[[str], str | None],
        secrets: SecretMask,
    ) -> None:
        self._guard = guard
        self._proxy_for = proxy_for
        self._secrets = secrets
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=network.tls(replace(server, client_cert=None)),
                **(guard.connector_options() if guard is not None else {}),
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def fetch(self, method: str, url: str, headers: Headers, content: bytes) -> HttpParts:
        """Send a request without following redirects; a `Fetch`."""
        try:
            return await self._send(method, url, headers, content, follow=False, max_bytes=MAX_BODY_BYTES)
        except (aiohttp.ClientError, OSError) as exc:  # TimeoutError is an OSError
            failure = IssuerUnavailable(f"authorisation: {mask_urls(url)}: {errors.words_of(exc, self._secrets)}")
            failure.__cause__ = errors.cause_of(exc, self._secrets)
        raise failure

    async def fetch_following(self, method: str, url: str, headers: Headers, content: bytes) -> HttpParts:
        """Send a request of a provider of another library, which expects that redirects are followed."""
        try:
            return await self._send(method, url, headers, content, follow=True, max_bytes=MAX_FOREIGN_BODY_BYTES)
        except (aiohttp.ClientError, OSError, ToolcribError) as exc:
            failure = AuthError(f"authorisation failed at {mask_urls(url)}: {errors.words_of(exc, self._secrets)}")
            failure.__cause__ = errors.cause_of(exc, self._secrets)
        raise failure

    async def _send(
        self, method: str, url: str, headers: Headers, content: bytes, *, follow: bool, max_bytes: int
    ) -> HttpParts:
        self._secrets.add_headers({name: value for name, value in headers if names_a_secret(name)})
        proxy, guard = self._proxy_for(url), self._guard
        if guard is not None and proxy is not None:
            await guard.check_proxied(url)
            follow = False  # the target of a redirect through a proxy cannot be checked
        return await exchange(
            self._session, method, url, headers, content, proxy=proxy, follow_redirects=follow, max_bytes=max_bytes
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


@asynccontextmanager
async def open_fetch_for(server: HttpServer | SseServer) -> AsyncIterator[Fetch]:
    """Open a `Fetch` with the network settings of a server, for code that has no connection to it."""
    requests = AuthRequests(server, None, lambda url: server.proxy or proxy_of_environment(url), SecretMask())
    try:
        yield requests.fetch
    finally:
        await requests.close()
