"""Lets pages of other origins call the server from a browser (CORS), if `allowed_origins` names them."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

from .asgi import Headers, Scope, Send, reply

ANY: Final = "*"
REQUESTED_METHOD: Final = b"access-control-request-method"
REQUESTED_HEADERS: Final = b"access-control-request-headers"
METHODS: Final = (b"access-control-allow-methods", b"GET, POST, DELETE")
EXPOSED: Final = (b"access-control-expose-headers", b"WWW-Authenticate, Mcp-Session-Id, Retry-After")
"""The response headers that scripts may read: the challenge of a 401, and what later requests need."""
PREFLIGHT_AGE: Final = (b"access-control-max-age", b"600")
VARY: Final = (b"vary", b"Origin")


class CrossOriginAccess:
    """Adds the headers that browsers ask for, and answers their preflight requests.

    Only for origins that are listed: pages of this machine may send requests without that, but cannot read the
    responses. Cookies are never accepted, so no response allows credentials of the browser.
    """

    def __init__(self, origins: frozenset[str]) -> None:
        self._origins = origins

    def expose(self, scope: Scope, send: Send) -> Send:
        """Return `send` with the headers that let a page of a listed origin read the response."""
        if not self._origins:
            return send
        origin = next((value for name, value in scope["headers"] if name == b"origin"), b"")
        added = [VARY] if not self._lists(origin) else [VARY, EXPOSED, (b"access-control-allow-origin", origin)]

        async def send_exposed(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], *added]}
            await send(event)

        return send_exposed

    async def answer_preflight(self, headers: Headers, send: Send) -> bool:
        """Answer an OPTIONS request if it is the preflight request of a listed origin; returns whether it was.

        Preflight requests have no credentials. Those of other origins are rejected like any other request.
        """
        if REQUESTED_METHOD not in headers or not self._lists(headers.get(b"origin", b"")):
            return False
        wanted = headers.get(REQUESTED_HEADERS, b"")
        allowed = ((b"access-control-allow-headers", wanted),) if wanted else ()
        await reply(send, 204, b"", METHODS, *allowed, PREFLIGHT_AGE)
        return True

    def _lists(self, origin: bytes) -> bool:
        page = origin.decode("latin-1").lower()
        return bool(page) and (ANY in self._origins or page in self._origins)
