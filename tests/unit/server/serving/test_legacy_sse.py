"""HTTP+SSE: a real web server, a real client, and requests that must be rejected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.answering import MARK, Bench
from tests.unit.server.serving.sse_streams import reading, serving
from toolcrib import Client, SseServer
from toolcrib.protocol import jsonrpc
from toolcrib.server.serving import legacy_sse
from toolcrib.server.serving.legacy_sse import SseApp
from toolcrib.server.serving.security import RequestGuard
from toolcrib.types import ElicitResult

Wire = dict[str, Any]


def call(id: Any, name: str, **arguments: Any) -> Wire:
    return jsonrpc.request(id, "tools/call", {"name": name, "arguments": arguments})


def by_token(headers: Mapping[str, str]) -> str | None:
    return {"Bearer a": "anna", "Bearer b": "bert"}.get(headers.get("authorization", ""))


# ---- valid requests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
async def test_our_client_lists_calls_and_is_asked(mode: str) -> None:
    async def answer(asked: Any) -> ElicitResult:
        return ElicitResult("accept", {"message": asked.message})

    async with (
        serving() as served,
        Client(SseServer(served.url + "/sse"), mode=mode, elicitation_handler=answer) as client,
    ):
        assert "add" in [tool.name for tool in await client.list_tools()]
        results = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 0}) for n in range(50)))
        assert [int(result.text) for result in results] == list(range(50))
        assert "'message': 'Well?'" in (await client.call_tool("ask")).text
        progress: list[float] = []
        await client.call_tool("tell", {"times": 3}, on_progress=lambda value, *_: progress.append(value))
        assert progress == [0, 1, 2]
        assert len((await client.call_tool("big", {"size": 5_000_000})).text) == 5_000_000


async def test_each_stream_has_its_own_endpoint_that_cannot_be_guessed() -> None:
    async with (
        serving(path="/a/sse", messages="/b/post") as served,
        reading(served, "/a/sse") as one,
        reading(served, "/a/sse") as other,
    ):
        for reader in (one, other):
            where = urlsplit(reader.endpoint)
            assert (where.scheme, where.netloc, where.path) == ("", "", "/b/post"), "of the same origin"
            assert len(parse_qs(where.query)["session_id"][0]) >= 32
        assert one.endpoint != other.endpoint
        await one.initialize()
        await other.initialize()
        await one.post(call(1, "add", a=1, b=0))
        await other.post(call(1, "add", a=2, b=0))
        assert [(await r.message())["result"]["content"][0]["text"] for r in (one, other)] == ["1", "2"]


async def test_where_it_is_mounted_is_part_of_the_place_to_post_to() -> None:
    async with serving(root_path="/crib") as served, reading(served) as reader:
        assert reader.endpoint.startswith("/crib/sse/messages?")
        whole, reader.endpoint = reader.endpoint, reader.endpoint.removeprefix("/crib")  # what is in front takes it off
        await reader.initialize()
        assert whole.endswith(reader.endpoint)


async def test_a_tool_knows_the_caller_and_its_headers() -> None:
    async with (
        serving(guard=RequestGuard(auth=by_token)) as served,
        reading(served, Authorization="Bearer a") as reader,
    ):
        await reader.initialize()
        await reader.post(call(1, "who"), {"User-Agent": "me"})
        text = (await reader.message())["result"]["content"][0]["text"]
        assert text == str(["anna", parse_qs(reader.endpoint.partition("?")[2])["session_id"][0], "me"])


async def test_an_invalid_request_is_answered_on_the_stream() -> None:
    async with serving() as served, reading(served) as reader:
        await reader.initialize("2025-03-26")
        for message, code in ((5, -32600), ([], -32600), ({"jsonrpc": "2.0", "id": 1}, -32600)):
            assert await reader.post(message) == 202
            assert (await reader.message())["error"]["code"] == code
        assert await reader.post([call(1, "who"), {"jsonrpc": "2.0", "id": 2, "method": "ping"}]) == 202
        assert [answer["id"] for answer in await reader.message()] == [2, 1]
        assert await reader.post(jsonrpc.notification("notifications/nonsense")) == 202
        assert await reader.post({"jsonrpc": "2.0", "id": 77, "result": {}}) == 202


async def test_a_silent_stream_is_kept_alive() -> None:
    async with serving(keep_alive=0.001) as served, reading(served) as reader:
        while b"\n:\n\n" not in reader.raw:
            reader.raw += await reader._response.content.readany()
        assert await reader.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}) == 202
        assert (await reader.message())["result"] == {}


# ---- rejected requests ---------------------------------------------------------------------------------------


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.parametrize(
    "body, headers, status",
    [
        (b"nonsense", {}, 400),
        (b"", {}, 400),
        (b"[" * 100_000 + b"]" * 100_000, {}, 400),
        (b"\xff", {}, 400),
        (b'"' + b"x" * 5 * 1024 * 1024 + b'"', {}, 413),
        (PING, {"Content-Type": "text/plain"}, 415),
        (PING, {"Host": "evil.example"}, 421),
        (PING, {"Origin": "http://evil.example"}, 403),
    ],
)
async def test_a_bad_post_is_refused_and_does_nothing(body: Any, headers: Mapping[str, str], status: int) -> None:
    async with serving() as served, reading(served) as reader:
        await reader.initialize()
        assert await reader.post(body, headers) == status
        assert await reader.post({**PING, "id": "next"}) == 202
        assert (await reader.message())["id"] == "next", "nothing came before it"
        assert served.bench.exchanges == []


async def test_a_body_of_unknown_length_has_the_same_limit() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5 * 16):
            yield b"x" * 65536

    async with serving() as served, reading(served) as reader, aiohttp.ClientSession() as http:
        headers = {"Content-Type": "application/json"}
        async with http.post(served.url + reader.endpoint, data=pieces(), headers=headers) as response:
            assert response.status == 413


async def test_a_session_exists_only_for_its_principal() -> None:
    async with (
        serving(guard=RequestGuard(auth=by_token)) as served,
        reading(served, Authorization="Bearer a") as anna,
        reading(served, Authorization="Bearer b") as bert,
    ):
        await anna.initialize()
        own = anna.endpoint.partition("?")[2]
        assert await bert.post(call(1, "who"), query=own) == 404
        assert await anna.post(call(1, "who"), {"Authorization": "Bearer c"}) == 401
        assert await anna.post(call(1, "who"), query="session_id=" + "x" * 32) == 404
        assert await anna.post(call(1, "who"), query="") == 404
        assert served.bench.ran == []
        async with aiohttp.ClientSession() as http, http.get(served.url + "/sse") as response:
            assert response.status == 401


@pytest.mark.parametrize(
    "method, path, status, allow",
    [
        ("POST", "/sse", 405, "GET"),
        ("DELETE", "/sse", 405, "GET"),
        ("GET", "/sse/messages", 405, "POST"),
        ("GET", "/", 404, None),
        ("GET", "/sse/", 404, None),
    ],
)
async def test_other_ways_in_are_closed(method: str, path: str, status: int, allow: str | None) -> None:
    async with (
        serving() as served,
        aiohttp.ClientSession() as http,
        http.request(method, served.url + path, json=PING) as response,
    ):
        assert (response.status, response.headers.get("Allow")) == (status, allow)


@pytest.mark.parametrize("headers, status", [({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)])
async def test_a_foreign_page_gets_no_stream(headers: Mapping[str, str], status: int) -> None:
    async with (
        serving() as served,
        aiohttp.ClientSession() as http,
        http.get(served.url + "/sse", headers=headers) as response,
    ):
        assert response.status == status
        assert len(served.app) == 0


async def test_there_is_a_limit_of_sessions() -> None:
    async with serving(max_sessions=1) as served:
        async with reading(served), aiohttp.ClientSession() as http, http.get(served.url + "/sse") as response:
            assert (response.status, "Retry-After" in response.headers) == (503, True)
        await eventually(lambda: len(served.app) == 0)
        async with reading(served) as reader:
            await reader.initialize()


# ---- the end -------------------------------------------------------------------------------------------------


async def test_a_session_ends_with_its_stream() -> None:
    async with serving() as served, reading(served) as reader:
        await reader.initialize()
        await reader.post(jsonrpc.notification("notifications/initialized"))
        await reader.post(call(1, "hold"))
        await eventually(lambda: served.bench.ran and served.bench.watches)
        reader.close()
        await eventually(lambda: served.bench.cancelled == ["hold"])
        await eventually(lambda: not served.bench.watches)
        assert await reader.post(call(2, "who")) == 404


async def test_closing_notifies_listeners_and_ends_the_streams() -> None:
    async with serving() as served, reading(served) as reader:
        params = {"_meta": MARK, "notifications": {"toolsListChanged": True}}
        await reader.post(jsonrpc.request("s", "subscriptions/listen", params))
        assert (await reader.message())["method"] == "notifications/subscriptions/acknowledged"
        await served.app.close()
        assert (await reader.message())["result"]["resultType"] == "complete"
        with pytest.raises(EOFError):
            await reader.event()


# ---- by hand, as a web server does it ------------------------------------------------------------------------


class Connection:
    """A connection whose client reads only when the test allows it."""

    def __init__(self, method: str, path: str, query: str = "", body: bytes = b"") -> None:
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
        }
        self.sent: list[Any] = []
        self.reads = asyncio.Event()
        self.gone = asyncio.Event()
        self._body: bytes | None = body

    async def receive(self) -> Any:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Any) -> None:
        self.sent.append(event)
        if event.get("more_body"):
            await self.reads.wait()


async def post(app: SseApp, path: str, message: Any) -> int:
    where, _, query = path.partition("?")
    connection = Connection("POST", where, query, json.dumps(message).encode())
    await app(connection.scope, connection.receive, connection.send)
    status: int = connection.sent[0]["status"]
    return status


async def test_a_client_that_does_not_read_is_not_served_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_sse, "MAX_UNREAD_BYTES", 10_000)
    bench = Bench()
    app = SseApp(bench)
    connection = Connection("GET", "/sse")
    stream = asyncio.create_task(app(connection.scope, connection.receive, connection.send))
    await eventually(lambda: len(connection.sent) == 2)
    endpoint = connection.sent[1]["body"].decode().split()[-1]
    params = {"name": "big", "arguments": {"size": 20_000}, "_meta": MARK}
    assert await post(app, endpoint, jsonrpc.request(1, "tools/call", params)) == 202
    await eventually(lambda: bench.ran)
    await turns()
    assert await post(app, endpoint, jsonrpc.request(2, "tools/call", params)) == 503
    connection.reads.set()
    await eventually(lambda: len(connection.sent) == 3)
    await turns()
    assert await post(app, endpoint, jsonrpc.request(3, "tools/call", params)) == 202
    await eventually(lambda: len(bench.ran) == 2)
    connection.gone.set()
    await stream
    assert len(app) == 0


async def test_a_client_that_leaves_in_the_middle_of_its_post_is_not_an_error() -> None:
    app = SseApp(Bench())
    stream = Connection("GET", "/sse")
    serving_it = asyncio.create_task(app(stream.scope, stream.receive, stream.send))
    await eventually(lambda: len(stream.sent) == 2)
    where, _, query = stream.sent[1]["body"].decode().split()[-1].partition("?")
    connection = Connection("POST", where, query)
    connection._body = None
    connection.gone.set()
    await app(connection.scope, connection.receive, connection.send)
    assert connection.sent == []
    await app.close()
    stream.reads.set()
    stream.gone.set()
    await serving_it


async def test_the_life_of_the_server_is_its_own() -> None:
    app = SseApp(Bench())
    events = iter(["lifespan.startup", "lifespan.shutdown"])
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": next(events)}

    async def send(event: Any) -> None:
        said.append(event["type"])

    takes: Callable[..., Any] = app
    await takes({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
