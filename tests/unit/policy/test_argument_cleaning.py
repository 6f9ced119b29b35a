"""Cleaning of arguments: always by four rules, or only if the schema rejects the value."""

from __future__ import annotations

import copy
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.argument_cleaning import clean, clean_for_schema, clean_tool_arguments, refuses

keys = st.sampled_from(["a", "b", "sources", "type"])
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "web", "x"]) | st.just(1.5)
values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=3), max_leaves=12)
arguments = st.dictionaries(keys, values, max_size=4)
type_names = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _schemas(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(below, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": type_names | st.lists(type_names, min_size=1, unique=True),
            "properties": st.dictionaries(keys, below, max_size=3),
            "additionalProperties": below,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "s$"]), below, max_size=1),
            "required": st.lists(keys, unique=True, max_size=2),
            "minProperties": st.integers(0, 2),
            "items": below,
            "prefixItems": st.lists(below, min_size=1, max_size=2),
            "minItems": st.integers(0, 2),
            "contains": below,
            "minContains": st.integers(0, 1),
            "enum": st.lists(scalars, min_size=1, max_size=3),
            "const": scalars,
            "anyOf": branches,
            "oneOf": branches,
            "allOf": branches,
            "not": below,
            "if": below,
            "then": below,
            "$ref": st.sampled_from(["#/$defs/x", "#/$defs/x/properties/a", "#/$defs/none", "#"]),
        },
    )


schemas = st.recursive(st.booleans() | st.fixed_dictionaries({"type": type_names}), _schemas, max_leaves=8)
documents = st.builds(
    lambda schema, x: {**schema, "$defs": {"x": x}}, schemas.filter(lambda s: s not in (True, False)), schemas
)


def _accepts(schema: Any, value: Any) -> bool | None:
    """Return whether a full validator accepts the value; None if it cannot read the schema."""
    try:
        return jsonschema_rs.validator_for(schema).is_valid(value)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return None


# ---- always


def test_the_four_rules() -> None:
    given_arguments = {
        "query": "test",
        "unused": None,
        "sources": ["web", {"type": "file", "path": None}, 3],
        "deep": {"keep": 0, "list": [None, {"x": None}, [], "", False], "gone": {"y": [None]}},
    }
    assert clean(given_arguments) == {
        "query": "test",
        "sources": [{"type": "web"}, {"type": "file"}, 3],
        "deep": {"keep": 0, "list": ["", False]},
    }


def test_sources_that_are_not_an_array_and_strings_elsewhere_stay() -> None:
    assert clean({"sources": "web", "tags": ["web"]}) == {"sources": "web", "tags": ["web"]}


def test_sources_are_converted_inside_objects_too() -> None:
    assert clean({"search": {"sources": ["web"]}}) == {"search": {"sources": [{"type": "web"}]}}


@given(arguments)
def test_cleaning_twice_is_cleaning_once_and_leaves_no_nulls_nor_empties(given_arguments: dict[str, Any]) -> None:
    before = copy.deepcopy(given_arguments)
    cleaned = clean(given_arguments)
    assert given_arguments == before
    assert clean(cleaned) == cleaned
    waiting = list(cleaned.values())
    while waiting:
        value = waiting.pop()
        assert value is not None and value != [] and value != {}
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []


def test_endless_nesting_does_not_crash() -> None:
    deep: Any = None
    for _ in range(50_000):
        deep = [deep]
    assert clean({"deep": deep})["deep"]
    assert clean_for_schema({"deep": deep}, {"type": "object"})["deep"] is deep


# ---- by schema

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "mode": {"enum": ["fast", "slow"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "some": {"type": "array", "minItems": 1},
        "page": {"$ref": "#/$defs/Page"},
        "maybe_page": {"anyOf": [{"$ref": "#/$defs/Page"}, {"type": "null"}]},
        "strict": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        "free": {},
        "sources": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}}}},
    },
    "$defs": {
        "Page": {"type": "object", "properties": {"size": {"type": "integer"}, "next": {"type": ["string", "null"]}}}
    },
}


@pytest.mark.parametrize(
    "given_arguments,expected",
    [
        ({"query": "q", "limit": None}, {"query": "q"}),
        ({"note": None}, {"note": None}),
        ({"mode": None}, {}),
        ({"tags": []}, {"tags": []}),
        ({"tags": ["a", None]}, {"tags": ["a"]}),
        ({"tags": [None]}, {"tags": []}),
        ({"some": []}, {}),
        ({"page": {"size": None, "next": None}}, {"page": {"next": None}}),
        ({"page": {"size": None}}, {"page": {}}),
        ({"page": None}, {}),
        ({"maybe_page": {"size": None}}, {"maybe_page": {}}),
        ({"maybe_page": None}, {"maybe_page": None}),
        ({"strict": {"x": None}}, {}),
        ({"free": None}, {"free": None}),
        ({"free": {"x": None, "y": []}}, {"free": {"x": None, "y": []}}),
        ({"unknown": None}, {"unknown": None}),
        ({"sources": ["web", {"type": "file"}]}, {"sources": [{"type": "web"}, {"type": "file"}]}),
    ],
)
def test_only_what_the_schema_refuses_is_taken_out(given_arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(given_arguments)
    cleaned = clean_for_schema(given_arguments, SCHEMA)
    assert cleaned == expected
    assert given_arguments == before
    if expected == before:
        assert cleaned is given_arguments


@pytest.mark.parametrize(
    "items",
    [
        {"type": "string"},
        {},
        {"anyOf": [{"type": "string"}, {"type": "object"}]},
        {"type": "object", "required": ["url"]},
        {"type": "object", "properties": {"url": {}}, "additionalProperties": False},
        {"type": "object", "properties": {"type": {"enum": ["file"]}}},
        {"type": "integer"},
    ],
)
def test_sources_stay_strings_where_an_object_with_a_type_would_not_do(items: dict[str, Any]) -> None:
    given_arguments = {"sources": ["web"]}
    schema = {"type": "object", "properties": {"sources": {"type": "array", "items": items}}}
    assert clean_for_schema(given_arguments, schema) is given_arguments


@pytest.mark.parametrize("unknown", [None, {}, True, False])
def test_without_a_schema_nothing_is_touched(unknown: Any) -> None:
    given_arguments = {"a": None, "b": [], "sources": ["web"]}
    assert clean_for_schema(given_arguments, unknown) is given_arguments


def test_what_is_not_allowed_at_all_goes_if_it_is_null_and_stays_if_it_says_something() -> None:
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert clean_for_schema({"a": None, "b": None, "c": 1}, closed) == {"a": None, "c": 1}


NULL_REFUSED = [
    {"type": "string"},
    {"type": ["string", "integer"]},
    {"enum": ["a"]},
    {"const": 1},
    {"anyOf": [{"type": "string"}, {"const": 2}]},
    {"oneOf": [{"type": "string"}]},
    {"allOf": [{}, {"type": "string"}]},
    {"not": {"type": "null"}},
    {"not": {"enum": [None, 1]}},
    {"$ref": "#/$defs/text"},
    {"$ref": "#words"},
    {"$ref": "#/$defs/either/anyOf/0"},
    {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "integer"}]},
]
NULL_STAYS = [
    {},
    {"type": ["string", "null"]},
    {"type": "any"},
    {"type": "string", "nullable": True},
    {"nullable": True, "allOf": [{"type": "string"}]},
    {"nullable": True, "$ref": "#/$defs/text"},
    {"$ref": "#/$defs/either"},
    {"anyOf": [{"const": n} for n in range(100)]},
    {"enum": ["a", None]},
    {"const": None},
    {"anyOf": [{"type": "string"}, {}]},
    {"anyOf": []},
    {"not": {"type": "string"}},
    {"not": {"type": "null", "minimum": 1}},
    {"not": {"type": "any"}},
    {"$ref": "https://example.com/schema.json"},
    {"$ref": "other.json#/x"},
    {"$ref": "#anchor"},
    {"$ref": "#/$defs/nowhere"},
    {"$ref": "#/$defs/loop"},
    {"$ref": 7, "type": "string"},
    {"type": 7},
    {"if": {}, "then": {"type": "string"}},
    "nonsense",
]
DEFS = {
    "text": {"type": "string"},
    "words": {"$anchor": "words", "type": "array"},
    "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "loop": {"$ref": "#/$defs/loop"},
    "a/b~c d": {"type": "string"},
}


@pytest.mark.parametrize("schema", NULL_REFUSED, ids=str)
def test_a_null_is_refused_where_the_schema_leaves_no_doubt(schema: Any) -> None:
    assert refuses(schema, None, {"$defs": DEFS})
    document = {"properties": {"x": schema}, "$defs": DEFS}
    assert clean_for_schema({"x": None}, document) == {}


@pytest.mark.parametrize("schema", NULL_STAYS, ids=str)
def test_in_doubt_a_null_stays(schema: Any) -> None:
    assert not refuses(schema, None, {"$defs": DEFS})
    given_arguments = {"x": None}
    assert clean_for_schema(given_arguments, {"properties": {"x": schema}, "$defs": DEFS}) is given_arguments


def test_references_are_read_with_their_escapes() -> None:
    assert refuses({"$ref": "#/$defs/a~1b~0c%20d"}, None, {"$defs": DEFS})


def test_a_servers_own_pattern_is_never_run_so_what_it_may_speak_of_stays() -> None:
    schema = {
        "patternProperties": {"^(x+x+)+$": {}},
        "additionalProperties": False,
        "properties": {"a": {"type": "string"}},
    }
    assert clean_for_schema({"xx": None, "y": None, "a": None}, schema) == {"xx": None, "y": None}


def test_items_that_mean_something_by_their_place_keep_it() -> None:
    pair = {"properties": {"p": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}}}
    given_arguments = {"p": [None, "x", None]}
    assert clean_for_schema(given_arguments, pair) is given_arguments


@given(documents, values)
def test_what_is_called_refused_is_refused_by_a_whole_validator(document: dict[str, Any], value: Any) -> None:
    if refuses(document, value):
        assert _accepts(document, value) is not True


@given(documents, arguments)
def test_arguments_that_a_whole_validator_accepts_are_given_back_untouched(
    document: dict[str, Any], given_arguments: dict[str, Any]
) -> None:
    before = copy.deepcopy(given_arguments)
    cleaned = clean_for_schema(given_arguments, document)
    assert given_arguments == before
    if _accepts(document, given_arguments):
        assert cleaned is given_arguments


@pytest.mark.serial
def test_a_schema_that_branches_without_end_costs_little() -> None:
    bomb = {
        "$defs": {"x": {"anyOf": [{"$ref": "#/$defs/x"}] * 8, "properties": {"x": {"$ref": "#/$defs/x"}}}},
        "properties": {f"p{i}": {"$ref": "#/$defs/x"} for i in range(50)},
    }
    given_arguments = {f"p{i}": {"x": {"x": None}} for i in range(50)}
    began = time.perf_counter()
    assert clean_for_schema(given_arguments, bomb) is given_arguments
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
def test_a_schema_with_exponentially_many_branches_is_read_in_linear_time(word: str) -> None:
    levels = {f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(25)}
    schema = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**levels, "d25": {"type": "string"}}}
    # What is read must be right; not everything must be read.
    assert clean_for_schema({"x": None}, schema) in ({}, {"x": None})


def test_large_arguments_are_cleaned_to_the_end() -> None:
    rows = {"type": "array", "items": {"$ref": "#/$defs/Page"}}
    schema = {"properties": {"rows": rows}, "$defs": SCHEMA["$defs"]}
    cleaned = clean_for_schema({"rows": [{"size": None, "next": None}] * 50_000}, schema)
    assert cleaned == {"rows": [{"next": None}] * 50_000}


# ---- both by one public name


def test_arguments_are_cleaned_always_or_by_a_schema() -> None:
    given = {"limit": None, "note": None, "tags": []}
    schema = {"properties": {"limit": {"type": "integer"}, "note": {"type": ["string", "null"]}}}
    assert clean_tool_arguments(given) == clean(given) == {}
    assert clean_tool_arguments(given, schema) == clean_for_schema(given, schema) == {"note": None, "tags": []}
    assert given == {"limit": None, "note": None, "tags": []}


def test_cleaned_arguments_are_a_new_dict() -> None:
    given = {"a": 1}
    for schema in (None, {}, {"type": "object"}):
        cleaned = clean_tool_arguments(given, schema)
        assert cleaned == given and cleaned is not given
