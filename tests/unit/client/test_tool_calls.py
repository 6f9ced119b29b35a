"""Calling a tool: checks before the call, the meaning of failures, and the deadline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, SILENCE, PlayedServer
from toolcrib.errors import AccessDenied, RemoteError, ToolNotFound
from toolcrib.policy.filters import StaticFilter
from toolcrib.protocol import jsonrpc

FAILED = {"content": [{"type": "text", "text": "out of paper"}], "isError": True}
TOOLS = {"tools": [{"name": "read_file"}, {"name": "write_file"}, {"name": "print"}]}


def played(**answers: Any) -> PlayedServer:
    return PlayedServer(**{"initialize": LEGACY, "tools__list": TOOLS, "tools__call": {"content": []}, **answers})


def client_of(server: PlayedServer, **options: Any) -> tc.Client:
    return tc.Client(server, mode="legacy", name="office", **options)


@pytest.mark.parametrize("listed", [True, False])
async def test_a_refused_tool_that_is_not_listed_is_not_found(listed: bool) -> None:
    async with client_of(played(tools__call=RemoteError(-32602, "Unknown tool"))) as client:
        if listed:
            await client.list_tools()
        with pytest.raises(ToolNotFound, match="did you mean 'read_file'") as caught:
            await client.call_tool("read_fil")
    assert caught.value.nearest[0] == "read_file"
    assert (caught.value.server, caught.value.tool) == ("office", "read_fil")
    assert caught.value.sent is True


async def test_a_qualified_name_gets_a_hint_at_the_plain_one() -> None:
    async with client_of(played(tools__call=RemoteError(-32602, "Unknown tool"))) as client:
        with pytest.raises(ToolNotFound, match="a Client calls a tool by its plain name, 'read_file'") as caught:
            await client.call_tool("mcp__office__read_file")
    assert caught.value.nearest == ("read_file",)


async def test_a_server_that_names_the_nearest_tool_itself_is_not_repeated() -> None:
    refusal = RemoteError(-32602, "Unknown tool: read_fil; did you mean 'read_file'?")
    async with client_of(played(tools__call=refusal)) as client:
        with pytest.raises(ToolNotFound) as caught:
            await client.call_tool("read_fil")
    assert str(caught.value).count("did you mean") == 1
    assert caught.value.nearest[0] == "read_file"


@pytest.mark.parametrize("listed", [True, False])
async def test_the_error_result_of_an_unlisted_tool_is_kept(listed: bool) -> None:
    """It may have run: "money was taken, but the mail could not be sent" must reach the caller."""
    server = played(tools__call=FAILED)
    async with client_of(server) as client:
        if listed:
            await client.list_tools()
        result = await client.call_tool("hidden_by_the_server")
    assert (result.is_error, result.text) == (True, "out of paper")
    assert len(server.named("tools/call")) == 1


async def test_the_failure_of_a_tool_that_is_listed_is_its_own() -> None:
    server = played(tools__call=FAILED)
    async with client_of(server) as client:
        assert (await client.call_tool("print")).text == "out of paper"
        server.answers["tools/call"] = RemoteError(-32602, "bad paper")
        with pytest.raises(RemoteError, match="bad paper"):
            await client.call_tool("print")
    assert len(server.named("tools/call")) == 2


async def test_a_list_that_cannot_be_had_leaves_the_first_outcome() -> None:
    async with client_of(played(tools__call=FAILED, tools__list=RemoteError(-32603, "no list"))) as client:
        assert (await client.call_tool("print")).is_error


@pytest.mark.parametrize("said", [FAILED, RemoteError(-32602, "Unknown tool")], ids=["isError", "invalid params"])
async def test_looking_for_the_tool_does_not_outlive_the_deadline_of_the_call(said: Any) -> None:
    """The outcome is known; a missing list must not delay it."""
    async with client_of(played(tools__call=said, tools__list=SILENCE)) as client:
        async with asyncio.timeout(5):
            if said is FAILED:
                assert (await client.call_tool("print", timeout=0.2)).is_error
            else:
                with pytest.raises(RemoteError):
                    await client.call_tool("print", timeout=0.2)


async def test_a_hidden_tool_is_neither_called_nor_suggested() -> None:
    server = played(tools__call=RemoteError(-32602, "Unknown tool"))
    async with client_of(server, tool_filter=StaticFilter(blocked=["read_file"])) as client:
        with pytest.raises(AccessDenied) as denied:
            await client.call_tool("read_file")
        assert denied.value.sent is False
        assert server.named("tools/call") == []
        with pytest.raises(ToolNotFound) as caught:
            await client.call_tool("read_fil")
    assert "read_file" not in caught.value.nearest


def harmless(tool: tc.Tool) -> bool:
    return not tool.annotations.get("destructiveHint")


@pytest.mark.parametrize("always", [False, True], ids=["once", "with every list"])
async def test_a_hidden_tool_stays_hidden_if_the_list_changes_while_it_is_fetched(always: bool) -> None:
    server = played()
    listings = 0

    async def listing(_params: Any) -> Any:
        nonlocal listings
        listings += 1
        if always or listings == 1:
            await server.end.send(jsonrpc.notification("notifications/tools/list_changed"))
        return {"tools": [{"name": "rm", "annotations": {"destructiveHint": True}}, {"name": "ls"}]}

    server.answers["tools/list"] = listing
    async with client_of(server, tool_filter=harmless) as client:
        with pytest.raises(AccessDenied):
            await client.call_tool("rm", timeout=5)
        with pytest.raises(ToolNotFound) as unknown:
            await client.call_tool("unlisted", timeout=5)
        assert unknown.value.sent is False
        assert server.named("tools/call") == []
        assert not (await client.call_tool("ls", timeout=5)).is_error


async def test_a_list_that_fails_before_a_call_says_that_the_call_was_not_sent() -> None:
    server = played(tools__list=RemoteError(-32603, "no list"))
    async with client_of(server, tool_filter=harmless) as client:
        with pytest.raises(RemoteError, match="no list") as caught:
            await client.call_tool("print", timeout=5)
    assert caught.value.sent is False
    assert server.named("tools/call") == []


@pytest.mark.parametrize("arguments", ['{"a": 1}', [1], 5])
async def test_arguments_that_are_not_a_mapping_are_refused_with_a_hint(arguments: Any) -> None:
    server = played()
    async with client_of(server) as client:
        with pytest.raises(tc.UsageError, match=r"mapping of names to values.*json\.loads"):
            await client.call_tool("print", arguments)
    assert server.named("tools/call") == []


async def test_a_tool_that_runs_only_as_a_task_is_refused_before_it_is_sent() -> None:
    tools = {"tools": [{"name": "slow", "execution": {"taskSupport": "required"}}]}
    server = played(tools__list=tools)
    async with client_of(server) as client:
        await client.list_tools()
        with pytest.raises(AccessDenied, match="task"):
            await client.call_tool("slow")
    assert server.named("tools/call") == []


async def test_the_callers_arguments_are_never_changed() -> None:
    tools = {"tools": [{"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}]}
    server = played(tools__list=tools)
    arguments = {"a": None, "b": {"c": []}}
    async with client_of(server, clean_arguments="always") as client:
        await client.list_tools()
        await client.call_tool("t", arguments)
    assert arguments == {"a": None, "b": {"c": []}}
    assert server.named("tools/call")[0]["params"]["arguments"] != arguments


@pytest.mark.parametrize("kind", [tc.events.ToolExecutionCompleted, tc.events.ToolExecutionStarted])
async def test_a_listener_to_one_kind_of_event_receives_it(kind: Any) -> None:
    received: list[Any] = []
    async with client_of(played()) as client:
        client.on(kind, received.append)
        await client.call_tool("print", {"n": 1})
    assert [(event.server, event.tool) for event in received] == [("office", "print")]


async def test_a_failed_and_a_cancelled_call_are_sent_to_listeners_of_failures_alone() -> None:
    received: list[tc.events.ToolExecutionFailed] = []
    server = played(tools__call=RemoteError(-32000, "broken"))
    async with client_of(server) as client:
        client.on(tc.events.ToolExecutionFailed, received.append)
        with pytest.raises(RemoteError):
            await client.call_tool("print")
        server.answers["tools/call"] = SILENCE
        call = asyncio.create_task(client.call_tool("print"))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
    assert [type(event.error) for event in received] == [RemoteError, asyncio.CancelledError]
    assert all(event.duration >= 0 for event in received)
