"""Functions that a hub without an event loop is given: plain or async, and plain ones may block and use the hub."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import run_python, until
from tests.hub.kit import DEMO, echo_server, played
from tests.unit.kit import SILENCE
from toolcrib.hub.interceptors import ToolCall
from toolcrib.sync import Hub, portal

BOUND = 20.0


@pytest.mark.parametrize("is_async", [False, True])
def test_approval_is_given_by_plain_and_async_functions(is_async: bool) -> None:
    threads: list[threading.Thread] = []

    def plain(call: ToolCall) -> Any:
        threads.append(threading.current_thread())
        # A plain one may use the hub itself.
        assert hub.call_tool("mcp__s__free", {"y": 1}).data == {"y": 1}
        return replace(call, arguments={"safe": True}) if call.arguments else False

    async def later(call: ToolCall) -> Any:
        await asyncio.sleep(0)
        return replace(call, arguments={"safe": True}) if call.arguments else False

    approve = later if is_async else plain
    with Hub({"s": echo_server("a", "free")}, require_approval=["mcp__s__a"], approve=approve) as hub:
        assert hub.call_tool("mcp__s__a", {"x": 1}).data == {"safe": True}
        with pytest.raises(tc.AccessDenied, match="not approved"):
            hub.call_tool("mcp__s__a")
    assert threading.current_thread() not in threads and portal._thread not in threads


def test_interceptors_of_both_kinds_form_one_chain() -> None:
    told: list[str] = []
    with Hub({"s": echo_server("a"), "t": echo_server("b")}) as hub:

        @hub.intercept
        def outer(call: ToolCall, proceed: Callable[[ToolCall], tc.ToolResult]) -> tc.ToolResult:
            told.append(f"outer {call.tool}")
            result = proceed(replace(call, arguments={**call.arguments, "outer": 1}))
            told.append(f"outer {result.is_error}")
            return result

        @hub.intercept("mcp__s__*")
        async def middle(call: ToolCall, proceed: Any) -> tc.ToolResult:
            told.append("middle")
            result: tc.ToolResult = await proceed(replace(call, arguments={**call.arguments, "middle": 2}))
            return result

        @hub.intercept()
        def inner(call: ToolCall, proceed: Callable[[ToolCall], tc.ToolResult]) -> tc.ToolResult:
            told.append("inner")
            return proceed(call)

        assert outer.__name__ == "outer" and inspect.iscoroutinefunction(middle)
        assert hub.call_tool("mcp__s__a", {"x": 0}).data == {"x": 0, "outer": 1, "middle": 2}
        assert told == ["outer a", "middle", "inner", "outer False"]
        assert hub.call_tool("mcp__t__b").data == {"outer": 1}


def test_a_plain_interceptor_may_try_again_or_answer_itself_and_its_exception_is_the_outcome() -> None:
    server = played("flaky", "cached", "broken", "stop")
    tries = iter([tc.RemoteError(-32000, "not yet"), {"content": [{"type": "text", "text": "at last"}]}])
    server.answers["tools/call"] = lambda params: next(tries)

    with Hub({"s": server}) as hub:

        @hub.intercept
        def handle(call: ToolCall, proceed: Callable[[ToolCall], tc.ToolResult]) -> Any:
            if call.tool == "cached":
                return tc.ToolResult.from_text("from memory")
            if call.tool == "broken":
                raise LookupError("mine")
            if call.tool == "stop":
                return next(iter(()))
            try:
                return proceed(call)
            except tc.RemoteError:
                return proceed(call)

        assert hub.call_tool("mcp__s__flaky").text == "at last"
        assert hub.call_tool("mcp__s__cached").text == "from memory"
        with pytest.raises(LookupError, match="mine"):
            hub.call_tool("mcp__s__broken")
        with pytest.raises(RuntimeError, match="StopIteration"):
            hub.call_tool("mcp__s__stop", timeout=BOUND)
        with pytest.raises(tc.UsageError, match="interceptor"):
            hub.intercept(7)  # type: ignore[type-var]


def test_a_plain_interceptor_without_a_result_is_reported() -> None:
    with Hub({"s": echo_server("a")}) as hub:
        hub.intercept(lambda call, proceed: proceed(call).text)
        with pytest.raises(tc.UsageError, match="returned str"):
            hub.call_tool("mcp__s__a")


def test_what_the_caller_keeps_in_its_context_goes_through_a_plain_interceptor() -> None:
    """As the span of a trace, of which the call is a part."""
    who = contextvars.ContextVar("who", default="nobody")
    server = tc.ToolServer("s")

    @server.tool
    async def ask() -> str:
        return who.get()

    with Hub({"s": server}) as hub:
        hub.intercept(lambda call, proceed: proceed(call))
        who.set("me")
        assert hub.call_tool("mcp__s__ask").text == "me"


class Interrupt(BaseException):
    """As KeyboardInterrupt is."""


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_interrupted_caller_takes_its_call_with_it_through_plain_interceptors(stubborn: bool) -> None:
    """Nor does one that tries again whatever happens begin anew for a caller who has gone."""
    server = played("t", tools__call=SILENCE)
    over = threading.Event()

    def interrupt(*args: Any) -> None:
        raise Interrupt

    def when_it_waits() -> None:
        until(lambda: server.named("tools/call"))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)  # type: ignore[arg-type]

    before = signal.signal(signal.SIGUSR1, interrupt)
    helper = threading.Thread(target=when_it_waits)
    try:
        with Hub({"s": (server, {"mode": "legacy"})}) as hub:

            @hub.intercept
            def again_and_again(call: ToolCall, proceed: Callable[[ToolCall], tc.ToolResult]) -> Any:
                try:
                    while True:
                        try:
                            return proceed(call)
                        except Exception:
                            if not stubborn:
                                raise
                finally:
                    over.set()

            helper.start()
            with pytest.raises(Interrupt):
                hub.call_tool("mcp__s__t")
            until(lambda: server.named("notifications/cancelled"))
            assert over.wait(BOUND)
            assert len(server.named("tools/call")) == 1
    finally:
        helper.join()
        signal.signal(signal.SIGUSR1, before)


def test_after_an_interrupt_an_interceptor_that_thinks_first_begins_nothing() -> None:
    server = played("t")
    thinking, said, outcome = threading.Event(), threading.Event(), []

    def think(call: ToolCall, proceed: Callable[[ToolCall], tc.ToolResult]) -> Any:
        thinking.set()
        said.wait(BOUND)
        try:
            return proceed(call)
        except BaseException as exc:
            outcome.append(type(exc))
            raise

    async def call(hub: Hub) -> None:
        await hub._twin.call_tool("mcp__s__t")

    with Hub({"s": server}) as hub:
        hub.intercept(think)
        future = asyncio.run_coroutine_threadsafe(call(hub), portal._running())
        assert thinking.wait(BOUND)
        future.cancel()
        portal.call(lambda: asyncio.sleep(0))
        said.set()
        until(lambda: outcome)
        assert outcome == [asyncio.CancelledError]
        assert server.named("tools/call") == []


@pytest.mark.parametrize("way", ["for all", "for one", "added"])
def test_handlers_that_a_server_asks_may_block_and_use_the_hub(way: str) -> None:
    server = tc.ToolServer("asking")

    @server.tool
    async def ask(*, ctx: tc.Context) -> str:
        answer = await ctx.elicit("Go on?", {"type": "object", "properties": {"ok": {"type": "string"}}})
        return str(answer.content)

    def handler(request: tc.ElicitRequest) -> dict[str, str]:
        assert threading.current_thread() is not portal._thread
        return {"ok": hub.call_tool("mcp__echo__echo", {"x": 1}).text}

    options = {"elicitation_handler": handler}
    servers: dict[str, Any] = {"echo": echo_server()}
    if way != "added":
        servers["s"] = server if way == "for all" else (server, options)
    with Hub(servers, **(options if way == "for all" else {})) as hub:
        if way == "added":
            hub.add_server("s", server, **options)
        assert "x" in hub.call_tool("mcp__s__ask", timeout=BOUND).text


def test_progress_and_events_come_to_plain_functions() -> None:
    heard: list[str] = []
    progress: list[float] = []
    with Hub({"demo": tc.StdioServer(sys.executable, [DEMO])}) as hub:
        hub.on(tc.events.Event, lambda event: heard.append(f"{event.server} {type(event).__name__}"))
        hub.call_tool(
            "mcp__demo__slow_count", {"steps": 2, "seconds": 0.01}, on_progress=lambda done, *_: progress.append(done)
        )
    assert progress == [1, 2]
    assert heard[:2] == ["demo ToolExecutionStarted", "demo ToolExecutionCompleted"]


LEAVES = """
import sys, threading
import toolcrib as tc
from toolcrib.sync import Client, Hub

server = tc.ToolServer("s")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

def leave(*given):
    raise {"exit": SystemExit, "interrupt": KeyboardInterrupt}[sys.argv[1]]

options = {"approve": {"require_approval": "always", "approve": leave}, "filter": {"tool_filter": leave}}

def make(kind):
    hub = Hub({"s": server}, **options.get(kind, {}))
    if kind == "interceptor":
        hub.intercept(leave)
    elif kind == "listener":
        hub.on(tc.events.ToolExecutionStarted, leave)
    return hub

def outcome(work):
    said = []
    def run():
        try:
            work()
            said.append("given")
        except BaseException as exc:
            said.append(type(exc).__name__)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    return said[0] if said else "HANGS"

for kind in ("approve", "interceptor", "listener", "filter"):
    hub = make(kind)
    print(kind, outcome(hub.__enter__), outcome(lambda: hub.call_tool("mcp__s__add", {"a": 1, "b": 2})))
    print(outcome(hub.list_servers), outcome(Client(server).__enter__), outcome(hub.close))
"""


@pytest.mark.parametrize("by", ["exit", "interrupt"])
def test_a_function_that_exits_ends_only_its_own_call(by: str) -> None:
    """Runs in a separate program: a failure hangs every client and hub of the process."""
    ran = run_python(LEAVES, by)
    try:
        out, _ = ran.communicate(timeout=60)
    finally:
        ran.kill()
        ran.wait()
    leaving = {"exit": "SystemExit", "interrupt": "KeyboardInterrupt"}[by]
    told = {"approve": "AccessDenied", "interceptor": "RuntimeError", "listener": leaving, "filter": leaving}
    expected = [line for kind, error in told.items() for line in (f"{kind} given {error}", "given given given")]
    assert out.splitlines() == expected
    assert ran.returncode == 0
