"""Validation of arguments against schemas that servers supply."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.policy.json_schema import ArgumentValidator

TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"type": "string"}},
    "required": ["name"],
}


def nested_branches(levels: int) -> dict[str, Any]:
    """Return a schema in which each level refers four times to the next one."""
    definitions: dict[str, Any] = {f"l{levels}": {"type": "string"}}
    for level in range(levels):
        definitions[f"l{level}"] = {"anyOf": [{"$ref": f"#/$defs/l{level + 1}"}] * 4}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": definitions}


def deep(levels: int) -> Any:
    value: Any = {"name": 1}
    for _ in range(levels):
        value = {"name": "x", "a": value, "children": [value]}
    return value


def test_arguments_that_violate_the_schema_are_reported_with_their_place() -> None:
    validator = ArgumentValidator(
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path", "mode"]}
    )
    assert validator.problems({"path": 1}) == ['"mode" is a required property', 'path: 1 is not of type "string"']
    assert validator.problems({"path": "a", "mode": 1}) == []


def test_a_schema_of_nested_branches_is_not_enforced() -> None:
    validator = ArgumentValidator(nested_branches(12))
    assert validator.reason == "the schema has more than 10,000 nodes with its references followed"
    assert validator.problems({"a": None}) == []
    assert ArgumentValidator(nested_branches(3)).problems({"a": None}), "a small one is"


def test_a_recursive_schema_is_enforced() -> None:
    validator = ArgumentValidator(TREE)
    assert validator.problems({"name": "a", "children": [{"name": "b"}]}) == []
    assert validator.problems({"name": "a", "children": [{}]}) == ['children.0: "name" is a required property']


def test_a_value_whose_levels_multiply_the_work_is_not_validated() -> None:
    """Two references of a schema to itself at the same place double the work at each level of the value."""
    twice = {
        "anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}],
        "required": ["name"],
    }
    validator = ArgumentValidator(twice)
    assert validator.problems({"b": 1})
    assert validator.problems(deep(14)) == []


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:1/x"}, 3, None], ids=str)
def test_an_invalid_schema_is_not_enforced(schema: Any) -> None:
    validator = ArgumentValidator(schema)
    assert validator.reason
    assert validator.problems({"a": 1}) == []


def test_a_long_chain_of_references_is_measured_without_recursion_errors() -> None:
    definitions = {f"d{i}": {"items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(5_000)}
    assert ArgumentValidator({"$ref": "#/$defs/d0", "$defs": definitions}).reason
