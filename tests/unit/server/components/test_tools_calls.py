"""Functions as tools: calls and their errors."""

from __future__ import annotations

import asyncio
import logging
import threading
from base64 import b64encode
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BeforeValidator

from tests.unit.server.functions_kit import Color, Item, Point, Said, json_values, request, text_of
from toolcrib.errors import RemoteError, ToolFailed, UsageError
from toolcrib.protocol import jsonrpc
from toolcrib.server.components.tools import ToolFunction, tool
from toolcrib.server.context import Context
from toolcrib.types import ToolResult


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


def fails_with(failure: BaseException) -> ToolFunction:
    @tool
    def broken() -> str:
        raise failure

    return broken


# ---- calls


async def test_an_async_function_is_awaited() -> None:
    assert await add.call({"a": 2, "b": 3}, None) == {
        "content": [{"type": "text", "text": "5"}],
        "structuredContent": {"result": 5},
        "_meta": {"dev.toolcrib/wrapped": True},
    }


async def test_a_sync_function_runs_in_a_thread_unless_inline() -> None:
    def where() -> int:
        return threading.get_ident()

    here = threading.get_ident()
    assert (await tool(where).call({}))["structuredContent"] != {"result": here}
    assert (await tool(where, inline=True).call({}))["structuredContent"] == {"result": here}


async def test_structured_and_output_schema_are_the_options_of_the_output() -> None:
    def value() -> Any:
        return {"n": 1}

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert tool(value).output_schema is None
    assert (await tool(value, output_schema=schema).call({}))["structuredContent"] == {"n": 1}
    assert (await tool(value, structured=True).call({}))["structuredContent"] == {"result": {"n": 1}}
    assert await tool(add, structured=False).call({"a": 1, "b": 1}) == {"content": [{"type": "text", "text": "2"}]}


async def test_bytes_have_the_mime_type_of_the_tool() -> None:
    @tool(mime_type="image/png")
    def picture() -> bytes:
        return b"png"

    block = {"type": "image", "data": b64encode(b"png").decode(), "mimeType": "image/png"}
    assert await picture.call({}) == {"content": [block]}


async def test_arguments_become_what_the_function_wants() -> None:
    @tool
    def describe(point: Point, color: Color, items: list[Item]) -> str:
        return f"{point} {color} {items[0].title}"

    arguments = {"point": {"x": 1}, "color": "red", "items": [{"title": "t"}]}
    assert text_of(await describe.call(arguments)) == "Point(x=1, y=0) Color.RED t"


async def test_the_context_reaches_the_function() -> None:
    @tool
    async def crawl(url: str, depth: int = 1, *, ctx: Context) -> str:
        await ctx.progress(1, 10, url)
        return str(ctx.request_id)

    said = Said()
    assert crawl.takes_context and not add.takes_context
    assert text_of(await crawl.call({"url": "u"}, request(said))) == "7"
    assert said.notified == [
        ("notifications/progress", {"progressToken": "t", "progress": 1, "total": 10, "message": "u"})
    ]


# ---- errors


async def test_wrong_arguments_are_a_result_that_names_them_by_the_tools_name(caplog: pytest.LogCaptureFixture) -> None:
    plus = tool(add, name="plus")
    result = await plus.call({"a": "x", "c": 1})
    assert result["isError"] is True
    text = text_of(result)
    assert text.startswith("Invalid arguments for plus: a: Input should be a valid integer")
    assert text.endswith("(got 'x'); b: missing; c: unknown argument")
    assert text_of(await plus.call({"a": "x", "c": 1}, None, True)) == text
    assert caplog.text == ""


@pytest.mark.parametrize(
    "failure, text",
    [
        (ValueError("it broke"), "it broke"),
        (ValueError(), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration(), "coroutine raised StopIteration"),
        (type("Own", (BaseException,), {})("own kind"), "own kind"),
        (UsageError("wrong use"), "wrong use"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "two (2 sub-exceptions)"),
        (ExceptionGroup("one", [ExceptionGroup("in one", [ValueError("inner")])]), "inner"),
    ],
)
async def test_an_exception_is_a_result_with_its_message_and_the_traceback_is_logged(
    failure: BaseException, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken = fails_with(failure)
    assert await broken.call({}) == {"content": [{"type": "text", "text": text}], "isError": True}
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("toolcrib.server.tools", logging.ERROR)
    assert record.exc_info and record.getMessage().startswith("broken failed")
    assert "raise failure" in caplog.text


async def test_a_generator_exit_is_reported_and_a_close_while_waiting_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert text_of(await fails_with(GeneratorExit()).call({})) == "GeneratorExit"

    @tool
    async def wait() -> None:
        await asyncio.Event().wait()

    call = wait.call({})
    call.send(None)
    call.close()
    assert caplog.text == ""


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), asyncio.CancelledError()])
async def test_what_ends_the_program_or_the_call_passes(failure: BaseException) -> None:
    with pytest.raises(type(failure)):
        await fails_with(failure).call({})


async def test_masked_errors_reveal_nothing_but_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    broken = fails_with(ValueError("secret canary"))
    assert await broken.call({}, None, mask_errors=True) == {
        "content": [{"type": "text", "text": "broken failed"}],
        "isError": True,
    }
    assert "secret canary" in caplog.text


async def test_an_exception_whose_str_fails_is_handled() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise TypeError

    assert text_of(await fails_with(Mute()).call({})) == "Mute"


@pytest.mark.parametrize("mask", [False, True])
async def test_tool_failed_is_said_to_the_caller_also_where_errors_are_masked(
    mask: bool, caplog: pytest.LogCaptureFixture
) -> None:
    failed = fails_with(ToolFailed("no such city"))
    assert await failed.call({}, None, mask) == {"content": [{"type": "text", "text": "no such city"}], "isError": True}
    whole = ToolResult({"content": [], "structuredContent": {"code": 4}, "isError": True})
    assert await fails_with(ToolFailed("x", result=whole)).call({}, None, mask) == whole.raw
    assert text_of(await fails_with(ToolFailed()).call({})) == "failed"
    assert caplog.text == ""


@pytest.mark.parametrize("wrap", [lambda exc: exc, lambda exc: ExceptionGroup("group", [exc])])
async def test_a_remote_error_is_the_answer_itself(wrap: Any, caplog: pytest.LogCaptureFixture) -> None:
    error = RemoteError(-32603, "my own", {"k": 1})
    with pytest.raises(RemoteError) as caught:
        await fails_with(wrap(error)).call({}, None, True)
    assert caught.value is error and caplog.text == ""


async def test_a_cancelled_call_is_cancelled() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    call = asyncio.create_task(wait.call({}))
    await asyncio.wait_for(started.wait(), 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_return_that_was_not_promised_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def number() -> int:
        return "x"  # type: ignore[return-value]

    result = await number.call({})
    assert result["isError"] is True and "structuredContent" not in result
    assert text_of(result).startswith("the returned str does not match the annotation")
    assert text_of(await number.call({}, None, True)) == "number failed"
    assert "BadReturn" in caplog.text


async def test_a_validator_that_breaks_is_an_error_like_any_other() -> None:
    def broken(value: Any) -> Any:
        raise RuntimeError("validator broke")

    def function(a: Any) -> None: ...

    function.__annotations__["a"] = Annotated[int, BeforeValidator(broken)]
    assert text_of(await tool(function).call({"a": 1})) == "validator broke"


# ---- properties


@tool
def everything(a: int, b: list[Item] | None = None, c: Color = Color.RED, d: Point | str = "") -> Any:
    return [a, b, c, d]


EVERYTHING = tool(everything, inline=True)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
BY_HAND = tool(lambda args: args, name="by_hand", input_schema=SCHEMA, inline=True)
ANY = tool(lambda args: args, name="any", input_schema={"type": "object"}, inline=True)


def finished(coroutine: Any) -> Any:
    """Return the result of a call that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as exc:
        return exc.value
    raise AssertionError("it waited")


@given(
    st.sampled_from([EVERYTHING, BY_HAND, ANY]),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), json_values) | json_values,
)
def test_any_arguments_give_a_result_that_can_be_written(called: ToolFunction, arguments: Any) -> None:
    result = finished(called.call(arguments))
    assert result.keys() <= {"content", "structuredContent", "isError", "_meta"}
    assert result.get("isError", True) is True
    assert jsonrpc.encode(result)


@given(st.integers(), st.integers())
def test_adding_adds(a: int, b: int) -> None:
    result = finished(add.call({"a": a, "b": b}))
    assert result["structuredContent"] == {"result": a + b} and text_of(result) == str(a + b)
