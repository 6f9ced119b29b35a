"""Notifications of changes to a client, in either era."""

from __future__ import annotations

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.answering import INFO
from tests.unit.server.serving.streaming import Client, Wire
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.metadata import SERVER_INFO, SUBSCRIPTION_ID
from toolcrib.server.serving import stream_session

# ---- logs, and changes in the legacy era ------------------------------------------------------------------


async def test_the_level_of_logs_is_the_session_s(old: Client) -> None:
    old.say("logging/setLevel", 1, level="error")
    old.say("logging/setLevel", 2, level="loud")
    assert (await old.answer(1))["result"] == {}
    assert (await old.error(2))["code"] == -32602
    old.call(3, "who")
    await old.answer(3)
    assert old.bench.exchanges[0].peer.log_level == "error"


async def test_what_is_not_offered_is_an_unknown_method() -> None:
    client = Client(tools={})
    client.initialize()
    client.say("logging/setLevel", 1, level="error")
    client.say("resources/subscribe", 2, uri="x://y")
    assert [(await client.error(id))["code"] for id in (1, 2)] == [-32601, -32601]
    await client.session.close()


async def test_changed_lists_are_reported_once_the_client_is_ready(client: Client) -> None:
    client.say("initialize", 0, protocolVersion="2025-11-25", capabilities={}, clientInfo={})
    await turns()
    client.bench.publish("notifications/tools/list_changed")
    client.say("notifications/initialized")
    client.say("notifications/initialized")
    await eventually(lambda: client.bench.watches)
    await turns()
    client.bench.publish("notifications/tools/list_changed")
    assert client.received[1:] == [jsonrpc.notification("notifications/tools/list_changed")]


async def test_updates_are_sent_between_subscribe_and_unsubscribe(old: Client) -> None:
    await eventually(lambda: old.bench.watches)
    old.say("resources/subscribe", 1, uri="x://y")
    old.say("resources/subscribe", 2, uri="x://y")
    await old.answer(2)
    old.bench.watches[-1].deliver("notifications/resources/updated", {"uri": "x://y"})
    assert len(old.bench.watches) == 2
    old.say("resources/unsubscribe", 3, uri="x://y")
    old.say("resources/unsubscribe", 4, uri="x://never")
    assert [(await old.answer(id))["result"] for id in (1, 2, 3, 4)] == [{}] * 4
    assert len(old.bench.watches) == 1
    assert [m["params"] for m in old.named("notifications/resources/updated")] == [{"uri": "x://y"}]


@pytest.mark.parametrize("params, code", [({}, -32602), ({"uri": 5}, -32602), ({"uri": "x://lost"}, -32002)])
async def test_a_resource_that_cannot_be_watched_cannot_be_subscribed_to(old: Client, params: Wire, code: int) -> None:
    old.say("resources/subscribe", 1, **params)
    assert (await old.error(1))["code"] == code
    assert len(old.bench.watches) == 1


# ---- changes in the modern era -------------------------------------------------------------------------------


WANTED = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["x://y"]}
ACCEPTED = {"toolsListChanged": True, "resourceSubscriptions": ["x://y"]}


async def test_a_listener_first_gets_an_acknowledgement_and_each_change_carries_its_id(client: Client) -> None:
    client.bench.early = ("notifications/tools/list_changed", {})
    client.modern("subscriptions/listen", "s", notifications=WANTED)
    await eventually(lambda: len(client.received) == 2)
    client.bench.publish("notifications/resources/updated", uri="x://y")
    mark = {"_meta": {SUBSCRIPTION_ID: "s"}}
    assert client.received == [
        jsonrpc.notification("notifications/subscriptions/acknowledged", {**mark, "notifications": ACCEPTED}),
        jsonrpc.notification("notifications/tools/list_changed", mark),
        jsonrpc.notification("notifications/resources/updated", {"uri": "x://y", **mark}),
    ]


async def test_listeners_are_distinguished_and_a_cancelled_one_receives_nothing_further(client: Client) -> None:
    client.modern("subscriptions/listen", 1, notifications=WANTED)
    client.modern("subscriptions/listen", "1", notifications=WANTED)
    await eventually(lambda: len(client.received) == 2)
    client.say("notifications/cancelled", requestId=1)
    client.bench.publish("notifications/tools/list_changed")
    await eventually(lambda: len(client.bench.watches) == 1)
    assert [m["params"]["_meta"] for m in client.received[2:]] == [{SUBSCRIPTION_ID: "1"}]
    assert client.answers(1) == []


async def test_listeners_are_notified_when_the_server_ends(client: Client) -> None:
    client.modern("subscriptions/listen", 1, notifications={})
    await eventually(lambda: client.received)
    await client.session.close()
    assert client.received[1:] == [
        jsonrpc.result(1, {"resultType": "complete", "_meta": {SERVER_INFO: INFO, SUBSCRIPTION_ID: 1}})
    ]


async def test_listeners_take_no_place_of_requests_but_have_a_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_session, "MAX_INBOUND", 1)
    client.modern("subscriptions/listen", 1, notifications={})
    await eventually(lambda: client.received)
    client.call_modern(2, "who")
    assert "result" in await client.answer(2)
    client.modern("subscriptions/listen", 3, notifications={})
    assert (await client.error(3))["code"] == -32603


@pytest.mark.parametrize("params", [{}, {"notifications": None}, {"notifications": ["toolsListChanged"]}])
async def test_a_listener_that_wants_nothing_sensible_is_refused(client: Client, params: Wire) -> None:
    client.modern("subscriptions/listen", 1, **params)
    assert (await client.error(1))["code"] == -32602
    assert client.bench.watches == []
