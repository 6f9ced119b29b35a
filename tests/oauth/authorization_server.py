"""An authorisation server with a protected MCP server, on a real port, for tests.

In the event loop of a test: `async with AuthorizationServer(iss="wrong") as server:`. As a process of its own:
`python -m tests.oauth.authorization_server '{"iss": "wrong"}'`, which prints a JSON line with its URLs (see
`server_process.py`) and is controlled by requests to `/control`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.oauth import authorization_endpoint, discovery, token_endpoint
from tests.oauth.behaviour import Behaviour, from_json
from tests.oauth.clients import ClientRegistry, PublicKey, RegisteredClient
from tests.oauth.protected_resource import ProtectedResource
from tests.oauth.tokens import ALGORITHMS, Family, Grant, OAuthFailure, TokenBook
from tests.serving import served

INTROSPECTION_CLIENT = RegisteredClient("resource-server", "client_secret_basic", "introspection-secret")
"""A client that may ask about tokens."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that the server received: values as they came, headers with lower-case names."""

    endpoint: str
    """Such as `token`, `metadata`, `resource_metadata`, `mcp`; `unknown` for a path without an endpoint."""
    method: str
    path: str
    params: Mapping[str, Any]
    """The form or query, the JSON document of a registration, or the JSON-RPC message."""
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value for each, value in self.headers if each == name.lower()), None)


@dataclass(slots=True)
class Gate:
    """A point at which requests wait."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first request has arrived."""
    waiting: int = 0
    _opened: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        """Let all requests go on, also later ones."""
        self._opened.set()

    async def wait(self) -> None:
        """Wait until the gate is open."""
        if self._opened.is_set():
            return
        self.waiting += 1
        self.reached.set()
        await self._opened.wait()
        self.waiting -= 1


@dataclass(slots=True)
class InjectedFailure:
    """What an endpoint answers in place of its own answer, for a number of times."""

    times: int
    status: int
    error: str | None
    description: str
    headers: Mapping[str, str | tuple[str, ...]]


class AuthorizationServer:
    """The server: `behaviour` may be replaced at any time, all other attributes are for reading.

    `url` is that of the MCP server; it has the tools `echo`, `whoami` and `write`.
    """

    def __init__(self, **behaviour: Any) -> None:
        self.behaviour = Behaviour(**behaviour)
        self.base = ""
        self.requests: list[RecordedRequest] = []
        self.counters: Counter[str] = Counter()
        """Number of requests by endpoint."""
        self.clients = ClientRegistry()
        self.clients.add(INTROSPECTION_CLIENT)
        self.tokens = TokenBook()
        self.codes: dict[str, authorization_endpoint.IssuedCode] = {}
        self.pending: dict[str, dict[str, str]] = {}
        """Authorisation requests whose page is shown."""
        self.trusted: list[AuthorizationServer] = []
        """Other servers whose access tokens the MCP server accepts, and whose ID-JAGs the token endpoint accepts."""
        self.trusted_keys: list[PublicKey] = []
        """Keys of workloads whose assertions the token endpoint accepts."""
        self.used_assertions: set[str] = set()
        self.saml_assertions: dict[str, str] = {}
        """Subjects by SAML assertion, for token exchange."""
        self.id_jag_clients: dict[str, str] = {}
        """Client ids at the other authorisation server by client id here, for token exchange."""
        self._gates: dict[str, Gate] = {}
        self._failures: dict[str, InjectedFailure] = {}
        self._resource_server = ProtectedResource(self)
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> AuthorizationServer:
        """Start the server."""
        self.base = await self._stack.enter_async_context(served(self))
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop the server."""
        for gate in self._gates.values():
            gate.open()
        await self._stack.aclose()

    async def close(self) -> None:
        """End the sessions of the MCP server."""
        await self._resource_server.close()

    # ---- URLs --------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL of the MCP server."""
        return f"{self.base}/mcp"

    @property
    def port(self) -> int:
        """The port."""
        return urlsplit(self.base).port or 0

    @property
    def issuer(self) -> str:
        """The issuer."""
        return f"{self.base}{self.behaviour.issuer_path}"

    @property
    def resource(self) -> str:
        """The `resource` in the metadata of the MCP server."""
        return self.expand(self.behaviour.resource)

    @property
    def resources(self) -> set[str]:
        """The values of `resource` that are accepted, those of the trusted servers included."""
        return {self.resource, self.url, *(each.resource for each in self.trusted)}

    def expand(self, text: str) -> str:
        """Return the text with the origin of the server in place of `{base}`."""
        return text.replace("{base}", self.base)

    # ---- what tests change and read ----------------------------------------------------------------------------

    @property
    def presentations(self) -> Counter[str]:
        """How often each refresh token was presented."""
        return self.tokens.presentations

    @property
    def families(self) -> dict[str, Family]:
        """The families of refresh tokens."""
        return self.tokens.families

    def change(self, **behaviour: Any) -> None:
        """Replace fields of the behaviour."""
        self.behaviour = replace(self.behaviour, **behaviour)

    def seen(self, endpoint: str) -> list[RecordedRequest]:
        """Return the requests to one endpoint."""
        return [each for each in self.requests if each.endpoint == endpoint]

    def prune_clients(self) -> None:
        """Forget all clients that registered themselves."""
        self.clients.prune()

    def expire_tokens(self) -> None:
        """Make all access tokens invalid."""
        self.tokens.expire_access()

    def end_streams(self) -> None:
        """Break off the streams that clients have opened with GET."""
        self._resource_server.end_streams()

    def revoke_all(self) -> None:
        """Make all access tokens and refresh tokens invalid."""
        self.tokens.revoke_all()

    def add_client(self, client_id: str, method: str = "none", **fields: Any) -> RegisteredClient:
        """Add a client that is not pruned: see `RegisteredClient` for the fields."""
        client = RegisteredClient(client_id, method, **fields)
        self.clients.add(client)
        return client

    def issue_token(
        self,
        subject: str = "alice",
        scope: str = "mcp:read",
        *,
        resource: str | None = None,
        client_id: str = "client",
        seconds: float = 3600,
        **claims: Any,
    ) -> str:
        """Return an access token without any flow; `claims` replace those of a JWT, or remove them with None."""
        grant = Grant(client_id, subject, scope, resource or self.resource)
        opaque = self.behaviour.access_tokens == "opaque"
        return self.tokens.issue_access(self.issuer, grant, seconds=seconds, opaque=opaque, claims=claims).value

    def issue_id_token(self, subject: str = "alice", audience: str = "client") -> str:
        """Return an ID token, as the subject token of a token exchange."""
        now = int(time.time())
        return self.tokens.sign({"iss": self.issuer, "sub": subject, "aud": audience, "iat": now, "exp": now + 300})

    def read_assertion(self, assertion: str) -> jwt.Token | None:
        """Return an assertion that this server, a trusted server or a trusted workload signed."""
        for each in (self, *self.trusted):
            found = each.tokens.read(assertion)
            if found is not None:
                return found
        for key in self.trusted_keys:
            with contextlib.suppress(JoseError, ValueError):
                return jwt.decode(assertion, key, algorithms=list(ALGORITHMS))
        return None

    def hold(self, point: str) -> Gate:
        """Let requests wait at a point.

        The point is an endpoint (before it is processed), one with `-after` (once it is), or the tool `echo`.
        """
        gate = self._gates[point] = Gate()
        return gate

    def stop_holding(self, point: str) -> None:
        """Let later requests pass; those that wait go on when their gate is opened."""
        del self._gates[point]

    def fail_next(
        self,
        endpoint: str,
        *,
        times: int = 1,
        status: int = 503,
        error: str | None = None,
        description: str = "",
        **headers: str | tuple[str, ...],
    ) -> None:
        """Let the next requests to an endpoint fail, with an OAuth error if `error` is given; `Retry_After="1"`.

        A tuple is a header that is sent several times.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._failures[endpoint] = InjectedFailure(times, status, error, description, named)

    # ---- requests ----------------------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["path"] == "/mcp":
            await self._resource_server(scope, receive, send)
            return
        request = Request(scope, receive)
        response = await (self._control(request) if scope["path"] == "/control" else self._answer(request))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        endpoint = self._endpoint(request.url.path)
        params = await _params(request)
        self.record(endpoint, request.method, request.url.path, params, request.headers.raw)
        failure = self.injected_failure(endpoint)
        if failure is not None:
            return failure
        if await self.wait_at(endpoint) and await request.is_disconnected():
            return PlainTextResponse("the client is gone", 499)  # as servers do that notice it in time
        response = self._respond(endpoint, request, params)
        await self.wait_at(f"{endpoint}-after")
        return response

    def record(self, endpoint: str, method: str, path: str, params: Any, headers: Any) -> None:
        """Record a request."""
        pairs = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
        self.requests.append(RecordedRequest(endpoint, method, path, params, pairs))
        self.counters[endpoint] += 1

    def injected_failure(self, endpoint: str) -> Response | None:
        """Return the answer of `fail_next`, if there is one left for this endpoint."""
        failure = self._failures.get(endpoint)
        if failure is None or failure.times == 0:
            return None
        failure.times -= 1
        response: Response = PlainTextResponse("not now", failure.status)
        if failure.error is not None:
            body = {"error": failure.error, "error_description": failure.description}
            response = JSONResponse(body, failure.status)
        for name, values in failure.headers.items():
            for value in (values,) if isinstance(values, str) else values:
                response.headers.append(name, value)
        return response

    async def wait_at(self, point: str) -> bool:
        """Wait if requests are held at this point; return whether they are, or were."""
        gate = self._gates.get(point)
        if gate is None:
            return False
        await gate.wait()
        return True

    def _endpoint(self, path: str) -> str:
        if path == discovery.resource_metadata_path(self):
            return "resource_metadata"
        if path.startswith("/moved/") or discovery.server_metadata_kind(self, path) is not None:
            return "metadata"
        name = path.removeprefix(self.behaviour.issuer_path).removeprefix("/")
        known = name in ENDPOINTS and path.startswith(self.behaviour.issuer_path)
        if (name == "register" and not self.behaviour.registration) or not known:
            return "unknown"
        return name

    def _respond(self, endpoint: str, request: Request, params: dict[str, Any]) -> Response:
        if endpoint == "unknown" or (request.method == "GET") != (endpoint in READ_BY_GET):
            return JSONResponse({"detail": "not found"}, 404)  # an object, as some frameworks answer
        match endpoint:
            case "metadata":
                return discovery.server_metadata(self, request.url.path)
            case "resource_metadata":
                return discovery.resource_metadata(self)
            case "register":
                return self._register(params)
            case "authorize":
                return authorization_endpoint.authorize(self, params)
            case "consent":
                return authorization_endpoint.consent(self, params)
            case "token":
                return token_endpoint.token(self, params, request.headers)
            case "revoke":
                return token_endpoint.revoke(self, params, request.headers)
            case "introspect":
                return token_endpoint.introspect(self, params, request.headers)
            case _:
                return JSONResponse(self.tokens.published_keys())

    def _register(self, document: dict[str, Any]) -> Response:
        try:
            answer = self.clients.register(document, self.behaviour)
        except OAuthFailure as exc:
            return JSONResponse({"error": exc.error, "error_description": exc.description}, 400)
        return JSONResponse(answer, self.behaviour.registration_status)

    # ---- control by other processes ----------------------------------------------------------------------------

    async def _control(self, request: Request) -> Response:
        """Answer a request that reads the state (GET), or runs commands (POST of an object, see the code)."""
        if request.method == "POST":
            for command, value in (await request.json()).items():
                match command:
                    case "change":
                        self.change(**from_json(value))
                    case "hold":
                        self.hold(value)
                    case "wait":  # until a request has arrived at the gate
                        await self._gates[value].reached.wait()
                    case "open":
                        self._gates[value].open()
                    case "fail_next":
                        self.fail_next(**value)
                    case "expire_tokens" | "prune_clients" | "revoke_all":
                        getattr(self, command)()
                    case _:
                        return JSONResponse({"error": f"unknown command: {command}"}, 400)
        return JSONResponse(
            {
                "counters": dict(self.counters),
                "presentations": dict(self.presentations),
                "families": {
                    name: {"tokens": each.tokens, "is_revoked": each.is_revoked} for name, each in self.families.items()
                },
                "waiting": {point: gate.waiting for point, gate in self._gates.items()},
                "requests": [asdict(each) for each in self.requests],
            }
        )


ENDPOINTS = frozenset({"authorize", "consent", "introspect", "jwks", "register", "revoke", "token"})
READ_BY_GET = frozenset({"authorize", "jwks", "metadata", "resource_metadata"})


async def _params(request: Request) -> dict[str, Any]:
    """Return the parameters of a request: of its JSON object, its form or its query."""
    if request.method != "POST":
        return dict(parse_qsl(request.url.query, keep_blank_values=True))
    body = await request.body()
    if request.headers.get("content-type", "").startswith("application/json"):
        try:
            document = json.loads(body)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


async def _main(behaviour: dict[str, Any]) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with AuthorizationServer(**behaviour) as server:
        print(json.dumps({"base": server.base, "url": server.url, "issuer": server.issuer}), flush=True)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(_main(from_json(json.loads(sys.argv[1])) if len(sys.argv) > 1 else {}))
