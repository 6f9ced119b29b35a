"""Lists: all pages, within the limits, and empty if the server lacks the capability."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, SILENCE, PlayedServer, eventually
from toolcrib.errors import ProtocolError, RemoteError
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.limits import MAX_ITEMS, MAX_PAGES
from toolcrib.types import Wire

ALL = {"tools": {}, "resources": {}, "prompts": {}}
LISTS = [
    ("list_tools", "tools/list", "tools"),
    ("list_resources", "resources/list", "resources"),
    ("list_resource_templates", "resources/templates/list", "resourceTemplates"),
    ("list_prompts", "prompts/list", "prompts"),
]


def played(capabilities: Wire = ALL, **answers: Any) -> PlayedServer:
    return PlayedServer(initialize={**LEGACY, "capabilities": capabilities}, **answers)


def client_of(server: PlayedServer) -> tc.Client:
    return tc.Client(server, mode="legacy")


def pages_of(size: int, count: int | None) -> Any:
    """Return pages of `size` tools: `count` of them, or endless."""

    def page(params: Wire) -> Wire:
        number = int(params.get("cursor", 0))
        tools = [{"name": f"t{number * size + n}"} for n in range(size)]
        return {"tools": tools} if number + 1 == count else {"tools": tools, "nextCursor": str(number + 1)}

    return page


@pytest.mark.parametrize("method, wire, key", LISTS)
async def test_what_the_server_does_not_have_is_an_empty_list_and_is_not_asked_for(
    method: str, wire: str, key: str
) -> None:
    server = played({})
    async with client_of(server) as client:
        assert await getattr(client, method)() == []
    assert wire not in server.methods


@pytest.mark.parametrize("method, wire, key", LISTS)
async def test_what_the_server_declares_and_does_not_know_is_an_empty_list(method: str, wire: str, key: str) -> None:
    server = played()
    async with client_of(server) as client:
        assert await getattr(client, method)() == []
    assert wire in server.methods


@pytest.mark.parametrize("method, wire, key", LISTS)
async def test_an_answer_without_the_list_breaks_the_protocol(method: str, wire: str, key: str) -> None:
    for answer in ({}, {key: None}, {key: {"a": 1}}):
        server = played()
        server.answers[wire] = answer
        async with client_of(server) as client:
            with pytest.raises(ProtocolError, match=key):
                await getattr(client, method)()


@pytest.mark.parametrize("method, wire, key", LISTS)
async def test_invalid_entries_are_left_out(method: str, wire: str, key: str) -> None:
    server = played()
    server.answers[wire] = {key: [{"name": "a"}, None, 7, "text", [{"name": "b"}]]}
    async with client_of(server) as client:
        assert [item.name for item in await getattr(client, method)()] == ["a"]


async def test_all_pages_are_followed_in_order() -> None:
    async with client_of(played(tools__list=pages_of(3, 7))) as client:
        assert [tool.name for tool in await client.list_tools()] == [f"t{n}" for n in range(21)]


@pytest.mark.parametrize("cursor", ["", "0", "same", 0, False, ["x"]])
async def test_a_cursor_is_not_judged_by_its_value(cursor: Any) -> None:
    def page(params: Wire) -> Wire:
        return {"tools": [{"name": "last"}]} if "cursor" in params else {"tools": [], "nextCursor": cursor}

    server = played(tools__list=page)
    async with client_of(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["last"]
    assert server.named("tools/list")[1]["params"] == {"cursor": cursor}


async def test_an_endless_list_ends_at_the_cap_of_pages_and_is_said_to(caplog: pytest.LogCaptureFixture) -> None:
    server = played(tools__list=pages_of(1, None))
    async with client_of(server) as client:
        assert len(await client.list_tools()) == MAX_PAGES
    assert len(server.named("tools/list")) == MAX_PAGES
    assert "was cut at" in caplog.text


@pytest.mark.parametrize("size", [MAX_ITEMS, MAX_ITEMS + 1, MAX_ITEMS // 2 + 1])
async def test_a_long_list_ends_at_the_cap_of_entries(size: int, caplog: pytest.LogCaptureFixture) -> None:
    server = played(tools__list=pages_of(size, 2 if size < MAX_ITEMS else 1))
    async with client_of(server) as client:
        assert len(await client.list_tools()) == MAX_ITEMS
    assert ("was cut at" in caplog.text) == (size != MAX_ITEMS)


async def test_at_the_cap_no_further_page_is_asked_for() -> None:
    server = played(tools__list=pages_of(MAX_ITEMS // 2, None))
    async with client_of(server) as client:
        await client.list_tools()
    assert len(server.named("tools/list")) == 2


async def test_an_error_on_a_later_page_is_an_error_of_the_list() -> None:
    def page(params: Wire) -> Any:
        return RemoteError(-32601, "no") if "cursor" in params else {"tools": [{"name": "a"}], "nextCursor": "x"}

    async with client_of(played(tools__list=page)) as client:
        with pytest.raises(RemoteError):
            await client.list_tools()


async def test_many_calls_that_need_the_list_ask_for_it_once() -> None:
    """A custom filter must see the whole tool before it is called."""
    tools = {"tools": [{"name": "a", "inputSchema": {}, "annotations": {"readOnlyHint": True}}]}
    server = played(tools__list=tools, tools__call={"content": []})
    client = tc.Client(server, mode="legacy", tool_filter=lambda tool: tool.annotations["readOnlyHint"])
    async with client:
        await asyncio.gather(*(client.call_tool("a") for _ in range(20)))
    assert len(server.named("tools/list")) == 1


async def test_a_call_that_waits_for_the_list_of_another_call_keeps_its_own_deadline() -> None:
    server = played(tools__list=SILENCE, tools__call={"content": []})
    async with tc.Client(server, mode="legacy", tool_filter=lambda tool: True) as client, asyncio.timeout(10):
        patient = asyncio.create_task(client.call_tool("a", timeout=None))
        await eventually(lambda: server.named("tools/list"))
        with pytest.raises(tc.CallTimeout, match="nothing was sent") as caught:
            await client.call_tool("a", timeout=0.01)
        assert not caught.value.sent
        assert not patient.done()
        assert len(server.named("tools/list")) == 1
        patient.cancel()
        await asyncio.wait([patient])
        server.answers["tools/list"] = {"tools": [{"name": "a"}]}
        await client.call_tool("a")  # a cancelled caller does not delay the others


async def test_one_deadline_holds_for_all_pages() -> None:
    def page(params: Wire) -> Any:
        return SILENCE if "cursor" in params else {"tools": [], "nextCursor": "x"}

    async with client_of(played(tools__list=page)) as client, asyncio.timeout(10):
        with pytest.raises(tc.CallTimeout):
            await client.list_tools(timeout=0.05)


async def test_a_list_that_changed_while_it_came_is_not_kept() -> None:
    """A page that arrives after the notification may still be the old one."""
    server = played({"tools": {"listChanged": True}})

    async def overtaken(params: Wire) -> Wire:
        await server.end.send(jsonrpc.notification("notifications/tools/list_changed"))
        return {"tools": [{"name": "old"}]}

    server.answers["tools/list"] = overtaken
    async with tc.Client(server, mode="legacy", cache_tools_list=True) as client:
        await client.list_tools()
        server.answers["tools/list"] = {"tools": [{"name": "new"}]}
        assert [tool.name for tool in await client.list_tools()] == ["new"]
        assert [tool.name for tool in await client.list_tools()] == ["new"]
    assert len(server.named("tools/list")) == 2


def test_a_client_may_be_used_in_one_event_loop_after_the_other() -> None:
    """As a program that calls `asyncio.run` repeatedly; all callers need the list at the same time."""
    server = played(tools__list={"tools": [{"name": "a"}]}, tools__call={"content": []})
    client = tc.Client(server, mode="legacy", tool_filter=lambda tool: True)

    async def use() -> None:
        await asyncio.gather(*(client.call_tool("a") for _ in range(5)))
        await client.disconnect()

    for _ in range(3):
        asyncio.run(use())
    assert len(server.named("tools/call")) == 15
