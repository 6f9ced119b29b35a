"""The bad web server and the bad lines, tested with plain aiohttp: they misbehave as configured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.faults.http_kit import Certificates, Provider, Web, closed_port, running, unreachable
from tests.faults.http_proxy import Fault
from tests.faults.http_server import BadWebServer
from tests.faults.kit import eventually

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def posted(http: aiohttp.ClientSession, url: str, method: str, ident: int | None = 1, **params: Any) -> Any:
    """Post a modern request if there is `_meta`, otherwise a legacy one without a session."""
    headers = dict(ACCEPT)
    if "_meta" in params:
        headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
    if session := params.pop("session", None):
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    body = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if ident is None else {"id": ident})
    return http.post(url, data=json.dumps(body), headers=headers)


def called(http: aiohttp.ClientSession, url: str, tool: str, session: str | None = None, **arguments: Any) -> Any:
    more = {"session": session} if session else {"_meta": META}
    return posted(http, url, "tools/call", arguments.pop("id", 1), name=tool, arguments=arguments, **more)


async def opened(http: aiohttp.ClientSession, server: BadWebServer) -> str:
    async with posted(http, server.url, "initialize", protocolVersion="2025-11-25") as answer:
        assert (await answer.json())["result"]["protocolVersion"] == "2025-11-25"
        return str(answer.headers["Mcp-Session-Id"])


async def test_it_speaks_the_modern_era_and_journals(web: Web, http: aiohttp.ClientSession) -> None:
    server = await web.server()
    async with posted(http, server.url, "server/discover", _meta=META) as answer:
        assert (await answer.json())["result"]["supportedVersions"] == ["2026-07-28"]
    async with called(http, server.url, "echo", nonce="n") as answer:
        assert (await answer.json())["result"]["content"][0]["text"] == "n"
    async with called(http, server.url, "echo", nonce="e", **{"as": "event"}) as answer:
        assert answer.content_type == "text/event-stream"
        assert json.loads((await answer.text()).removeprefix("data: "))["result"]["resultType"] == "complete"
    assert server.executed == {"n": 1, "e": 1}
    assert [one.method for one in server.requests] == ["server/discover", "tools/call", "tools/call"]


async def test_it_speaks_the_legacy_era_with_sessions_streams_and_replay(web: Web, http: aiohttp.ClientSession) -> None:
    server = await web.server()
    session = await opened(http, server)
    version = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25", "Accept": "text/event-stream"}
    standing = await http.get(server.url, headers=version)
    server.push({"method": "notifications/tools/list_changed"})
    assert await standing.content.readline() == b"id: 1-1\n"
    async with called(http, server.url, "resumed", session, nonce="r", ticks=2, then="fin", id=5) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    await eventually(lambda: server.sessions[session].streams[1].over)
    async with http.get(server.url, headers=version | {"Last-Event-ID": "2-3"}) as again:
        assert json.loads((await again.text()).partition("data: ")[2])["result"]["content"][0]["text"] == "r"
    async with called(http, server.url, "echo", "no-such-session") as answer:
        assert answer.status == 404
    async with http.delete(server.url, headers=version) as answer:
        assert answer.status == 200
    assert server.sessions == {}
    standing.close()


async def test_it_notes_the_rules_that_a_client_breaks(web: Web, http: aiohttp.ClientSession) -> None:
    server = await web.server()
    session = await opened(http, server)
    async with http.post(
        server.url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize"}, headers={"Mcp-Session-Id": session}
    ):
        pass
    headers = ACCEPT | {"Mcp-Session-Id": session}
    for _ in range(2):
        async with http.post(server.url, data=b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}', headers=headers):
            pass
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    async with http.post(server.url, data=json.dumps(body), headers=ACCEPT) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32020)
    found, server.breaches = server.breaches, []
    for sign in (
        "Accept is",
        "a session id on initialize",
        "version header None",
        "id 7 again",
        "mcp-protocol-version",
    ):
        assert any(sign in breach for breach in found), f"{sign}: {found}"


async def test_a_gate_precedes_the_execution_and_a_tool_follows_it(web: Web, http: aiohttp.ClientSession) -> None:
    server = await web.server()
    server.gate("tools/call", "status", status=503, skip=1, times=1)
    for nonce, status in (("a", 200), ("b", 503), ("c", 200)):
        async with called(http, server.url, "echo", nonce=nonce) as answer:
            assert answer.status == status
    async with called(http, server.url, "status", nonce="d", status=503, body="<p>", type="text/html") as answer:
        assert (answer.status, await answer.text()) == (503, "<p>")
    assert server.executed == {"a": 1, "c": 1, "d": 1}


@pytest.mark.parametrize("then, error", [("fin", aiohttp.ServerDisconnectedError), ("reset", aiohttp.ClientOSError)])
async def test_it_ends_a_connection_as_configured(
    web: Web, http: aiohttp.ClientSession, then: str, error: type[Exception]
) -> None:
    server = await web.server()
    with pytest.raises(error):
        await called(http, server.url, "die", nonce="x", then=then)
    with pytest.raises(aiohttp.ClientPayloadError):
        async with called(http, server.url, "die", nonce="y", then=then, after="body") as answer:
            await answer.read()


async def test_it_sees_the_client_go(web: Web, http: aiohttp.ClientSession) -> None:
    server = await web.server()
    asking = asyncio.create_task(called(http, server.url, "silent", nonce="s").__aenter__())
    await running(server, 1)
    asking.cancel()
    await eventually(lambda: server.gone == ["s"])


async def test_a_bomb_is_small_on_the_wire_and_true_gzip(web: Web) -> None:
    server = await web.server()
    async with (
        aiohttp.ClientSession(auto_decompress=False) as http,
        called(http, server.url, "bomb", size=64 << 20) as answer,
    ):
        assert len(await answer.read()) < 256 << 10
    async with aiohttp.ClientSession() as http:
        for shape in ({"encoding": "gzip"}, {"encoding": "deflate"}):
            async with called(http, server.url, "bomb", size=2 << 20, **shape) as answer:
                part = await answer.content.readexactly(1 << 20)
                assert part.endswith(b"a" * 1000)


async def test_authorisation_and_the_provider(web: Web, http: aiohttp.ClientSession) -> None:
    server = await web.server(tokens={"t2"})
    async with called(http, server.url, "echo") as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")

    class Message:
        def __init__(self, status: int = 0) -> None:
            self.headers: dict[str, str] = {}
            self.status_code = status

    provider, request = Provider("t1", "t2"), Message()
    flow = provider.async_auth_flow(request)
    assert await flow.asend(None) is request
    assert request.headers["Authorization"] == "Bearer t1"
    assert await flow.asend(Message(401)) is request
    assert request.headers["Authorization"] == "Bearer t2"
    assert provider.refreshes == 1
    await flow.aclose()


async def test_the_line_passes_on_delays_cuts_and_swallows(web: Web, http: aiohttp.ClientSession) -> None:
    server = await web.server()
    faults = {
        1: Fault(latency=0.05),
        2: Fault(down=20),
        3: Fault(down=20, then="reset"),
        4: Fault(up=10, then="blackhole"),
        5: Fault(drip=0.001),
    }
    line = await web.line(server, lambda number: faults.get(number, Fault()))

    def through(nonce: str) -> Any:
        return called(http, f"{line.origin}/mcp", "echo", nonce=nonce)

    start = asyncio.get_running_loop().time()
    async with through("latency") as answer:
        assert answer.status == 200
    assert asyncio.get_running_loop().time() - start >= 0.1
    await http.close()
    for _ in (2, 3):
        async with aiohttp.ClientSession() as http:
            with pytest.raises((aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
                await called(http, f"{line.origin}/mcp", "echo", nonce="cut")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.2)) as http:
        with pytest.raises(TimeoutError):
            await called(http, f"{line.origin}/mcp", "echo", nonce="swallowed")
    start = asyncio.get_running_loop().time()
    async with aiohttp.ClientSession() as http, called(http, f"{line.origin}/mcp", "echo", nonce="drip") as answer:
        await answer.read()
    assert asyncio.get_running_loop().time() - start >= 0.2
    assert server.executed == {"latency": 1, "cut": 2, "drip": 1}


async def test_the_proxy_forwards_and_tunnels(web: Web, certificates: Certificates) -> None:
    plain, safe = await web.server(), await web.server(ssl=certificates.server_context())
    proxy = await web.proxy()
    context = certificates.client_context()
    async with aiohttp.ClientSession(proxy=proxy.origin, connector=aiohttp.TCPConnector(ssl=context)) as http:
        for server, nonce in ((plain, "p"), (safe, "s"), (plain, "q")):
            async with called(http, server.url, "echo", nonce=nonce) as answer:
                assert (await answer.json())["result"]["content"][0]["text"] == nonce
    assert [one.verb for one in proxy.asked] == ["POST", "CONNECT", "POST"]
    assert plain.executed + safe.executed == {"p": 1, "s": 1, "q": 1}


async def test_ports_that_refuse_and_ports_that_swallow() -> None:
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", closed_port())
    async with unreachable() as port:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 0.3)
