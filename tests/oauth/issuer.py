"""An issuer of access tokens for the tests of `TokenVerifier`: metadata, key set and introspection, with switches.

`Issuer.fetch` answers in memory; `serve_issuer` serves the same answers on a real port.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from toolcrib.errors import ConnectError

RESOURCE = "https://tools.example.com/mcp"
CLIENT_ID, CLIENT_SECRET = "the server", "s:cret%"

RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
OTHER = ECKey.generate_key("P-256", {"kid": "other"})

Answer = tuple[int, list[tuple[str, str]], bytes]


def sign(claims: Any, key: Any = EC, algorithm: str = "ES256", **header: Any) -> str:
    """Return a JWT; None as a value of the header removes a member."""
    members = {"alg": algorithm, "typ": "at+jwt", "kid": key.kid, **header}
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    protected = {name: value for name, value in members.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    model = registry.algorithms[algorithm]
    head, body = (base64.urlsafe_b64encode(each).rstrip(b"=") for each in (json.dumps(protected).encode(), payload))
    signature = base64.urlsafe_b64encode(model.sign(head + b"." + body, key)).rstrip(b"=")
    return b".".join((head, body, signature)).decode()


class Issuer:
    """The state of the issuer. Tests change its attributes."""

    def __init__(self, url: str = "https://login.example.com") -> None:
        self.url = url
        self.keys: list[Any] = [RSA, EC, ED]
        self.extra_keys: list[Any] = []
        """Members of the key set as they are sent, before the usable ones."""
        self.down = False
        """Whether it answers everything with 503."""
        self.unreachable = False
        self.metadata: dict[str, Any] = {}
        """Members of the metadata that differ from the correct ones."""
        self.key_set_headers: list[tuple[str, str]] = []
        self.opaque: dict[str, dict[str, Any]] = {}
        """The introspection responses of active tokens."""
        self.requests: Counter[str] = Counter()
        """The number of requests by path."""

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return the claims of a valid token, with changes; None removes a claim."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "ada",
            "aud": RESOURCE,
            "client_id": "editor",
            "scope": "tools:read tools:call",
            "iat": now,
            "exp": now + 600,
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, **changes: Any) -> str:
        """Return a valid token, with changed claims."""
        return sign(self.claims(**changes))

    async def fetch(self, method: str, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        """Answer a request in memory."""
        self.requests[urlsplit(url).path] += 1
        if self.unreachable:
            raise ConnectError("no connection")
        return self.answer(method, urlsplit(url).path, dict(headers), body)

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Return the response to a request."""
        if self.down:
            return 503, [], b""
        if path.startswith("/.well-known/oauth-authorization-server"):
            metadata = {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "introspection_endpoint": f"{self.url}/introspect",
                **self.metadata,
            }
            return 200, [], json.dumps(metadata).encode()
        if path.endswith("/keys"):
            usable = KeySet(self.keys).as_dict(private=False)["keys"] if self.keys else []
            return 200, self.key_set_headers, json.dumps({"keys": [*self.extra_keys, *usable]}).encode()
        if path.endswith("/introspect") and method == "POST":
            return self._introspect(headers, body)
        return 404, [], b"{}"

    def _introspect(self, headers: dict[str, str], body: bytes) -> Answer:
        expected = base64.b64encode(b"the+server:s%3Acret%25").decode()
        if headers.get("Authorization") != f"Basic {expected}":
            return 401, [], b'{"error": "invalid_client"}'
        (token,) = parse_qs(body.decode())["token"]
        found = self.opaque.get(token)
        return 200, [], json.dumps({"active": True, **found} if found is not None else {"active": False}).encode()


@contextlib.asynccontextmanager
async def serve_issuer() -> AsyncIterator[Issuer]:
    """Serve an issuer on a free port of this machine."""
    issuer = Issuer()

    async def respond(request: web.Request) -> web.Response:
        issuer.requests[request.path] += 1
        status, headers, body = issuer.answer(request.method, request.path, dict(request.headers), await request.read())
        return web.Response(status=status, headers=headers, body=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield issuer
    finally:
        await runner.cleanup()
