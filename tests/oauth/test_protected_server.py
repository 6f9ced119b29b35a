"""Servers with a `TokenVerifier` on a real port, and an issuer on another one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

import toolcrib as tc
from tests.oauth.issuer import CLIENT_ID, CLIENT_SECRET, OTHER, Issuer, serve_issuer, sign
from tests.serving import served

WELL_KNOWN = "/.well-known/oauth-protected-resource"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
WHOAMI = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}


@dataclass
class Place:
    """A protected server, its issuer, and a session for raw requests."""

    issuer: Issuer
    origin: str
    path: str
    raw: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return self.origin + self.path

    def token(self, **changes: Any) -> str:
        return self.issuer.token(**{"aud": PUBLIC + self.path, **changes})

    def headers(self, **changes: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(**changes)}"}

    async def post(self, message: Any, headers: dict[str, str], query: str = "") -> aiohttp.ClientResponse:
        accept = {"Accept": "application/json, text/event-stream"}
        async with self.raw.post(self.url + query, json=message, headers={**accept, **headers}) as response:
            await response.read()
        return response


PUBLIC = "http://localhost:1"
"""The public origin of the server, which differs from its address: the resource is from the settings."""


@contextlib.asynccontextmanager
async def protected(path: str = "/mcp", *, transport: Any = "http", **options: Any) -> AsyncIterator[Place]:
    server = tc.ToolServer("protected")

    @server.tool
    async def whoami(ctx: tc.Context) -> str:
        return f"{ctx.principal.subject} {' '.join(sorted(ctx.principal.scopes))}"

    async with serve_issuer() as issuer, aiohttp.ClientSession() as raw:
        verifier = tc.TokenVerifier(issuer=issuer.url, resource=PUBLIC + path, **options)
        app = server.asgi(path=path, transport=transport, auth=verifier)
        async with served(app) as origin:
            yield Place(issuer, origin, path, raw)


# ---- the document --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport, path", [("http", "/mcp"), ("http", "/deep/er"), ("sse", "/sse")])
async def test_anyone_can_read_the_metadata(transport: str, path: str) -> None:
    async with protected(path, transport=transport, scopes=["tools:read"], scopes_supported=["tools:call"]) as place:
        for well_known in (WELL_KNOWN + path, WELL_KNOWN):
            async with place.raw.get(place.origin + well_known) as response:
                assert response.status == 200
                assert response.content_type == "application/json"
                assert response.headers["Cache-Control"] == "public, max-age=3600"
                assert await response.json() == {
                    "resource": PUBLIC + path,
                    "authorization_servers": [place.issuer.url],
                    "bearer_methods_supported": ["header"],
                    "scopes_supported": ["tools:read", "tools:call"],
                }
        async with place.raw.head(place.origin + WELL_KNOWN) as response:
            assert response.status == 200
        for other in (WELL_KNOWN + "/other", "/.well-known/openid-configuration"):
            async with place.raw.get(place.origin + other) as response:
                assert response.status == 401
        assert not place.issuer.requests


async def test_the_metadata_is_not_for_pages_of_other_origins_or_other_hosts() -> None:
    async with protected() as place:
        for headers, status in (({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 421)):
            async with place.raw.get(place.origin + WELL_KNOWN, headers=headers) as response:
                assert response.status == status
        async with place.raw.get(place.origin + WELL_KNOWN, headers={"Origin": "http://localhost:3000"}) as response:
            assert response.status == 200


# ---- challenges ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport, path", [("http", "/mcp"), ("sse", "/sse")])
async def test_a_request_without_credentials_is_told_where_to_get_them(transport: str, path: str) -> None:
    async with protected(path, transport=transport, scopes=["tools:read", "tools:call"]) as place:
        response = await place.post(INITIALIZE, {})
        assert response.status == 401
        expected = f'Bearer resource_metadata="{PUBLIC}{WELL_KNOWN}{path}", scope="tools:read tools:call"'
        assert response.headers.getall("WWW-Authenticate") == [expected]


async def test_wrong_tokens_get_one_and_the_same_answer() -> None:
    async with protected() as place:
        wrong = ["garbage", place.token(exp=1), place.token(aud="other"), place.token(iss="https://evil.example")]
        answers = set()
        for token in wrong:
            response = await place.post(INITIALIZE, {"Authorization": f"Bearer {token}"})
            answers.add((response.status, response.headers["WWW-Authenticate"], await response.text()))
        ((status, challenge, _),) = answers
        assert status == 401
        assert challenge == f'Bearer error="invalid_token", resource_metadata="{PUBLIC}{WELL_KNOWN}/mcp"'


async def test_a_token_with_too_few_scopes_is_told_all_of_them() -> None:
    async with protected(scopes=["a", "b"]) as place:
        response = await place.post(INITIALIZE, place.headers(scope="b"))
        assert response.status == 403
        assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]
        assert 'scope="a b"' in response.headers["WWW-Authenticate"]
        assert (await place.post(INITIALIZE, place.headers(scope="b a"))).status == 200


async def test_a_token_in_the_url_and_two_tokens_are_bad_requests() -> None:
    async with protected() as place:
        in_url = await place.post(INITIALIZE, place.headers(), f"?access_token={place.token()}")
        assert in_url.status == 400
        assert 'error="invalid_request"' in in_url.headers["WWW-Authenticate"]
        twice = [("Authorization", f"Bearer {place.token()}")] * 2
        async with place.raw.post(place.url, json=INITIALIZE, headers=twice) as response:
            assert response.status == 400
        assert (await place.post(INITIALIZE, {"Authorization": "Basic YTpi"})).status == 401


@pytest.mark.parametrize("token", ["signed", "opaque"])
async def test_an_issuer_that_is_down_means_later_and_not_never(token: str) -> None:
    async with protected(introspection=tc.Introspection(CLIENT_ID, CLIENT_SECRET)) as place:
        place.issuer.down = True
        headers = place.headers() if token == "signed" else {"Authorization": "Bearer opaque"}
        response = await place.post(INITIALIZE, headers)
        assert response.status == 503
        assert int(response.headers["Retry-After"]) > 0
        assert "WWW-Authenticate" not in response.headers


async def test_an_issuer_that_went_down_later_is_not_needed() -> None:
    async with protected() as place:
        assert (await place.post(INITIALIZE, place.headers())).status == 200
        place.issuer.down = True
        assert (await place.post(INITIALIZE, place.headers(sub="eve"))).status == 200


# ---- clients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transport, path, mode", [("http", "/mcp", "legacy"), ("http", "/mcp", "2026-07-28"), ("sse", "/sse", "legacy")]
)
async def test_a_client_with_a_token_calls_tools_as_its_owner(transport: str, path: str, mode: Any) -> None:
    async with protected(path, transport=transport, scopes=["tools:read"]) as place:
        kind = tc.SseServer if transport == "sse" else tc.HttpServer
        async with tc.Client(kind(place.url, headers=place.headers()), mode=mode) as client:
            assert (await client.call_tool("whoami")).text == "ada tools:call tools:read"
        with pytest.raises(tc.AuthError) as caught:
            async with tc.Client(kind(place.url), mode=mode):
                pass
        assert caught.value.status == 401
        assert WELL_KNOWN in str(caught.value.challenge)


async def test_an_opaque_token_works_over_http() -> None:
    async with protected(introspection=tc.Introspection(CLIENT_ID, CLIENT_SECRET)) as place:
        place.issuer.opaque["opaque"] = {"sub": "bob", "aud": PUBLIC + "/mcp", "scope": "x"}
        headers = {"Authorization": "Bearer opaque"}
        async with tc.Client(tc.HttpServer(place.url, headers=headers)) as client:
            assert (await client.call_tool("whoami")).text == "bob x"
        assert place.issuer.requests["/introspect"] == 1


async def test_a_session_belongs_to_the_principal_and_not_to_the_token() -> None:
    async with protected() as place:
        opened = await place.post(INITIALIZE, place.headers())
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        renewed = await place.post(WHOAMI, {**session, **place.headers(scope="fewer", client_id="other")})
        assert renewed.status == 200
        assert "ada fewer" in await renewed.text()  # the rights of this token, not of the first one
        again = await place.post(WHOAMI, {**session, **place.headers()})
        assert "ada tools:call tools:read" in await again.text()
        foreign = await place.post(WHOAMI, {**session, **place.headers(sub="eve")})
        unknown = await place.post(WHOAMI, {"Mcp-Session-Id": "unknown", **place.headers(sub="eve")})
        assert foreign.status == unknown.status == 404
        assert await foreign.text() == await unknown.text()
        program = await place.post(WHOAMI, {**session, **place.headers(client_id="ada")})
        assert program.status == 404


async def test_a_stream_belongs_to_the_principal_and_each_message_has_the_rights_of_its_token() -> None:
    async with protected("/sse", transport="sse") as place:
        scopes = iter(["one", "one", "one", "two"])

        def headers() -> str:
            return f"Bearer {place.token(scope=next(scopes, 'two'))}"

        config = tc.SseServer(place.url, headers={"Authorization": headers})
        async with tc.Client(config) as client:
            texts = [(await client.call_tool("whoami")).text for _ in range(3)]
        assert texts[-1] == "ada two"


async def test_a_key_of_another_issuer_is_refused_over_http() -> None:
    async with protected() as place:
        token = sign(place.issuer.claims(aud=PUBLIC + "/mcp"), OTHER)
        for _ in range(3):
            assert (await place.post(INITIALIZE, {"Authorization": f"Bearer {token}"})).status == 401
        assert place.issuer.requests["/keys"] == 1
