"""Every queue of a server is bounded: towards clients that do not read, and from clients that send too much."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
from typing import Any

import aiohttp
import pytest

import toolcrib as tc
from tests.faults.kit import eventually
from tests.faults.server_kit import Place, Tools, serving
from tests.faults.server_wire import LEGACY, LEVEL, call, message, modern
from tests.serving import served
from toolcrib.errors import ProtocolError
from toolcrib.protocol import jsonrpc
from toolcrib.server import suspended_calls
from toolcrib.server.handler import Peer
from toolcrib.server.quota import SubscriptionQuota
from toolcrib.server.serving import legacy_http, legacy_sse, server_requests, sessions, stream_session
from toolcrib.server.serving.legacy_sse import SseApp
from toolcrib.server.serving.sse_stream import SseStream
from toolcrib.server.serving.stdio import serve_stdio
from toolcrib.server.serving.stream_session import StreamSession
from toolcrib.server.subscriptions import Listening, Notifications

MIB = 1024 * 1024


class Talkative(Tools):
    """A server whose tools send many notifications and requests at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[BaseException] = []
        for tool in (self.shout, self.ask_all):
            self.server.add_tool(tool)

    async def shout(self, ctx: tc.Context, words: int, size: int) -> str:
        """Send all messages at once, without waiting for one before the next."""

        async def tell(number: int) -> None:
            await ctx.log("error", f"{number}:".ljust(size, "."))
            self.said += 1

        await asyncio.gather(*(tell(number) for number in range(words)))
        return "done"

    async def ask_all(self, ctx: tc.Context, count: int) -> str:
        form = {"type": "object", "properties": {}}
        asked = await asyncio.gather(*(ctx.elicit("?", form) for _ in range(count)), return_exceptions=True)
        self.failures += [each for each in asked if isinstance(each, BaseException)]
        return "done"


class Duplex:
    """The client of a stream, which reads as long as `room` is None."""

    def __init__(self, server: tc.ToolServer, params: Any = None) -> None:
        self.received: list[Any] = []
        self.room: asyncio.Future[None] | None = None
        self.session = StreamSession(server.router, self._send)
        usual = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}}
        self.session.feed(message("initialize", params or usual, 0))

    def _send(self, said: Any) -> asyncio.Future[None] | None:
        jsonrpc.encode(said)
        self.received.append(said)
        return self.room

    def say(self, request: dict[str, Any], size: int | None = None) -> None:
        self.session.feed(request, size=len(json.dumps(request)) if size is None else size)

    def answer(self, id: Any) -> dict[str, Any] | None:
        return next((each for each in self.received if each.get("id") == id and "method" not in each), None)


# ---- towards a client that does not read ---------------------------------------------------------------------


async def test_a_tool_that_sends_many_notifications_at_once_waits_with_each_over_a_stream() -> None:
    tools = Talkative()
    client = Duplex(tools.server)
    client.room = asyncio.get_running_loop().create_future()
    client.say(message("tools/call", call("shout", {"words": 500, "size": 10}), 1))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(client.received) == 2  # initialize, and the one message that filled the way
    room, client.room = client.room, None
    room.set_result(None)
    await eventually(lambda: client.answer(1) is not None)
    assert len(client.received) == 502
    await client.session.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_tool_that_sends_many_notifications_at_once_waits_with_each_over_http(era: str) -> None:
    async with serving(Talkative()) as place:
        session = await place.session() if era == "legacy" else {}
        params = call("shout", {"words": 200, "size": 128 * 1024})
        request = message("tools/call", params) if era == "legacy" else modern("tools/call", params, **{LEVEL: "error"})
        line = await place.line(16 * 1024)
        await place.begin(request, session, line)
        await eventually(lambda: place.tools.said > 0)
        seen = -1
        while seen != place.tools.said:
            seen = place.tools.said
            for _ in range(20):
                assert (await place.post(modern("tools/list"))).status == 200
        assert seen < 60
        assert max(each.size for each in gc.get_objects() if isinstance(each, SseStream)) < 2 * MIB
        await line.head()
        *logged, last = await line.messages(30)
        assert sorted(int(each["params"]["data"].partition(":")[0]) for each in logged) == list(range(200))
        assert "result" in last


async def test_changes_before_a_listen_is_acknowledged_are_kept_once_each() -> None:
    server = tc.ToolServer("s")
    sent: list[Any] = []
    notifications = Notifications(lambda message: sent.append(message))  # noqa: PLW0108
    params, peer = {"notifications": {"toolsListChanged": True}}, Peer(LEGACY, modern=True)
    async with Listening.open(server.router, params, peer, 1, notifications, SubscriptionQuota()) as (listening, _):
        for _ in range(1_000):
            server.notify_tools_changed()
            await asyncio.sleep(0)
        listening.start_delivery()
        assert len(sent) == 1


async def test_questions_that_wait_for_one_client_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_requests, "MAX_QUESTIONS", 10)
    tools = Talkative()
    client = Duplex(tools.server)
    client.say(message("tools/call", call("ask_all", {"count": 50}), 1))
    await eventually(lambda: len(client.received) == 11)
    for asked in client.received[1:]:
        client.say({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
    await eventually(lambda: client.answer(1) is not None)
    assert len(tools.failures) == 40
    await client.session.close()


async def test_answers_that_are_kept_for_resuming_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "KEPT_STREAMS", 5)
    async with serving() as place:
        session = await place.session()
        place.tools.release.set()
        for number in range(1, 20):
            assert (await place.post(message("tools/call", call("talk"), number), session)).status == 200
        every = place.app._legacy._sessions
        assert len(every._finished) == 5
        assert len(every.all()[0].streams) == 6  # these, and the standing one


# ---- from a client that floods -------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_session, "MAX_BYTES_AT_WORK", 2 * MIB)
    monkeypatch.setattr(stream_session, "MAX_HELD_BYTES", 4 * MIB)


def large(id: int) -> dict[str, Any]:
    return message("tools/call", call("wait", _meta={"x": "x" * (MIB - 200)}), id)


async def test_requests_that_wait_on_a_stream_are_limited_in_bytes(small: None) -> None:
    tools = Tools()
    client = Duplex(tools.server)
    for id in range(1, 7):
        client.say(large(id))
    await eventually(lambda: tools.ran["wait"] == 2)
    refused = [id for id in range(1, 7) if client.answer(id)]
    assert refused == [5, 6]
    answer = client.answer(5)
    assert answer is not None
    assert answer["error"] == {"code": -32603, "message": "too many requests at once"}
    client.session.feed(jsonrpc.notification("notifications/cancelled", {"requestId": 3}))  # one that waits
    client.session.feed(jsonrpc.notification("notifications/cancelled", {"requestId": 1}))  # one is running
    await eventually(lambda: tools.ran["wait"] == 3)
    tools.release.set()
    await eventually(lambda: client.answer(2) and client.answer(4))
    for id in range(7, 11):  # all memory was given back
        client.say(large(id))
    await eventually(lambda: all(client.answer(id) for id in range(7, 11)))
    assert not any("error" in (client.answer(id) or {}) for id in range(7, 11))
    await client.session.close()


async def test_a_large_request_alone_is_always_taken(small: None) -> None:
    tools = Tools()
    tools.release.set()
    client = Duplex(tools.server)
    client.say(large(1), size=16 * MIB)
    await eventually(lambda: client.answer(1) is not None)
    assert "result" in (client.answer(1) or {})
    await client.session.close()


async def test_over_stdio_the_bytes_of_lines_are_counted(small: None) -> None:
    tools = Tools()
    ours, theirs = os.pipe(), os.pipe()
    serving_it = asyncio.create_task(serve_stdio(tools.server.router, stdin=ours[0], stdout=theirs[1]))
    said = [message("initialize", {"protocolVersion": LEGACY}, 0), *(large(id) for id in range(1, 7))]
    os.set_blocking(ours[1], False)
    data = b"".join(json.dumps(each).encode() + b"\n" for each in said)
    async with asyncio.timeout(10):
        while data:
            try:
                data = data[os.write(ours[1], data) :]
            except BlockingIOError:
                await asyncio.sleep(0)
        await eventually(lambda: tools.ran["wait"] == 2)
        tools.release.set()
        os.close(ours[1])
        await serving_it
    os.close(theirs[1])
    with os.fdopen(theirs[0], "rb") as out:
        received = {each["id"]: each for each in map(json.loads, out)}
    os.close(ours[0])
    assert [id for id, each in received.items() if "error" in each] == [5, 6]
    assert tools.ran["wait"] == 4


async def test_over_http_sse_all_sessions_share_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_sse, "MAX_HELD_BYTES", 3 * MIB)
    tools = Tools()
    app = SseApp(tools.server.router)
    async with served(app) as url, aiohttp.ClientSession() as http, contextlib.AsyncExitStack() as streams:
        for number in range(4):
            stream = await streams.enter_async_context(http.get(f"{url}/sse"))
            await stream.content.readline()
            endpoint = url + (await stream.content.readline()).decode().removeprefix("data: ").strip()
            for each in (message("initialize", {"protocolVersion": "2025-06-18"}, 0), large(1)):
                async with http.post(endpoint, json=each) as taken:
                    assert taken.status == 202
            await eventually(lambda: tools.ran["wait"] == min(number + 1, 3))  # noqa: B023
        async with asyncio.timeout(5):
            while b'"id":1' not in (line := await stream.content.readline()):
                continue
        assert b"too many requests at once" in line
    await eventually(lambda: app._held.used == 0)
    assert tools.cancelled["wait"] == 3


async def test_calls_that_their_clients_left_behind_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_http, "MAX_RUNNING", 3)
    async with serving() as place:
        session = await place.session()
        await _abandon(place, session, range(1, 4), 10)
        refused = await place.post(message("tools/call", call("talk"), 4), session)
        assert (refused.status, refused.code, refused.header("retry-after")) == (503, -32603, "1")
        place.tools.release.set()
        await eventually(lambda: not place.app._legacy._sessions.all()[0].running)
        assert (await place.post(message("tools/call", call("add", {"a": 1, "b": 2}), 5), session)).text == "3"


async def test_calls_that_their_clients_left_behind_are_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_http, "MAX_DETACHED_BYTES", 2 * MIB)
    async with serving() as place:
        first, second = [await place.session() for _ in range(2)]
        await _abandon(place, first, range(1, 3), MIB - 300)
        refused = await place.post(message("tools/call", call("talk", _meta={"x": "x" * MIB}), 1), second)
        assert (refused.status, refused.code) == (503, -32603)
        place.tools.release.set()
        await eventually(lambda: place.app._legacy._detached.used == 0)
        answer = await place.post(message("tools/call", call("talk", _meta={"x": "x" * MIB}), 1), second)
        assert answer.status == 200


async def _abandon(place: Place, session: dict[str, str], ids: range, size: int) -> None:
    for id in ids:
        line = await place.begin(message("tools/call", call("talk", _meta={"x": "x" * size}), id), session)
        await line.head()
        await line.close()
    await eventually(lambda: place.ran["talk"] == len(ids))


async def test_what_a_client_says_of_itself_is_limited_because_its_session_keeps_it() -> None:
    async with serving() as place:
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x" * 70_000}}
        answer = await place.post(message("initialize", params))
        assert (answer.status, answer.code, place.sessions) == (400, -32602, 0)
    client = Duplex(tc.ToolServer("s"), params)
    assert client.received[0]["error"]["code"] == -32602
    await client.session.close()


async def test_the_answers_that_a_parked_call_brought_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended_calls, "MAX_BYTES", 3 * MIB)
    async with serving() as place:
        brought = {"inputResponses": {"nothing asked": {"x": "x" * MIB}}}
        answers = [
            await place.post(modern("tools/call", call("ask", {"what": str(number)}, **brought))) for number in range(4)
        ]
        assert ["error" in answer.json for answer in answers] == [False, False, True, True]
        assert place.parked == 2


async def test_a_flood_of_garbage_is_a_few_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    client = Duplex(tc.ToolServer("s"))
    with caplog.at_level(logging.WARNING):
        for _ in range(1_000):
            client.session.malformed(ProtocolError("no\x1b[31mJSON\nforged"), b"x")
    assert len(caplog.records) == stream_session.MAX_MALFORMED_WARNINGS
    assert all(record.getMessage().isprintable() for record in caplog.records)
    await client.session.close()
