"""Clients that disconnect, reconnect, or never read: which calls are cancelled, which wait, and what is dropped."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import psutil
import pytest

import toolcrib as tc
from tests.faults.kit import eventually
from tests.faults.server_kit import Place, Tools, serving
from tests.faults.server_wire import ACCEPTED, LEVEL, Line, call, message, modern
from toolcrib.server.serving import responses, sse_stream

MIB = 1024 * 1024


def talk(era: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    if era == "legacy":
        return message("tools/call", call("talk", arguments), id)
    return modern("tools/call", call("talk", arguments), id, **{LEVEL: "debug"})


async def session_of(place: Place, era: str) -> dict[str, str]:
    return await place.session() if era == "legacy" else {}


def data(event: dict[str, str]) -> Any:
    return json.loads(event["data"])


# ---- clients that go -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["wait", "talk"])
async def test_a_closed_connection_cancels_in_the_modern_era_and_not_before(tool: str) -> None:
    async with serving() as place:
        session = await place.session()
        old = await place.begin(message("tools/call", call(tool)), session)
        await eventually(lambda: place.ran[tool] == 1)
        new = await place.begin(modern("tools/call", call(tool), **{LEVEL: "debug"}))
        await eventually(lambda: place.ran[tool] == 2)
        if tool == "talk":
            await old.head()
            await new.head()
        old.cut()
        new.cut()
        await eventually(lambda: place.tools.cancelled[tool] == 1, within=1)
        place.tools.release.set()
        await place.quiet()
        assert place.tools.cancelled[tool] == 1


async def test_a_thread_learns_that_its_modern_client_has_gone() -> None:
    tools, ended = Tools(), threading.Event()

    @tools.server.tool
    def busy(ctx: tc.SyncContext) -> str:
        tools.ran["busy"] += 1
        while not ctx.cancelled and not ended.wait(0.005):
            continue
        ended.set()
        return "over"

    async with serving(tools) as place:
        line = await place.begin(modern("tools/call", call("busy")))
        await eventually(lambda: place.ran["busy"])
        line.cut()
        await eventually(ended.is_set, within=1)


async def test_a_client_that_lost_the_connection_gets_the_rest_and_the_answer_once() -> None:
    async with serving() as place:
        session = await place.session()
        line = await place.begin(talk("legacy", "seven", words=5), session)
        await line.head()
        events = [await line.event(), await line.event()]
        line.cut()
        resumed = await place.open(b"", {**session, "Last-Event-ID": events[-1]["id"]}, "GET")
        assert (await resumed.head()).status == 200
        events += [await resumed.event() for _ in range(3)]
        resumed.cut()
        place.tools.release.set()
        last = await place.open(b"", {**session, "Last-Event-ID": events[-1]["id"]}, "GET")
        assert (await last.head()).status == 200
        events.append(await last.event())
        assert [data(event).get("params", {}).get("data", "")[:2] for event in events[:-1]] == [
            f"{n}:" for n in range(5)
        ]
        assert data(events[-1])["id"] == "seven"
        assert data(events[-1])["result"]["content"][0]["text"] == "released"
        assert await last.messages() == []  # and the response ends
        assert len({event["id"] for event in events}) == 6
        assert place.ran["talk"] == 1
        over = await place.send(b"", {**session, "Last-Event-ID": events[-1]["id"]}, "GET")
        assert over.status == 400  # there is nothing after the answer


async def test_a_resumed_stream_brings_nothing_of_another_one() -> None:
    async with serving() as place:
        session = await place.session()
        one, two = await place.begin(talk("legacy", 1), session), await place.begin(talk("legacy", 2), session)
        first = [(await line.head(), await line.event())[1] for line in (one, two)]
        one.cut()
        two.cut()
        place.tools.release.set()
        for event, id in zip(first, (1, 2), strict=True):
            resumed = await place.open(b"", {**session, "Last-Event-ID": event["id"]}, "GET")
            await resumed.head()
            assert [each["id"] for each in await resumed.messages()] == [id]


async def test_a_question_of_the_server_survives_the_connection_that_it_was_asked_on() -> None:
    async with serving() as place:
        session = await place.session()
        line = await place.begin(message("tools/call", call("ask"), 5), session)
        await line.head()
        event = await line.event()
        line.cut()
        answer = {"jsonrpc": "2.0", "id": data(event)["id"], "result": ACCEPTED}
        assert (await place.post(answer, session)).status == 202
        resumed = await place.open(b"", {**session, "Last-Event-ID": event["id"]}, "GET")
        await resumed.head()
        (said,) = await resumed.messages()
        assert (said["id"], said["result"]["content"][0]["text"]) == (5, "None said accept")
        assert place.ran["ask"] == 1


@pytest.mark.parametrize("tool", ["wait", "talk", "ask"])
async def test_cancelled_cancels_in_the_legacy_era(tool: str) -> None:
    async with serving() as place:
        mine, other = await place.session(), await place.session()
        line = await place.begin(message("tools/call", call(tool), 7), mine)
        await eventually(lambda: place.ran[tool])
        for headers, id in (
            (other, 7),
            (mine, "7"),
            (mine, 8),
            (mine, None),
            (mine, [7]),
            (mine, {"id": 7}),
            (mine, 7.5),
        ):
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            assert (await place.post(note, headers)).status == 202
        assert not place.tools.cancelled
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await place.post(note, mine)).status == 202
        await eventually(lambda: place.tools.cancelled[tool] == 1)
        answer = await line.answer()  # the response ends, and nothing was executed further
        assert answer.status == 200
        assert b'"result"' not in answer.body.rpartition(b"data:")[2]


@pytest.mark.parametrize("tool", ["wait", "talk", "ask"])
async def test_the_end_of_a_session_ends_what_runs_in_it(tool: str) -> None:
    async with serving() as place:
        session = await place.session()
        line = await place.begin(message("tools/call", call(tool)), session)
        standing = await place.open(b"", session, "GET")
        await standing.head()
        await eventually(lambda: place.ran[tool])
        assert (await place.send(b"", session, "DELETE")).status == 204
        await eventually(lambda: place.tools.cancelled[tool] == 1)
        assert (await line.answer()).status == 200
        assert await standing.messages() == []
        assert place.sessions == 0


async def test_of_requests_with_one_id_at_the_same_time_one_is_answered() -> None:
    async with serving() as place:
        session = await place.session()
        lines = [await place.line() for _ in range(8)]
        for line in lines:
            await place.begin(message("tools/call", call("talk", {"words": 0}), 9), session, line)
        await eventually(lambda: place.ran["talk"])
        refused = [await line.answer() for line in lines[1:]]
        assert {(answer.status, answer.code, answer.json["id"]) for answer in refused} == {(400, -32600, 9)}
        place.tools.release.set()
        assert (await lines[0].answer()).text == "released"
        assert place.ran["talk"] == 1


# ---- standing streams ----------------------------------------------------------------------------------------


async def received(line: Line) -> str:
    return str(data(await line.event())["method"])


async def test_the_latest_standing_stream_takes_over_and_stays() -> None:
    async with serving() as place:
        session = await place.session()
        old = await place.open(b"", session, "GET")
        await old.head()
        new = await place.open(b"", session, "GET")
        await new.head()
        assert await old.messages() == []
        place.tools.server.notify_tools_changed()
        assert await received(new) == "notifications/tools/list_changed"
        old.cut()
        place.tools.server.notify_prompts_changed()
        assert await received(new) == "notifications/prompts/list_changed"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_storm_of_changes_is_reported_once(era: str) -> None:
    async with serving() as place:
        lines = []
        for _ in range(3):
            if era == "legacy":
                lines.append(await place.open(b"", await place.session(), "GET"))
                await lines[-1].head()
            else:
                wanted = {"toolsListChanged": True, "resourceSubscriptions": ["config://app"]}
                lines.append(await place.begin(modern("subscriptions/listen", {"notifications": wanted})))
                await lines[-1].head()
                assert await received(lines[-1]) == "notifications/subscriptions/acknowledged"
        for number in range(300):
            place.tools.server.add_tool(place.tools.echo, name=f"tool{number}")
            place.tools.server.remove_tool(f"tool{number}")
        workers = [threading.Thread(target=place.tools.server.notify_tools_changed) for _ in range(50)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        await asyncio.sleep(0)  # the storm is over; what comes now is another change
        place.tools.server.notify_resources_changed()
        place.tools.server.notify_resource_updated("config://app")
        for line in lines:
            assert await received(line) == "notifications/tools/list_changed"
            assert (await received(line)).startswith("notifications/resources/")


async def test_a_listener_that_goes_is_forgotten_and_one_that_is_cut_off_too() -> None:
    async with serving() as place:
        for _ in range(20):
            line = await place.begin(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
            await line.head()
            line.cut()
        await place.quiet()
        assert len(place.tools.server.changes) == 0


# ---- silence -------------------------------------------------------------------------------------------------


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (sse_stream, responses):
        monkeypatch.setattr(room, "KEEP_ALIVE", 0.05)
    monkeypatch.setattr(responses, "SLOW_AFTER_SECONDS", 0.02)


async def comments(line: Line, count: int) -> None:
    async with asyncio.timeout(5):
        async for event in line.events():
            count -= ":" in event
            if not count:
                return


@pytest.mark.parametrize("tool", ["wait", "talk"])
async def test_a_long_silent_call_is_kept_alive_by_comments(tool: str, era: str, hasty: None) -> None:
    async with serving() as place:
        session = await session_of(place, era)
        request = message("tools/call", call(tool)) if era == "legacy" else modern("tools/call", call(tool))
        line = await place.begin(request, session)
        head = await line.head()
        assert (head.header("content-type"), head.header("x-accel-buffering")) == ("text/event-stream", "no")
        await comments(line, 5)
        place.tools.release.set()
        (*_, last) = await line.messages()
        assert last["result"]["content"][0]["text"] == "released"
        json_only = await place.post(request, {**session, "Accept": "application/json"})
        assert json_only.header("content-type") == "application/json"


async def test_a_client_of_json_alone_waits_in_silence(era: str, hasty: None) -> None:
    async with serving() as place:
        session = await session_of(place, era)
        request = message("tools/call", call("wait")) if era == "legacy" else modern("tools/call", call("wait"))
        line = await place.begin(request, {**session, "Accept": "application/json"})
        other = await place.begin(request | {"id": 2}, session)
        await other.head()  # this one is a stream by now
        place.tools.release.set()
        assert (await line.answer()).text == "released"


async def test_standing_streams_and_listeners_are_kept_alive_too(hasty: None) -> None:
    async with serving() as place:
        standing = await place.open(b"", await place.session(), "GET")
        listening = await place.begin(modern("subscriptions/listen", {"notifications": {}}))
        for line in (standing, listening):
            await line.head()
            await comments(line, 5)


# ---- clients that do not read --------------------------------------------------------------------------------


async def test_a_tool_waits_for_a_client_that_does_not_read_and_loses_nothing(era: str) -> None:
    async with serving() as place:
        session = await session_of(place, era)
        line = await place.line(16 * 1024)
        before = psutil.Process().memory_info().rss
        await place.begin(talk(era, words=200, size=256 * 1024), session, line)
        seen = -1
        while seen != place.tools.said:  # until it makes no progress
            seen = place.tools.said
            for _ in range(20):
                assert (await place.post(modern("tools/list"))).status == 200
        assert 0 < seen < 60
        assert psutil.Process().memory_info().rss - before < 40 * MIB
        place.tools.release.set()
        await line.head()
        *notifications, last = await line.messages(30)
        assert [int(each["params"]["data"].partition(":")[0]) for each in notifications] == list(range(200))
        assert last["result"]["content"][0]["text"] == "released"


async def test_large_messages_arrive_complete_and_in_order(era: str) -> None:
    async with serving() as place:
        place.tools.release.set()
        line = await place.begin(talk(era, words=12, size=2 * MIB), await session_of(place, era))
        await line.head()
        *notifications, last = await line.messages(30)
        assert [int(each["params"]["data"].partition(":")[0]) for each in notifications] == list(range(12))
        assert "result" in last


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_listener_that_does_not_read_costs_little_and_receives_the_last_change(era: str) -> None:
    uri = "config://" + "x" * 8_000
    tools = Tools()
    tools.server.add_resource(lambda: "", uri, name="long")
    async with serving(tools) as place:
        line = await place.line(16 * 1024)
        if era == "legacy":
            session = await place.session()
            assert "result" in (await place.post(message("resources/subscribe", {"uri": uri}), session)).json
            await place.open(b"", session, "GET", line=line)
        else:
            wanted = {"resourceSubscriptions": [uri], "toolsListChanged": True}
            await place.begin(modern("subscriptions/listen", {"notifications": wanted}), line=line)
        await line.head()
        before = psutil.Process().memory_info().rss
        for _ in range(10_000):  # 80 MB of notifications
            place.tools.server.notify_resource_updated(uri)
            await asyncio.sleep(0)
        assert psutil.Process().memory_info().rss - before < 30 * MIB
        place.tools.server.notify_tools_changed()
        async with asyncio.timeout(20):
            while "tools/list_changed" not in (await line.event())["data"]:
                continue
