"""Many requests over one stream: cancellations, batches, more requests than may run, and closing."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.streaming import Client, Wire, said
from toolcrib.protocol import jsonrpc
from toolcrib.server.serving import stream_session

# ---- cancelling, and many at once ----------------------------------------------------------------------------


@pytest.mark.parametrize("modern", [True, False])
async def test_a_cancelled_request_ends_and_nothing_more_is_said_about_it(client: Client, modern: bool) -> None:
    if modern:
        client.call_modern("a", "hold")
    else:
        client.initialize()
        client.call("a", "hold")
    await eventually(lambda: client.bench.ran)
    client.say("notifications/cancelled", requestId="a", reason="enough")
    await eventually(lambda: client.bench.cancelled)
    await turns()
    assert client.received == []
    (client.call_modern if modern else client.call)("a", "who")
    assert "result" in await client.answer("a")


async def test_a_cancelled_request_is_not_confused_with_one_of_the_same_digits(old: Client) -> None:
    old.call(1, "hold")
    await turns()
    old.say("notifications/cancelled", requestId="1")
    old.bench.gate.set()
    assert said(await old.answer(1)) == "held"


async def test_requests_beyond_the_limit_wait_and_too_many_are_refused(
    old: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_session, "MAX_INBOUND", 2)
    monkeypatch.setattr(stream_session, "MAX_WAITING", 3)
    for id in range(1, 7):
        old.call(id, "hold")
    await turns()
    assert old.bench.ran == ["hold"] * 2
    assert "too many" in (await old.error(6))["message"]
    old.say("ping", 7)
    assert (await old.answer(7))["result"] == {}, "what needs no work passes by"
    old.say("notifications/cancelled", requestId=4)
    old.bench.gate.set()
    for id in (1, 2, 3, 5):
        assert said(await old.answer(id)) == "held"
    assert old.answers(4) == []
    assert old.bench.ran == ["hold"] * 4


async def test_a_request_that_is_cancelled_at_once_gives_its_place_back(
    old: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_session, "MAX_INBOUND", 1)
    for id in range(1, 4):
        old.call(id, "hold")
        old.say("notifications/cancelled", requestId=id)
    old.call(9, "add", a=1, b=2)
    assert said(await old.answer(9)) == "3"
    assert old.bench.ran == ["add"]


# ---- batches -------------------------------------------------------------------------------------------------


async def test_a_batch_is_answered_by_one_array_in_the_one_revision_that_has_them(client: Client) -> None:
    client.initialize("2025-03-26")
    client.session.feed(
        [
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hold"}},
            {"jsonrpc": "2.0", "method": "notifications/nonsense"},
            {"jsonrpc": "2.0", "id": "2", "method": "ping"},
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "odd"}},
            {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "hold"}},
            7,
        ]
    )
    await turns()
    assert client.received == []
    client.say("notifications/cancelled", requestId=4)
    client.bench.gate.set()
    await eventually(lambda: client.received)
    (answers,) = client.received
    outcomes = {a["id"]: a["result"] if "result" in a else a["error"]["code"] for a in answers}
    assert outcomes == {1: {"content": [{"type": "text", "text": "held"}]}, "2": {}, 3: -32603, None: -32600}


@pytest.mark.parametrize(
    "batch",
    [
        [{"jsonrpc": "2.0", "method": "notifications/nonsense"}],
        [{"jsonrpc": "2.0", "id": 9, "result": {}}],
    ],
)
async def test_a_batch_without_requests_is_not_answered(client: Client, batch: list[Wire]) -> None:
    client.initialize("2025-03-26")
    client.session.feed(batch)
    await turns()
    assert client.received == []
    client.session.feed([])
    assert client.received == [jsonrpc.error(None, -32600, "batch: expected 1 to 100 messages, got 0")]


# ---- a client that does not read -----------------------------------------------------------------------------


async def test_a_sender_waits_for_a_client_that_does_not_read(old: Client) -> None:
    old.room = asyncio.get_running_loop().create_future()
    old.call(1, "tell", times=3)
    await eventually(lambda: old.received)
    await turns()
    assert len(old.received) == 1
    room, old.room = old.room, None
    room.set_result(None)
    await old.answer(1)
    assert len(old.received) == 4


async def test_a_change_waits_once_however_often_it_happens(old: Client) -> None:
    await eventually(lambda: old.bench.watches)
    old.room = asyncio.get_running_loop().create_future()
    for _ in range(100):
        old.bench.publish("notifications/tools/list_changed")
        old.bench.publish("notifications/resources/updated", uri="x://y")
    assert len(old.received) == 1
    room, old.room = old.room, None
    room.set_result(None)
    await eventually(lambda: len(old.received) == 3)
    assert {m["method"] for m in old.received} == {
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    }


# ---- the end -------------------------------------------------------------------------------------------------


async def test_running_requests_may_finish_within_the_grace_period(
    old: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_session, "MAX_INBOUND", 1)
    old.call(1, "hold")
    old.call(2, "who")
    await turns()
    closing = asyncio.create_task(old.session.close(grace=30))
    await turns()
    old.call(3, "who")
    old.bench.gate.set()
    await closing
    assert [m["id"] for m in old.received] == [1, 2], "those that came in time, and none that came later"


async def test_after_the_grace_the_rest_ends_unanswered(old: Client) -> None:
    old.call(1, "hold")
    await turns()
    await old.session.close()
    assert old.bench.cancelled == ["hold"]
    assert old.received == []
    await old.session.close()


async def test_a_request_to_the_client_fails_when_the_session_closes(old: Client) -> None:
    old.call(1, "ask")
    await eventually(lambda: old.received)
    await old.session.close(grace=30)
    assert "session was closed" in old.bench.failures[0].message
    assert len(old.received) == 2 and "session was closed" in old.received[1]["error"]["message"]


async def test_a_cancelled_close_leaves_nothing_running(old: Client) -> None:
    old.call(1, "hold")
    await turns()
    closing = asyncio.create_task(old.session.close(grace=600))
    await turns()
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await eventually(lambda: old.bench.cancelled == ["hold"])
