"""Input in several rounds (modern era): requested, given, and the call sent again under a new id."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Clock, Place
from tests.interaction.marks import MODERN, client_side
from tests.interaction.reference_server_tools import state_of

pytestmark = MODERN


def accept(request: tc.ElicitRequest) -> dict[str, Any]:
    return {"said": request.message}


@pytest.mark.transport
async def test_several_rounds_end_in_one_result(harness: Place) -> None:
    asked: list[str] = []

    def handler(request: tc.ElicitRequest) -> dict[str, Any]:
        asked.append(request.message)
        return accept(request)

    async with harness.client(elicitation_handler=handler) as c:
        result = await c.call_tool("rounds", {"times": 3})
    assert result.text == "3 rounds"
    assert asked == ["round 1", "round 2", "round 3"]


async def test_each_round_has_a_new_id_the_same_params_and_only_its_own_answers(harness: Place) -> None:
    async with harness.client(elicitation_handler=accept) as c:
        await c.call_tool("rounds", {"times": 3}, meta={"com.example/k": 1})
    first, *later = harness.journal.got("tools/call")
    assert len({message["id"] for message in (first, *later)}) == 4
    assert not {"inputResponses", "requestState"} & set(first["params"])
    for number, message in enumerate(later, 1):
        params = message["params"]
        assert (params["name"], params["arguments"]) == ("rounds", {"times": 3})
        assert params["_meta"]["com.example/k"] == 1
        content = {"action": "accept", "content": {"said": f"round {number}"}}
        assert params["inputResponses"] == {str(number): content}


async def test_the_state_goes_back_byte_by_byte(harness: Place) -> None:
    async with harness.client(elicitation_handler=accept) as c:
        await c.call_tool("rounds", {"times": 2})
    states = [message["params"].get("requestState") for message in harness.journal.got("tools/call")]
    assert states == [None, state_of(1), state_of(2)]


@client_side
async def test_no_state_is_sent_if_none_was_received(harness: Place) -> None:
    async with harness.client(elicitation_handler=accept) as c:
        assert (await c.call_tool("rounds", {"times": 2, "state": False})).text == "2 rounds"
    assert not any("requestState" in message["params"] for message in harness.journal.got("tools/call"))


async def test_a_round_of_state_alone_is_sent_again_after_a_short_pause(harness: Place) -> None:
    async with harness.client() as c:
        result = await c.call_tool("rounds", {"times": 2, "ask": False}, timeout=10)
    assert result.text == "2 rounds"
    assert result.elapsed >= 0.1, "two pauses of at least 50 ms"
    assert not any("inputResponses" in message["params"] for message in harness.journal.got("tools/call"))


async def test_a_deadline_that_passes_in_a_pause_is_not_followed_by_another_round(harness: Place, clock: Clock) -> None:
    def pass_in_the_second_round(progress: float, *_: Any) -> None:
        if progress == 2:
            clock.advance(21)

    async with harness.client() as c:
        with pytest.raises(tc.CallTimeout):
            await c.call_tool("rounds", {"times": 9, "ask": False}, timeout=20, on_progress=pass_in_the_second_round)
        await c.ping()
    assert harness.journal.calls == ["rounds", "rounds"]


@client_side
async def test_ten_rounds_are_enough_and_more_are_refused(harness: Place) -> None:
    async with harness.client(elicitation_handler=accept) as c:
        assert (await c.call_tool("rounds", {"times": 10})).text == "10 rounds"
        with pytest.raises(tc.ProtocolError, match="10") as caught:
            await c.call_tool("rounds", {"times": 11})
        assert caught.value.tool == "rounds"
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert len(harness.journal.got("tools/call")) == 11 + 11 + 1


async def test_questions_of_one_round_are_answered_at_once(harness: Place) -> None:
    """Two calls request input at the same time; neither waits for the other's handler."""
    both = asyncio.Barrier(2)

    async def handler(request: tc.ElicitRequest) -> dict[str, Any]:
        await both.wait()
        return accept(request)

    async with harness.client(elicitation_handler=handler) as c:
        calls = [c.call_tool("rounds", {"times": 1}) for _ in range(2)]
        assert [result.text for result in await asyncio.wait_for(asyncio.gather(*calls), 10)] == ["1 rounds"] * 2


@client_side
async def test_a_person_who_declines_ends_the_round_not_the_call(harness: Place) -> None:
    async with harness.client(elicitation_handler=lambda request: tc.ElicitResult("decline")) as c:
        assert (await c.call_tool("rounds", {"times": 1})).text == "1 rounds"
    assert harness.journal.got("tools/call")[1]["params"]["inputResponses"] == {"1": {"action": "decline"}}


@pytest.mark.transport
async def test_a_cancelled_caller_ends_the_question(harness: Place) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def handler(request: tc.ElicitRequest) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with harness.client(elicitation_handler=handler) as c:
        call = asyncio.create_task(c.call_tool("rounds", {"times": 1}))
        await asyncio.wait_for(asked.wait(), 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.is_set()
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"


@client_side
async def test_input_on_a_request_that_may_not_ask_for_it_is_a_protocol_error(harness: Place) -> None:
    async with harness.client(
        server_options={"odd": {"tools/list": {"resultType": "input_required", "requestState": "s"}}}
    ) as c:
        with pytest.raises(tc.ProtocolError, match="tools/list"):
            await c.list_tools()


@client_side
async def test_an_unknown_type_of_result_is_a_protocol_error(harness: Place) -> None:
    async with harness.client(server_options={"odd": {"tools/list": {"resultType": "task", "taskId": "t"}}}) as c:
        with pytest.raises(tc.ProtocolError, match="task"):
            await c.list_tools()


@client_side
async def test_a_result_without_a_type_is_a_complete_one(harness: Place) -> None:
    async with harness.client(server_options={"odd": {"tools/list": {"tools": []}}}) as c:
        assert await c.list_tools() == []
