"""Interceptors and approval as functions: their order, and which return values approve a call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from toolcrib.catalog.routing import Route
from toolcrib.errors import AccessDenied, RateLimited, UsageError
from toolcrib.hub.interceptors import CallNext, Interceptors, ToolCall, ask_approver, run
from toolcrib.types import Tool, ToolResult

CALL = ToolCall("s", "t", "mcp__s__t", {"a": 1})
RESULT = ToolResult.from_text("done")


async def passing(call: ToolCall, proceed: CallNext) -> ToolResult:
    return await proceed(call)


async def other(call: ToolCall, proceed: CallNext) -> ToolResult:
    return await proceed(replace(call, arguments={"a": 2}))


def route(name: str) -> Route[str]:
    return Route("owner", Tool(f"mcp__s__{name}"), Tool(name))


async def test_without_interceptors_the_call_goes_straight_to_the_end() -> None:
    ended: list[ToolCall] = []

    async def end(call: ToolCall) -> ToolResult:
        ended.append(call)
        return RESULT

    assert await run((), CALL, end) is RESULT
    assert await run((passing, other), CALL, end) is RESULT
    assert ended == [CALL, replace(CALL, arguments={"a": 2})]


async def test_one_may_proceed_more_than_once_or_not_at_all() -> None:
    ends = 0

    async def end(call: ToolCall) -> ToolResult:
        nonlocal ends
        ends += 1
        return RESULT

    async def twice(call: ToolCall, proceed: CallNext) -> ToolResult:
        await proceed(call)
        return await proceed(call)

    async def never(call: ToolCall, proceed: CallNext) -> ToolResult:
        return ToolResult.from_text("mine")

    await run((twice, twice), CALL, end)
    assert ends == 4
    assert (await run((passing, never, twice), CALL, end)).text == "mine"
    assert ends == 4


def test_a_tools_interceptors_are_chosen_once_and_again_when_there_are_others() -> None:
    interceptors, read, write = Interceptors(), route("read_x"), route("write_x")
    assert interceptors.of(read) == ()
    interceptors.add("mcp__s__read_*", passing)
    assert interceptors.of(read) == (passing,) and interceptors.of(write) == ()
    assert interceptors.of(read) is interceptors.of(read)
    interceptors.add(None, other)
    assert interceptors.of(read) == (passing, other) and interceptors.of(write) == (other,)


@pytest.mark.parametrize("wrong", [None, 5, lambda call, proceed: None, print])
def test_only_async_functions_are_interceptors(wrong: Any) -> None:
    with pytest.raises(UsageError):
        Interceptors().add(None, wrong)


def test_a_call_is_a_value() -> None:
    assert replace(CALL, arguments={"a": 1}) == CALL
    assert hash(CALL) == hash(ToolCall("s", "t", "mcp__s__t"))


async def test_what_an_approver_gives_is_the_call_that_is_sent() -> None:
    edited = replace(CALL, arguments={})

    async def later(call: ToolCall) -> ToolCall:
        return edited

    assert await ask_approver(lambda call: True, CALL, "rule") is CALL
    assert await ask_approver(lambda call: edited, CALL, "rule") is edited
    assert await ask_approver(later, CALL, "rule") is edited


@pytest.mark.parametrize("verdict", [False, None, 1, "yes", object()])
async def test_everything_else_is_a_refusal_with_the_rule(verdict: Any) -> None:
    with pytest.raises(AccessDenied) as denied:
        await ask_approver(lambda call: verdict, CALL, "require_approval: x")
    assert (denied.value.rule, denied.value.server, denied.value.tool) == ("require_approval: x", "s", "t")


async def test_a_toolcrib_error_in_an_approver_is_passed_on() -> None:
    def limited(call: ToolCall) -> bool:
        raise RateLimited("too many questions")

    with pytest.raises(RateLimited):
        await ask_approver(limited, CALL, "rule")
