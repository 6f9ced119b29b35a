"""Odd, repeated, late or unknown messages of a server: tolerated, counted, or reported, and never fatal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Place, eventually
from tests.interaction.marks import MODERN, OLDER, client_side, per_protocol

LISTS = {
    "tools/list": ("list_tools", "tools"),
    "resources/list": ("list_resources", "resources"),
    "resources/templates/list": ("list_resource_templates", "resourceTemplates"),
    "prompts/list": ("list_prompts", "prompts"),
}


@pytest.mark.transport
async def test_answers_with_the_id_as_a_text_find_their_calls(harness: Place) -> None:
    async with harness.client(server_options={"string_ids": True}) as c:
        results = await asyncio.gather(*(c.call_tool("echo", {"text": str(n)}) for n in range(12)))
        with pytest.raises(tc.RemoteError):
            await c.call_tool("refuse")
    assert [result.text for result in results] == [str(n) for n in range(12)]
    assert c.counters.unmatched == 0


@pytest.mark.transport
async def test_doubled_and_unknown_answers_are_dropped_and_counted(harness: Place) -> None:
    async with harness.client() as c:
        assert (await c.call_tool("twice")).text == "first"
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
        # If each answer has its own stream, the client stops reading after the answer.
        alone = harness.way == "plain" or (harness.way == "http" and harness.modern)
        await eventually(lambda: c.counters.unmatched == (1 if alone else 2))


@pytest.mark.transport
async def test_answers_may_come_in_another_order_than_the_calls(harness: Place) -> None:
    async with harness.client() as c:
        ended: list[str] = []

        async def call(tool: str) -> None:
            await c.call_tool(tool)
            ended.append(tool)

        sleeping = asyncio.create_task(call("sleeper"))
        await eventually(lambda: "sleeper" in harness.journal.calls)
        await asyncio.gather(call("declared"), call("fail"))
        await asyncio.gather(call("wake"), sleeping)
    assert sorted(ended[:2]) == ["declared", "fail"]
    assert sorted(ended[2:]) == ["sleeper", "wake"]


@pytest.mark.transport
async def test_notifications_that_mean_nothing_are_borne(harness: Place) -> None:
    received: list[Any] = []
    lines: list[tc.LogMessage] = []
    async with harness.client(log_handler=lines.append) as c, c.listen() as changes:
        result = await c.call_tool("chatter", on_progress=lambda *step: received.append(step))
        assert result.text == "that is all"
        await c.call_tool("grow")
        assert await asyncio.wait_for(anext(changes), 10) == tc.Change("tools")
    assert received == [], "progress is a number"
    assert lines == [tc.LogMessage("info", "no level")]


@pytest.mark.transport
@OLDER
async def test_an_older_server_may_ask_for_a_sign_of_life(harness: Place) -> None:
    async with harness.client() as c:
        await c.call_tool("intrude")
        await c.ping()
    answers = [message for message in harness.journal.entries("got") if "method" not in message]
    assert answers == [{"jsonrpc": "2.0", "id": "question-0", "result": {}}]


@pytest.mark.transport
@MODERN
async def test_a_modern_server_that_asks_is_counted_and_not_answered(harness: Place) -> None:
    async with harness.client() as c:
        await c.call_tool("intrude")
        await c.ping()
        assert c.counters.dropped == 1
    assert [message for message in harness.journal.entries("got") if "method" not in message] == []


@per_protocol
@pytest.mark.parametrize("result", [7, "text", None, [1]])
async def test_a_result_that_is_not_an_object_is_a_protocol_error(harness: Place, result: Any) -> None:
    async with harness.client(name="y", server_options={"odd": {"prompts/get": result}}) as c:
        with pytest.raises(tc.ProtocolError) as caught:
            await c.get_prompt("plain")
        assert caught.value.server == "y"
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert harness.journal.lives == 1


@per_protocol
@pytest.mark.parametrize("method", LISTS)
async def test_a_list_without_the_list_is_a_protocol_error(harness: Place, method: str) -> None:
    name, key = LISTS[method]
    async with harness.client(server_options={"odd": {method: {key: "none"}}}) as c:
        with pytest.raises(tc.ProtocolError, match=key):
            await getattr(c, name)()


@per_protocol
@pytest.mark.parametrize("method", LISTS)
async def test_entries_that_are_not_objects_are_left_out(harness: Place, method: str) -> None:
    name, key = LISTS[method]
    good = {"name": "good", "uri": "memo://good", "uriTemplate": "memo://{good}"}
    async with harness.client(server_options={"odd": {method: {key: [None, "bad", good, 7]}}}) as c:
        (entry,) = await getattr(c, name)()
    assert entry.name == "good"


@per_protocol
@pytest.mark.parametrize("method", LISTS)
async def test_a_method_that_was_declared_and_is_not_there_is_an_empty_list(harness: Place, method: str) -> None:
    async with harness.client(server_options={"missing": [method]}) as c:
        assert await getattr(c, LISTS[method][0])() == []


@per_protocol
async def test_a_result_without_content_is_an_empty_result(harness: Place) -> None:
    async with harness.client(server_options={"odd": {"tools/call": {"content": "none"}}}) as c:
        result = await c.call_tool("echo", {"text": "x"})
    assert (result.text, result.content, result.is_error, result.data) == ("", (), False, None)


@client_side
async def test_a_tool_without_a_name_is_not_let_through_by_a_filter(harness: Place) -> None:
    nameless = {"tools/list": {"tools": [{"inputSchema": {}}, {"name": "echo", "inputSchema": {}}]}}
    async with harness.client(server_options={"odd": nameless}, tool_filter=tc.static_filter(blocked=["x"])) as c:
        assert [tool.name for tool in await c.list_tools()] == ["echo"]
