"""In process: `sent` of every failure says whether the function may have run; it is never False if it ran."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import eventually


class Counting:
    """A server whose functions note that they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.server = tc.ToolServer("s")
        for tool in (self.add, self.fail, self.refuse, self.deny, self.lose, self.slow, self.slow_thread, self.ask):
            self.server.add_tool(tool)
        self.server.add_tool(self.cancel_itself)
        self.server.add_resource(self.broken, "r://broken")
        self.server.add_resource(self.absent, "r://absent")
        self.server.add_prompt(self.explain)

    def add(self, a: int) -> int:
        self.ran.append("add")
        return a

    def fail(self) -> str:
        self.ran.append("fail")
        raise ValueError("no luck")

    def refuse(self, code: int) -> str:
        self.ran.append("refuse")
        raise tc.RemoteError(code, "Unknown tool: refuse")

    def deny(self) -> str:
        self.ran.append("deny")
        raise tc.AccessDenied("not you")

    def lose(self) -> str:
        self.ran.append("lose")
        raise tc.ConnectionLost("a connection of the tool's own")

    async def slow(self) -> str:
        self.ran.append("slow")
        await asyncio.sleep(60)
        return "late"

    def slow_thread(self) -> str:
        self.ran.append("slow_thread")
        time.sleep(0.3)
        return "late"

    async def ask(self, ctx: tc.Context, then: str = "answer") -> str:
        self.ran.append("ask")
        answer = await ctx.elicit("Go on?", {"type": "object", "properties": {}})
        if then == "fail":
            raise tc.RemoteError(-32603, "failed after the answer")
        return answer.action

    async def cancel_itself(self) -> str:
        self.ran.append("cancel_itself")
        raise asyncio.CancelledError

    def broken(self) -> str:
        self.ran.append("broken")
        raise ValueError("no luck")

    def absent(self) -> None:
        self.ran.append("absent")

    def explain(self, a: int) -> str:
        self.ran.append("explain")
        raise ValueError("no luck")


def calls(name: str, timeout: float | None = None, **arguments: Any) -> Callable[[tc.Client], Awaitable[Any]]:
    options = {} if timeout is None else {"timeout": timeout}
    return lambda client: client.call_tool(name, arguments, **options)


async def closes(client: tc.Client) -> Any:
    call = asyncio.ensure_future(client.call_tool("slow"))
    await asyncio.sleep(0.01)
    await client.close()
    return await call


async def closed(client: tc.Client) -> Any:
    await client.close()
    return await client.call_tool("add", {"a": 1})


async def cancels(client: tc.Client) -> Any:
    call = asyncio.ensure_future(client.call_tool("slow"))
    await asyncio.sleep(0.01)
    call.cancel()
    return await call


RESULT, ERROR_RESULT = "a result", "a result that is an error"
# What is done, whether the function runs, and the outcome: a result, or the type of the error and its `sent`.
TABLE: dict[str, tuple[Callable[[tc.Client], Awaitable[Any]], bool, Any]] = {
    "success": (calls("add", a=1), True, RESULT),
    "unknown tool": (calls("nothing"), False, (tc.ToolNotFound, {True, False})),
    "invalid arguments": (calls("add", a="x"), False, ERROR_RESULT),
    "the tool raises": (calls("fail"), True, ERROR_RESULT),
    "the tool raises RemoteError": (calls("refuse", code=-32603), True, (tc.RemoteError, {True})),
    "its RemoteError looks like an unknown tool": (calls("refuse", code=-32602), True, (tc.RemoteError, {True})),
    "its RemoteError looks like an unknown method": (calls("refuse", code=-32601), True, (tc.RemoteError, {True})),
    "the tool raises AccessDenied": (calls("deny"), True, ERROR_RESULT),
    "the tool itself raises an unsent error": (calls("lose"), True, ERROR_RESULT),
    "the tool cancels itself": (calls("cancel_itself"), True, (tc.RemoteError, {True})),
    "the deadline passes": (calls("slow", timeout=0.05), True, (tc.UnansweredTimeout, {True})),
    "the deadline passes in a thread": (calls("slow_thread", timeout=0.05), True, (tc.UnansweredTimeout, {True})),
    "a handler denies": (calls("ask"), True, (tc.RemoteError, {True})),
    "the client closes": (closes, True, (tc.OutcomeUnknown, {True})),
    "the client was closed": (closed, False, (tc.UsageError, {False})),
    "the call is cancelled": (cancels, True, (asyncio.CancelledError, {None})),
    "a resource raises": (lambda client: client.read_resource("r://broken"), True, (tc.RemoteError, {True})),
    "a resource says that it is not there": (
        lambda client: client.read_resource("r://absent"),
        True,
        (tc.ResourceNotFound, {True}),
    ),
    "unknown resource": (lambda client: client.read_resource("r://none"), False, (tc.ResourceNotFound, {True, False})),
    "a prompt raises": (lambda client: client.get_prompt("explain", {"a": "1"}), True, (tc.RemoteError, {True})),
}


def deny(request: Any) -> Any:
    raise tc.AccessDenied("the person may not")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("case", TABLE)
async def test_sent_says_whether_the_function_can_have_run(case: str, mode: Any) -> None:
    do, runs, expected = TABLE[case]
    counting = Counting()
    async with tc.Client(counting.server, mode=mode, elicitation_handler=deny) as client:
        if isinstance(expected, str):
            assert (await do(client)).is_error is (expected == ERROR_RESULT)
        else:
            with pytest.raises(expected[0]) as caught:
                await do(client)
            sent = getattr(caught.value, "sent", None)
            assert sent in expected[1]
            assert not (counting.ran and sent is False)
        assert bool(counting.ran) is runs


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_failure_after_a_question_was_answered_is_sent(mode: Any) -> None:
    counting = Counting()
    async with tc.Client(counting.server, mode=mode, elicitation_handler=lambda request: {}) as client:
        with pytest.raises(tc.RemoteError, match="failed after the answer") as caught:
            await client.call_tool("ask", {"then": "fail"})
        assert (caught.value.sent, counting.ran) == (True, ["ask"])


async def test_a_call_that_waits_for_another_one_and_never_starts_is_unsent() -> None:
    counting = Counting()
    async with tc.Client(counting.server, max_in_flight=1) as client:
        first = asyncio.ensure_future(client.call_tool("slow"))
        await eventually(lambda: counting.ran)
        with pytest.raises(tc.CallTimeout) as caught:
            await client.call_tool("add", {"a": 1}, timeout=0.05)
        assert (caught.value.sent, counting.ran) == (False, ["slow"])
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
