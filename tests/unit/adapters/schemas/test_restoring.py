"""Arguments that a model wrote for a compiled schema become arguments for the original."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tests.adapters.corpus import hard_schemas, load_corpus
from toolcrib.adapters.schemas import Target, compile_schema

TEXT = {"type": "string"}
NESTED = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "limit": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "filters": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": TEXT, "value": TEXT}, "required": ["field"]},
        },
    },
    "required": ["name"],
}


def restore(schema: Any, target: Target, arguments: dict[str, Any]) -> Any:
    return compile_schema(schema, target).restore(arguments)


def test_nulls_of_optional_properties_are_removed_at_every_depth() -> None:
    given = {"name": "x", "limit": None, "note": None, "filters": [{"field": "a", "value": None}]}
    for target in get_args(Target):
        assert restore(NESTED, target, given) == {"name": "x", "note": None, "filters": [{"field": "a"}]}
    assert given["limit"] is None


def test_nulls_that_the_schema_may_mean_are_kept() -> None:
    schema = {"type": "object", "properties": {"required": TEXT, "any": {}}, "required": ["required"]}
    given = {"required": None, "any": None, "unknown": None}
    assert restore(schema, "openai-strict", given) is given


def test_the_same_object_is_returned_if_there_is_nothing_to_do() -> None:
    given = {"name": "x", "limit": 3, "filters": [{"field": "a", "value": "b"}]}
    for target in (None, *get_args(Target)):
        assert compile_schema(NESTED, target).restore(given) is given


def test_wrapped_roots_are_unwrapped() -> None:
    union = {"anyOf": [{"type": "object", "properties": {"a": TEXT}}, {"type": "object", "properties": {"b": TEXT}}]}
    assert restore(union, "openai-strict", {"input": {"a": "x"}}) == {"a": "x"}
    assert restore(union, "openai", {"input": {"a": "x"}}) == {"a": "x"}
    assert restore(union, "anthropic", {"a": "x"}) == {"a": "x"}
    assert restore(union, "nullable", {"input": {"a": "x"}}) == {"input": {"a": "x"}}


def test_a_wrapper_never_has_the_name_of_a_property() -> None:
    names = {"input": TEXT, "arguments": TEXT}
    union = {"type": "object", "properties": names, "anyOf": [{"properties": {"a": TEXT}}, {"required": ["input"]}]}
    compiled = compile_schema(union, "openai")
    assert list(compiled.schema["properties"]) == ["input_"]
    assert compiled.restore({"input_": {"a": "x"}}) == {"a": "x"}
    assert compiled.restore({"input": {"a": "x"}}) == {"input": {"a": "x"}}


def test_names_are_restored_only_where_the_schema_has_them() -> None:
    schema = {"type": "object", "properties": {"a b": TEXT, "free": {"type": "object"}}}
    compiled = compile_schema(schema, "gemini")
    new = next(iter(compiled.schema["properties"]))
    assert compiled.restore({new: "x", "free": {new: "y"}}) == {"a b": "x", "free": {new: "y"}}


@pytest.mark.parametrize("target", ["anthropic", "gemini", "gemini-openapi"])
def test_new_names_never_equal_other_names(target: Target) -> None:
    first = compile_schema({"type": "object", "properties": {"a b": TEXT}}, target)
    taken = next(iter(first.schema["properties"]))
    compiled = compile_schema({"type": "object", "properties": {"a b": TEXT, taken: TEXT}}, target)
    assert len(compiled.schema["properties"]) == 2
    given = {name: name for name in compiled.schema["properties"]}
    assert set(compiled.restore(given)) == {"a b", taken}


def test_texts_become_the_values_of_enums() -> None:
    schema = {
        "type": "object",
        "properties": {
            "level": {"type": "integer", "enum": [1, 2]},
            "flags": {"type": "array", "items": {"enum": [True, "yes", 0.5, {"a": 1}]}},
            "name": TEXT,
        },
    }
    given = {"level": "2", "flags": ["true", "yes", "0.5", '{"a":1}', "no"], "name": "1"}
    expected = {"level": 2, "flags": [True, "yes", 0.5, {"a": 1}, "no"], "name": "1"}
    assert restore(schema, "gemini", given) == restore(schema, "gemini-openapi", given) == expected
    assert restore(schema, "openai", given) == given


def test_the_branch_of_a_union_is_found_by_its_fixed_values() -> None:
    one = {"properties": {"kind": {"const": "one"}, "a": {"type": ["string", "null"]}}, "required": ["kind"]}
    two = {"properties": {"kind": {"const": "two"}, "a": TEXT}, "required": ["kind"]}
    union = {"oneOf": [{"type": "object", **one}, {"type": "object", **two}]}
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": union}}}
    compiled = compile_schema(schema, "openai-strict")
    assert compiled.strict and compiled.losses == ()
    given = {"list": [{"kind": "one", "a": None}, {"kind": "two", "a": None}]}
    assert compiled.restore(given) == {"list": [{"kind": "one", "a": None}, {"kind": "two"}]}


def test_definitions_that_contain_themselves_are_restored_at_every_depth() -> None:
    node = {"type": "object", "properties": {"name": TEXT, "next": {"$ref": "#/$defs/Node"}}}
    schema = {"type": "object", "properties": {"head": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    given = {"head": {"name": None, "next": {"name": "x", "next": {"name": "y", "next": None}}}}
    expected = {"head": {"next": {"name": "x", "next": {"name": "y"}}}}
    assert restore(schema, "openai-strict", given) == expected


def test_arguments_nested_too_deeply_are_left_as_they_are() -> None:
    value: Any = None
    for _ in range(5_000):
        value = {"next": [value]}
    schema = {"type": "object", "properties": {"next": {"type": "array", "items": {"$ref": "#"}}}}
    for target in get_args(Target):
        assert restore(schema, target, value) is value


def test_all_variants_of_a_provider_restore_in_the_same_way() -> None:
    pairs: tuple[tuple[Target, Target], ...] = (
        ("anthropic", "anthropic-strict"),
        ("openai", "openai-strict"),
        ("gemini", "gemini-openapi"),
    )
    for schema in {**load_corpus(), **hard_schemas()}.values():
        for one, other in pairs:
            assert compile_schema(schema, one).restore == compile_schema(schema, other).restore


def test_the_input_is_shared_with_nothing() -> None:
    for schema in load_corpus().values():
        before = json.dumps(schema)
        for target in (None, *get_args(Target)):
            compiled = compile_schema(schema, target)
            spoil(compiled.schema)
        assert json.dumps(schema) == before


def test_a_changed_result_does_not_change_how_arguments_are_restored() -> None:
    compiled = compile_schema(NESTED, "openai-strict")
    spoil(compiled.schema)
    assert compiled.restore({"name": "x", "limit": None}) == {"name": "x"}


def spoil(value: Any) -> None:
    """Empty all objects and arrays in a value."""
    for inner in list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []:
        spoil(inner)
    if isinstance(value, dict | list):
        value.clear()
