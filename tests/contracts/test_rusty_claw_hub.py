"""rusty_claw's MCP integration, sentence by sentence: what the CLI does there, and a `Hub` does here (6, 7, 10).

Where that document writes `ClaudeAgentOptions::builder().mcp_servers(...).allowed_tools(...)`, Toolcrib writes
`Hub(servers, allowed_tools=...)`. Each docstring gives the document's sentence in short words, and, after "Here:",
where Toolcrib departs from it and why.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import DEMO
from toolcrib.hub.hub import Hub
from toolcrib.hub.interceptors import ToolCall

CALCULATOR, ADD, DELETE = "mcp__math-tools__calculator", "mcp__math-tools__add", "mcp__risky-server__delete"


@tc.tool(name="calculator", description="Perform arithmetic")
async def calculator(operation: str, a: int, b: int) -> tc.ToolResult:
    match operation:
        case "add":
            return tc.ToolResult.from_text(f"{a + b}")
        case "multiply":
            return tc.ToolResult.from_text(f"{a * b}")
        case _:
            return tc.ToolResult.from_error(f"Unknown operation: {operation}")


@tc.tool
def add(a: int, b: int) -> int:
    return a + b


def servers() -> dict[str, tc.ToolServer]:
    math, risky = tc.ToolServer("math-tools", "1.0.0"), tc.ToolServer("risky-server", "1.0.0")
    math.add_tool(calculator)
    math.add_tool(add)
    risky.add_tool(lambda: "deleted", name="delete")
    risky.add_tool(lambda: "looked", name="look")
    return {"math-tools": math, "risky-server": risky}


async def seen(hub: Any) -> list[str]:
    return [tool.name for tool in await hub.list_tools()]


async def refused(hub: Any, name: str) -> str:
    with pytest.raises(tc.AccessDenied) as told:
        await hub.call_tool(name, {})
    return told.value.rule or ""


# ---- 1 and 2: external servers and servers of this process


async def test_both_categories_of_servers_are_in_one_map(tmp_path: Path) -> None:
    """External servers: separate processes, by mcp_servers: HashMap<String, Config>; SDK servers: in-process tools."""
    both = {"my-server": tc.StdioServer(sys.executable, [DEMO]), **servers()}
    async with Hub(both) as hub:
        assert {"mcp__my-server__echo", CALCULATOR} <= set(await seen(hub))
        assert (await hub.call_tool("mcp__my-server__echo", {"text": "x"})).text == "x"
        assert (await hub.call_tool(ADD, {"a": 1, "b": 2})).data == 3


async def test_external_servers_are_configured_by_tagged_maps() -> None:
    """mcp_servers: {"my-server": {"type": "stdio", "command", "args", "env"}}. Here: Hub.from_config."""
    told = {"my-server": {"type": "stdio", "command": sys.executable, "args": [DEMO], "env": {}}}
    async with Hub.from_config({"mcpServers": told}) as hub:
        assert (await hub.call_tool("mcp__my-server__echo", {"text": "x"})).text == "x"


# ---- 6: tool naming convention


async def test_a_tool_appears_under_its_qualified_name() -> None:
    """A tool `calculator` on a server `math-tools` appears as mcp__math-tools__calculator."""
    async with Hub(servers()) as hub:
        tool = (await hub.list_tools())[0]
    assert (tool.name, tool.server, tool.original_name) == (CALCULATOR, "math-tools", "calculator")


async def test_inside_the_server_tools_keep_their_short_names() -> None:
    """Inside the SDK, tools are registered with their short name only."""
    both = servers()
    async with Hub(both) as hub:
        assert (await hub.call_tool(CALCULATOR, {"operation": "add", "a": 2, "b": 3})).text == "5"
        assert [tool.name for tool in both["math-tools"].list_tools()] == ["calculator", "add"]
        with pytest.raises(tc.ToolNotFound):
            await hub.call_tool("calculator", {"operation": "add", "a": 2, "b": 3})


# ---- 7: allowing MCP tools


async def test_allowed_tools_are_authorized_beforehand() -> None:
    """allowed_tools(["mcp__math-tools__calculator", "mcp__math-tools__add"]): pre-authorize specific tools."""
    asked: list[ToolCall] = []
    async with Hub(servers(), allowed_tools=[CALCULATOR, ADD], approve=asked.append) as hub:  # type: ignore[arg-type]
        assert (await hub.call_tool(ADD, {"a": 1, "b": 2})).data == 3
        assert (await hub.call_tool(CALCULATOR, {"operation": "multiply", "a": 2, "b": 3})).text == "6"
        assert asked == []
        assert hub.explain(ADD).startswith("allowed")


@pytest.mark.parametrize("permitted", [True, False])
async def test_other_tools_require_permission(permitted: bool) -> None:
    """By default, the CLI may require permission to use tools."""
    asked: list[str] = []

    def permit(call: ToolCall) -> bool:
        asked.append(call.name)
        return permitted

    async with Hub(servers(), allowed_tools=[CALCULATOR, ADD], approve=permit) as hub:
        assert DELETE in await seen(hub)
        if permitted:
            assert (await hub.call_tool("mcp__risky-server__look")).text == "looked"
        else:
            assert await refused(hub, "mcp__risky-server__look") == "allowed_tools"
        assert asked == ["mcp__risky-server__look"]


async def test_without_an_approver_other_tools_are_not_offered() -> None:
    """Here: a tool that would need permission is neither listed nor callable without an approver."""
    async with Hub(servers(), allowed_tools=[CALCULATOR, ADD]) as hub:
        assert await seen(hub) == [CALCULATOR, ADD]
        assert await refused(hub, DELETE) == "allowed_tools"


async def test_disallowed_tools_are_blocked() -> None:
    """disallowed_tools(["mcp__risky-server__delete"]): block specific tools."""
    asked: list[ToolCall] = []
    async with Hub(servers(), disallowed_tools=[DELETE], approve=asked.append) as hub:  # type: ignore[arg-type]
        assert await seen(hub) == [CALCULATOR, ADD, "mcp__risky-server__look"]
        assert await refused(hub, DELETE) == f"disallowed_tools: {DELETE}"
        assert hub.explain(DELETE) == f"denied by disallowed_tools: {DELETE}"
        assert asked == [], "a disallowed tool cannot be allowed"


async def test_a_tool_that_is_allowed_and_disallowed_is_blocked() -> None:
    """Here: disallowed_tools always wins, whichever pattern says more."""
    async with Hub(servers(), allowed_tools=[DELETE, ADD], disallowed_tools=["mcp__risky-server__*"]) as hub:
        assert await seen(hub) == [ADD]
        assert await refused(hub, DELETE) == "disallowed_tools: mcp__risky-server__*"


@pytest.mark.parametrize("pattern", ["mcp__math-tools__*", "mcp__math-tools", "mcp__math*"])
async def test_many_tools_can_be_named_at_once(pattern: str) -> None:
    """allowed_tools: names. Here: also patterns, and a server for all of its tools."""
    async with Hub(servers(), allowed_tools=[pattern]) as hub:
        assert await seen(hub) == [CALCULATOR, ADD]


async def test_without_a_list_all_are_allowed_and_an_empty_one_allows_none() -> None:
    """Default. Here: None and [] are two things."""
    async with Hub(servers()) as hub:
        assert len(await seen(hub)) == 4
    async with Hub(servers(), allowed_tools=[]) as hub:
        assert await seen(hub) == []


# ---- 10: the full end-to-end example, and 11: hooks


async def test_the_full_end_to_end_example() -> None:
    """A tool, a server `math-tools` of version 1.0.0, a registry, options with allowed_tools: one tool is allowed."""
    server = tc.ToolServer("math-tools", "1.0.0")
    server.add_tool(calculator)
    async with Hub({"math-tools": server}, allowed_tools=[CALCULATOR]) as hub:
        (state,) = hub.list_servers()
        assert state.server_info is not None
        assert (state.server_info.name, state.server_info.version) == ("math-tools", "1.0.0")
        assert (await hub.call_tool(CALCULATOR, {"operation": "add", "a": 2, "b": 3})).text == "5"
        wrong = await hub.call_tool(CALCULATOR, {"operation": "divide", "a": 2, "b": 3})
        assert (wrong.is_error, wrong.text) == (True, "Unknown operation: divide")


async def test_hooks_match_on_tool_names() -> None:
    """HOOKS.md: lifecycle hooks can match on mcp__* tool names. Here: interceptors."""
    told: list[str] = []
    async with Hub(servers()) as hub:

        @hub.intercept("mcp__math-*")
        async def audit(call: ToolCall, proceed: Any) -> tc.ToolResult:
            result: tc.ToolResult = await proceed(call)
            told.append(f"{call.name} {result.text}")
            return result

        await hub.call_tool(ADD, {"a": 1, "b": 2})
        await hub.call_tool("mcp__risky-server__look")
    assert told == [f"{ADD} 3"]
