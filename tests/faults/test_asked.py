"""Servers that send requests during a call: answered only if declared, and unable to break the connection."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import FaultyServer, eventually, outcome_of
from tests.unit.kit import Clock
from toolcrib.errors import ToolcribError, UnansweredTimeout, UsageError

ELICIT = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}},
}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "2+2"}}], "maxTokens": 10},
}
ROOTS = {"method": "roots/list"}


async def test_nothing_is_declared_that_was_not_given(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        declared = json.loads((await client.call_tool("declared", {})).text)
    assert not {"sampling", "elicitation", "roots"} & set(declared)


async def test_what_was_given_is_declared(faulty: FaultyServer, era: str) -> None:
    options = {
        "sampling_handler": lambda request: "4",
        "elicitation_handler": lambda request: {"ok": True},
        "roots": ["/srv/data"],
    }
    async with faulty.client(era=era, options=options) as client:
        declared = json.loads((await client.call_tool("declared", {})).text)
    assert {"sampling", "elicitation", "roots"} <= set(declared)


@pytest.mark.parametrize("asked", [ELICIT, SAMPLE, ROOTS], ids=["elicitation", "sampling", "roots"])
async def test_in_the_legacy_era_an_undeclared_request_gets_an_error_reply(
    faulty: FaultyServer, asked: dict[str, Any]
) -> None:
    async with faulty.client(era="legacy") as client:
        answer = json.loads((await client.call_tool("ask", asked, timeout=10)).text)
        assert answer["code"] in (-32601, -32602, -1)
        assert answer["message"]
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert faulty.record.lives == 1


@pytest.mark.parametrize("asked", [SAMPLE, ROOTS], ids=["sampling", "roots"])
async def test_in_the_modern_era_an_undeclared_request_fails_the_call(
    faulty: FaultyServer, asked: dict[str, Any]
) -> None:
    async with faulty.client(era="modern") as client:
        outcome = await outcome_of(client.call_tool("ask", asked, timeout=10))
        assert isinstance(outcome, ToolcribError)
        assert not isinstance(outcome, TimeoutError)
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


async def test_in_the_modern_era_an_undeclared_elicitation_is_not_accepted(faulty: FaultyServer) -> None:
    async with faulty.client(era="modern") as client:
        outcome = await outcome_of(client.call_tool("ask", ELICIT, timeout=10))
        if isinstance(outcome, tc.ToolResult):
            assert json.loads(outcome.text)["action"] in ("decline", "cancel")
        else:
            assert isinstance(outcome, ToolcribError)
            assert not isinstance(outcome, TimeoutError)


async def test_a_declared_request_is_answered_by_its_handler(faulty: FaultyServer, era: str) -> None:
    prompts: list[str] = []

    async def sample(request: tc.SamplingRequest) -> str:
        prompts.append(request.text)
        return "4"

    options = {"sampling_handler": sample, "elicitation_handler": lambda request: {"ok": True}, "roots": ["/srv/data"]}
    async with faulty.client(era=era, options=options) as client:
        elicited = json.loads((await client.call_tool("ask", ELICIT)).text)
        assert elicited == {"action": "accept", "content": {"ok": True}}
        sampled = json.loads((await client.call_tool("ask", SAMPLE)).text)
        assert sampled["content"] == {"type": "text", "text": "4"}
        assert prompts == ["2+2"]
        rooted = json.loads((await client.call_tool("ask", ROOTS)).text)
        assert [root["uri"] for root in rooted["roots"]] == ["file:///srv/data"]


async def test_a_handler_that_raises_fails_its_own_call_only(faulty: FaultyServer, era: str) -> None:
    def broken(request: tc.ElicitRequest) -> None:
        raise RuntimeError("the handler's own fault c4n4ry")

    async with faulty.client(era=era, options={"elicitation_handler": broken}) as client:
        beside = asyncio.create_task(client.call_tool("slow", {"nonce": "b", "seconds": 0.2}))
        if era == "legacy":
            reply = (await client.call_tool("ask", ELICIT, timeout=10)).text
            assert json.loads(reply)["code"] == -32603
            assert "c4n4ry" not in reply, "internal details must not reach the server"
        else:  # the protocol has no form for an error here: the call itself fails
            with pytest.raises((UsageError, ToolcribError), match="handler") as caught:
                await client.call_tool("ask", ELICIT, timeout=10)
            assert not isinstance(caught.value, TimeoutError)
        assert (await beside).text == "b"
    assert faulty.record.lives == 1


async def test_an_undeclared_elicitation_mode_is_refused(faulty: FaultyServer) -> None:
    asked = {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "http://127.0.0.1:9/"}}
    async with faulty.client(era="legacy", options={"elicitation_handler": lambda request: {}}) as client:
        assert json.loads((await client.call_tool("ask", asked)).text)["code"] == -32602


async def test_the_deadline_is_paused_while_a_person_answers(faulty: FaultyServer, era: str) -> None:
    clock = Clock()

    async def think(request: tc.ElicitRequest) -> dict[str, Any]:
        await clock.advance(600)
        return {"ok": True}

    async with faulty.client(era=era, options={"elicitation_handler": think}) as client:
        result = await client.call_tool("ask", ELICIT, timeout=10)
        assert json.loads(result.text)["action"] == "accept"


async def test_the_death_of_the_server_ends_a_call_whose_person_still_thinks(faulty: FaultyServer) -> None:
    thinking = asyncio.Event()

    async def think(request: tc.ElicitRequest) -> None:
        thinking.set()
        await asyncio.Event().wait()

    async with faulty.client(era="legacy", options={"elicitation_handler": think}) as client:
        task = asyncio.create_task(outcome_of(client.call_tool("ask", ELICIT, timeout=30)))
        await asyncio.wait_for(thinking.wait(), 10)
        faulty.kill()
        outcome = await asyncio.wait_for(task, 5)
        assert isinstance(outcome, tc.OutcomeUnknown)
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


async def test_in_the_modern_era_a_servers_own_request_is_dropped_without_a_reply(faulty: FaultyServer) -> None:
    async with faulty.client(era="modern", options={"roots": ["/srv"]}) as client:
        with pytest.raises(UnansweredTimeout):
            await client.call_tool("ask", {**ROOTS, "force": True}, timeout=0.4)
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
        await eventually(lambda: client.connected)
    assert faulty.record.lives == 1
