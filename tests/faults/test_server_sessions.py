"""Many sessions: idle ones end, old ones are replaced at the limit, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import weakref
from typing import Any

import pytest

from tests.faults.kit import eventually
from tests.faults.server_kit import Place, serving
from tests.faults.server_wire import Line, call, head_of, message
from tests.unit.kit import Clock
from toolcrib.server.serving.sessions import LegacySession

MIB = 1024 * 1024


async def say(place: Place, line: Line, said: Any, headers: dict[str, str], verb: str = "POST") -> Any:
    """Send a request on a connection that is reused."""
    body = json.dumps(said).encode() if verb == "POST" else b""
    line.writer.write(head_of(verb, "/mcp", place.pairs(headers, len(body))) + body)
    return await line.answer()


async def opened(place: Place, count: int) -> list[dict[str, str]]:
    line, ids = await place.line(), []
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for _ in range(count):
        answer = await say(place, line, message("initialize", params), {})
        ids.append({"Mcp-Session-Id": answer.header("mcp-session-id")})
        assert (await say(place, line, initialized, ids[-1])).status == 202
    return ids


async def test_a_thousand_sessions_live_side_by_side_and_end_when_they_are_idle() -> None:
    clock = Clock()
    async with serving(session_ttl=600.0) as place:
        ids = await opened(place, 1_000)
        assert place.sessions == len(place.tools.server.changes) == 1_000
        place.tools.server.notify_tools_changed()
        line = await place.line()
        for session in ids[::100]:
            assert (await say(place, line, message("tools/call", call("add", {"a": 1, "b": 2})), session)).text == "3"
            standing = await place.open(b"", session, "GET")
            await standing.head()
            assert "tools/list_changed" in (await standing.event())["data"]
            await standing.close()
        alive = weakref.WeakSet(each for each in gc.get_objects() if isinstance(each, LegacySession))
        assert len(alive) == 1_000
        end = time.monotonic() + 10
        while place.sessions:  # the end of a stream counts as a use of its session
            assert time.monotonic() < end
            await clock.advance(601)
            await asyncio.sleep(0.01)
        assert len(place.tools.server.changes) == 0
        gc.collect()
        assert len(alive) == 0
        assert (await place.post(message("ping"), ids[0])).status == 404


async def test_an_idle_session_expires_even_before_the_sweep() -> None:
    async with serving(session_ttl=0.2) as place:
        used, idle = await opened(place, 2)
        began = asyncio.get_running_loop().time()
        while (passed := asyncio.get_running_loop().time() - began) < 0.5:  # use keeps one alive beyond its time
            assert (await place.post(message("ping"), used)).status == 200, passed
        assert (await place.post(message("ping"), idle)).status == 404
        assert (await place.post(message("ping"), used)).status == 200


async def test_a_session_with_a_call_or_a_standing_stream_is_not_idle() -> None:
    async with serving(session_ttl=0.1) as place:
        calling, standing, idle = await opened(place, 3)
        line = await place.begin(message("tools/call", call("wait")), calling)
        await eventually(lambda: place.ran["wait"])
        stream = await place.open(b"", standing, "GET")
        await stream.head()
        await eventually(lambda: place.sessions == 2)
        assert (await place.post(message("ping"), idle)).status == 404
        place.tools.server.notify_tools_changed()
        await stream.event()
        place.tools.release.set()
        assert (await line.answer()).text == "released"
        await stream.close()
        await eventually(lambda: place.sessions == 0)


async def test_the_session_that_was_used_longest_ago_makes_room() -> None:
    async with serving(max_sessions=3) as place:
        first, second, third = await opened(place, 3)
        for session in (first, third):
            assert (await place.post(message("ping"), session)).status == 200
        (fourth,) = await opened(place, 1)
        assert place.sessions == len(place.tools.server.changes) == 3
        statuses = [(await place.post(message("ping"), session)).status for session in (first, second, third, fourth)]
        assert statuses == [200, 404, 200, 200]


async def test_a_busy_session_never_makes_room() -> None:
    async with serving(max_sessions=2) as place:
        calling, standing = await opened(place, 2)
        line = await place.begin(message("tools/call", call("wait")), calling)
        await eventually(lambda: place.ran["wait"])
        stream = await place.open(b"", standing, "GET")
        await stream.head()
        answer = await place.post(message("initialize", {"protocolVersion": "2025-11-25"}))
        assert (answer.status, answer.header("retry-after")) == (503, "30")
        assert not place.tools.cancelled
        place.tools.release.set()
        assert (await line.answer()).text == "released"
        await opened(place, 1)
        place.tools.server.notify_tools_changed()
        await stream.event()
        assert (await place.post(message("ping"), calling)).status == 404


@pytest.mark.parametrize("count", [300])
async def test_uncollected_answers_are_not_kept_forever(count: int) -> None:
    async with serving() as place:
        (session,) = await opened(place, 1)
        place.tools.release.set()
        line, events = await place.line(), []
        for number in range(count):
            request = message("tools/call", call("talk", {"size": 256 * 1024}), number)
            answer = await say(place, line, request, session)
            events.append(answer.body.partition(b"id: ")[2].partition(b"\n")[0].decode())
        (kept,) = [each for each in gc.get_objects() if isinstance(each, LegacySession)]
        assert sum(stream.size for stream in kept.streams.values()) < 40 * MIB
        assert (await place.send(b"", {**session, "Last-Event-ID": events[0]}, "GET")).status == 400
        late = await place.send(b"", {**session, "Last-Event-ID": events[-1]}, "GET")
        assert (late.status, late.body.count(b'"result"')) == (200, 1)


async def test_sessions_that_come_and_go_leave_nothing() -> None:
    async with serving() as place:
        line = await place.line()
        for _ in range(10):
            for session in await opened(place, 20):
                await say(place, line, message("resources/subscribe", {"uri": "config://app"}), session)
                assert (await say(place, line, None, session, "DELETE")).status == 204
        assert place.sessions == len(place.tools.server.changes) == 0
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, LegacySession)]
