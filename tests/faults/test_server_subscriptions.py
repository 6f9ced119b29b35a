"""How much clients may subscribe to: limits in number and in bytes, per principal and in all, in both eras."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

import toolcrib as tc
from tests.faults.server_kit import Place, Tools, serving
from tests.faults.server_wire import Answer, Line, message, modern
from tests.serving import served
from tests.unit.server.serving.streaming import Client as StreamClient
from toolcrib.server import quota
from toolcrib.server.serving.legacy_sse import SseApp

AUTH = {"auth": lambda headers: headers.get("x-user")}


def watched() -> Tools:
    tools = Tools()
    tools.server.add_resource(lambda path: path, "file:///{+path}")
    return tools


def listen(uris: list[str], id: Any = 1) -> dict[str, Any]:
    return modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}, id)


def uris(count: int, size: int = 2_040) -> list[str]:
    return [f"file:///{number}".ljust(size, "x") for number in range(count)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test reaches with a handful of subscriptions, each of about 2,600 bytes."""
    monkeypatch.setattr(quota, "MAX_LISTENS_PER_PRINCIPAL", 2)
    monkeypatch.setattr(quota, "MAX_SUBSCRIBER_BYTES", 2_600 * 9 // 2)
    monkeypatch.setattr("toolcrib.server.subscriptions.MAX_SUBSCRIBER_BYTES", 2_600 * 9 // 2)
    monkeypatch.setattr(quota, "MAX_PRINCIPAL_BYTES", 2_600 * 11 // 2)
    monkeypatch.setattr(quota, "MAX_SUBSCRIPTION_BYTES", 2_600 * 87 // 10)


async def begun(place: Place, request: dict[str, Any], headers: dict[str, str] | None = None) -> tuple[Answer, Line]:
    """Open a subscription; return its connection and the head of the response."""
    line = await place.begin(request, headers)
    return await line.head(), line


async def test_one_anonymous_client_cannot_fill_the_memory_with_listens() -> None:
    many = uris(5_000, 40)
    async with serving(watched()) as place:
        first, _ = await begun(place, listen(many))  # what is loaded and cached once does not count
        assert first.status == 200
        tracemalloc.start()
        try:
            answers = [await begun(place, listen(many)) for _ in range(20)]
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        statuses = [answer.status for answer, _ in answers]
        assert statuses.count(200) + 1 == quota.MAX_SUBSCRIPTION_BYTES // quota.check_listen(listen(many)["params"])
        assert set(statuses) == {200, 503}
        assert used < 2 * quota.MAX_SUBSCRIPTION_BYTES
        refused = await place.post(listen(many))
        assert (refused.status, refused.code) == (503, -32603)
        assert (await place.post(modern("tools/list"))).status == 200


@pytest.mark.parametrize(
    "uris, text",
    [
        (["file:///" + "x" * 8_192], "8,192 characters"),
        ([5], "8,192 characters"),
        ("file:///a", "must be a list"),
        (uris(5_001, 40), "more than 5000 URIs"),
        (uris(5_000, 400), "more than 4,194,304 bytes"),
    ],
    ids=["a long URI", "a number", "one text", "too many", "too large"],
)
async def test_a_listen_to_more_than_one_request_may_is_refused(uris: Any, text: str) -> None:
    async with serving(watched()) as place:
        answer = await place.post(listen(uris))
        assert (answer.status, answer.code) == (400, -32602)
        assert text in answer.error["message"]


async def test_listens_are_limited_in_number_and_an_ended_one_makes_room() -> None:
    async with serving(watched(), max_listens=2) as place:
        (first, line), (second, _) = [await begun(place, listen([])) for _ in range(2)]
        assert (first.status, second.status) == (200, 200)
        assert (await place.post(listen([]))).status == 503
        await line.close()
        await _until(lambda: len(place.tools.server.changes) == 1)
        third, _ = await begun(place, listen([]))
        assert third.status == 200


async def test_one_principal_leaves_room_for_the_others(small: None) -> None:
    async with serving(watched(), **AUTH) as place:
        ada, bob = {"X-User": "ada"}, {"X-User": "bob"}
        assert [(await begun(place, listen([]), ada))[0].status for _ in range(3)] == [200, 200, 503]
        assert [(await begun(place, listen(uris(size)), bob))[0].status for size in (4, 2)] == [200, 503]
        assert (await begun(place, listen(uris(1)), bob))[0].status == 200
        eve = {"X-User": "eve"}  # of 8 subscriptions in all 5 are taken
        assert [(await begun(place, listen(uris(size)), eve))[0].status for size in (4, 3)] == [503, 200]


async def test_sessions_share_the_limits_and_give_back_what_they_leave(small: None) -> None:
    async with serving(watched(), **AUTH) as place:
        user = {"X-User": "ada"}
        sessions = [{**await place.session(headers=user), **user} for _ in range(2)]
        subscribe = [message("resources/subscribe", {"uri": uri}, n) for n, uri in enumerate(uris(5))]
        codes = [await _code(place, request, sessions[0]) for request in subscribe]
        assert codes == [None, None, None, None, -32602]  # of one session
        codes = [await _code(place, request, sessions[1]) for request in subscribe[:2]]
        assert codes == [None, -32603]  # of one principal
        gone = message("resources/unsubscribe", {"uri": uris(1)[0]})
        assert await _code(place, gone, sessions[0]) is None
        assert await _code(place, subscribe[1], sessions[1]) is None
        assert (await place.send(b"", sessions[0], verb="DELETE")).status == 204
        assert await _code(place, subscribe[2], sessions[1]) is None


async def test_a_subscription_that_is_not_accepted_is_not_counted(small: None) -> None:
    async with serving(**AUTH) as place:
        session = {**await place.session(headers={"X-User": "ada"}), "X-User": "ada"}
        lost = message("resources/subscribe", {"uri": "lost://" + "x" * 2_000})
        assert {await _code(place, lost, session) for _ in range(10)} == {-32002}
        for _ in range(3):
            listening, line = await begun(place, listen(["lost://x"]), {"X-User": "bob"})
            assert listening.status == 200
            await line.close()
            await _until(lambda: len(place.tools.server.changes) == 1)


async def test_a_stream_has_the_same_limits(small: None) -> None:
    client = StreamClient()
    client.modern("subscriptions/listen", 1, notifications={"resourceSubscriptions": uris(5)})
    assert (await client.error(1))["code"] == -32602
    for id in (2, 3):
        client.modern("subscriptions/listen", id, notifications={"resourceSubscriptions": uris(4)})
    client.modern("subscriptions/listen", 4, notifications={"resourceSubscriptions": uris(1)})
    assert (await client.error(4))["code"] == -32603
    client.say("notifications/cancelled", requestId=2)
    await _until(lambda: len(client.bench.watches) == 1)
    client.modern("subscriptions/listen", 5, notifications={"resourceSubscriptions": uris(1)})
    await _until(lambda: len(client.bench.watches) == 2)
    await client.session.close()


async def test_clients_of_http_sse_share_the_limits(small: None) -> None:
    app = SseApp(watched().server.router)
    async with served(app) as url, _sse(url) as first, _sse(url) as second:
        await first.initialize()
        await second.initialize()
        for number, uri in enumerate(uris(4)):
            assert "result" in await first.ask(message("resources/subscribe", {"uri": uri}, number + 10))
            assert "result" in await second.ask(message("resources/subscribe", {"uri": uri}, number + 10))
        async with _sse(url) as third:
            await third.initialize()
            refused = await third.ask(message("resources/subscribe", {"uri": uris(1)[0]}, 10))
            assert refused["error"]["code"] == -32603


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_in_process_has_the_same_limits(mode: Any, small: None) -> None:
    async with tc.Client(watched().server, mode=mode) as client:
        for uri in uris(4):
            await client.subscribe(uri)
        with pytest.raises(tc.RemoteError):
            await client.subscribe(uris(5)[4])


class _Sse:
    """A client of HTTP+SSE."""

    def __init__(self, url: str, http: aiohttp.ClientSession, response: aiohttp.ClientResponse) -> None:
        self._url, self._http, self._response = url, http, response

    async def event(self) -> str:
        async with asyncio.timeout(5):
            while not (line := (await self._response.content.readline()).decode()).startswith("data: "):
                assert line
        return line.removeprefix("data: ").strip()

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        async with self._http.post(self._url + self.endpoint, json=request) as taken:
            assert taken.status == 202
        said: dict[str, Any] = {}
        while said.get("id") != request["id"]:
            said = json.loads(await self.event())
        return said

    async def initialize(self) -> None:
        self.endpoint = await self.event()
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        assert "result" in await self.ask(message("initialize", params, 0))


@contextlib.asynccontextmanager
async def _sse(url: str) -> AsyncIterator[_Sse]:
    async with aiohttp.ClientSession() as http, http.get(url + "/sse") as response:
        yield _Sse(url, http, response)


async def _code(place: Place, request: dict[str, Any], headers: dict[str, str]) -> int | None:
    answer = await place.post(request, headers)
    return answer.code if "error" in answer.json else None


async def _until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)
