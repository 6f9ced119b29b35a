"""The tools of single runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import toolcrib as tc
import toolcrib.sync
from toolcrib.adapters import Toolbox, run_tools
from toolcrib.adapters.run_tools import RunTools, RunToolsRegistry


def lab() -> tc.ToolServer:
    server = tc.ToolServer("lab")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def secret() -> str:
        """Return a secret."""
        return "the secret"

    return server


def only_staff(context: tc.FilterContext, tool: tc.Tool) -> bool:
    return context.run_context == "staff" or not tool.name.endswith("secret")


class Source:
    """A source whose lists can fail."""

    def __init__(self) -> None:
        self.broken = False

    async def list_tools(self) -> list[tc.Tool]:
        if self.broken:
            raise tc.ConnectionLost("the connection was lost")
        return [tc.Tool("add")]

    async def call_tool(self, name: str, arguments: Any, **options: Any) -> tc.ToolResult:
        return tc.ToolResult.from_text(name)


async def test_each_run_sees_what_the_filters_of_the_hub_allow_it() -> None:
    async with tc.Hub({"lab": lab()}, tool_filter=tc.dynamic_filter(only_staff)) as hub:
        runs = RunToolsRegistry(Toolbox(hub, timeout=5))
        staff = await runs.get("a", agent=None, run_context="staff")
        guest = await runs.get("b", agent=None, run_context="guest")
        assert {spec.name for spec in await staff.list_tools()} == {"mcp__lab__add", "mcp__lab__secret"}
        assert {spec.name for spec in await guest.list_tools()} == {"mcp__lab__add"}
        assert (await staff.box.call("mcp__lab__secret")).text == "the secret"
        assert (await guest.box.call("mcp__lab__secret")).is_error
        assert await runs.get("a", agent=None, run_context="staff") is staff


async def test_a_run_on_another_loop_sees_its_view_of_a_sync_hub() -> None:
    def run_in_a_thread() -> set[str]:
        with toolcrib.sync.Hub({"lab": lab()}, tool_filter=tc.dynamic_filter(only_staff)) as hub:

            async def names() -> set[str]:
                guest = await Toolbox(hub).for_run(run_context="guest")
                return {spec.name for spec in await guest.list_tools()}

            return asyncio.run(names())

    assert await asyncio.to_thread(run_in_a_thread) == {"mcp__lab__add"}


async def test_a_source_without_views_is_shared_by_all_runs() -> None:
    async with tc.Client(lab()) as client:
        runs = RunToolsRegistry(Toolbox(client))
        assert (await runs.get("a", agent=None, run_context=None)).box is runs.shared.box


async def test_the_last_list_is_used_if_the_source_cannot_list(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    run = RunTools(Toolbox(source))
    source.broken = True
    with caplog.at_level(logging.WARNING):
        assert await run.list_tools() == []
        source.broken = False
        assert [spec.name for spec in await run.list_tools()] == ["add"]
        source.broken = True
        assert [spec.name for spec in await run.list_tools()] == ["add"]
    assert "the connection was lost" in caplog.text


async def test_the_run_that_was_not_used_for_the_longest_time_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tools, "MAX_RUNS", 2)
    runs = RunToolsRegistry(Toolbox(Source()))
    first = await runs.get(1, agent=None, run_context=None)
    second = await runs.get(2, agent=None, run_context=None)
    assert await runs.get(1, agent=None, run_context=None) is first
    await runs.get(3, agent=None, run_context=None)
    assert await runs.get(1, agent=None, run_context=None) is first
    assert await runs.get(2, agent=None, run_context=None) is not second


async def test_a_sync_list_that_fails_is_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    class PeekSource(Source):
        def peek_tools(self) -> list[tc.Tool]:
            if self.broken:
                raise tc.ConnectionLost("the connection was lost")
            return [tc.Tool("add")]

    source = PeekSource()
    run = RunTools(Toolbox(source))
    assert [spec.name for spec in run.tools()] == ["add"]
    source.broken = True
    with caplog.at_level(logging.WARNING):
        assert [spec.name for spec in run.tools()] == ["add"]
    assert "the last list is used" in caplog.text
