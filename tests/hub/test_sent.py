"""`sent` of every error that a call through a hub can raise: whether the tool can have been executed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import FaultyServer
from tests.hub.kit import FAST, Hub, bad, outcomes, played
from tests.unit.kit import SILENCE, eventually

NONCE = {"nonce": "n"}


def hub_of(faulty: FaultyServer, **options: Any) -> Hub:
    return Hub({"s": faulty.server()}, **{"reconnect": FAST, **options})


def deny(_call: tc.ToolCall) -> bool:
    return False


def break_down(_call: tc.ToolCall) -> bool:
    raise ValueError("no")


def late(faulty: FaultyServer) -> Hub:
    """A hub whose server never gets its turn to start."""
    stuck = tc.StdioServer("sh", ["-c", f"cat >/dev/null # {faulty.directory}"])
    return Hub({"first": stuck, "s": faulty.server()}, max_parallel_starts=1, start_timeout=0)


def lost(faulty: FaultyServer) -> Hub:
    return Hub({"s": tc.StdioServer("no-such-program")})


def disabled(faulty: FaultyServer) -> Hub:
    return Hub.from_config({"mcpServers": {"s": {"command": "x", "disabled": True}}})


def misconfigured(faulty: FaultyServer) -> Hub:
    return Hub.from_config({"mcpServers": {"s": {"command": "${NO_SUCH_VARIABLE}"}}}, environ={})


NOT_SENT: dict[str, tuple[Callable[[FaultyServer], Hub], str, dict[str, Any], type[Exception]]] = {
    "an unknown tool": (hub_of, "nothing", {}, tc.ToolNotFound),
    "a rule": (lambda faulty: hub_of(faulty, disallowed_tools=["mcp__s__echo"]), "echo", {}, tc.AccessDenied),
    "a filter": (lambda faulty: hub_of(faulty, tool_filter=lambda tool: False), "echo", {}, tc.AccessDenied),
    "no approver": (lambda faulty: hub_of(faulty, require_approval="always"), "echo", {}, tc.AccessDenied),
    "no approval": (
        lambda faulty: hub_of(faulty, require_approval="always", approve=deny),
        "echo",
        {},
        tc.AccessDenied,
    ),
    "a broken approver": (
        lambda faulty: hub_of(faulty, require_approval="always", approve=break_down),
        "echo",
        {},
        tc.AccessDenied,
    ),
    "a server that cannot start": (lost, "echo", {}, tc.StartError),
    "a server that waits for its turn": (late, "echo", {"timeout": 0.05}, tc.CallTimeout),
    "a disabled server": (disabled, "echo", {}, tc.AccessDenied),
    "a server with wrong settings": (misconfigured, "echo", {}, tc.ConfigError),
    "a wrong time-out": (hub_of, "echo", {"timeout": "soon"}, tc.ConfigError),
}


@pytest.mark.parametrize("why", NOT_SENT)
async def test_a_call_that_was_never_handed_to_the_server_says_so(tmp_path: Path, why: str) -> None:
    faulty = bad(tmp_path, "s")
    make, tool, options, expected = NOT_SENT[why]
    async with make(faulty) as hub:
        with pytest.raises(expected) as caught:
            await hub.call_tool(f"mcp__s__{tool}", NONCE, **options)
    assert caught.value.sent is False  # type: ignore[attr-defined]
    assert not faulty.record.path.exists() or faulty.record.executed["n"] == 0


async def test_wrong_use_says_that_nothing_was_sent(tmp_path: Path) -> None:
    async with hub_of(bad(tmp_path, "s")) as hub:
        wrong: list[Any] = [(7, None), ("mcp__s__echo", [1])]
        for name, arguments in wrong:
            with pytest.raises(tc.UsageError) as caught:
                await hub.call_tool(name, arguments)
            assert caught.value.sent is False


async def test_a_call_that_found_no_place_was_not_sent(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "s")
    server = (faulty.server(), {"lifecycle": "transient", "max_in_flight": 1})
    async with Hub({"s": server}) as hub:
        first = asyncio.create_task(hub.call_tool("mcp__s__silent", {"nonce": "first"}))
        await eventually(lambda: faulty.record.executed["first"])
        with pytest.raises(tc.CallTimeout) as caught:
            await hub.call_tool("mcp__s__echo", NONCE, timeout=0.1)
        assert type(caught.value) is tc.CallTimeout and caught.value.sent is False
        first.cancel()
        await outcomes(first)


@pytest.mark.parametrize(
    "tool, options, expected",
    [
        ("refuse", {}, tc.RemoteError),
        ("silent", {"timeout": 0.2}, tc.UnansweredTimeout),
        ("die", {}, tc.OutcomeUnknown),
    ],
)
async def test_a_call_that_was_handed_to_the_server_says_so(
    tmp_path: Path, tool: str, options: dict[str, Any], expected: type[tc.ToolcribError]
) -> None:
    faulty = bad(tmp_path, "s")
    async with hub_of(faulty) as hub:
        with pytest.raises(expected) as caught:
            await hub.call_tool(f"mcp__s__{tool}", NONCE, **options)
    assert caught.value.sent is True


@pytest.mark.parametrize("answer, expected", [(["odd"], tc.ProtocolError), (SILENCE, tc.OutcomeUnknown)])
async def test_a_call_without_a_usable_answer_may_have_run(answer: Any, expected: type[tc.ToolcribError]) -> None:
    server = played("t", tools__call=answer)
    async with Hub({"s": server}) as hub:
        calling = asyncio.create_task(hub.call_tool("mcp__s__t"))
        await eventually(lambda: server.named("tools/call"))
        if answer is SILENCE:
            await hub.remove_server("s")
        with pytest.raises(expected) as caught:
            await calling
    assert caught.value.sent is True


async def test_a_tool_that_only_the_server_does_not_know_was_asked_for_there() -> None:
    server = played("t")
    async with Hub({"s": (server, {"lifecycle": "transient"})}) as hub:
        server.answers["tools/list"] = {"tools": []}
        server.answers["tools/call"] = tc.RemoteError(-32602, "unknown tool: t")
        with pytest.raises(tc.ToolNotFound) as gone:
            await hub.call_tool("mcp__s__t")
        assert (gone.value.sent, gone.value.server, gone.value.tool) == (True, "s", "t")


async def test_a_server_that_was_removed_before_the_call_was_not_sent_to(tmp_path: Path) -> None:
    async with hub_of(bad(tmp_path, "s")) as hub:

        @hub.intercept
        async def remove(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            await hub.remove_server("s")
            return await proceed(call)

        with pytest.raises((tc.ConnectionLost, tc.ToolNotFound)) as caught:
            await hub.call_tool("mcp__s__echo", NONCE)
    assert caught.value.sent is False


# ---- interceptors --------------------------------------------------------------------------------------------


class Custom(tc.ToolcribError):
    """An error of a program, which says nothing about `sent`."""


async def refuse_first(_call: tc.ToolCall, _proceed: tc.CallNext) -> tc.ToolResult:
    raise tc.AccessDenied("not today")


async def fail_first(_call: tc.ToolCall, _proceed: tc.CallNext) -> tc.ToolResult:
    raise Custom("not today")


async def refuse_afterwards(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
    await proceed(call)
    raise tc.AccessDenied("too late")


async def fail_afterwards(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
    await proceed(call)
    raise Custom("too late")


async def return_nothing(call: tc.ToolCall, proceed: tc.CallNext) -> Any:
    await proceed(call)


async def send_to_nowhere_afterwards(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
    await proceed(call)
    return await proceed(tc.ToolCall("s", "nothing", "mcp__s__nothing"))


async def send_with_wrong_options_twice(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
    wrong = tc.ToolCall(call.server, call.tool, call.name, call.arguments, call.context, {"timeout": "soon"})
    with pytest.raises(tc.ConfigError):
        await proceed(wrong)
    return await proceed(wrong)


@pytest.mark.parametrize(
    "interceptor, expected, sent",
    [
        (refuse_first, tc.AccessDenied, False),
        (fail_first, Custom, False),
        (send_with_wrong_options_twice, tc.ConfigError, False),
        (refuse_afterwards, tc.AccessDenied, True),
        (fail_afterwards, Custom, True),
        (return_nothing, tc.UsageError, True),
        (send_to_nowhere_afterwards, tc.ToolNotFound, True),
    ],
)
async def test_an_error_of_an_interceptor_says_whether_it_had_sent_the_call(
    tmp_path: Path,
    interceptor: Callable[[tc.ToolCall, tc.CallNext], Awaitable[Any]],
    expected: type[Exception],
    sent: bool,
) -> None:
    faulty = bad(tmp_path, "s")
    async with hub_of(faulty) as hub:
        hub.intercept(interceptor)
        with pytest.raises(expected) as caught:
            await hub.call_tool("mcp__s__echo", NONCE)
    assert caught.value.sent is sent  # type: ignore[attr-defined]
    assert faulty.record.executed["n"] == int(sent)


async def test_a_call_that_is_approved_once_and_then_denied_says_that_it_was_sent(tmp_path: Path) -> None:
    faulty, answers = bad(tmp_path, "s"), [True, False]
    async with hub_of(faulty, require_approval="always", approve=lambda call: answers.pop(0)) as hub:

        @hub.intercept
        async def twice(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
            await proceed(call)
            return await proceed(tc.ToolCall(call.server, call.tool, call.name, {"nonce": "other"}))

        with pytest.raises(tc.AccessDenied) as caught:
            await hub.call_tool("mcp__s__echo", NONCE)
    assert caught.value.sent is True
    assert faulty.record.executed == {"n": 1}
