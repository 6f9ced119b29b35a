"""The legacy era over HTTP: sessions, streams that are resumed, questions, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.site import Site, Wire, message
from toolcrib.server.serving import responses
from toolcrib.server.serving.security import RequestGuard

JSON_ONLY = {"accept": "application/json"}
ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    yield site
    await site.app.close()
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert site.bench.watches == []


@pytest.fixture
async def session(site: Site) -> dict[str, str]:
    return await site.session()


def resumed(session: dict[str, str], id: str) -> dict[str, str]:
    return {**session, "last-event-id": id}


# ---- sessions ------------------------------------------------------------------------------------------------


async def test_a_session_begins_with_initialize_and_ends_with_delete(site: Site) -> None:
    session = await site.session("2025-06-18")
    assert (await site.ask(session, "ping").over()).json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    await eventually(lambda: len(site.bench.watches) == 1)
    out = await site.visit("DELETE", headers=session).over()
    assert (out.status, out.body, site.bench.watches) == (204, b"", [])
    for visit in (site.ask(session, "ping"), site.visit("GET", headers=session), site.visit("DELETE", headers=session)):
        assert (await visit.over()).status == 404


@pytest.mark.parametrize(
    "wrong", [{"clientInfo": 5}, {"clientInfo": None}, {"capabilities": []}, {"capabilities": "x"}]
)
async def test_a_client_that_begins_identifies_itself_with_objects(site: Site, wrong: Wire) -> None:
    out = await site.visit("POST", message("initialize", {"protocolVersion": "2025-11-25", **wrong}, 4)).over()
    assert (out.status, out.json["error"]["code"], out.json["id"]) == (400, -32602, 4)
    assert out.header("mcp-session-id") is None


async def test_the_session_knows_the_client_that_began_it(site: Site) -> None:
    guarded = Site(guard=RequestGuard(auth=lambda headers: headers["x-name"]))
    session = await guarded.session(headers={"x-name": "alice"})
    who = await guarded.ask(session, "tools/call", {"name": "who", "arguments": {}}).over()
    assert who.json["result"]["content"][0]["text"].startswith(f"['alice', '{session['mcp-session-id']}'")
    peer = guarded.bench.exchanges[-1].peer
    assert (peer.version, peer.capabilities, peer.info) == ("2025-11-25", {"roots": {}}, {"name": "c"})
    thief = {**session, "x-name": "bob"}
    for visit in (guarded.ask(thief, "ping"), guarded.visit("DELETE", headers=thief)):
        assert (await visit.over()).status == 404
    await guarded.app.close()


async def test_an_idle_session_is_ended_by_itself() -> None:
    site = Site(session_ttl=0.05)
    session = await site.session()
    assert len(site.bench.watches) == 1
    await eventually(lambda: site.bench.watches == [])
    assert (await site.ask(session, "ping").over()).status == 404
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()}, 5)  # without sessions no task sweeps


async def test_a_session_that_has_to_go_for_another_is_ended() -> None:
    site = Site(max_sessions=1)
    old = await site.session()
    watch = site.bench.watches[0]
    new = await site.session()
    assert watch not in site.bench.watches
    assert (await site.ask(old, "ping").over()).status == 404
    assert (await site.ask(new, "ping").over()).status == 200
    await site.app.close()


# ---- requests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params, said",
    [
        (ADD, {"result": {"content": [{"type": "text", "text": "5"}]}}),
        ({"name": "need"}, {"result": {"content": [{"type": "text", "text": "needs sampling"}], "isError": True}}),
        ({"name": "refuse"}, {"error": {"code": -32602, "message": "no", "data": {"why": "because"}}}),
        ({"name": "break"}, {"error": {"code": -32603, "message": "Internal error"}}),
        ({"name": "odd"}, {"error": {"code": -32603, "message": "Internal error"}}),
        ({"name": "cancel"}, {"error": {"code": -32603, "message": "Internal error"}}),
    ],
)
async def test_every_outcome_is_an_answer_with_status_200(site: Site, session: Any, params: Wire, said: Wire) -> None:
    out = await site.ask(session, "tools/call", {"arguments": {}, **params}, "id").over()
    assert (out.status, out.json) == (200, {"jsonrpc": "2.0", "id": "id", **said})


@pytest.mark.parametrize(
    "method, params, code",
    [
        ("server/discover", {}, -32601),
        ("initialized", {}, -32601),
        ("logging/setLevel", {"level": "loud"}, -32602),
        ("resources/read", {"uri": "x:"}, -32002),
        ("resources/subscribe", {}, -32602),
        ("resources/subscribe", {"uri": "lost:"}, -32002),
    ],
)
async def test_what_is_wrong_has_the_codes_of_this_era(
    site: Site, session: Any, method: str, params: Wire, code: int
) -> None:
    out = await site.ask(session, method, params).over()
    assert (out.status, out.json["error"]["code"]) == (200, code)


async def test_the_level_of_logs_stays_with_the_session(site: Site, session: Any) -> None:
    other = await site.session()
    assert (await site.ask(session, "logging/setLevel", {"level": "error"}).over()).json["result"] == {}
    for one, level in ((session, "error"), (other, "info")):
        await site.ask(one, "tools/list").over()
        assert site.bench.exchanges[-1].peer.log_level == level


async def test_two_requests_of_one_id_are_not_answered_at_once(site: Site, session: Any) -> None:
    first = site.talk(session, "hold", id=5)
    await eventually(lambda: site.bench.ran)
    for method in ("ping", "tools/list"):
        out = await site.ask(session, method, id=5).over()
        assert (out.status, out.json["id"]) == (400, 5)
    assert (await site.ask(session, "ping", id="5").over()).status == 200
    assert (await site.ask(await site.session(), "ping", id=5).over()).status == 200
    site.bench.gate.set()
    await first.over()
    assert (await site.ask(session, "ping", id=5).over()).status == 200


# ---- streams -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version, primed", [("2025-11-25", True), ("2025-06-18", False)])
async def test_notifications_during_a_call_come_on_a_stream_with_ids(site: Site, version: str, primed: bool) -> None:
    session = await site.session(version)
    visit = site.talk(session, "1 2")
    out = await visit.over()
    assert visit.received == ["1", "2", "talked"]
    assert [id for id, _ in out.pairs] == ["1-1", "1-2", "1-3"]
    assert out.blocks[0].get("id") == ("1-0" if primed else None)
    second = site.talk(session, "x")
    assert [id for id, _ in (await second.over()).pairs] == ["2-1", "2-2"]
    silent = await site.talk(session, "", headers=JSON_ONLY).over()
    assert silent.header("content-type") == "application/json"


async def test_a_client_that_lost_its_connection_gets_the_rest_by_its_last_event(site: Site, session: Any) -> None:
    visit = site.talk(session, "1 2 hold 3")
    await visit.hears("1", "2")
    visit.leave()
    site.bench.gate.set()
    await visit.over()
    await eventually(lambda: site.bench.ran == ["talk"] and site.bench.cancelled == [])
    again = site.visit("GET", headers=resumed(session, "1-1"))
    await again.over()
    assert again.received == ["2", "3", "talked"]
    last = await site.visit("GET", headers=resumed(session, "1-4")).over()
    assert last.status == 400, "it is the last event, and a client that resumed after it would retry forever"


async def test_a_closed_connection_does_not_cancel(site: Site, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "SLOW_AFTER_SECONDS", 0.01)
    visit = site.talk(session, "1 hold")
    await visit.hears("1")
    visit.leave()
    await eventually(lambda: visit.receive.asked == 2)
    await turns()
    assert site.bench.cancelled == []
    site.bench.gate.set()
    await visit.over()
    again = site.visit("GET", headers=resumed(session, "1-1"))
    await again.over()
    assert again.received == ["talked"]


async def test_a_pause_ends_the_response_and_the_client_comes_again(site: Site, session: Any) -> None:
    visit = site.talk(session, "1 pause 2 hold 3")
    out = await visit.over()
    assert (visit.received, out.ended) == (["1"], True)
    again = site.visit("GET", headers=resumed(session, "1-1"))
    await again.hears("2")
    site.bench.gate.set()
    await again.over()
    assert again.received == ["2", "3", "talked"]


async def test_changes_are_sent_on_the_get_stream(site: Site, session: Any) -> None:
    standing = await site.get(session)
    assert (await site.ask(session, "resources/subscribe", {"uri": "x:"}).over()).json["result"] == {}
    site.bench.watches[-1].deliver("notifications/resources/updated", {"uri": "x:"})
    await eventually(lambda: standing.out.messages)
    assert standing.out.pairs == [
        ("0-1", {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x:"}})
    ]
    await site.ask(session, "resources/unsubscribe", {"uri": "x:"}).over()
    assert len(site.bench.watches) == 1
    standing.leave()
    await standing.over()
    site.bench.publish("notifications/tools/list_changed")
    again = await site.get(resumed(session, "0-1"))
    await eventually(lambda: [id for id, _ in again.out.pairs] == ["0-2"])


async def test_a_second_standing_stream_takes_over_and_stays(site: Site, session: Any) -> None:
    first = await site.get(session)
    second = await site.get(session)
    await first.over()
    assert first.out.ended
    first.leave()
    await turns(10)
    site.bench.publish("notifications/tools/list_changed")
    await eventually(lambda: second.out.messages)
    assert not second.task.done()


# ---- questions -----------------------------------------------------------------------------------------------


async def test_a_question_comes_on_the_stream_of_its_request_and_the_answer_by_itself(site: Site, session: Any) -> None:
    visit = site.ask(session, "tools/call", {"name": "ask", "arguments": {}}, 9)
    await eventually(lambda: visit.out.messages)
    asked = visit.out.messages[0]
    assert asked == {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "Well?"}}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}
    stranger = await site.visit("POST", answer, await site.session()).over()
    assert stranger.status == 202
    await turns()
    assert not visit.task.done(), "an answer of another session is none"
    assert (await site.visit("POST", answer, session).over()).status == 202
    assert visit.received == ["elicitation/create"]
    await visit.over()
    assert visit.received == ["elicitation/create", "{'action': 'accept'}"]


async def test_a_client_that_accepts_no_stream_cannot_be_asked(site: Site, session: Any) -> None:
    out = await site.ask(session, "tools/call", {"name": "ask", "arguments": {}}, headers=JSON_ONLY).over()
    assert out.header("content-type") == "application/json"
    assert out.json["error"]["code"] == -32603


# ---- cancellation --------------------------------------------------------------------------------------------


async def test_a_cancelled_request_has_no_answer(site: Site, session: Any) -> None:
    visit = site.talk(session, "hold", id="c")
    await eventually(lambda: site.bench.ran)
    for nobody in ({"requestId": "other"}, {"requestId": None}, {"requestId": ["c"]}, {}):
        assert await site.tell("notifications/cancelled", session, **nobody) == 202
    assert await site.tell("notifications/cancelled", await site.session(), requestId="c") == 202
    await turns()
    assert site.bench.cancelled == []
    assert await site.tell("notifications/cancelled", session, requestId="c") == 202
    out = await visit.over()
    assert (out.status, out.body, site.bench.cancelled) == (200, b"", ["talk"])


async def test_a_cancelled_request_with_a_stream_has_an_end_that_is_not_resumed(site: Site, session: Any) -> None:
    visit = site.talk(session, "1 hold", id="c")
    await visit.hears("1")
    await site.tell("notifications/cancelled", session, requestId="c")
    await visit.over()
    assert visit.received == ["1", -32800]
    assert (await site.visit("GET", headers=resumed(session, "1-2")).over()).status == 400


@pytest.mark.parametrize("steps", ["hold", "1 hold", "ask"])
async def test_the_end_of_a_session_ends_what_runs_in_it(site: Site, session: Any, steps: str) -> None:
    visit, standing = site.talk(session, steps), await site.get(session)
    await eventually(lambda: site.bench.ran)
    await turns()
    assert (await site.visit("DELETE", headers=session).over()).status == 204
    assert (await standing.over()).ended
    assert (await visit.over()).ended
    await eventually(lambda: site.bench.cancelled == ["talk"])


async def test_the_end_of_the_app_ends_every_session(session: Any, site: Site) -> None:
    visit, standing = site.talk(session, "1 hold"), await site.get(session)
    await visit.hears("1")
    await site.app.close()
    assert (await visit.over()).ended and (await standing.over()).ended
    await eventually(lambda: site.bench.cancelled == ["talk"])


# ---- batches -------------------------------------------------------------------------------------------------


async def test_a_batch_is_answered_as_one_and_each_of_it_by_itself(site: Site) -> None:
    session = await site.session("2025-03-26")
    batch = [
        message("ping", {}, 1),
        message("tools/call", {"name": "tell", "arguments": {}}, 2),
        message("nonsense", {}, 3),
    ]
    batch += [{"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": 1, "result": {}}, 5]
    batch += [message("tools/call", {"name": "odd", "arguments": {}}, 4)]
    out = await site.visit("POST", batch, session).over()
    assert (out.status, out.header("content-type")) == (200, "application/json")
    said = [(one["id"], one.get("error", {}).get("code")) for one in out.json]
    assert said == [(1, None), (2, None), (3, -32601), (None, -32600), (4, -32603)]


async def test_a_batch_without_a_request_is_taken_and_one_of_too_many_is_not(site: Site) -> None:
    session = await site.session("2025-03-26")
    notification = {"jsonrpc": "2.0", "method": "notifications/x"}
    out = await site.visit("POST", [notification] * 100, session).over()
    assert (out.status, out.body) == (202, b"")
    for wrong in ([], [notification] * 101):
        assert (await site.visit("POST", wrong, session).over()).status == 400
    assert (await site.visit("POST", [notification], await site.session()).over()).status == 400
