"""A server that requires a token, and the authorization server that issues tokens, on the `mcp` SDK 1.x or 2.x.

    python guarded_server.py [PORT]      /mcp, /events/sse, the endpoints of OAuth at the root, /journal

`open-sesame` is a token that is always valid; `narrow` is one without the required scope.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
import warnings
from collections.abc import AsyncIterator
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from web import Journal, listen, serve

try:
    from mcp.server.fastmcp import FastMCP as Server
except ModuleNotFoundError:  # so it is called since 2.0
    from mcp.server.mcpserver import MCPServer as Server

SCOPE = "crib"
STANDING = {
    "open-sesame": AccessToken(token="open-sesame", client_id="ali", scopes=[SCOPE]),
    "narrow": AccessToken(token="narrow", client_id="cassim", scopes=[]),
}

warnings.simplefilter("ignore")  # what is deprecated is still what this server shows


class Clerk:
    """Registers and authorises every client without a prompt."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            client_id=str(client.client_id),
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(authorization_code.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._issue(refresh_token.client_id, scopes or refresh_token.scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return STANDING.get(token) or self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=access,
            token_type="Bearer",
            expires_in=3600,
            refresh_token=refresh,
            scope=" ".join(scopes),
        )


def guarded(base: str) -> Journal:
    clerk = Clerk()
    auth = AuthSettings(
        issuer_url=base,
        resource_server_url=base,
        required_scopes=[SCOPE],
        validate_token_resource=False,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]
        ),
    )
    server = Server("guarded-crib", auth_server_provider=clerk, auth=auth, log_level="ERROR")

    @server.tool(structured_output=False)
    def whoami() -> str:
        """Return the client of the token."""
        token = get_access_token()
        assert token is not None
        return "ali" if token.token == "open-sesame" else "registered" if token.client_id in clerk.clients else "?"

    @server.tool(structured_output=False)
    def forget() -> str:
        """Invalidate all issued tokens."""
        clerk.access.clear()
        return "forgotten"

    http, sse = server.streamable_http_app(), server.sse_app()

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with http.router.lifespan_context(http):
            yield

    async def journal_of(request: Request) -> JSONResponse:
        return await journal.show(request)

    routes = [Route("/journal", journal_of), Mount("/events", app=sse), Mount("/", app=http)]
    journal = Journal(Starlette(routes=routes, lifespan=lifespan))
    return journal


if __name__ == "__main__":
    listening = listen(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    serve(guarded(f"http://127.0.0.1:{listening.getsockname()[1]}"), listening)
