"""JSON arguments: the schema of each kind of parameter."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType, Optional, Union

import pytest
from pydantic import AliasChoices, Field

from tests.unit.server.functions_kit import Color, Item, Newer, Odd, Options, Pair, Point, of_a, of_type
from toolcrib.errors import UsageError
from toolcrib.server.functions.signature import BadArguments, Signature


@pytest.mark.parametrize(
    "annotation, schema",
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[int, Field(description="a digit")], {"type": "integer", "description": "a digit"}),
        (Annotated[str, Field(title="Its own")], {"type": "string", "title": "Its own"}),
        (dt.date, {"type": "string", "format": "date"}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (NewType("UserId", int), {"type": "integer"}),
    ],
)
def test_each_kind_of_parameter_has_its_schema(annotation: Any, schema: Any) -> None:
    assert of_type(annotation).schema == {"type": "object", "properties": {"a": schema}, "required": ["a"]}


@pytest.mark.parametrize(
    "annotation, schema",
    [
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            },
        ),
        (Newer, {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}),
        (
            Options,
            {
                "type": "object",
                "properties": {"size": {"type": "integer"}, "note": {"type": "string"}},
                "required": ["size"],
            },
        ),
        (
            Item,
            {
                "type": "object",
                "properties": {
                    "title": {"type": "string"},
                    "count": {"type": "integer", "minimum": 0, "default": 1, "title": "How many"},
                    "parts": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "default": []},
                },
                "required": ["title"],
            },
        ),
        (
            Pair,
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string", "default": "r"}],
                "minItems": 1,
                "maxItems": 2,
            },
        ),
    ],
)
def test_classes_are_described_without_generated_titles(annotation: Any, schema: Any) -> None:
    signature, name = of_type(annotation), annotation.__name__
    assert of_a(signature) == {"$ref": f"#/$defs/{name}"}
    assert signature.schema["$defs"] == {name: schema}


@pytest.mark.parametrize("annotation", [Optional[int], Union[int, None], int | None])  # noqa: UP007, UP045  # all spellings
@pytest.mark.parametrize("default", [..., None, 5])
def test_optional_is_the_schema_of_its_type_and_not_required(annotation: Any, default: Any) -> None:
    signature = of_type(annotation, default)
    shown = {"type": "integer", "default": 5} if default == 5 else {"type": "integer"}
    assert signature.schema == {"type": "object", "properties": {"a": shown}}
    assert signature.bind({"a": None}) == {"a": None}
    assert signature.bind({"a": 3}) == {"a": 3}
    assert signature.function(**signature.bind({})) == (5 if default == 5 else None)


def test_what_is_said_beside_an_optional_type_stays() -> None:
    field = Field(ge=0, description="d", json_schema_extra={"x-mcp-header": "Region"})
    signature = of_type(Annotated[int | None, field])
    assert of_a(signature) == {"type": "integer", "minimum": 0, "description": "d", "x-mcp-header": "Region"}
    assert of_a(of_type(Item | None)) == {"$ref": "#/$defs/Item"}
    assert of_a(of_type(int | str | None)) == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.parametrize(
    "annotation, default, shown",
    [
        (int, 1, 1),
        (Color, Color.RED, "red"),
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (list[int], [1], [1]),
        (dt.date, dt.date(2020, 1, 2), "2020-01-02"),
        (Annotated[int, Field(ge=0)], 3, 3),
    ],
)
def test_a_default_is_shown_as_json_and_given_as_it_is(annotation: Any, default: Any, shown: Any) -> None:
    signature = of_type(annotation, default)
    assert of_a(signature)["default"] == shown
    assert "required" not in signature.schema
    assert signature.function(**signature.bind({})) is default


@pytest.mark.parametrize("default", [Odd(), None, float("nan"), b"\xff"])
def test_a_default_that_json_cannot_say_is_not_shown(default: Any) -> None:
    signature = of_type(Any, default)
    assert signature.schema == {"type": "object", "properties": {"a": {}}}
    assert signature.function(**signature.bind({})) is default


@pytest.mark.parametrize("default", [Field(7, ge=5), Field(default_factory=lambda: 7, ge=5)])
def test_a_default_may_be_in_the_field(default: Any) -> None:
    for signature in (of_type(int, default), of_type(Annotated[int, default])):
        assert of_a(signature)["minimum"] == 5
        assert "required" not in signature.schema
        assert signature.bind({}) == {"a": 7}


def test_a_field_without_a_default_is_required() -> None:
    assert of_type(int, Field(ge=5)).schema["required"] == ["a"]
    assert of_type(int, Field(..., ge=5)).schema["required"] == ["a"]


def test_an_alias_is_the_name_on_the_wire() -> None:
    def search(
        class_: Annotated[str, Field(alias="class")],
        n: Annotated[int, Field(validation_alias=AliasChoices("many", "count"))] = 1,
    ) -> None:
        """Search.

        Args:
            class_: of what kind
        """

    signature = Signature(search)
    assert signature.schema == {
        "type": "object",
        "properties": {
            "class": {"type": "string", "description": "of what kind"},
            "many": {"type": "integer", "default": 1},
        },
        "required": ["class"],
    }
    assert signature.bind({"class": "x", "count": 2}) == {"class_": "x", "n": 2}


def test_texts_of_the_docstring_become_descriptions_unless_the_field_has_its_own() -> None:
    def find(query: str, limit: Annotated[int, Field(description="own")] = 3, where: Point | None = None) -> str:
        """Find things.

        Args:
            query: What to find.
            limit: not shown
            where: Around here.

        Returns:
            What was found.
        """
        return query

    signature = Signature(find)
    assert signature.description == "Find things."
    shown = signature.schema["properties"]
    assert shown["query"] == {"type": "string", "description": "What to find."}
    assert shown["limit"]["description"] == "own"
    assert shown["where"] == {"$ref": "#/$defs/Point", "description": "Around here."}


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    assert Signature(lambda: None).schema == {"type": "object", "properties": {}}


def test_a_parameter_without_an_annotation_takes_anything() -> None:
    signature = Signature(lambda a: a)
    assert of_a(signature) == {}
    assert signature.bind({"a": [1, "x"]}) == {"a": [1, "x"]}


@pytest.mark.parametrize(
    "annotation, schema, value",
    [
        (Odd, {"type": "object"}, {"z": 1}),
        (Callable[[int], int], {"type": "object"}, {"z": 1}),
        (Odd | None, {"type": "object"}, {"z": 1}),
        (list[Odd], {"type": "array", "items": {"type": "object"}}, [{"z": 1}]),
        (dict[str, Odd], {"type": "object", "additionalProperties": {"type": "object"}}, {"k": {"z": 1}}),
        (Annotated[Odd, Field(description="d")], {"type": "object", "description": "d"}, {"z": 1}),
    ],
)
def test_a_type_that_pydantic_cannot_describe_is_an_object_passed_on_as_it_came(
    annotation: Any, schema: Any, value: Any
) -> None:
    signature = of_type(annotation)
    assert of_a(signature) == schema
    assert signature.bind({"a": value}) == {"a": value}


def test_an_alias_beside_a_type_that_cannot_be_described_is_handled() -> None:
    def function(a: Odd, b_: Annotated[int, Field(alias="b")]) -> None: ...

    assert list(Signature(function).schema["properties"]) == ["a", "b"]


def test_the_others_are_still_checked_beside_a_type_that_cannot_be_described() -> None:
    def function(a: Odd, b: int) -> None: ...

    signature = Signature(function)
    assert signature.bind({"a": {}, "b": "1"}) == {"a": {}, "b": 1}
    with pytest.raises(BadArguments, match="b: Input should be a valid integer"):
        signature.bind({"a": {}, "b": "x"})


def test_a_field_that_does_not_fit_its_type_is_reported_at_once() -> None:
    with pytest.raises(UsageError, match=r"(?s)function: cannot make a schema for a: .*unclosed group"):
        of_type(Annotated[str, Field(pattern="(")])
