"""Signatures of functions that take JSON arguments."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import threading
import typing
from typing import Any, Optional

import pytest
from pydantic import BaseModel

import toolcrib as tc
from tests.unit.server.functions_kit import Point, Said, request
from toolcrib.errors import UsageError
from toolcrib.server.context import Context, SyncContext
from toolcrib.server.functions.signature import BadArguments, Signature

if typing.TYPE_CHECKING:
    from nowhere import Missing


# ---- invalid functions


def test_star_args_are_refused_with_what_to_do() -> None:
    def join(*parts: str) -> str:
        return "".join(parts)

    with pytest.raises(UsageError, match=r"join: .*\*parts cannot be; use parts: list\[\.\.\.\] instead"):
        Signature(join)


def test_positional_only_is_refused_with_what_to_do() -> None:
    def half(number: int, /) -> float:
        return number / 2

    with pytest.raises(UsageError, match=r"half: .*the positional-only number cannot be; remove the `/`"):
        Signature(half)
    with pytest.raises(UsageError, match="wrap"):
        Signature(abs)


def test_a_callable_without_a_signature_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot inspect the signature"):
        Signature(iter)


def test_a_name_that_cannot_be_resolved_is_reported_with_function_and_parameter() -> None:
    def function(a: Missing) -> None: ...

    with pytest.raises(UsageError, match=r"function: the annotation 'Missing' of a cannot be resolved: name 'Missing'"):
        Signature(function)


def test_an_unresolved_return_only_means_that_nothing_is_known_of_it(caplog: pytest.LogCaptureFixture) -> None:
    def function(a: int) -> Missing: ...

    assert Signature(function).returns is Signature(lambda: None).returns
    assert "'Missing' of return cannot be resolved" in caplog.text


# ---- resolving


def test_local_classes_are_found_behind_text_annotations() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    def function(a: Local, b: list[Local], c: Optional["Local"] = None) -> Local:  # noqa: UP037, UP045
        return a

    signature = Signature(function)
    assert signature.bind({"a": {"x": 1}, "b": [{"x": "2"}]}) == {"a": Local(1), "b": [Local(2)]}
    assert signature.returns is Local


def test_a_closure_is_looked_into_after_its_function_has_ended() -> None:
    def make() -> Any:
        class Local(BaseModel):
            x: int

        def function(a: Local) -> int:
            return Local(x=a.x).x

        return function, Local

    function, local = make()
    assert Signature(function).bind({"a": {"x": 1}}) == {"a": local(x=1)}


class Around:
    @dataclasses.dataclass
    class Inner:
        x: int

    def list(self) -> None:
        """Named like a type that the next one needs."""

    def method(self, inner: Inner, points: list[Point]) -> None: ...

    read = Signature(method, method=True)


def test_names_of_a_class_body_count_only_where_nothing_else_has_them() -> None:
    bound = Around.read.bind({"inner": {"x": 1}, "points": [{"x": 2}]})
    assert bound == {"inner": Around.Inner(1), "points": [Point(2)]}


def test_a_local_class_takes_precedence_over_one_of_the_module() -> None:
    @dataclasses.dataclass
    class Point:
        z: str

    def function(a: Point) -> None: ...

    assert Signature(function).bind({"a": {"z": "z"}}) == {"a": Point("z")}


def test_names_of_functions_that_only_run_by_chance_do_not_count() -> None:
    def read() -> Signature:
        Missing = int  # noqa: F841, N806  # not around the function
        return Signature(function)

    def function(a: Missing) -> None: ...

    with pytest.raises(UsageError, match="name 'Missing' is not defined"):
        read()


# ---- other callables


def test_partials_methods_and_objects_have_names_texts_and_parameters() -> None:
    class Counter:
        """A counter."""

        def add(self, by: int = 1) -> int:
            """Count on."""
            return by

        async def __call__(self, start: int) -> int:
            return start

    def scaled(value: float, factor: float) -> float:
        """Scale it."""
        return value * factor

    method, called = Signature(Counter().add), Signature(Counter())
    part = Signature(functools.partial(scaled, factor=2.0))
    assert (method.name, method.description, list(method.schema["properties"])) == ("add", "Count on.", ["by"])
    assert (called.name, called.description, called.is_async) == ("Counter", "A counter.", True)
    assert (part.name, part.description, part.schema.get("required")) == ("scaled", "Scale it.", ["value"])
    assert part.schema["properties"]["factor"] == {"type": "number", "default": 2.0}


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    def function(a: Point) -> int:
        """The inner one."""
        return a.x

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    signature = Signature(wrapper)
    assert signature.description == "The inner one."
    assert signature.function(**signature.bind({"a": {"x": 4}})) == 4


# ---- the context


@pytest.mark.parametrize(
    "annotation", ["Context", "Context | None", "Optional[Context]", "tc.Context", "typing.Annotated[Context, 1]"]
)
def test_the_context_is_not_part_of_the_schema(annotation: str) -> None:
    async def function(a: int, ctx: Any) -> Any:
        return ctx

    function.__annotations__["ctx"] = annotation
    signature = Signature(function)
    assert signature.context_parameter == "ctx"
    assert signature.schema == {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with pytest.raises(BadArguments, match="ctx: unknown argument"):
        signature.bind({"a": 1, "ctx": {}})


async def test_an_async_function_gets_the_context_itself() -> None:
    async def function(a: int, *, ctx: Context) -> Any:
        await ctx.progress(1, 2)
        return ctx

    said = Said()
    context = request(said)
    signature = Signature(function)
    assert await signature.call(signature.bind({"a": 1}), context) is context
    assert said.notified == [("notifications/progress", {"progressToken": "t", "progress": 1, "total": 2})]


@pytest.mark.parametrize("kind", [Context, SyncContext])
async def test_a_sync_function_gets_one_that_waits(kind: type) -> None:
    def function(ctx: Any) -> Any:
        ctx.progress(0.5)
        return ctx.principal, [root.uri for root in ctx.roots()]

    function.__annotations__["ctx"] = kind
    said = Said({"roots/list": {"roots": [{"uri": "file:///a"}]}})
    assert await Signature(function).call({}, request(said)) == ("me", ["file:///a"])
    assert [params["progress"] for _, params in said.notified] == [0.5]


async def test_an_inline_function_gets_the_context_itself() -> None:
    def function(ctx: Context) -> Any:
        return ctx

    context = request(Said())
    assert await Signature(function, inline=True).call({}, context) is context


async def test_without_a_request_there_is_no_context() -> None:
    def function(ctx: Context | None) -> Any:
        return ctx

    assert await Signature(function).call({}, None) is None


async def test_kwargs_cannot_smuggle_a_context_in() -> None:
    async def function(ctx: Context | None, **rest: Any) -> Any:
        return ctx, rest

    signature = Signature(function)
    assert await signature.call(signature.bind({"ctx": "mine", "b": 1}), None) == (None, {"b": 1})


def test_a_context_that_would_block_the_loop_is_refused() -> None:
    async def function(ctx: SyncContext) -> None: ...

    def sync_function(ctx: SyncContext) -> None: ...

    with pytest.raises(UsageError, match="ctx would block the event loop; annotate it with Context"):
        Signature(function)
    with pytest.raises(UsageError, match="ctx would block"):
        Signature(sync_function, inline=True)


def test_two_contexts_are_one_too_many() -> None:
    def function(one: Context, two: Context) -> None: ...

    with pytest.raises(UsageError, match="expected one context parameter, got one and two"):
        Signature(function)


# ---- the call


async def test_a_sync_function_runs_in_a_thread_and_sees_the_callers_context_variables() -> None:
    where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")

    def function() -> Any:
        return threading.get_ident(), where.get()

    where.set("here")
    thread, seen = await Signature(function).call({}, None)
    assert thread != threading.get_ident() and seen == "here"


async def test_inline_runs_on_the_loop() -> None:
    def function() -> int:
        return threading.get_ident()

    assert await Signature(function, inline=True).call({}, None) == threading.get_ident()


async def test_sync_functions_do_not_stop_the_loop() -> None:
    started, go_on = threading.Event(), threading.Event()

    def function() -> str:
        started.set()
        assert go_on.wait(10)
        return "done"

    work = asyncio.create_task(Signature(function).call({}, None))
    await asyncio.to_thread(started.wait, 10)
    assert not work.done()
    go_on.set()
    assert await asyncio.wait_for(work, 10) == "done"


async def test_a_sync_function_may_give_something_to_await() -> None:
    async def inner(a: int) -> int:
        await asyncio.sleep(0)
        return a + 1

    def function(a: int) -> Any:
        return inner(a)

    for inline in (False, True):
        assert await Signature(function, inline=inline).call({"a": 1}, None) == 2


@pytest.mark.parametrize("failure", [ValueError("no"), StopIteration(), SystemExit(2), asyncio.CancelledError()])
async def test_every_exception_of_a_thread_comes_out(failure: BaseException) -> None:
    def function() -> None:
        raise failure

    # A StopIteration cannot leave a coroutine: Python itself makes it a RuntimeError.
    expected = RuntimeError if isinstance(failure, StopIteration) else type(failure)
    with pytest.raises(expected):
        async with asyncio.timeout(10):
            await Signature(function).call({}, None)


async def test_a_method_is_called_on_the_instance_that_it_is_bound_to() -> None:
    class Counter:
        def __init__(self, start: int) -> None:
            self.start = start

        def plus(self, by: int) -> int:
            return self.start + by

    unbound = Signature(Counter.plus, method=True)
    assert list(unbound.schema["properties"]) == ["by"]
    bound = unbound.bind_to(Counter(5).plus)
    assert await bound.call(bound.bind({"by": "2"}), None) == 7


def test_the_public_context_is_the_one_that_is_looked_for() -> None:
    assert tc.Context is Context
