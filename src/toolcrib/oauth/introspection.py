"""Token introspection (RFC 7662) for opaque access tokens."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from ..config import check_text, mask_urls
from ..errors import AuthError, ConfigError, ConnectError
from .http import JSON_HEADERS, Fetch, check_available, is_secure, open_fetch, read_object
from .well_known import fetch_server_metadata

log = logging.getLogger("toolcrib.oauth")

ACTIVE_SECONDS: Final = 60.0
"""Seconds for which an active token is not introspected again."""
INACTIVE_SECONDS: Final = 10.0
MAX_INACTIVE: Final = 10_000
"""Inactive tokens that are remembered."""
MAX_RUNNING: Final = 100
"""Introspection requests at the same time; further tokens are answered with 503."""
TIMEOUT: Final = 15.0
"""Seconds for one introspection, including the discovery of the endpoint."""
FORM: Final = ("Content-Type", "application/x-www-form-urlencoded")


@dataclass(frozen=True, slots=True)
class Introspection:
    """How `TokenVerifier` introspects opaque tokens: the credentials of this server at the issuer.

    `endpoint` is found in the issuer's metadata if it is not given. With several issuers, `issuer` names the one that
    issues opaque tokens.
    """

    client_id: str
    client_secret: str = field(repr=False)
    endpoint: str | None = None
    issuer: str | None = None

    def __post_init__(self) -> None:
        check_text("introspection.client_id", self.client_id)
        check_text("introspection.client_secret", self.client_secret)


class TokenIntrospector:
    """Introspects tokens; concurrent requests with the same token share one introspection."""

    def __init__(
        self,
        settings: Introspection,
        issuer: str,
        *,
        allow_loopback: bool = False,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if settings.endpoint is not None and not is_secure(settings.endpoint, allow_loopback=allow_loopback):
            raise ConfigError("introspection: expected an https URL as the endpoint", key="introspection")
        self.issuer = issuer
        self._endpoint = settings.endpoint
        self._allow_loopback = allow_loopback
        self._fetch = fetch
        self._clock = clock
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
        self._authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._inactive: dict[bytes, float] = {}
        self._running: dict[bytes, asyncio.Task[Mapping[str, Any] | None]] = {}

    async def inspect(self, token: str, digest: bytes) -> Mapping[str, Any] | None:
        """Return the introspection response for an active token, None for an inactive one.

        Raises `ConnectError` if the issuer does not answer.
        """
        if self._clock() < self._inactive.get(digest, 0.0):
            return None
        running = self._running.get(digest)
        if running is None or running.get_loop() is not asyncio.get_running_loop():
            if len(self._running) >= MAX_RUNNING:
                raise ConnectError(f"issuer {mask_urls(self.issuer)}: too many introspection requests at once")
            running = self._running[digest] = asyncio.get_running_loop().create_task(self._ask(token))
            running.add_done_callback(lambda task: self._finish(digest, task))
        return await asyncio.shield(running)

    def _finish(self, digest: bytes, task: asyncio.Task[Mapping[str, Any] | None]) -> None:
        if self._running.get(digest) is task:
            del self._running[digest]
        if task.cancelled() or task.exception() is not None or task.result() is not None:
            return
        self._inactive.pop(digest, None)
        self._inactive[digest] = self._clock() + INACTIVE_SECONDS
        if len(self._inactive) > MAX_INACTIVE:
            del self._inactive[next(iter(self._inactive))]

    async def _ask(self, token: str) -> Mapping[str, Any] | None:
        try:
            async with asyncio.timeout(TIMEOUT), open_fetch(self._fetch) as fetch:
                return await self._request(fetch, token)
        except (AuthError, ConnectError) as exc:
            problem = exc.message
        except TimeoutError:
            problem = f"no complete answer within {TIMEOUT:g} seconds"
        log.warning("issuer %s: a token cannot be introspected: %s", mask_urls(self.issuer), problem)
        raise ConnectError(f"issuer {mask_urls(self.issuer)}: a token cannot be introspected: {problem}")

    async def _request(self, fetch: Fetch, token: str) -> Mapping[str, Any] | None:
        if self._endpoint is None:
            metadata = await fetch_server_metadata(fetch, self.issuer, allow_loopback=self._allow_loopback)
            if metadata is None or metadata.introspection_endpoint is None:
                raise AuthError("its metadata names no introspection_endpoint; give Introspection(endpoint=...)")
            self._endpoint = metadata.introspection_endpoint
        form = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
        headers = (*JSON_HEADERS, FORM, ("Authorization", self._authorization))
        status, _, body = await fetch("POST", self._endpoint, headers, form)
        check_available(status, self._endpoint)
        answer = read_object(body) if status == 200 else None
        if answer is None:
            raise AuthError(f"{mask_urls(self._endpoint)}: expected a JSON object, got HTTP {status}")
        return answer if answer.get("active") is True else None
