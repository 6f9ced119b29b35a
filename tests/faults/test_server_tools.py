"""Misbehaving tools: their client gets an answer, no other request is affected, and no traceback leaves the process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

import toolcrib as tc
from tests.faults.kit import eventually
from tests.faults.server_kit import Tools, serving
from tests.faults.server_wire import LEVEL, call, message, meta, modern
from toolcrib.protocol import jsonrpc
from toolcrib.server.serving.stream_session import StreamSession

SECRET = "password-1f9c"
Ask = Callable[[str], Awaitable[dict[str, Any]]]


class Odd(BaseException):
    """An unusual exception."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


def raising(kind: Callable[[], BaseException]) -> list[Callable[..., Any]]:
    async def plain() -> str:
        raise kind()

    async def with_context(ctx: tc.Context) -> str:
        raise kind()

    async def after_a_word(ctx: tc.Context) -> str:
        await ctx.log("error", "so far so good")
        raise kind()

    def in_thread() -> str:
        raise kind()

    def in_thread_with_context(ctx: tc.SyncContext) -> str:
        raise kind()

    return [plain, with_context, after_a_word, in_thread, in_thread_with_context]


KINDS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("seven is not my favourite"),
    "an empty one": ValueError,
    "KeyError": lambda: KeyError("key"),
    "StopIteration": lambda: StopIteration(5),
    "StopAsyncIteration": lambda: StopAsyncIteration(5),
    "RecursionError": lambda: RecursionError("deep"),
    "MemoryError": MemoryError,
    "TimeoutError": lambda: TimeoutError("slow"),
    "half a surrogate": lambda: ValueError("\ud800"),
    "a mute one": Mute,
    "one of a megabyte": lambda: ValueError("x" * 1_000_000),
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "CancelledError": lambda: asyncio.CancelledError("by itself"),
    "Odd": lambda: Odd("odd"),
    "a group": lambda: ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
    "a group of odd ones": lambda: BaseExceptionGroup("two", [Odd("a"), Odd("b")]),
    "RemoteError": lambda: tc.RemoteError(-32603, "mine"),
    "RemoteError beyond JSON": lambda: tc.RemoteError(-5, "mine", data=object()),
    "RemoteError beyond sense": lambda: tc.RemoteError("five", None),  # type: ignore[arg-type]
    "ToolFailed": lambda: tc.ToolFailed("as intended"),
}


@contextlib.asynccontextmanager
async def over_http(tools: Tools, era: str) -> AsyncIterator[Ask]:
    async with serving(tools, faults=True) as place:
        session = await place.session() if era == "legacy" else {}

        async def ask(tool: str) -> dict[str, Any]:
            request = (
                modern("tools/call", call(tool), **{LEVEL: "info"})
                if era == "modern"
                else message("tools/call", call(tool))
            )
            answer = await place.post(request, session)
            assert answer.status in (200, 400)
            assert b"Traceback" not in answer.body
            body = answer.body
            if answer.header("content-type") == "text/event-stream":
                body = [line for line in body.split(b"\n") if line.startswith(b"data: {")][-1][6:]
            said = json.loads(body)
            assert isinstance(said, dict)
            assert said["id"] == 1
            return said

        yield ask
        await place.quiet()
        assert [fault for fault in place.faults if "ASGI" in fault or "never retrieved" in fault] == []


@contextlib.asynccontextmanager
async def over_a_stream(tools: Tools, era: str) -> AsyncIterator[Ask]:
    said: list[Any] = []
    session = StreamSession(tools.server.router, lambda one: said.append(json.loads(jsonrpc.encode(one))))
    if era == "legacy":
        session.feed(message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, 0))

    async def ask(tool: str) -> dict[str, Any]:
        params = call(tool) | ({"_meta": meta(**{LEVEL: "info"})} if era == "modern" else {})
        said.clear()
        session.feed(message("tools/call", params))
        found: Any = await eventually(lambda: next((each for each in said if each.get("id") == 1), None))
        assert isinstance(found, dict)
        return found

    yield ask
    await session.close()


@contextlib.asynccontextmanager
async def in_process(tools: Tools, era: str) -> AsyncIterator[Ask]:
    async with tc.Client(tools.server, mode="legacy" if era == "legacy" else "auto") as client:

        async def ask(tool: str) -> dict[str, Any]:
            try:
                result = await client.call_tool(tool, timeout=5)
            except tc.RemoteError as exc:
                return {"id": 1, "error": {"code": exc.code, "message": exc.message}}
            return {"id": 1, "result": {"isError": result.is_error}}

        yield ask


WAYS = {"http": over_http, "stream": over_a_stream, "process": in_process}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_whatever_a_tool_raises_its_client_gets_one_answer(era: str, way: str) -> None:
    tools, named = Tools(), {}
    for number, (kind, make) in enumerate(KINDS.items()):
        for function in raising(make):
            name = f"{function.__name__}_{number}"
            tools.server.add_tool(function, name=name)
            named[name] = f"{kind} in {function.__name__}"
    async with WAYS[way](tools, era) as ask:
        for name, what in named.items():
            said = await ask(name)
            assert ("error" in said) or said["result"]["isError"] is True, what
            if "error" in said:
                assert type(said["error"]["code"]) is int, what
                assert type(said["error"]["message"]) is str, what
            assert "Traceback" not in json.dumps(said), what
            assert 'File "' not in json.dumps(said), what


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_masked_errors_keep_their_words_for_the_log(era: str, caplog: pytest.LogCaptureFixture) -> None:
    tools = Tools(mask_errors=True)

    @tools.server.tool
    async def leaky(number: int = 1) -> str:
        raise RuntimeError(f"db://user:{SECRET}@host")

    @tools.server.tool
    def leaky_too(ctx: tc.SyncContext) -> str:
        raise OSError(f"/home/{SECRET}")

    @tools.server.tool
    async def honest() -> str:
        raise tc.ToolFailed("try another number")

    async with over_http(tools, era) as ask:
        for tool in ("leaky", "leaky_too"):
            said = await ask(tool)
            assert said["result"]["isError"] is True
            assert SECRET not in json.dumps(said)
            assert tool in json.dumps(said)
        assert "try another number" in json.dumps(await ask("honest"))
    records = [record for record in caplog.records if record.name == "toolcrib.server.tools"]
    assert [record.levelno for record in records] == [logging.ERROR] * 2
    assert caplog.text.count(SECRET) >= 2


class Unsayable:
    """An object that JSON cannot represent."""


def circle() -> list[Any]:
    one: list[Any] = []
    one.append(one)
    return one


def deep(levels: int) -> list[Any]:
    one: list[Any] = []
    for _ in range(levels):
        one = [one]
    return one


RETURNS: dict[str, Any] = {
    "an object": Unsayable,
    "a list of objects": lambda: [Unsayable()],
    "NaN": lambda: float("nan"),
    "infinity": lambda: {"a": [float("inf")]},
    "a set of objects": lambda: {Unsayable()},
    "a function": lambda: print,
    "a coroutine": lambda: asyncio.sleep(0, Unsayable()),
    "a generator": lambda: (Unsayable() for _ in range(3)),
    "bytes that are not UTF-8": lambda: {"a": b"\xff\xfe"},
    "half a surrogate": lambda: {"a": "\ud800"},
    "a key that is not a string": lambda: {(1, 2): 3},
    "a huge integer": lambda: 10**5_000,
    "a circle": circle,
    "a deep list": lambda: deep(100_000),
    "a result that lies": lambda: tc.ToolResult.from_wire({"content": [{"type": "text", "text": Unsayable()}]}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_what_a_tool_returns_beyond_json_is_an_answer_all_the_same(era: str, way: str) -> None:
    tools, named = Tools(), {}
    for number, (what, value) in enumerate(RETURNS.items()):
        for function in giving(value):
            name = f"{function.__name__}_{number}"
            tools.server.add_tool(function, name=name)
            named[name] = f"{what} of {function.__name__}"
    async with WAYS[way](tools, era) as ask:
        for name, what in named.items():
            said = await ask(name)
            assert ("result" in said) != ("error" in said), what


def giving(value: Callable[[], Any]) -> list[Callable[..., Any]]:
    async def give_any(ctx: tc.Context) -> Any:
        made = value()
        return await made if asyncio.iscoroutine(made) else made

    async def give_dict() -> dict[str, Any]:
        made = value()
        return cast(dict[str, Any], await made if asyncio.iscoroutine(made) else made)

    def give():  # type: ignore[no-untyped-def]
        return value()

    return [give_any, give_dict, give]


async def test_a_notification_that_is_not_json_fails_only_there(era: str) -> None:
    tools, caught = Tools(), []

    @tools.server.tool
    async def mumble(ctx: tc.Context) -> str:
        for tell in (
            lambda: ctx.progress(1, message=object()),  # type: ignore[arg-type]
            lambda: ctx.log("error", float("nan")),
            lambda: ctx.log("error", "x", logger=object()),  # type: ignore[arg-type]
        ):
            try:
                await tell()
            except (tc.UsageError, ValueError, TypeError) as exc:
                caught.append(exc)
            for _ in range(10):
                await asyncio.sleep(0)
        await ctx.progress(2)
        return "still here"

    async with serving(tools) as place:
        session = await place.session() if era == "legacy" else {}
        params = {**call("mumble"), "_meta": {"progressToken": "t"}}
        request = (
            message("tools/call", params)
            if era == "legacy"
            else modern("tools/call", call("mumble"), progressToken="t", **{LEVEL: "info"})
        )
        line = await place.begin(request, session)
        assert (await line.head()).status == 200
        *_, progress, last = await line.messages()
        assert progress["params"]["progress"] == 2
        assert last["result"]["content"][0]["text"] == "still here"
        assert caught


# ---- tools that take long ------------------------------------------------------------------------------------


async def test_tools_that_block_a_thread_block_no_other_call(era: str) -> None:
    tools, release = Tools(), threading.Event()

    @tools.server.tool
    def block() -> str:
        tools.ran["block"] += 1
        release.wait(30)
        return "unblocked"

    async with serving(tools) as place:
        session = await place.session() if era == "legacy" else {}

        def request(tool: str, arguments: Any = None, id: int = 0) -> dict[str, Any]:
            params = call(tool, arguments)
            return message("tools/call", params, id) if era == "legacy" else modern("tools/call", params, id)

        try:
            lines = [await place.begin(request("block", id=number), session) for number in range(40)]
            await eventually(lambda: place.ran["block"] >= 5)
            async with asyncio.timeout(2):
                assert (await place.post(request("add", {"a": 1, "b": 2}, 100), session)).text == "3"
                assert (await place.post(request("echo", {"text": "me too"}, 101), session)).text == "me too"
        finally:
            release.set()
        assert {(await line.answer()).text for line in lines} == {"unblocked"}
        assert place.ran["block"] == 40


async def test_a_tool_that_ignores_its_cancellation_sends_no_answer(era: str) -> None:
    tools = Tools()

    @tools.server.tool
    async def stubborn() -> str:
        tools.ran["stubborn"] += 1
        while not tools.release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await tools.release.wait()
                break
            tools.cancelled["stubborn"] += 1
        return "I stayed"

    async with serving(tools) as place:
        if era == "modern":
            line = await place.begin(modern("tools/call", call("stubborn")))
            await eventually(lambda: place.ran["stubborn"])
            line.cut()
        else:
            session = await place.session()
            line = await place.begin(message("tools/call", call("stubborn"), 3), session)
            await eventually(lambda: place.ran["stubborn"])
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
            assert (await place.post(note, session)).status == 202
        await eventually(lambda: place.tools.cancelled["stubborn"], within=2)
        tools.release.set()
        if era == "legacy":
            assert (await line.answer()).status == 200
        await place.quiet()


async def test_a_tool_that_leaves_tasks_behind_is_not_waited_for() -> None:
    tools, left = Tools(), []

    @tools.server.tool
    async def litter(ctx: tc.Context) -> str:
        async def later() -> None:
            await tools.release.wait()
            await ctx.log("error", "too late")
            await ctx.progress(5)
            with pytest.raises(tc.UsageError):
                await ctx.elicit("anybody?")
            tools.ran["later"] += 1

        left.append(asyncio.create_task(later()))
        return "done"

    async with serving(tools) as place:
        answer = await place.post(modern("tools/call", call("litter"), progressToken=1, **{LEVEL: "debug"}))
        assert (answer.text, answer.header("content-type")) == ("done", "application/json")
        tools.release.set()
        await asyncio.gather(*left)
        assert place.ran["later"] == 1


async def test_a_result_of_twenty_megabytes_is_brought_out_whole(era: str) -> None:
    tools = Tools()

    @tools.server.tool
    async def much() -> str:
        return "x" * 20_000_000

    async with serving(tools) as place:
        session = await place.session() if era == "legacy" else {}
        request = message("tools/call", call("much")) if era == "legacy" else modern("tools/call", call("much"))
        answer = await place.post(request, session)
        assert len(answer.text) == 20_000_000
