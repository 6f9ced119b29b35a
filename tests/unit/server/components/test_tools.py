"""Functions as tools: what clients see of them, and that they stay functions."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.unit.server.functions_kit import text_of
from toolcrib.errors import ConfigError, UsageError
from toolcrib.server.components.tools import made, tool
from toolcrib.server.context import Context
from toolcrib.types import ImageContent, Tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


# ---- what clients see


def test_the_entry_of_the_list_describes_the_function_without_nulls() -> None:
    assert add.wire == {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer", "description": "The first."}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"result": {"type": "integer"}},
            "required": ["result"],
            "x-toolcrib-wrap-result": True,
        },
    }
    assert (add.name, add.title, add.annotations, add.meta, add.headers) == ("add", None, {}, {}, ())
    assert Tool.from_wire(add.wire).wraps_result


def test_options_override_the_description_of_the_function() -> None:
    icon = {"src": "data:,", "sizes": None}

    @tool(
        name="plot",
        title="Plot",
        description="Plot a series",
        annotations={"readOnlyHint": True, "title": None},
        icons=[icon],
        meta={"org.example/k": 1},
    )
    def draw(values: list[float]) -> ImageContent:
        """Not shown."""
        return ImageContent(b"", "image/png")

    assert draw.wire == {
        "name": "plot",
        "title": "Plot",
        "description": "Plot a series",
        "inputSchema": {
            "type": "object",
            "properties": {"values": {"type": "array", "items": {"type": "number"}}},
            "required": ["values"],
        },
        "annotations": {"readOnlyHint": True},
        "icons": [{"src": "data:,"}],
        "_meta": {"org.example/k": 1},
    }


def test_what_was_given_is_copied() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    annotations = {"deep": {"x": 1}}
    made_tool = tool(lambda args: args, name="t", input_schema=schema, annotations=annotations)
    schema["properties"]["late"] = {}
    annotations["deep"]["x"] = 2
    assert made_tool.input_schema == {"type": "object", "properties": {}}
    assert made_tool.annotations == {"deep": {"x": 1}}


def test_without_a_docstring_the_description_is_the_name() -> None:
    def no_words() -> None: ...

    assert tool(no_words).description == "Tool: no_words"
    assert tool(no_words, name="other").description == "Tool: other"


def test_dashed_names_are_made_of_the_functions_name_only() -> None:
    def get_the_time() -> None: ...

    assert tool(get_the_time).name == "get_the_time"
    assert tool(get_the_time, name_style="dashed").name == "get-the-time"
    assert tool(get_the_time, name_style="dashed", name="its_own").name == "its_own"


@pytest.mark.parametrize("name", ["a", "getUser", "DATA_EXPORT_v2", "admin.tools.list", "a-b", "x" * 128])
def test_good_names(name: str) -> None:
    assert tool(lambda: None, name=name).name == name


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, "ü", "a/b", "a\n", 5])
def test_bad_names_are_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="name of a tool: expected 1 to 128") as caught:
        tool(lambda: None, name=name)
    assert caught.value.key == "name"


def test_a_function_without_a_fit_name_needs_one() -> None:
    with pytest.raises(ConfigError, match=r"name of a tool: .*, got '<lambda>'. Set name="):
        tool(lambda: None)


def test_partials_and_objects_are_named() -> None:
    def scale(value: float, by: float) -> float:
        return value * by

    class Greeter:
        def __call__(self, who: str) -> str:
            """Greet."""
            return f"Hello {who}"

    assert tool(functools.partial(scale, by=2.0)).name == "scale"
    assert (tool(Greeter()).name, tool(Greeter()).description) == ("Greeter", "Greet.")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"nmae": "x"}, "a tool has no option 'nmae'; did you mean 'name'?"),
        ({"zzzz": 1}, "a tool has no option 'zzzz'"),
    ],
)
def test_unknown_options_are_reported_at_once(options: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        tool(**options)
    assert str(caught.value) == message


def test_wrong_options_are_reported_at_decoration() -> None:
    def function() -> None: ...

    with pytest.raises(ConfigError, match="name_style: expected 'as_is' or 'dashed', got 'camel'"):
        tool(function, name_style="camel")  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"function: .*cannot be written as JSON"):
        tool(function, meta={"x": object()})


@pytest.mark.parametrize("function", [5, "f", None.__class__.__mro__, object()])
def test_a_non_callable_is_not_a_tool(function: Any) -> None:
    with pytest.raises(UsageError, match="tool: expected a function, got") as caught:
        tool(function)
    assert ("Set the name with name=" in str(caught.value)) == isinstance(function, str)


def test_generators_are_refused() -> None:
    def numbers() -> Any:
        yield 1

    async def more() -> Any:
        yield 1

    for function in (numbers, more):
        with pytest.raises(UsageError, match=r"got a generator\. Return a list instead"):
            tool(function)


def test_star_args_and_positional_only_are_refused_at_decoration() -> None:
    with pytest.raises(UsageError, match=r"\*parts"):

        @tool
        def join(*parts: str) -> str:
            return "".join(parts)

    with pytest.raises(UsageError, match="positional-only"):

        @tool(name="half")
        def half(number: int, /) -> float:
            return number / 2


def test_header_declarations_are_read_once_and_bad_ones_refused() -> None:
    Region = Annotated[str | None, Field(json_schema_extra={"x-mcp-header": "Region"})]  # noqa: N806

    def query(region: Any, sql: str) -> None: ...

    query.__annotations__["region"] = Region
    assert [tuple(declared) for declared in tool(query).headers] == [("Mcp-Param-Region", ("region",))]
    query.__annotations__["sql"] = Region
    with pytest.raises(ConfigError, match="query: x-mcp-header at 'sql': 'Region' is already used at 'region'"):
        tool(query)


# ---- still a function


async def test_a_tool_is_still_called_like_its_function() -> None:
    @tool
    def double(x: int) -> int:
        """Twice."""
        return x * 2

    assert await add(1, b=2) == 3
    assert double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Twice.")


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    @tool
    def count(self, by: int = 1) -> int:
        """Count on."""
        self.value += by
        return self.value

    @tool(name="where", input_schema={"type": "object"})
    async def by_hand(self, args: dict[str, Any], ctx: Context | None) -> str:
        return f"{self.value} {args} {ctx}"

    @staticmethod
    @tool
    def twice(x: int) -> int:
        return x * 2

    @tool
    @staticmethod
    def thrice(x: int) -> int:
        return x * 3

    @classmethod
    @tool
    def kind(cls) -> str:
        return cls.__name__

    async def plain(self, by: int) -> int:
        """Not decorated."""
        return self.value + by


async def test_a_method_is_a_tool_of_its_instance() -> None:
    one, other = Counter(), Counter(10)
    assert list(one.count.input_schema["properties"]) == ["by"]
    assert (await one.count.call({"by": 2}))["structuredContent"] == {"result": 2}
    assert (await other.count.call({}))["structuredContent"] == {"result": 11}
    assert one.count(5) == 7 and other.value == 11
    assert Counter.count.unbound and not one.count.unbound
    assert one.count.wire is Counter.count.wire
    assert text_of(await one.by_hand.call({"x": 1})) == "7 {'x': 1} None"


async def test_static_and_class_methods_are_tools() -> None:
    assert Counter.twice(2) == 4 and Counter().thrice(2) == 6
    assert text_of(await Counter.twice.call({"x": 3})) == "6"
    assert text_of(await Counter().thrice.call({"x": 3})) == "9"
    assert Counter.kind() == "Counter"
    assert text_of(await made(Counter.kind).call({})) == "Counter"


async def test_a_plain_method_is_made_a_tool_of_its_instance() -> None:
    made_tool = tool(Counter(3).plain)
    assert (made_tool.name, made_tool.description) == ("plain", "Not decorated.")
    assert (await made_tool.call({"by": 4}))["structuredContent"] == {"result": 7}


def test_a_class_method_below_the_decorator_is_refused() -> None:
    with pytest.raises(UsageError, match="kind: put @classmethod above"):
        tool(classmethod(Counter.__dict__["kind"].__func__.function))


def test_a_tool_may_be_made_again_with_other_options() -> None:
    renamed = tool(add, name="plus")
    assert (renamed.name, add.name) == ("plus", "add")
    assert renamed.description == "Add two numbers."
    assert tool(add) is add
