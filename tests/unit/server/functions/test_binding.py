"""JSON arguments: conversion to Python values."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BeforeValidator, Strict, TypeAdapter

from tests.unit.server.functions_kit import Both, Color, Item, Newer, Pair, Point, json_values, of_type
from toolcrib.server.functions.signature import BadArguments, Signature


def add(a: int, b: int) -> int:
    return a + b


ADD = Signature(add)


def test_arguments_are_converted_as_pydantic_does() -> None:
    assert ADD.bind({"a": "5", "b": 2.0}) == {"a": 5, "b": 2}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"a": "x"}, r"Invalid arguments for add: a: Input should be a valid integer.* \(got 'x'\); b: missing"),
        ({}, "Invalid arguments for add: a: missing; b: missing"),
        ({"a": 1, "b": None}, r"Invalid arguments for add: b: Input should be a valid integer \(got None\)"),
        ({"a": 1, "b": {"z": 1}}, r"Invalid arguments for add: b: .* \(got an object\)"),
        ({"a": 1, "b": [1]}, r"Invalid arguments for add: b: .* \(got an array\)"),
        ({"a": 1, "b": 2, "aa": 3}, "Invalid arguments for add: aa: unknown argument, did you mean 'a'[?]"),
        ({"a": 1, "zzzz": 3}, "Invalid arguments for add: b: missing; zzzz: unknown argument"),
        ({"a": 1, "b": 2, 3: 4}, "Invalid arguments for add: 3: unknown argument"),
        ("no object", r"Invalid arguments for add: Input should be .* \(got 'no object'\)"),
        ([], r"Invalid arguments for add: Input should be .* \(got an array\)"),
    ],
)
def test_wrong_arguments_are_named_with_what_was_expected(arguments: Any, message: str) -> None:
    with pytest.raises(BadArguments) as caught:
        ADD.bind(arguments)
    assert re.fullmatch(message, str(caught.value))


def test_a_place_inside_is_named_by_its_way() -> None:
    with pytest.raises(BadArguments, match=r"a\.parts\.0\.title: missing"):
        of_type(Item).bind({"a": {"title": "t", "parts": [{}]}})


def test_the_complaint_is_one_short_printable_line() -> None:
    with pytest.raises(BadArguments) as caught:
        ADD.bind({"a": "x" * 10_000, "b": "\x1b[31m\n\u202e", "\x1b[2J" + "k" * 5000: 1})
    message = str(caught.value)
    assert message.isprintable() and len(message) < 500


def test_ten_mistakes_are_reported_and_the_rest_is_counted() -> None:
    with pytest.raises(BadArguments, match=r"a\.9: .*; and 90 more$"):
        of_type(list[int]).bind({"a": ["x"] * 100})


def test_very_many_wrong_places_are_only_counted() -> None:
    with pytest.raises(BadArguments, match=r"Invalid arguments for function: a: 50000 values do not fit$"):
        of_type(list[int]).bind({"a": ["x"] * 50_000})


def test_numbers_that_are_too_long_to_write_are_handled() -> None:
    with pytest.raises(BadArguments, match=r"a: .* \(got int\)"):
        of_type(list[int]).bind({"a": 10**6000})


def test_nesting_without_end_does_not_crash() -> None:
    deep: Any = None
    for _ in range(50_000):
        deep = [deep]
    assert of_type(Any).bind({"a": deep})["a"] is deep
    with pytest.raises(BadArguments):
        ADD.bind({"a": deep, "b": 1})


@pytest.mark.parametrize(
    "annotation, value, meant",
    [
        (Annotated[dt.date, Strict()], "2020-01-02", dt.date(2020, 1, 2)),
        (Annotated[tuple[int, ...], Strict()], [1, 2], (1, 2)),
        (Annotated[Color, Strict()], "red", Color.RED),
        (set[int], [1, 1], {1}),
        (UUID, "12345678123456781234567812345678", UUID("12345678123456781234567812345678")),
        (Decimal, "1.5", Decimal("1.5")),
        (dict[int, str], {"1": "x"}, {1: "x"}),
        (Pair, [1], Pair(1)),
    ],
)
def test_types_that_json_does_not_have_come_from_their_json_form(annotation: Any, value: Any, meant: Any) -> None:
    assert of_type(annotation).bind({"a": value}) == {"a": meant}


def test_a_strict_number_does_not_accept_text() -> None:
    with pytest.raises(BadArguments, match="a: Input should be a valid integer"):
        of_type(Annotated[int, Strict()]).bind({"a": "5"})


def test_kwargs_take_whatever_else_comes() -> None:
    def function(a: int, **rest: Any) -> Any:
        return a, rest

    signature = Signature(function)
    assert signature.schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": True,
    }
    assert signature.function(**signature.bind({"a": "1", "b": [2]})) == (1, {"b": [2]})


def test_kwargs_with_a_type_are_checked_by_it() -> None:
    def function(a: Point, **rest: Point) -> None: ...

    signature = Signature(function)
    assert signature.schema["additionalProperties"] == {"$ref": "#/$defs/Point"}
    assert signature.bind({"a": {"x": 1}, "b": {"x": 2}}) == {"a": Point(1), "b": Point(2)}
    with pytest.raises(BadArguments, match=r"Invalid arguments for function: b\.x: missing"):
        signature.bind({"a": {"x": 1}, "b": {}})


def test_unknown_keys_of_an_inner_object_are_judged_by_that_type_alone() -> None:
    assert of_type(Point).bind({"a": {"x": 1, "z": 2}}) == {"a": Point(1)}


def test_typed_dicts_of_the_standard_library_are_checked_also_inside_each_other() -> None:
    signature = of_type(list[Both])
    good = {"size": 1, "points": [{"size": 2, "note": "n"}]}
    assert signature.bind({"a": [good]}) == {"a": [good]}
    with pytest.raises(BadArguments, match=r"a\.0\.points\.0\.size: missing"):
        signature.bind({"a": [{"size": 1, "points": [{}]}]})
    with pytest.raises(BadArguments, match=r"a\.0\.points: missing"):
        signature.bind({"a": [{"size": 1}]})


def test_the_message_of_a_validator_is_reported() -> None:
    def even(value: Any) -> Any:
        if value % 2:
            raise ValueError("must be even")
        return value

    with pytest.raises(BadArguments, match=r"a: Value error, must be even \(got 3\)"):
        of_type(Annotated[int, BeforeValidator(even)]).bind({"a": 3})


KINDS: dict[str, Any] = {
    "number": int,
    "color": Color,
    "point": Point,
    "item": Item,
    "options": Newer,
    "day": dt.date,
    "flags": list[bool],
    "table": dict[str, float],
    "mode": Literal["a", "b"],
    "either": int | list[str],
}


def _all_kinds() -> Signature:
    names = ", ".join(f"{name}: KINDS[{name!r}] = None" for name in KINDS)
    scope: dict[str, Any] = {"KINDS": KINDS}
    exec(f"def everything({names}): ...", scope)
    return Signature(scope["everything"])


ALL_KINDS = _all_kinds()
names = st.sampled_from([*KINDS, "numbr", ""])


@given(st.dictionaries(names, json_values, max_size=6))
def test_any_json_arguments_are_bound_or_refused_and_never_anything_else(arguments: dict[str, Any]) -> None:
    try:
        message, bound = None, ALL_KINDS.bind(arguments)
    except BadArguments as exc:
        message, bound = str(exc), arguments
    assert message is None or (message.startswith("Invalid arguments for everything: ") and message.isprintable())
    assert bound.keys() == arguments.keys()


@given(json_values)
def test_arguments_that_are_not_an_object_are_refused(arguments: Any) -> None:
    if isinstance(arguments, dict):
        return
    with pytest.raises(BadArguments):
        ALL_KINDS.bind(arguments)


@given(st.sampled_from(list(KINDS)), json_values)
def test_what_binds_is_what_pydantic_gives(name: str, value: Any) -> None:
    adapter = TypeAdapter(KINDS[name])
    try:
        meant = adapter.validate_python(value)
    except pydantic.ValidationError:
        try:
            meant = adapter.validate_json(pydantic.TypeAdapter(Any).dump_json(value))
        except (pydantic.ValidationError, pydantic.PydanticUserError, ValueError):
            with pytest.raises(BadArguments):
                ALL_KINDS.bind({name: value})
            return
    assert ALL_KINDS.bind({name: value}) == {name: meant}


def test_arguments_are_given_as_a_new_dict() -> None:
    arguments = {"a": 1, "b": 2}
    assert ADD.bind(arguments) is not arguments
