"""References, subschemas and alternatives of JSON Schemas, including malicious schemas."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib._util import schema_document
from toolcrib._util.schema_document import MAX_ALTERNATIVES, SchemaDocument, list_of, subschemas, types_of

TEXT, NUMBER, NULL = {"type": "string"}, {"type": "number"}, {"type": "null"}
ROOT: dict[str, Any] = {
    "$anchor": "top",
    "properties": {"list": {"anyOf": [NULL, {"type": "array", "items": TEXT}]}},
    "$defs": {
        "text": TEXT,
        "a/b~c d": NUMBER,
        "%": {"const": "percent"},
        "never": False,
        "anchored": {"items": {"$anchor": "deep", "enum": [1]}},
        "data": {"default": {"$anchor": "no schema"}},
        "again": {"$ref": "#/$defs/text", "title": "again"},
        "loop": {"$ref": "#/$defs/loop"},
        "odd": [1, "x"],
    },
}


@pytest.mark.parametrize(
    "reference, target",
    [
        ("#", ROOT),
        ("#/$defs/text", TEXT),
        ("#/%24defs/text", TEXT),
        ("#/$defs/a~1b~0c%20d", NUMBER),
        ("#/$defs/%25", {"const": "percent"}),
        ("#/$defs/never", False),
        ("#/properties/list/anyOf/1/items", TEXT),
        ("#top", ROOT),
        ("#deep", {"$anchor": "deep", "enum": [1]}),
    ],
)
def test_a_local_reference_is_found(reference: str, target: Any) -> None:
    document = SchemaDocument(ROOT)
    assert document.resolve(reference) is document.resolve(reference)
    assert document.resolve(reference) == target


@pytest.mark.parametrize(
    "reference",
    [
        *("", "text", "other.json", "other.json#/$defs/text", "https://example.com/schema.json", "file:///etc/passwd"),
        *("#/", "#/$defs/none", "#/$defs/text/type", "#/$defs/odd", "#/$defs/odd/0", "#/$defs/odd/-1", "#/$defs/odd/9"),
        *("#/properties/list/anyOf/x", f"#/properties/list/anyOf/{'9' * 5000}", "#no schema", "#%", "#//", "#/~"),
        *(None, 7, [], {"a": 1}),
    ],
)
def test_any_other_reference_says_nothing(reference: Any) -> None:
    assert SchemaDocument(ROOT).resolve(reference) is True


@pytest.mark.parametrize("root", [None, True, False, 7, "x", [], {}, {"$defs": []}, {"$defs": {"a": None}}])
def test_a_non_schema_can_be_read(root: Any) -> None:
    document = SchemaDocument(root)
    for reference in ("#/$defs/a", "#a"):
        assert document.resolve(reference) is True
    assert document.properties(root) == {}
    assert document.dereference(root) == (root if isinstance(root, dict) else {})
    assert document.alternatives(root) == (() if root is False else (root if isinstance(root, dict) else {},))


@pytest.mark.parametrize(
    "schema, expected",
    [
        ({"$ref": "#/$defs/text"}, TEXT),
        ({"$ref": "#/$defs/text", "description": "d", "type": "number"}, {"type": "number", "description": "d"}),
        ({"$ref": "#/$defs/again", "default": 1}, {**TEXT, "title": "again", "default": 1}),
        ({"allOf": [{"$ref": "#/$defs/text"}], "title": "t"}, {**TEXT, "title": "t"}),
        ({"allOf": [TEXT, NUMBER]}, {"allOf": [TEXT, NUMBER]}),
        ({"$ref": "#/$defs/loop", "title": "t"}, {"title": "t"}),
        ({"$ref": "#/$defs/never", "title": "t"}, {"title": "t"}),
        ({"$ref": "https://example.com/x"}, {}),
    ],
)
def test_a_reference_is_replaced_by_its_target(schema: Any, expected: Any) -> None:
    before = copy.deepcopy(schema)
    assert SchemaDocument(ROOT).dereference(schema) == expected
    assert schema == before


@pytest.mark.parametrize(
    "schema, expected",
    [
        (True, [{}]),
        (False, []),
        ("x", [{}]),
        (TEXT, [TEXT]),
        ({"type": ["string", "null"], "title": "t"}, [{**TEXT, "title": "t"}, {**NULL, "title": "t"}]),
        ({"type": "any", "title": "t"}, [{"title": "t"}]),
        ({"type": ["string", 7]}, [{}]),
        ({"type": []}, [{}]),
        ({"$ref": "#/$defs/again", "enum": [1]}, [TEXT]),
        ({"$ref": "#/$defs/loop"}, [{}]),
        ({"$ref": "#/$defs/never"}, []),
        ({"anyOf": [TEXT, {"$ref": "#/$defs/a~1b~0c d"}]}, [TEXT, NUMBER]),
        ({"oneOf": [TEXT, NULL], "minLength": 1}, [{**TEXT, "minLength": 1}, {**NULL, "minLength": 1}]),
        ({"anyOf": [TEXT, NUMBER], "oneOf": [NUMBER, NULL]}, [NUMBER]),
        ({"anyOf": [{"anyOf": [TEXT, NULL]}, NUMBER, False]}, [TEXT, NULL, NUMBER]),
        ({"anyOf": []}, [{}]),
        ({"anyOf": "x", "allOf": {}}, [{}]),
        ({"allOf": [NUMBER, {"minimum": 1}]}, [{**NUMBER, "minimum": 1}]),
        ({"allOf": [NUMBER, {"type": "integer"}]}, [{"type": "integer"}]),
        ({"allOf": [TEXT, NULL]}, []),
        ({"allOf": [True, False]}, []),
        ({**TEXT, "nullable": True}, [TEXT, NULL]),
        ({"$ref": "#/$defs/text", "nullable": True}, [TEXT, NULL]),
        ({**TEXT, "nullable": False}, [TEXT]),
        (
            {"properties": {"a": TEXT}, "allOf": [{"properties": {"a": NULL, "b": NUMBER}}]},
            [{"properties": {"a": TEXT, "b": NUMBER}}],
        ),
        ({"contains": True, "allOf": [{"minContains": 0}]}, [{"contains": True, "minContains": 1}]),
        ({"minContains": 9, "allOf": [{"contains": True, "minContains": 0}]}, [{"contains": True, "minContains": 0}]),
    ],
)
def test_a_schema_becomes_plain_alternatives(schema: Any, expected: list[Any]) -> None:
    before = copy.deepcopy(schema)
    assert list(SchemaDocument(ROOT).alternatives(schema)) == expected
    assert schema == before


def test_more_branches_than_are_read_leave_it_open_what_else_fits() -> None:
    many = {"anyOf": [{"const": n} for n in range(MAX_ALTERNATIVES + 1)]}
    found = SchemaDocument(many).alternatives(many)
    assert len(found) == MAX_ALTERNATIVES and found[-1] == {}
    both = {"allOf": [{"enum": [1]}, *({"anyOf": [{"title": f"{n}"}, {"minimum": n}]} for n in range(99))]}
    found = SchemaDocument(both).alternatives(both)
    assert len(found) <= MAX_ALTERNATIVES and all(each["enum"] == [1] for each in found)


def test_the_properties_of_all_alternatives_are_named() -> None:
    schema = {
        "properties": {"a": TEXT},
        "anyOf": [{"properties": {"b": NUMBER}}, {"$ref": "#/$defs/c"}],
        "$defs": {"c": {"properties": {"c": NULL}}},
    }
    assert SchemaDocument(schema).properties(schema) == {"a": TEXT, "b": NUMBER, "c": NULL}


def test_every_schema_in_a_schema_is_found_and_no_data() -> None:
    schema = {
        "properties": {"a": TEXT, "properties": {"type": "object"}},
        "items": [TEXT, NUMBER],
        "not": NULL,
        "anyOf": [True],
        "enum": [{"properties": {}}],
        "default": {"items": {}},
        "x-own": {"items": {}},
        "$defs": {"d": False},
    }
    assert [*subschemas(schema)] == [
        ("properties", "a", TEXT),
        ("properties", "properties", {"type": "object"}),
        ("items", None, TEXT),
        ("items", None, NUMBER),
        ("not", None, NULL),
        ("anyOf", None, True),
        ("$defs", "d", False),
    ]


def test_invalid_types_and_lists_are_empty() -> None:
    assert types_of({"type": ["string", "null"]}) == ("string", "null")
    assert (
        types_of({}) == types_of({"type": "any"}) == types_of({"type": 7}) == types_of({"type": ["string", {}]}) == ()
    )
    assert list_of({"anyOf": [1]}, "anyOf") == [1] and list_of({"anyOf": "x"}, "anyOf") == list_of({}, "anyOf") == []


# ---- hostile schemas


def _chain(count: int) -> dict[str, Any]:
    return {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(count)}


def _bomb(word: str) -> dict[str, Any]:
    """Return a schema in which each level refers to the next one four times: 4 ** 30 paths."""
    return {**{f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(30)}, "d30": TEXT}


def _nested(depth: int) -> dict[str, Any]:
    schema: Any = TEXT
    for _ in range(depth):
        schema = {"allOf": [schema]}
    return {"d0": schema}


HOSTILE: dict[str, dict[str, Any]] = {
    "circle": {"d0": {"anyOf": [{"$ref": "#/$defs/d1"}] * 99}, "d1": {"allOf": [{"$ref": "#/$defs/d0"}] * 99}},
    "chain": _chain(5_000),
    "bomb of anyOf": _bomb("anyOf"),
    "bomb of allOf": _bomb("allOf"),
    "bomb of oneOf": _bomb("oneOf"),
    "nesting": _nested(5_000),
    "many parts": {"d0": {"allOf": [{f"k{n}": n, "properties": {f"p{n}": True}} for n in range(5_000)]}},
    "many keywords": {"d0": {"title": "t", "allOf": [{f"k{n}": n for n in range(5_000)}] * 99}},
    "many branches": {"d0": {"anyOf": [{"anyOf": [{"const": n}] * 99} for n in range(999)]}},
    "many types": {"d0": {"type": ["string", "null"] * 5_000, "anyOf": [TEXT, NULL] * 99}},
}


@pytest.mark.parametrize("definitions", HOSTILE.values(), ids=HOSTILE)
def test_the_work_for_a_hostile_schema_is_bounded(definitions: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"merged": 0, "expanded": 0}

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            counts[name] += 1
            return function(*args)

        return counted

    monkeypatch.setattr(schema_document, "_merged", counting("merged", schema_document._merged))
    monkeypatch.setattr(SchemaDocument, "_alternatives_of", counting("expanded", SchemaDocument._alternatives_of))
    root = {"properties": {"a": {"$ref": "#/$defs/d0"}, "b": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    document = SchemaDocument(root)
    assert len(document.alternatives(root["properties"]["a"])) <= MAX_ALTERNATIVES + 1
    document.alternatives(root["properties"]["b"])
    document.dereference(root["properties"]["a"])
    document.properties(root)
    assert counts["expanded"] < 10_000 and counts["merged"] < 10_000


def test_anchors_are_searched_for_once_and_not_without_end() -> None:
    endless: dict[str, Any] = {"properties": {}}
    endless["properties"]["again"] = endless
    assert SchemaDocument(endless).resolve("#none") is True
    wide = {"properties": {f"p{n}": {"$anchor": f"a{n}"} for n in range(20_000)}}
    document = SchemaDocument(wide)
    assert document.resolve("#a7") == {"$anchor": "a7"} and document.resolve("#a19999") is True


# ---- against a whole validator

names = st.sampled_from(["a", "b"])
scalars = st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from(["", "x"])
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(names, scalars, max_size=2)
kinds = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _schemas(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(below, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | st.lists(kinds, min_size=1, unique=True),
            "enum": st.lists(scalars, min_size=1, max_size=3),
            "properties": st.dictionaries(names, below, max_size=2),
            "additionalProperties": below,
            "items": below,
            "contains": below,
            "minContains": st.integers(0, 2),
            "required": st.lists(names, unique=True),
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y", "#", "#y"]),
        },
    )


schemas = st.recursive(st.booleans() | st.fixed_dictionaries({"type": kinds}), _schemas, max_leaves=8)


@given(schemas, schemas, schemas, values)
def test_a_value_that_a_schema_accepts_fits_one_of_its_alternatives(first: Any, x: Any, y: Any, value: Any) -> None:
    y = {**y, "$anchor": "y"} if isinstance(y, dict) else y
    root = {"allOf": [first], "$defs": {"x": x, "y": y}}
    try:
        accepts = jsonschema_rs.validator_for(root).is_valid(value)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return
    if accepts:
        plain = SchemaDocument(root).alternatives(root)
        assert any(jsonschema_rs.validator_for({**each, "$defs": root["$defs"]}).is_valid(value) for each in plain)
