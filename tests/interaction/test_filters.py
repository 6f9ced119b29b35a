"""Tool filters: a hidden tool is neither listed nor callable, and the error names the rule."""

from __future__ import annotations

import pytest

import toolcrib as tc
from tests.interaction.kit import Place, fan, soon
from tests.interaction.marks import client_side, per_protocol

pytestmark = client_side
WITH_HTTP = pytest.mark.fan([*fan(["memory"], ["modern", "legacy"]), ("http", "modern")])
"""Over modern HTTP the client lists the tools before a call anyway: their schemas say what goes into headers."""


async def names(c: tc.Client) -> set[str]:
    return {tool.name for tool in await c.list_tools()}


async def test_a_static_filter_allows_by_name(harness: Place) -> None:
    async with harness.client(tool_filter=tc.static_filter(allowed=["echo", "add"])) as c:
        assert await names(c) == {"echo", "add"}
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"


async def test_in_a_static_filter_block_wins_over_allow(harness: Place) -> None:
    async with harness.client(tool_filter=tc.static_filter(["echo", "add"], ["add"])) as c:
        assert await names(c) == {"echo"}
        with pytest.raises(tc.AccessDenied, match="blocked 'add'"):
            await c.call_tool("add", {"a": 1, "b": 2})


async def test_allowing_nothing_allows_nothing(harness: Place) -> None:
    async with harness.client(tool_filter=tc.static_filter(allowed=[])) as c:
        assert await names(c) == set()
        with pytest.raises(tc.AccessDenied):
            await c.call_tool("echo", {"text": "x"})


@WITH_HTTP
async def test_a_hidden_tool_is_refused_with_the_rule_and_nothing_is_sent(harness: Place) -> None:
    async with harness.client(name="y", tool_filter=tc.static_filter(blocked=["echo"])) as c:
        with pytest.raises(tc.AccessDenied) as caught:
            await c.call_tool("echo", {"text": "x"})
    assert caught.value.rule == "static filter: blocked 'echo'"
    assert caught.value.tool == "echo"
    assert harness.journal.calls == []
    assert harness.journal.got("tools/list") == [], "names alone need no list"


@per_protocol
async def test_a_plain_function_sees_the_tool_in_both_manners(harness: Place) -> None:
    def readers(tool: tc.Tool) -> bool:
        return tool["name"] == tool.name and bool(tool.get("inputSchema")) and "readOnlyHint" in tool.annotations

    async with harness.client(tool_filter=readers) as c:
        assert await names(c) == {"echo", "die_reading"}
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"


@WITH_HTTP
async def test_a_filter_that_needs_the_whole_tool_gets_it_before_the_call(harness: Place) -> None:
    def readers(tool: tc.Tool) -> bool:
        return tool.annotations.get("readOnlyHint") is True

    async with harness.client(tool_filter=readers) as c:
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
        with pytest.raises(tc.AccessDenied, match="readers"):
            await c.call_tool("add", {"a": 1, "b": 2})
    assert harness.journal.calls == ["echo"]
    assert len(harness.journal.got("tools/list")) == 1


async def test_a_dynamic_filter_sees_the_caller(harness: Place) -> None:
    seen: list[tc.FilterContext] = []

    def only_here(context: tc.FilterContext, tool: tc.Tool) -> bool:
        seen.append(context)
        return context.server_name == "here" and tool.name == "echo"

    async with harness.client(name="here", tool_filter=tc.dynamic_filter(only_here)) as c:
        assert await names(c) == {"echo"}
        with pytest.raises(tc.AccessDenied) as caught:
            await c.call_tool("fail")
        assert caught.value.rule is not None
        assert "only_here" in caught.value.rule
    async with harness.client(name="there", tool_filter=tc.dynamic_filter(only_here)) as c:
        assert await names(c) == set()
    assert {(context.agent, context.run_context) for context in seen} == {(None, None)}


async def test_a_filter_that_raises_or_is_async_hides(harness: Place) -> None:
    def broken(tool: tc.Tool) -> bool:
        raise LookupError(tool.name)

    async def late(tool: tc.Tool) -> bool:
        return True

    for tool_filter in (broken, late):
        async with harness.client(tool_filter=tool_filter) as c:
            assert await names(c) == set()
            with pytest.raises(tc.AccessDenied):
                await c.call_tool("echo", {"text": "x"})
    assert harness.journal.calls == []


async def test_a_filter_is_asked_again_for_a_cached_list(harness: Place) -> None:
    open_to = {"echo"}
    async with harness.client(cache_tools_list=True, tool_filter=lambda tool: tool.name in open_to) as c:
        assert await names(c) == {"echo"}
        open_to.add("add")
        assert await names(c) == {"echo", "add"}
    assert len(harness.journal.got("tools/list")) == 1


@per_protocol
async def test_a_tool_that_changed_is_judged_as_it_is_now(harness: Place) -> None:
    def old(tool: tc.Tool) -> bool:
        return tool.name != "grown" or not tool.input_schema

    async with harness.client(tool_filter=old) as c, c.listen() as changes:
        await c.call_tool("grow")
        await soon(anext(changes))
        with pytest.raises(tc.AccessDenied):
            await c.call_tool("grown")
        assert "grown" not in await names(c)
