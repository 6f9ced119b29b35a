"""Requests to the client: requests of the server in the legacy era, `input_required` results in the modern era."""

from __future__ import annotations

import pytest

from tests.unit.kit import Clock, eventually
from tests.unit.server.serving.streaming import Client, Wire, said
from toolcrib.errors import ProtocolError
from toolcrib.protocol import jsonrpc

# ---- questions -----------------------------------------------------------------------------------------------


async def test_a_question_is_a_request_to_the_client_and_its_answer_goes_to_the_tool(old: Client) -> None:
    old.call(1, "ask_twice")
    await eventually(lambda: len(old.received) == 2)
    roots, elicit = old.received
    assert roots == {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    assert elicit == jsonrpc.request(2, "elicitation/create", {"message": "?"})
    old.session.feed({"jsonrpc": "2.0", "id": "2", "result": {"action": "decline"}})
    old.session.feed({"jsonrpc": "2.0", "id": 1, "result": {"roots": []}})
    await eventually(lambda: len(old.received) == 3)
    assert said(old.received[2]) == "[{'roots': []}, {'action': 'decline'}]"


@pytest.mark.parametrize(
    "answer, code",
    [
        ({"error": {"code": -1, "message": "user said no", "data": 5}}, -1),
        ({"error": "no"}, -32603),
        ({"result": 5}, -32603),
    ],
)
async def test_a_refused_question_is_an_error_of_the_client(old: Client, answer: Wire, code: int) -> None:
    old.call("c", "ask")
    await eventually(lambda: old.received)
    old.session.feed({"jsonrpc": "2.0", "id": 1, **answer})
    await old.answer("c")
    assert [failure.code for failure in old.bench.failures] == [code]


async def test_an_answer_that_cannot_be_read_ends_the_question(old: Client) -> None:
    old.call("c", "ask")
    await eventually(lambda: old.received)
    old.session.malformed(ProtocolError("too large"), b'{"jsonrpc":"2.0","id":1,"result":{"action')
    assert "too large" in (await old.error("c"))["message"]


async def test_a_question_without_an_answer_times_out_and_is_cancelled(old: Client) -> None:
    clock = Clock()
    old.call("c", "ask")
    await eventually(lambda: old.received)
    await clock.advance(601)
    assert "in time" in (await old.error("c"))["message"]
    assert [m["params"]["requestId"] for m in old.named("notifications/cancelled")] == [1]


async def test_the_question_of_a_cancelled_request_is_taken_back(old: Client) -> None:
    old.call("c", "ask")
    await eventually(lambda: old.received)
    old.say("notifications/cancelled", requestId="c")
    await eventually(lambda: old.bench.cancelled)
    assert [m.get("method") for m in old.received] == ["elicitation/create", "notifications/cancelled"]
    assert old.received[1]["params"]["requestId"] == 1
    old.session.feed({"jsonrpc": "2.0", "id": 1, "result": {}})


async def test_a_modern_question_is_an_answer_and_the_call_goes_on_where_it_was(client: Client) -> None:
    client.call_modern(1, "ask_twice")
    result = (await client.answer(1))["result"]
    assert result["resultType"] == "input_required"
    assert result["inputRequests"] == {
        "a": {"method": "roots/list"},
        "b": {"method": "elicitation/create", "params": {"message": "?"}},
    }
    answers = {"a": {"roots": []}, "b": {"action": "accept"}}
    client.call_modern(2, "ask_twice", requestState=result["requestState"], inputResponses=answers)
    result = (await client.answer(2))["result"]
    assert (result["resultType"], result["content"][0]["text"]) == ("complete", "[{'roots': []}, {'action': 'accept'}]")
    assert client.bench.ran == ["ask_twice"]
    assert [m for m in client.received if "method" in m] == [], "a server has no requests there"


async def test_a_foreign_state_runs_nothing(client: Client) -> None:
    client.call_modern(1, "add", requestState="of somebody else", arguments={"a": 1, "b": 1})
    assert (await client.error(1))["code"] == -32602
    assert client.bench.ran == []


async def test_a_parked_call_ends_with_the_stream(client: Client) -> None:
    client.call_modern(1, "ask")
    await client.answer(1)
    await client.session.close()
    await eventually(lambda: client.bench.cancelled == ["ask"])
