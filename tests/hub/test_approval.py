"""An approval is valid for one call only: not for another, a later or another caller's call. A denial is final."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import noise_in, run_python
from tests.hub.kit import Hub, echo_server, listing, names, outcomes, played
from tests.unit.kit import eventually

WIPE = "mcp__s__wipe"


class Disk:
    """Return a server whose one tool must not run without approval."""

    def __init__(self) -> None:
        self.wiped: list[str] = []
        self.server = tc.ToolServer("s")
        self.server.add_tool(self.wipe)

    async def wipe(self, path: str) -> str:
        self.wiped.append(path)
        return path


Approver = Callable[[tc.ToolCall], Awaitable[Any] | Any]


def guarded(disk: Disk, approve: Approver) -> Hub:
    return Hub({"s": disk.server}, require_approval="always", approve=approve)


async def test_a_call_that_was_denied_is_not_sent_by_trying_again() -> None:
    disk, asked = Disk(), []

    def never(call: tc.ToolCall) -> bool:
        asked.append(call.arguments)
        return False

    async with guarded(disk, never) as hub:

        @hub.intercept
        async def stubborn(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            for _ in range(3):
                with pytest.raises(tc.AccessDenied):
                    await proceed(call)
            return await proceed(call)

        with pytest.raises(tc.AccessDenied):
            await hub.call_tool(WIPE, {"path": "/"})
    assert disk.wiped == [] and asked == [{"path": "/"}] * 4


async def test_a_call_that_was_edited_is_sent_as_edited_each_time() -> None:
    disk = Disk()

    def edit(call: tc.ToolCall) -> tc.ToolCall:
        return replace(call, arguments={"path": "/safe"})

    async with guarded(disk, edit) as hub:

        @hub.intercept
        async def twice(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            await proceed(call)
            return await proceed(call)

        await hub.call_tool(WIPE, {"path": "/"})
    assert disk.wiped == ["/safe", "/safe"]


@pytest.mark.parametrize("when", ["after the yes", "while they think"])
async def test_arguments_that_change_after_they_were_shown_were_not_approved(when: str) -> None:
    disk, asked = Disk(), []
    seen, said = asyncio.Event(), asyncio.Event()

    async def approve(call: tc.ToolCall) -> bool:
        asked.append(call.arguments["path"])
        seen.set()
        await said.wait()
        return call.arguments["path"] == "/scratch"

    async with guarded(disk, approve) as hub:

        @hub.intercept
        async def change(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            going = asyncio.ensure_future(proceed(call))
            await seen.wait()
            arguments: Any = call.arguments
            if when == "while they think":
                arguments["path"] = "/etc"
            said.set()
            result = await going
            if when == "after the yes":
                arguments["path"] = "/etc"
                return await proceed(call)
            return result

        ((outcome),) = await outcomes(hub.call_tool(WIPE, {"path": "/scratch"}))
    assert "/etc" not in disk.wiped
    if when == "after the yes":
        assert isinstance(outcome, tc.AccessDenied) and asked == ["/scratch", "/etc"]
    else:
        assert outcome.text == "/scratch" and asked == ["/scratch"]


async def test_what_an_approver_keeps_does_not_change_what_is_sent() -> None:
    disk, kept = Disk(), []

    def approve(call: tc.ToolCall) -> bool:
        kept.append(call)
        return True

    async with guarded(disk, approve) as hub:

        @hub.intercept
        async def later(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            await proceed(call)
            kept[0].arguments["path"] = "/etc"
            return await proceed(call)

        await hub.call_tool(WIPE, {"path": "/scratch"})
    assert disk.wiped == ["/scratch", "/scratch"] and len(kept) == 1


@pytest.mark.parametrize("verdict", [True, False])
async def test_two_at_once_of_one_call_wait_for_one_answer(verdict: bool) -> None:
    disk, asked, said = Disk(), [], asyncio.Event()

    async def think(call: tc.ToolCall) -> bool:
        asked.append(call)
        await said.wait()
        return verdict

    async with guarded(disk, think) as hub:

        @hub.intercept
        async def hedge(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            both = [asyncio.ensure_future(proceed(call)) for _ in range(2)]
            done, _ = await asyncio.wait(both, timeout=0.05)
            assert not done and disk.wiped == [], "nothing runs while the approver decides"
            said.set()
            results = await outcomes(*both)
            return next((each for each in results if isinstance(each, tc.ToolResult)), tc.ToolResult.from_error("no"))

        result = await hub.call_tool(WIPE, {"path": "/"})
    assert result.is_error is not verdict
    assert disk.wiped == (["/", "/"] if verdict else [])
    assert len(asked) == (1 if verdict else 2), "a yes is remembered for this call, a no is not taken for a yes"


async def test_the_yes_of_one_caller_is_not_anothers() -> None:
    disk, asked = Disk(), []

    def first_only(call: tc.ToolCall) -> bool:
        asked.append(call)
        return len(asked) == 1

    async with guarded(disk, first_only) as hub:
        await hub.call_tool(WIPE, {"path": "/a"})
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool(WIPE, {"path": "/a"})
    assert disk.wiped == ["/a"] and len(asked) == 2


async def test_the_interceptors_of_a_tool_see_whatever_is_sent_to_it() -> None:
    """An interceptor of another tool, or the approver itself, changes them."""
    seen: list[tuple[str, str]] = []

    def elsewhere(call: tc.ToolCall) -> tc.ToolCall:
        return replace(call, server="t", tool="x", name="mcp__t__x")

    async with Hub({"s": echo_server("a", "b"), "t": echo_server("x")}) as hub:

        @hub.intercept
        async def everything(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            seen.append(("everything", call.name))
            return await proceed(call)

        @hub.intercept("mcp__s__a")
        async def sends(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            return await proceed(elsewhere(call))

        @hub.intercept("mcp__t")
        async def audit(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            seen.append(("audit", call.name))
            return await proceed(call)

        await hub.call_tool("mcp__s__a", {"n": 1})
        assert seen == [("everything", "mcp__s__a"), ("audit", "mcp__t__x")]
        seen.clear()
        await hub.call_tool("mcp__t__x", {"n": 1})
        assert seen == [("everything", "mcp__t__x"), ("audit", "mcp__t__x")]


@pytest.mark.parametrize("pattern", ["s__*", "mcp_s__*", "wipe", "", " mcp__s__*", "mcp__a b__c"])
async def test_an_interceptor_that_could_see_no_call_is_an_error_that_names_its_pattern(pattern: str) -> None:
    hub = Hub({"s": echo_server("a")})
    with pytest.raises(tc.ConfigError) as refused:

        @hub.intercept(pattern)
        async def audit(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            raise AssertionError("never asked")

    assert refused.value.key == "intercept" and repr(pattern) in str(refused.value)


async def test_a_ban_by_alias_is_a_ban() -> None:
    """Models and logs show the alias, so rules are written with it."""
    odd, long = "delete.repo", "delete_" + "x" * 70
    async with Hub({"s": echo_server(odd, long, "read")}) as hub:
        aliases = [hub.alias(f"mcp__s__{tool}") for tool in (odd, long)]
    async with Hub({"s": echo_server(odd, long, "read")}, disallowed_tools=aliases) as hub:
        assert names(await hub.list_tools()) == ["mcp__s__read"]
        for tool, alias in zip((odd, long), aliases, strict=True):
            for name in (alias, f"mcp__s__{tool}"):
                with pytest.raises(tc.AccessDenied) as denied:
                    await hub.call_tool(name)
                assert denied.value.rule == f"disallowed_tools: {alias}"
                assert hub.explain(name) == f"denied by disallowed_tools: {alias}"


async def test_an_empty_list_that_is_a_filter_lets_nothing_through() -> None:
    class Allow(set[str]):
        def __call__(self, tool: tc.Tool) -> bool:
            return tool.name in self

    async with Hub({"s": (echo_server("a"), {"tool_filter": Allow()})}) as hub:
        assert await hub.list_tools() == []
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool("mcp__s__a")
    async with Hub({"s": (echo_server("a"), {"tool_filter": Allow({"a"})})}) as hub:
        assert names(await hub.list_tools()) == ["mcp__s__a"]


async def test_a_view_explains_its_meta_tools_and_does_not_load_them() -> None:
    async with Hub({"s": echo_server("a")}) as hub:
        view = hub.view(meta_tools=True)
        for name in ("search_tools", "call_tool"):
            assert name in names(await view.list_tools())
            assert view.explain(name).startswith("allowed")
            with pytest.raises(tc.ToolNotFound):
                await view.load_tools(name)
            assert "allowed" not in hub.view().explain(name)
        assert view.loaded == ()


# ---- calls while an approver decides -------------------------------------------------------------------------


class Thinking:
    """An approver that approves on demand."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.says: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def __call__(self, call: tc.ToolCall) -> Any:
        self.asked.set()
        return await self.says


async def test_a_yes_is_not_for_a_server_that_took_the_name_meanwhile() -> None:
    person, one, other = Thinking(), Disk(), Disk()
    async with guarded(one, person) as hub:
        calling = asyncio.create_task(hub.call_tool(WIPE, {"path": "/"}))
        await person.asked.wait()
        await hub.remove_server("s")
        await hub.add_server("s", other.server)
        person.says.set_result(True)
        with pytest.raises(tc.AccessDenied, match="changed while"):
            await calling
    assert one.wiped == other.wiped == []


async def test_a_yes_is_not_for_a_tool_that_became_another_meanwhile() -> None:
    person, disk = Thinking(), Disk()
    async with guarded(disk, person) as hub:
        calling = asyncio.create_task(hub.call_tool(WIPE, {"path": "/"}))
        await person.asked.wait()
        disk.server.remove_tool("wipe")
        disk.server.add_tool(disk.wipe, name="wipe", description="Wipe the disk of somebody else")
        await hub.refresh("s")
        person.says.set_result(True)
        with pytest.raises(tc.AccessDenied, match="changed while"):
            await calling
    assert disk.wiped == []


async def test_a_yes_holds_though_the_server_has_got_another_tool_meanwhile() -> None:
    person, disk = Thinking(), Disk()
    async with guarded(disk, person) as hub:
        calling = asyncio.create_task(hub.call_tool(WIPE, {"path": "/a"}))
        await person.asked.wait()
        disk.server.add_tool(lambda: "x", name="other")
        await hub.refresh("s")
        assert len(await hub.list_tools()) == 2
        person.says.set_result(True)
        assert (await calling).text == "/a"
    assert disk.wiped == ["/a"]


@pytest.mark.parametrize("verdict", ["no", "to a hidden tool"])
async def test_a_denial_is_sent_once_to_listeners(verdict: str) -> None:
    def approve(call: tc.ToolCall) -> Any:
        return False if verdict == "no" else replace(call, tool="hidden", name="mcp__s__hidden")

    rules: dict[str, Any] = {"require_approval": ["mcp__s__a"], "disallowed_tools": ["mcp__s__hidden"]}
    async with Hub({"s": echo_server("a", "hidden")}, approve=approve, **rules) as hub:
        heard: list[tc.events.ToolExecutionFailed] = []
        hub.on(tc.events.ToolExecutionFailed, heard.append)
        with pytest.raises(tc.AccessDenied) as denied:
            await hub.call_tool("mcp__s__a")
        assert len(heard) == 1 and isinstance(heard[0].error, tc.AccessDenied)
        assert str(heard[0].error) == str(denied.value)


# ---- interceptors that go again ------------------------------------------------------------------------------


async def test_an_interceptor_that_was_removed_sees_no_further_calls() -> None:
    seen: list[str] = []
    async with Hub({"s": echo_server("a")}) as hub:

        async def audit(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            seen.append(call.name)
            return await proceed(call)

        hub.intercept(audit)
        hub.intercept("mcp__s__*")(audit)
        await hub.call_tool("mcp__s__a")
        hub.remove_interceptor(audit)
        await hub.call_tool("mcp__s__a")
        assert seen == ["mcp__s__a"] * 2, "in both of its places, and then in none"


async def test_the_name_of_a_banned_tool_is_not_given_away_by_one_that_vanished() -> None:
    secret = "drop_table_secret_payroll"
    server = played("drop_table_secret", secret, tools__call=tc.RemoteError(-32602, "no such tool"))
    async with Hub({"s": server}, disallowed_tools=[f"mcp__s__{secret}"]) as hub:
        server.answers["tools/list"] = listing(secret)
        await hub._servers.by_name["s"].clients.client.list_tools(use_cache=False)  # type: ignore[union-attr]  # the hub's is older
        with pytest.raises(tc.ToolNotFound) as failed:
            await hub.call_tool("mcp__s__drop_table_secret")
        assert "payroll" not in str(failed.value)
        assert failed.value.nearest == ()


# ---- approvers that block ------------------------------------------------------------------------------------


async def test_other_tasks_go_on_while_a_plain_function_waits_for_an_answer() -> None:
    disk, asked, answer = Disk(), threading.Event(), threading.Event()

    def person(_call: tc.ToolCall) -> bool:
        asked.set()
        return answer.wait(30)

    async with guarded(disk, person) as hub:
        calling = asyncio.ensure_future(hub.call_tool(WIPE, {"path": "/a"}))
        await eventually(asked.is_set)  # the loop runs while the approver blocks
        answer.set()
        assert (await calling).text == "/a"


async def test_a_call_that_is_cancelled_ends_at_once_and_a_late_yes_is_ignored() -> None:
    disk, asked, answer, answered = Disk(), threading.Event(), threading.Event(), threading.Event()

    def person(_call: tc.ToolCall) -> bool:
        asked.set()
        answer.wait(30)
        answered.set()
        return True

    async with guarded(disk, person) as hub:
        calling = asyncio.ensure_future(hub.call_tool(WIPE, {"path": "/a"}))
        await eventually(asked.is_set)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert not answered.is_set()
        answer.set()
        await eventually(answered.is_set)
        await asyncio.sleep(0)
    assert disk.wiped == []


async def test_a_plain_approver_sees_the_context_variables_of_the_caller() -> None:
    disk, caller = Disk(), contextvars.ContextVar("caller", default="")
    async with guarded(disk, lambda _: caller.get() == "ada") as hub:
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool(WIPE, {"path": "/a"})
        caller.set("ada")
        await hub.call_tool(WIPE, {"path": "/a"})
    assert disk.wiped == ["/a"]


@pytest.mark.parametrize("raised", [ValueError, StopIteration, SystemExit, KeyboardInterrupt])
async def test_whatever_a_plain_approver_raises_is_a_no(raised: type[BaseException]) -> None:
    disk = Disk()

    def broken(_call: tc.ToolCall) -> bool:
        raise raised

    async with guarded(disk, broken) as hub:
        with pytest.raises(tc.AccessDenied, match="not approved"):
            await hub.call_tool(WIPE, {"path": "/a"})
    assert disk.wiped == []


async def test_a_plain_function_that_returns_a_coroutine_is_awaited() -> None:
    disk = Disk()

    async def later(call: tc.ToolCall) -> bool:
        return call.arguments["path"] == "/a"

    async with guarded(disk, lambda call: later(call)) as hub:  # noqa: PLW0108  # a plain function
        await hub.call_tool(WIPE, {"path": "/a"})
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool(WIPE, {"path": "/b"})
    assert disk.wiped == ["/a"]


def test_a_program_ends_though_an_approver_still_waits() -> None:
    program = run_python(
        """
import asyncio, threading
import toolcrib as tc
server = tc.ToolServer("s")
server.add_tool(lambda: "ran", name="t")

async def main():
    async with tc.Hub({"s": server}, require_approval="always", approve=lambda call: threading.Event().wait()) as hub:
        try:
            await asyncio.wait_for(hub.call_tool("mcp__s__t"), 0.1)
        except TimeoutError:
            print("timed out")

asyncio.run(main())
"""
    )
    try:
        stdout, stderr = program.stdout, program.stderr
        assert stdout is not None and stderr is not None
        assert program.wait(30) == 0
        assert stdout.read() == "timed out\n"
        assert noise_in(stderr.read()) == []
    finally:
        program.kill()
        program.communicate()
