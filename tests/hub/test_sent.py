"""`sent` of every error that a call through a hub can raise: whether the tool can have been executed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import toolyard as ty
from tests.faults.kit import Yard
from tests.hub.kit import FAST, Hub, bad, outcomes, played
from tests.unit.kit import SILENCE, eventually

NONCE = {"nonce": "n"}


def hub_of(yard: Yard, **options: Any) -> Hub:
    return Hub({"s": yard.server()}, **{"reconnect": FAST, **options})


def deny(_call: ty.Call) -> bool:
    return False


def break_down(_call: ty.Call) -> bool:
    raise ValueError("no")


def late(yard: Yard) -> Hub:
    """A hub whose server never gets its turn to start."""
    stuck = ty.StdioServer("sh", ["-c", f"cat >/dev/null # {yard.directory}"])
    return Hub({"first": stuck, "s": yard.server()}, max_parallel_starts=1, start_timeout=0)


def lost(yard: Yard) -> Hub:
    return Hub({"s": ty.StdioServer("no-such-program")})


def disabled(yard: Yard) -> Hub:
    return Hub.from_config({"mcpServers": {"s": {"command": "x", "disabled": True}}})


def misconfigured(yard: Yard) -> Hub:
    return Hub.from_config({"mcpServers": {"s": {"command": "${NO_SUCH_VARIABLE}"}}}, environ={})


NOT_SENT: dict[str, tuple[Callable[[Yard], Hub], str, dict[str, Any], type[Exception]]] = {
    "an unknown tool": (hub_of, "nothing", {}, ty.ToolNotFound),
    "a rule": (lambda yard: hub_of(yard, disallowed_tools=["mcp__s__echo"]), "echo", {}, ty.AccessDenied),
    "a filter": (lambda yard: hub_of(yard, tool_filter=lambda tool: False), "echo", {}, ty.AccessDenied),
    "no approver": (lambda yard: hub_of(yard, require_approval="always"), "echo", {}, ty.AccessDenied),
    "no approval": (lambda yard: hub_of(yard, require_approval="always", approve=deny), "echo", {}, ty.AccessDenied),
    "a broken approver": (
        lambda yard: hub_of(yard, require_approval="always", approve=break_down),
        "echo",
        {},
        ty.AccessDenied,
    ),
    "a server that cannot start": (lost, "echo", {}, ty.StartError),
    "a server that waits for its turn": (late, "echo", {"timeout": 0.05}, ty.CallTimeout),
    "a disabled server": (disabled, "echo", {}, ty.AccessDenied),
    "a server with wrong settings": (misconfigured, "echo", {}, ty.ConfigError),
    "a wrong time-out": (hub_of, "echo", {"timeout": "soon"}, ty.ConfigError),
}


@pytest.mark.parametrize("why", NOT_SENT)
async def test_a_call_that_was_never_handed_to_the_server_says_so(tmp_path: Path, why: str) -> None:
    yard = bad(tmp_path, "s")
    make, tool, options, expected = NOT_SENT[why]
    async with make(yard) as hub:
        with pytest.raises(expected) as caught:
            await hub.call_tool(f"mcp__s__{tool}", NONCE, **options)
    assert caught.value.sent is False  # type: ignore[attr-defined]
    assert not yard.record.path.exists() or yard.record.executed["n"] == 0


async def test_wrong_use_says_that_nothing_was_sent(tmp_path: Path) -> None:
    async with hub_of(bad(tmp_path, "s")) as hub:
        wrong: list[Any] = [(7, None), ("mcp__s__echo", [1])]
        for name, arguments in wrong:
            with pytest.raises(ty.UsageError) as caught:
                await hub.call_tool(name, arguments)
            assert caught.value.sent is False


async def test_a_call_that_found_no_place_was_not_sent(tmp_path: Path) -> None:
    yard = bad(tmp_path, "s")
    server = (yard.server(), {"lifecycle": "transient", "max_in_flight": 1})
    async with Hub({"s": server}) as hub:
        first = asyncio.create_task(hub.call_tool("mcp__s__silent", {"nonce": "first"}))
        await eventually(lambda: yard.record.executed["first"])
        with pytest.raises(ty.CallTimeout) as caught:
            await hub.call_tool("mcp__s__echo", NONCE, timeout=0.1)
        assert type(caught.value) is ty.CallTimeout and caught.value.sent is False
        first.cancel()
        await outcomes(first)


@pytest.mark.parametrize(
    "tool, options, expected",
    [
        ("refuse", {}, ty.RemoteError),
        ("silent", {"timeout": 0.2}, ty.UnansweredTimeout),
        ("die", {}, ty.OutcomeUnknown),
    ],
)
async def test_a_call_that_was_handed_to_the_server_says_so(
    tmp_path: Path, tool: str, options: dict[str, Any], expected: type[ty.ToolyardError]
) -> None:
    yard = bad(tmp_path, "s")
    async with hub_of(yard) as hub:
        with pytest.raises(expected) as caught:
            await hub.call_tool(f"mcp__s__{tool}", NONCE, **options)
    assert caught.value.sent is True


@pytest.mark.parametrize("answer, expected", [(["odd"], ty.ProtocolError), (SILENCE, ty.OutcomeUnknown)])
async def test_a_call_without_a_usable_answer_may_have_run(answer: Any, expected: type[ty.ToolyardError]) -> None:
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
        server.answers["tools/call"] = ty.RemoteError(-32602, "unknown tool: t")
        with pytest.raises(ty.ToolNotFound) as gone:
            await hub.call_tool("mcp__s__t")
        assert (gone.value.sent, gone.value.server, gone.value.tool) == (True, "s", "t")


async def test_a_server_that_was_removed_before_the_call_was_not_sent_to(tmp_path: Path) -> None:
    async with hub_of(bad(tmp_path, "s")) as hub:

        @hub.intercept
        async def remove(call: ty.Call, proceed: ty.Proceed) -> ty.ToolResult:
            await hub.remove_server("s")
            return await proceed(call)

        with pytest.raises((ty.ConnectionLost, ty.ToolNotFound)) as caught:
            await hub.call_tool("mcp__s__echo", NONCE)
    assert caught.value.sent is False


# ---- interceptors --------------------------------------------------------------------------------------------


class Custom(ty.ToolyardError):
    """An error of a program, which says nothing about `sent`."""


async def refuse_first(_call: ty.Call, _proceed: ty.Proceed) -> ty.ToolResult:
    raise ty.AccessDenied("not today")


async def fail_first(_call: ty.Call, _proceed: ty.Proceed) -> ty.ToolResult:
    raise Custom("not today")


async def refuse_afterwards(call: ty.Call, proceed: ty.Proceed) -> ty.ToolResult:
    await proceed(call)
    raise ty.AccessDenied("too late")


async def fail_afterwards(call: ty.Call, proceed: ty.Proceed) -> ty.ToolResult:
    await proceed(call)
    raise Custom("too late")


async def return_nothing(call: ty.Call, proceed: ty.Proceed) -> Any:
    await proceed(call)


async def send_to_nowhere_afterwards(call: ty.Call, proceed: ty.Proceed) -> ty.ToolResult:
    await proceed(call)
    return await proceed(ty.Call("s", "nothing", "mcp__s__nothing"))


async def send_with_wrong_options_twice(call: ty.Call, proceed: ty.Proceed) -> ty.ToolResult:
    wrong = ty.Call(call.server, call.tool, call.name, call.arguments, call.context, {"timeout": "soon"})
    with pytest.raises(ty.ConfigError):
        await proceed(wrong)
    return await proceed(wrong)


@pytest.mark.parametrize(
    "interceptor, expected, sent",
    [
        (refuse_first, ty.AccessDenied, False),
        (fail_first, Custom, False),
        (send_with_wrong_options_twice, ty.ConfigError, False),
        (refuse_afterwards, ty.AccessDenied, True),
        (fail_afterwards, Custom, True),
        (return_nothing, ty.UsageError, True),
        (send_to_nowhere_afterwards, ty.ToolNotFound, True),
    ],
)
async def test_an_error_of_an_interceptor_says_whether_it_had_sent_the_call(
    tmp_path: Path, interceptor: Callable[[ty.Call, ty.Proceed], Awaitable[Any]], expected: type[Exception], sent: bool
) -> None:
    yard = bad(tmp_path, "s")
    async with hub_of(yard) as hub:
        hub.intercept(interceptor)
        with pytest.raises(expected) as caught:
            await hub.call_tool("mcp__s__echo", NONCE)
    assert caught.value.sent is sent  # type: ignore[attr-defined]
    assert yard.record.executed["n"] == int(sent)


async def test_a_call_that_is_approved_once_and_then_denied_says_that_it_was_sent(tmp_path: Path) -> None:
    yard, answers = bad(tmp_path, "s"), [True, False]
    async with hub_of(yard, require_approval="always", approve=lambda call: answers.pop(0)) as hub:

        @hub.intercept
        async def twice(call: ty.Call, proceed: ty.Proceed) -> ty.ToolResult:
            await proceed(call)
            return await proceed(ty.Call(call.server, call.tool, call.name, {"nonce": "other"}))

        with pytest.raises(ty.AccessDenied) as caught:
            await hub.call_tool("mcp__s__echo", NONCE)
    assert caught.value.sent is True
    assert yard.record.executed == {"n": 1}
