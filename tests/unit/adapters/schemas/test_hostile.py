"""Schemas from servers that are wrong, huge, or made to waste time: no exceptions, and bounded work."""

from __future__ import annotations

import copy
import json
import sys
import time
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.corpus import hard_schemas
from tests.adapters.generated import JSON
from toolcrib.adapters.schemas import CompiledSchema, Target, compile_schema
from toolcrib.adapters.schemas.compiled import MAX_LOSSES
from toolcrib.adapters.schemas.normalizing import MAX_NODES

TARGETS: tuple[Target | None, ...] = (None, *get_args(Target))
KEYWORDS = (
    *("type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref", "$defs"),
    *("additionalProperties", "prefixItems", "if", "then", "dependencies", "dependentRequired", "minimum", "pattern"),
    *("format", "default", "nullable", "description", "$anchor", "patternProperties", "unevaluatedProperties"),
)
GARBAGE = st.recursive(
    JSON | st.sampled_from(["object", "string", "#", "#/$defs/a", "#/properties/a", "array"]),
    lambda inner: st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=25,
)


def count_nodes(value: Any) -> int:
    waiting, count = [value], 0
    while waiting:
        each = waiting.pop()
        count += isinstance(each, dict)
        waiting += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return count


def check(compiled: CompiledSchema) -> None:
    """Check what holds for every compiled schema."""
    assert str(compiled.schema["type"]).lower() == "object"
    assert isinstance(compiled.schema["properties"], dict)
    json.dumps(compiled.schema)
    copy.deepcopy(compiled.schema)
    assert len(compiled.losses) <= MAX_LOSSES + 1


@given(schema=GARBAGE)
def test_any_json_value_compiles(schema: Any) -> None:
    before = json.dumps(schema)
    for target in TARGETS:
        compiled = compile_schema(schema, target)
        check(compiled)
        assert compiled == compile_schema(copy.deepcopy(schema), target)
    assert json.dumps(schema) == before


@given(schema=GARBAGE, arguments=st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_restore_never_raises_and_does_not_change_its_input(schema: Any, arguments: dict[str, Any]) -> None:
    before = json.dumps(arguments)
    for target in TARGETS:
        restored = compile_schema(schema, target).restore(arguments)
        assert json.dumps(arguments) == before
        json.dumps(restored)


@pytest.mark.parametrize("target", TARGETS)
def test_hard_schemas_compile(target: Target | None) -> None:
    for schema in hard_schemas().values():
        check(compile_schema(schema, target))


def nested(keyword: str, levels: int, as_list: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        inner: Any = {"a": schema} if keyword == "properties" else [schema] if as_list else schema
        schema = {keyword: inner}
    return schema


DEEP = sys.getrecursionlimit() * 5


@pytest.mark.parametrize(
    "schema",
    [
        nested("properties", DEEP),
        nested("items", DEEP),
        nested("not", DEEP),
        nested("allOf", DEEP, as_list=True),
        nested("anyOf", DEEP, as_list=True),
        {"properties": {"a": {"default": nested("a", DEEP), "enum": [nested("a", DEEP)], "const": nested("a", DEEP)}}},
        {"x-data": nested("a", DEEP)},
    ],
    ids=["properties", "items", "not", "allOf", "anyOf", "data", "unknown keyword"],
)
def test_nesting_beyond_the_limit_of_python_is_cut(schema: dict[str, Any]) -> None:
    for target in TARGETS:
        compiled = compile_schema({"type": "object", **schema}, target)
        check(compiled)
        assert compiled.losses


def test_references_that_multiply_stay_within_the_limit_of_nodes() -> None:
    levels = {
        f"n{level}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/n{level + 1}"} for name in "abcdefgh"}}
        for level in range(30)
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n0"}}, "$defs": {**levels, "n30": {}}}
    for target in TARGETS:
        compiled = compile_schema(schema, target)
        check(compiled)
        assert count_nodes(compiled.schema) < 4 * MAX_NODES


def wide(size: int) -> list[dict[str, Any]]:
    """Return schemas of about this size that could need more than linear time."""
    parts = [{"type": "object", "properties": {f"p{number}": {"minLength": 1}}} for number in range(size)]
    return [
        {"type": "object", "properties": {f"p {number}": {"type": ["string", "null"]} for number in range(size)}},
        {"type": "object", "allOf": parts},
        {"type": "object", "anyOf": parts},
        {"type": "object", "oneOf": [{**part, "required": list(part["properties"])} for part in parts]},
        {"type": "object", "properties": {"a": {"oneOf": [{"const": number} for number in range(size)]}}},
        {"type": "object", "properties": {"a": {"enum": list(range(size))}}, "required": list(map(str, range(size)))},
        {"type": "object", "properties": {"a": {"allOf": [{"enum": list(range(size))}, {"enum": list(range(size))}]}}},
        {"type": "object", "properties": {f"p{number}": {"$ref": "#"} for number in range(size)}},
        {
            "type": "object",
            "properties": {f"p{number}": {"$ref": f"#/$defs/{number}"} for number in range(size)},
            "$defs": {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(size)},
        },
        {"type": "object", "dependentRequired": {str(number): ["a"] for number in range(size)}},
        {"type": "object", "properties": {"a": {"prefixItems": [{"const": number} for number in range(size)]}}},
        {"type": "object", "properties": {"a": {"pattern": "a" * size, "description": "d" * size}}},
    ]


@pytest.mark.serial
def test_the_time_grows_no_faster_than_the_schema() -> None:
    targets: tuple[Target, ...] = ("anthropic", "openai-strict", "gemini-openapi", "nullable")
    for small, large in zip(wide(500), wide(4_000), strict=True):
        for target in targets:
            seconds = []
            for schema in (small, large):
                best = 60.0
                for _ in range(2):
                    begin = time.perf_counter()
                    compile_schema(schema, target)
                    best = min(best, time.perf_counter() - begin)
                seconds.append(best)
            assert seconds[1] < 30 * seconds[0] + 0.05, (target, seconds, str(small)[:100])


def test_notes_in_descriptions_are_short() -> None:
    schema = {"type": "string", "pattern": "^(?=" + "a" * 10_000 + ")", "default": "d" * 10_000, "minLength": 3}
    compiled = compile_schema({"type": "object", "properties": {"a": schema}, "required": ["a"]}, "openai-strict")
    assert len(compiled.schema["properties"]["a"]["description"]) <= 400


def test_losses_are_limited_in_number() -> None:
    schema = {"type": "object", "properties": {f"p{number}": {"x-y": 1} for number in range(1_000)}}
    losses = compile_schema(schema, "openai").losses
    assert len(losses) == MAX_LOSSES + 1
    assert losses[-1].action == "further losses are not listed"
    assert losses[-1].widens
