"""Servers with a `TokenVerifier` on a real port, and an issuer on another one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

import toolcrib as tc
from tests.oauth.issuer import CLIENT_ID, CLIENT_SECRET, OTHER, Issuer, serve_issuer, sign
from tests.serving import served
from toolcrib.oauth import token_verifier
from toolcrib.server.serving import security

BOUND = 10.0
WELL_KNOWN = "/.well-known/oauth-protected-resource"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
WHOAMI = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}


@dataclass
class Place:
    """A protected server, its issuer, and a session for raw requests."""

    issuer: Issuer
    origin: str
    path: str
    raw: aiohttp.ClientSession
    server: tc.ToolServer

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
            yield Place(issuer, origin, path, raw, server)


class Stream:
    """An event stream that the test reads."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.text = ""

    async def read_until(self, part: str) -> None:
        """Read until the text contains this part; raises `EOFError` if the stream ends before."""
        while part not in self.text:
            if not await self._read():
                raise EOFError(self.text)

    async def read_to_end(self) -> None:
        while await self._read():
            pass

    async def read_endpoint(self) -> str:
        """Return the URL for the messages of an HTTP+SSE session."""
        await self.read_until("\n\n")
        return self.text.split("data: ")[1].split()[0]

    async def _read(self) -> bool:
        async with asyncio.timeout(BOUND):
            data = await self._response.content.readany()
        self.text += data.decode()
        return bool(data)


@contextlib.asynccontextmanager
async def open_stream(
    place: Place, headers: dict[str, str], *, method: str = "GET", message: Any = None
) -> AsyncIterator[Stream]:
    accept = {"Accept": "application/json, text/event-stream"}
    async with place.raw.request(method, place.url, json=message, headers={**accept, **headers}) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        yield Stream(response)


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
        async with place.raw.get(f"{place.origin}{WELL_KNOWN}{path}/") as response:
            assert response.status == 200  # some clients keep a slash at the end of the server's URL
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


async def test_a_call_of_a_tool_that_requires_more_scopes_is_rejected_with_all_of_them() -> None:
    async with protected(scopes=["a"], tool_scopes={"who*": ["b"]}) as place:
        opened = await place.post(INITIALIZE, place.headers(scope="a"))
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        response = await place.post(WHOAMI, {**session, **place.headers(scope="a c")})
        assert response.status == 403
        assert (await response.json())["id"] == WHOAMI["id"]
        assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]
        assert 'scope="a b"' in response.headers["WWW-Authenticate"]
        unscoped = await place.post([WHOAMI], {**session, **place.headers(scope="a")})
        assert unscoped.status == 403
        assert (await place.post(WHOAMI, {**session, **place.headers(scope="a b")})).status == 200


async def test_a_token_in_the_url_and_two_tokens_are_bad_requests() -> None:
    async with protected() as place:
        in_url = await place.post(INITIALIZE, place.headers(), f"?access_token={place.token()}")
        assert in_url.status == 400
        assert 'error="invalid_request"' in in_url.headers["WWW-Authenticate"]
        twice = [("Authorization", f"Bearer {place.token()}")] * 2
        async with place.raw.post(place.url, json=INITIALIZE, headers=twice) as response:
            assert response.status == 400
        assert (await place.post(INITIALIZE, {"Authorization": "Basic YTpi"})).status == 401


async def test_over_sse_a_token_in_the_url_and_two_tokens_are_bad_requests() -> None:
    async with protected("/sse", transport="sse") as place, open_stream(place, place.headers()) as stream:
        endpoint = place.origin + await stream.read_endpoint()
        twice = [("Authorization", f"Bearer {place.token()}")] * 2
        for method, url in (("GET", place.url + "?"), ("POST", endpoint + "&")):
            in_url = f"{url}access_token={place.token()}"
            async with place.raw.request(method, in_url, json=INITIALIZE, headers=place.headers()) as response:
                assert response.status == 400
                assert 'error="invalid_request"' in response.headers["WWW-Authenticate"]
            async with place.raw.request(method, url, json=INITIALIZE, headers=twice) as response:
                assert response.status == 400
        async with place.raw.post(endpoint, json=INITIALIZE, headers=place.headers()) as response:
            assert response.status == 202


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


# ---- tokens that expire --------------------------------------------------------------------------------------------

LISTEN = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "subscriptions/listen",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        },
        "notifications": {"toolsListChanged": True},
    },
}
LISTEN_HEADERS = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
LIFE = 600.0


class WallClock:
    """Stands in for the module `time` of the server: its wall clock is ahead by some seconds."""

    monotonic = time.monotonic

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def time(self) -> float:
        return time.time() + self._ahead


@contextlib.asynccontextmanager
async def open_notifications(kind: str, place: Place, headers: dict[str, str]) -> AsyncIterator[Stream]:
    """Open a stream for the notifications of the server."""
    if kind == "legacy":
        headers = {**headers, "Mcp-Session-Id": (await place.post(INITIALIZE, headers)).headers["Mcp-Session-Id"]}
        assert (await place.post(INITIALIZED, headers)).status == 202
    method, message = "GET", None
    if kind == "modern":
        method, message, headers = "POST", LISTEN, {**headers, **LISTEN_HEADERS}
    async with open_stream(place, headers, method=method, message=message) as stream:
        yield stream


@pytest.mark.parametrize("kind", ["legacy", "modern", "sse"])
async def test_a_stream_ends_with_its_token_and_needs_a_new_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, path = ("sse", "/sse") if kind == "sse" else ("http", "/mcp")
    introspection = tc.Introspection(CLIENT_ID, CLIENT_SECRET)
    async with protected(path, transport=transport, leeway=0, introspection=introspection) as place:
        place.issuer.opaque["opaque"] = {"sub": "bob", "aud": PUBLIC + path}  # without an expiry
        short, long = (place.headers(exp=time.time() + seconds) for seconds in (LIFE, 10 * LIFE))
        monkeypatch.setattr(security, "MIN_STREAM_SECONDS", 0.0)
        # All but a moment of the life of the first token has passed when its stream is opened.
        monkeypatch.setattr(security, "time", WallClock(LIFE - 0.1))
        async with (
            open_notifications(kind, place, long) as lasting,
            open_notifications(kind, place, {"Authorization": "Bearer opaque"}) as endless,
        ):
            for stream, headers in ((lasting, long), (endless, {"Authorization": "Bearer opaque"})):
                if kind == "sse":
                    endpoint = place.origin + await stream.read_endpoint()
                    for message in (INITIALIZE, INITIALIZED):
                        async with place.raw.post(endpoint, json=message, headers=headers) as response:
                            assert response.status == 202
                    await stream.read_until("serverInfo")
            async with open_notifications(kind, place, short) as ended:
                await ended.read_to_end()
            if kind == "modern":
                answer = json.loads(ended.text.strip().rpartition("data: ")[2])
                assert answer["id"] == 7 and "result" in answer

            @place.server.tool
            def added() -> str:
                return "x"

            for stream in (lasting, endless):
                await stream.read_until("notifications/tools/list_changed")

        monkeypatch.setattr(token_verifier, "time", WallClock(LIFE + 1))
        assert (await place.post(INITIALIZE, short)).status == 401
        async with open_notifications(kind, place, place.headers(exp=time.time() + 2 * LIFE)):
            pass


async def test_the_stream_of_an_sse_session_stays_while_its_client_sends_newer_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(security, "MIN_STREAM_SECONDS", 0.0)
    monkeypatch.setattr(security, "time", WallClock(LIFE - 0.3))
    async with protected("/sse", transport="sse") as place:
        ended = asyncio.Event()

        @place.server.tool
        async def wait() -> str:
            await ended.wait()
            return "done"

        short, long = (place.headers(exp=time.time() + seconds) for seconds in (LIFE, 10 * LIFE))
        async with open_stream(place, short) as kept, open_stream(place, short) as other:
            endpoint = place.origin + await kept.read_endpoint()
            call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
            for message in (INITIALIZE, INITIALIZED, call):
                async with place.raw.post(endpoint, json=message, headers=long) as response:
                    assert response.status == 202
            await other.read_to_end()  # this client has sent no newer token
            ended.set()
            await kept.read_until("done")


async def test_a_key_of_another_issuer_is_refused_over_http() -> None:
    async with protected() as place:
        token = sign(place.issuer.claims(aud=PUBLIC + "/mcp"), OTHER)
        for _ in range(3):
            assert (await place.post(INITIALIZE, {"Authorization": f"Bearer {token}"})).status == 401
        assert place.issuer.requests["/keys"] == 1
