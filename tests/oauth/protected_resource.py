"""The protected MCP server of the tests: a `ToolServer` that accepts the tokens of the authorisation server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

import toolcrib as tc
from tests.oauth.discovery import resource_metadata_path
from tests.oauth.tokens import AccessToken

if TYPE_CHECKING:
    from tests.oauth.authorization_server import AuthorizationServer


IS_PUBLIC: ContextVar[bool] = ContextVar("IS_PUBLIC", default=False)
"""Whether the running request needs no valid token."""


class ProtectedResource:
    """An ASGI app with the endpoint `/mcp`."""

    def __init__(self, server: AuthorizationServer) -> None:
        self._server = server
        self._streams: set[asyncio.Task[None]] = set()
        tools = tc.ToolServer("protected", auth=self._identify)

        @tools.tool
        async def echo(text: str) -> str:
            """Return the text."""
            await server.wait_at("echo")
            return text

        @tools.tool
        def whoami(context: tc.Context) -> str:
            """Return the subject of the token."""
            return str(context.principal)

        @tools.tool
        def write(text: str) -> str:
            """Return what was written; needs more scopes than the other tools."""
            return f"wrote {text}"

        self._app = tools.asgi()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        events: list[Any] = []
        message: Any = {}
        if scope["method"] == "POST":
            message = await self._read(receive, events)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._server.record("mcp", scope["method"], scope["path"], message, scope["headers"])
        injected = self._server.injected_failure("mcp")
        if injected is None:
            await self._server.wait_at("mcp")
            injected = self._refuse_stream(scope["method"]) or self._refuse_writing(message, headers)
        if injected is not None:
            await injected(scope, receive, send)
            return

        async def replayed() -> Any:
            return events.pop(0) if events else await receive()

        is_request = isinstance(message, dict)
        IS_PUBLIC.set(is_request and message.get("method") in self._server.behaviour.public_methods)
        answering = asyncio.create_task(self._app(scope, replayed, send))
        if scope["method"] == "GET":
            self._streams.add(answering)
        try:
            await asyncio.wait([answering])
        finally:
            self._streams.discard(answering)
            answering.cancel()

    def end_streams(self) -> None:
        """Break off the streams that clients have opened with GET."""
        for each in self._streams:
            each.cancel()

    async def close(self) -> None:
        """End the sessions."""
        await self._app.close()

    async def _read(self, receive: Any, events: list[Any]) -> Any:
        body = b""
        while True:
            event = await receive()
            events.append(event)
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        try:
            return json.loads(body)
        except ValueError:
            return {}

    # ---- authorisation -----------------------------------------------------------------------------------------

    def _find(self, headers: Mapping[str, str]) -> AccessToken | None:
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        for each in (self._server, *self._server.trusted):
            token = each.tokens.find_access(value)
            if token is not None:
                is_ours = token.grant.resource is None or token.grant.resource in self._server.resources
                return token if is_ours else None
        return None

    def _identify(self, headers: Mapping[str, str]) -> str:
        token = self._find(headers)
        if token is not None:
            return token.grant.subject
        if IS_PUBLIC.get():
            return self._server.behaviour.subject
        error = "invalid_token" if "authorization" in headers else None
        scope = self._server.behaviour.challenge_scope
        raise tc.AuthError("unauthorised", status=401, challenge=self._challenge(error, scope))

    def _refuse_stream(self, method: str) -> Response | None:
        if method != "GET" or not self._server.behaviour.rejects_streams:
            return None
        return PlainTextResponse("only POST", 401, {"WWW-Authenticate": "Bearer"})

    def _refuse_writing(self, message: Any, headers: Mapping[str, str]) -> JSONResponse | None:
        behaviour = self._server.behaviour
        if not isinstance(message, dict) or message.get("method") != "tools/call":
            return None
        token = self._find(headers)
        if token is None or message.get("params", {}).get("name") != "write":
            return None
        if not behaviour.write_always_refused and set(behaviour.write_scope.split()) <= set(token.grant.scope.split()):
            return None
        challenge = self._challenge(behaviour.write_error, behaviour.write_scope)
        error = {"code": -32600, "message": "more scopes are needed"}
        body = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        return JSONResponse(body, 403, {"WWW-Authenticate": challenge})

    def _challenge(self, error: str | None, scope: str | None) -> str:
        path = resource_metadata_path(self._server)
        hint = self._server.behaviour.resource_metadata_hint and path is not None
        parts = {"error": error, "scope": scope, "resource_metadata": f"{self._server.base}{path}" if hint else None}
        texts = [f'{name}="{value}"' for name, value in parts.items() if value]
        return f"Bearer {', '.join(texts)}" if texts else "Bearer"
