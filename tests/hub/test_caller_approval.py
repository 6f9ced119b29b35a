"""A hub with approve="caller" leaves the question to its caller: tools are listed, and calls say approved=True."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import Hub, echo_server
from toolcrib.sync import Hub as SyncHub

WIPE, READ, DROP = "mcp__s__wipe", "mcp__s__read", "mcp__s__drop"


def guarded(*tools: str, **options: Any) -> Hub:
    server = echo_server(*tools or ("wipe", "read", "drop"))
    return Hub({"s": server}, require_approval=[WIPE, DROP], approve="caller", **options)


async def test_tools_that_need_approval_are_listed_and_called_with_approved() -> None:
    async with guarded() as hub:
        assert [tool.name for tool in await hub.list_tools()] == [WIPE, READ, DROP]
        assert [hub.needs_approval(name) for name in (WIPE, READ, DROP)] == [True, False, True]
        result = await hub.call_tool(WIPE, {"path": "/"}, approved=True)
        assert result.data == {"path": "/"}
        assert (await hub.call_tool(READ, {"a": 1})).data == {"a": 1}
        assert (await hub.call_tool(READ, {"a": 1}, approved=True)).data == {"a": 1}


@pytest.mark.parametrize("given", [{}, {"approved": False}, {"approved": 1}, {"approved": "yes"}])
async def test_only_true_approves(given: Any) -> None:
    denied: list[tc.events.ToolExecutionFailed] = []
    async with guarded() as hub:
        hub.on(tc.events.ToolExecutionFailed, denied.append)
        with pytest.raises(
            tc.AccessDenied, match=r"needs approval by .*: the caller has to ask .*approved=True"
        ) as info:
            await hub.call_tool(WIPE, {}, **given)
    assert info.value.rule == f"require_approval: {WIPE}" and info.value.sent is False
    assert [event.error for event in denied] == [info.value]


async def test_a_tool_that_is_not_allowed_needs_approval_and_a_banned_one_stays_hidden() -> None:
    server = echo_server("wipe", "read", "drop")
    async with Hub({"s": server}, allowed_tools=[READ], disallowed_tools=[DROP], approve="caller") as hub:
        assert [tool.name for tool in await hub.list_tools()] == [WIPE, READ]
        assert [hub.needs_approval(name) for name in (WIPE, READ, DROP)] == [True, False, False]
        assert (await hub.call_tool(WIPE, {"a": 1}, approved=True)).data == {"a": 1}
        with pytest.raises(tc.AccessDenied, match="denied by disallowed_tools"):
            await hub.call_tool(DROP, {}, approved=True)


async def test_a_caller_cannot_approve_for_a_function_of_the_hub_or_without_an_approver() -> None:
    asked: list[str] = []

    def approve(call: tc.ToolCall) -> bool:
        asked.append(call.name)
        return False

    async with Hub({"s": echo_server("wipe")}, require_approval="always", approve=approve) as hub:
        assert not hub.needs_approval(WIPE)
        with pytest.raises(tc.AccessDenied, match="was not approved"):
            await hub.call_tool(WIPE, {}, approved=True)
    assert asked == [WIPE]
    async with Hub({"s": echo_server("wipe")}, require_approval="always") as hub:
        assert await hub.list_tools() == [] and not hub.needs_approval(WIPE)
        with pytest.raises(tc.AccessDenied, match="no approve= function"):
            await hub.call_tool(WIPE, {}, approved=True)


async def test_interceptors_run_and_do_not_see_the_approval() -> None:
    seen: list[tc.ToolCall] = []
    async with guarded() as hub:

        @hub.intercept
        async def add_path(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            seen.append(call)
            return await proceed(replace(call, arguments={**call.arguments, "path": "/scratch"}))

        result = await hub.call_tool(WIPE, {"a": 1}, approved=True, timeout=5)
        assert result.data == {"a": 1, "path": "/scratch"}
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool(WIPE, {"a": 1})
    assert [dict(call.options) for call in seen] == [{"timeout": 5}, {}]


async def test_an_approval_is_valid_for_the_tool_that_was_called() -> None:
    async with guarded() as hub:

        @hub.intercept(READ)
        async def redirect(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            return await proceed(replace(call, name=WIPE, tool="wipe"))

        @hub.intercept(DROP)
        async def wipe_instead(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            return await proceed(replace(call, name=WIPE, tool="wipe"))

        for name in (READ, DROP):
            with pytest.raises(tc.AccessDenied, match=f"got approval for {name}, not for this tool"):
                await hub.call_tool(name, {}, approved=True)


async def test_a_tool_that_changes_during_the_call_is_not_approved() -> None:
    server = echo_server("wipe")
    async with Hub({"s": server}, require_approval="always", approve="caller") as hub:

        @hub.intercept
        async def slow(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            async def other(everything: bool) -> str:
                return "another tool"

            server.remove_tool("wipe")
            server.add_tool(other, name="wipe")
            await hub.refresh("s")
            return await proceed(call)

        with pytest.raises(tc.AccessDenied, match="the tool changed"):
            await hub.call_tool(WIPE, {}, approved=True)


async def test_explain_says_that_the_caller_has_to_ask() -> None:
    async with guarded() as hub:
        assert hub.explain(WIPE) == (
            f"needs approval by require_approval: {WIPE}: "
            "the caller has to ask for approval, and then call it with approved=True"
        )
        assert hub.explain(READ) == "allowed (no rule applies)"
        assert hub.view().explain(WIPE) == hub.explain(WIPE)


async def test_a_view_asks_too_and_its_meta_tools_do_not_skip_the_question() -> None:
    async with guarded() as hub:
        hub.toolsets.register(tc.Toolset("s").defer_all())
        view = hub.view(agent="a", meta_tools=True)
        assert view.needs_approval(WIPE) and not view.needs_approval(READ)
        assert not view.needs_approval("call_tool") and not view.needs_approval("search_tools")
        forged = {"name": WIPE, "arguments": {"approved": True}, "approved": True}
        with pytest.raises(tc.AccessDenied, match="approved=True"):
            await view.call_tool("call_tool", forged)
        assert (await view.call_tool("call_tool", {"name": READ, "arguments": {"a": 1}})).data == {"a": 1}
        asked = await view.call_tool("call_tool", {"name": WIPE, "arguments": {"a": 1}}, approved=True)
        assert asked.data == {"a": 1}
        assert (await view.call_tool(WIPE, {"a": 2}, approved=True)).data == {"a": 2}


def test_the_sync_hub_and_its_view() -> None:
    with SyncHub({"s": echo_server("wipe")}, require_approval="always", approve="caller") as hub:
        view = hub.view()
        assert hub.needs_approval(WIPE) and view.needs_approval(WIPE)
        for caller in (hub, view):
            with pytest.raises(tc.AccessDenied):
                caller.call_tool(WIPE, {})
            assert caller.call_tool(WIPE, {"a": 1}, approved=True).data == {"a": 1}


async def test_a_tool_of_a_server_that_is_not_listed_yet_is_judged_by_its_name() -> None:
    async with Hub({"s": echo_server("wipe")}, require_approval="always", approve="caller", start="lazy") as hub:
        assert hub.needs_approval(WIPE)


async def test_settings_of_a_file_and_the_caller_as_approver() -> None:
    config = {"mcpServers": {"s": {"command": "true"}}}
    hub = Hub.from_config(config, require_approval=[WIPE], approve="caller")
    assert hub.needs_approval(WIPE)
    with pytest.raises(tc.ConfigError, match="approve: expected a function of a call, 'caller', or None"):
        Hub({}, approve="user")  # type: ignore[arg-type]
