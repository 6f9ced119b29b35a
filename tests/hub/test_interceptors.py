"""Interceptors: in their order, by pattern, around every call; what they change is what is sent."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import Hub, echo_server, math_server
from toolcrib.hub.interceptors import CallNext, ToolCall


async def test_they_run_in_the_order_of_registration_outermost_first() -> None:
    told: list[str] = []

    def noting(name: str) -> Any:
        async def intercept(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            told.append(f"{name} in")
            result = await proceed(call)
            told.append(f"{name} out")
            return result

        return intercept

    async with Hub({"s": echo_server("a")}) as hub:
        for name in ("first", "second"):
            hub.intercept(noting(name))
        await hub.call_tool("mcp__s__a")
        assert told == ["first in", "second in", "second out", "first out"]


async def test_the_audit_of_the_tour() -> None:
    log: list[tuple[Any, ...]] = []
    async with Hub({"math": math_server(), "s": echo_server("a")}) as hub:

        @hub.intercept
        async def audit(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            result = await proceed(call)
            log.append((call.server, call.tool, result.elapsed > 0, result.is_error))
            return result

        assert callable(audit)
        await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})
        await hub.call_tool("mcp__math__fail")
        assert log == [("math", "add", True, False), ("math", "fail", True, True)]


async def test_a_pattern_chooses_the_calls_also_of_servers_that_come_later() -> None:
    seen: list[str] = []
    async with Hub({"fs": echo_server("read", "write")}) as hub:

        @hub.intercept("mcp__fs__r*")
        async def one(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            seen.append(call.name)
            return await proceed(call)

        @hub.intercept("mcp__late__*")
        async def other(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            seen.append(call.name)
            return await proceed(call)

        await hub.add_server("late", echo_server("x"))
        for name in ("mcp__fs__read", "mcp__fs__write", "mcp__late__x"):
            await hub.call_tool(name)
        assert seen == ["mcp__fs__read", "mcp__late__x"]


async def test_one_that_is_added_while_the_hub_works_holds_from_then_on() -> None:
    async with Hub({"s": echo_server("a")}) as hub:
        assert (await hub.call_tool("mcp__s__a", {"x": 1})).data == {"x": 1}

        @hub.intercept()
        async def mark(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            return await proceed(replace(call, arguments={**call.arguments, "marked": True}))

        assert (await hub.call_tool("mcp__s__a", {"x": 1})).data == {"x": 1, "marked": True}


async def test_a_call_carries_the_caller_and_the_options_and_is_frozen() -> None:
    seen: list[ToolCall] = []
    async with Hub({"s": echo_server("a")}) as hub:

        @hub.intercept
        async def look(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            seen.append(call)
            with pytest.raises(FrozenInstanceError):
                call.name = "x"  # type: ignore[misc]
            return await proceed(call)

        await hub.view(agent="me", run_context=7).call_tool("mcp__s__a", {"x": 1}, timeout=3, meta={"k": "v"})
        assert seen[0].context == tc.FilterContext("me", "s", 7)
        assert seen[0].options == {"timeout": 3, "meta": {"k": "v"}}


async def test_options_can_be_changed_on_the_way() -> None:
    server = tc.ToolServer("s")

    @server.tool
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    async with Hub({"s": server}) as hub:

        @hub.intercept
        async def force(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            return await proceed(replace(call, options={**call.options, "timeout": 0.02}))

        with pytest.raises(tc.CallTimeout):
            await hub.call_tool("mcp__s__wait", timeout=60)


async def test_one_can_answer_in_the_tools_place_or_try_again() -> None:
    server = tc.ToolServer("s")
    calls = 0

    @server.tool
    async def flaky() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise tc.ToolFailed("not yet")
        return "done"

    async with Hub({"s": server, "e": echo_server("a")}) as hub:

        @hub.intercept("mcp__e__*")
        async def cached(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            return tc.ToolResult.from_text("from the cache")

        @hub.intercept("mcp__s__*")
        async def again(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            while (result := await proceed(call)).is_error:
                pass
            return result

        assert (await hub.call_tool("mcp__e__a")).text == "from the cache"
        assert (await hub.call_tool("mcp__s__flaky")).text == "done"
        assert calls == 3


async def test_one_that_tries_again_does_not_make_a_person_say_yes_again() -> None:
    asked = 0

    def approve(call: ToolCall) -> bool:
        nonlocal asked
        asked += 1
        return True

    async with Hub({"math": math_server()}, require_approval="always", approve=approve) as hub:

        @hub.intercept
        async def twice(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            await proceed(call)
            return await proceed(call)

        await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})
        assert asked == 1

        @hub.intercept
        async def other(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            return await proceed(replace(call, arguments={"a": asked, "b": 0}))

        await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})
        assert asked == 3, "another call is another question"


async def test_what_is_approved_is_what_is_sent() -> None:
    """Interceptors come before the person, so none of them can change what the person has seen."""
    seen: list[Any] = []

    def approve(call: ToolCall) -> bool:
        seen.append(call.arguments)
        return True

    async with Hub({"s": echo_server("a")}, require_approval="always", approve=approve) as hub:

        @hub.intercept
        async def change(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            return await proceed(replace(call, arguments={"changed": True}))

        assert (await hub.call_tool("mcp__s__a", {"x": 1})).data == {"changed": True}
        assert seen == [{"changed": True}]


async def test_a_tool_that_is_hidden_from_the_caller_reaches_no_interceptor() -> None:
    """One that keeps answers must not give them to those who may not see the tool."""
    admins = tc.dynamic_filter(lambda context, tool: context.agent == "admin")
    async with Hub({"s": (echo_server("a"), {"tool_filter": admins})}) as hub:
        kept: list[tc.ToolResult] = []

        @hub.intercept
        async def cache(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            if not kept:
                kept.append(await proceed(call))
            return kept[0]

        assert (await hub.view(agent="admin").call_tool("mcp__s__a", {"x": 1})).data == {"x": 1}
        with pytest.raises(tc.AccessDenied):
            await hub.view(agent="guest").call_tool("mcp__s__a", {"x": 1})


async def test_a_call_that_is_sent_elsewhere_is_judged_there() -> None:
    async with Hub({"s": echo_server("a", "b", "hidden")}, disallowed_tools=["mcp__s__hidden"]) as hub:

        @hub.intercept("mcp__s__a")
        async def reroute(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            target = call.arguments["to"]
            return await proceed(replace(call, tool=target, name=f"mcp__s__{target}"))

        assert (await hub.call_tool("mcp__s__a", {"to": "b"})).data == {"to": "b"}
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool("mcp__s__a", {"to": "hidden"})
        with pytest.raises(tc.ToolNotFound):
            await hub.call_tool("mcp__s__a", {"to": "nowhere"})


async def test_its_own_exception_is_the_outcome() -> None:
    async with Hub({"s": echo_server("a")}) as hub:

        @hub.intercept
        async def quota(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            raise PermissionError("quota")

        with pytest.raises(PermissionError, match="quota"):
            await hub.call_tool("mcp__s__a")


async def test_a_non_interceptor_is_refused() -> None:
    async with Hub({"s": echo_server("a")}) as hub:
        with pytest.raises(tc.UsageError, match="async def"):
            hub.intercept(lambda call, proceed: proceed(call))  # type: ignore[call-overload]

        class Counting:
            calls = 0

            async def __call__(self, call: ToolCall, proceed: CallNext) -> tc.ToolResult:
                self.calls += 1
                return await proceed(call)

        counting = hub.intercept(Counting())
        await hub.call_tool("mcp__s__a")
        assert counting.calls == 1


@pytest.mark.parametrize("mistake", ["returns nothing", "proceeds with nothing"])
async def test_a_mistake_in_an_interceptor_is_reported_clearly(mistake: str) -> None:
    async with Hub({"s": echo_server("a")}) as hub:

        @hub.intercept
        async def wrong(call: ToolCall, proceed: CallNext) -> Any:
            if mistake == "returns nothing":
                await proceed(call)
                return None
            return await proceed(call.arguments)  # type: ignore[arg-type]

        with pytest.raises(tc.UsageError, match="proceed"):
            await hub.call_tool("mcp__s__a")


async def test_a_cancelled_caller_cancels_the_whole_chain() -> None:
    left = asyncio.Event()
    server = tc.ToolServer("s")
    began = asyncio.Event()

    @server.tool
    async def wait() -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    async with Hub({"s": server, "e": echo_server()}) as hub:

        @hub.intercept
        async def watch(call: ToolCall, proceed: CallNext) -> tc.ToolResult:
            try:
                return await proceed(call)
            finally:
                left.set()

        calling = asyncio.create_task(hub.call_tool("mcp__s__wait"))
        async with asyncio.timeout(10):
            await began.wait()
            calling.cancel()
            await left.wait()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert not (await hub.call_tool("mcp__e__echo")).is_error


async def test_a_server_that_goes_while_a_person_thinks_takes_only_that_call_with_it() -> None:
    asked, said = asyncio.Event(), asyncio.Event()

    async def approve(call: ToolCall) -> bool:
        asked.set()
        await said.wait()
        return True

    async with Hub(
        {"s": echo_server("a"), "t": echo_server("a")}, require_approval=["mcp__s__*"], approve=approve
    ) as hub:
        calling = asyncio.create_task(hub.call_tool("mcp__s__a"))
        await asked.wait()
        await hub.remove_server("s")
        said.set()
        with pytest.raises(tc.ToolNotFound):
            await calling
        assert not (await hub.call_tool("mcp__t__a")).is_error
