"""Merges two schemas in normal form that both apply, as the parts of `allOf` do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .values import equal_json, has_type

Node = dict[str, Any]
"""A schema in normal form; see `normalizing`."""

ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords that reject no value."""

# Keywords that are read together: those of one schema do not apply to those of another.
_GROUPS: Final = (
    frozenset({"if", "then", "else"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"items", "prefixItems"}),
)
_EVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")


class _NotMergeable(Exception):
    """One schema cannot express both."""


class _Contradiction(Exception):
    """No value matches both."""


def nothing() -> Node:
    """Return the schema that rejects every value."""
    return {"not": {}}


def is_nothing(node: Mapping[str, Any]) -> bool:
    """Return whether a schema in normal form rejects every value."""
    return node.get("not") == {}


def merge(one: Node, other: Node) -> Node | None:
    """Return one schema for two that both apply; None if one schema cannot express both.

    Annotations of the first take precedence. Parts may be shared with the arguments.
    """
    try:
        return _merge(one, other)
    except _NotMergeable:
        return None
    except _Contradiction:
        return nothing()


def _merge(one: Node, other: Node) -> Node:
    if not other:
        return one
    if not one:
        return other
    if is_nothing(one) or is_nothing(other):
        return nothing()
    _check(one, other)
    merged = {**other, **one}
    for keyword in one.keys() & other.keys():
        first, second = one[keyword], other[keyword]
        if keyword in ANNOTATIONS or first is second or equal_json(first, second):
            continue
        rule = _RULES.get(keyword)
        if rule is None:
            raise _NotMergeable
        merged[keyword] = rule(first, second)
    _match_values(merged)
    return merged


def _check(one: Node, other: Node) -> None:
    for first, second in ((one, other), (other, one)):
        if "$ref" in first and not second.keys() <= ANNOTATIONS:
            raise _NotMergeable
        if any(keyword in first for keyword in _EVALUATED) and not second.keys() <= ANNOTATIONS:
            raise _NotMergeable
        rest = first.get("additionalProperties", True)
        is_open = rest is True or rest == {}
        known = first.get("properties", {}).keys()
        if not is_open and ("patternProperties" in second or not second.get("properties", {}).keys() <= known):
            raise _NotMergeable
    for group in _GROUPS:
        mine, others = group & one.keys(), group & other.keys()
        if mine and others and not mine == others == {"items"}:
            raise _NotMergeable


def _match_values(merged: Node) -> None:
    """Keep only the values of `enum` and `const` that have the type; raise if none is left."""
    if "const" in merged and "enum" in merged:
        if not any(equal_json(merged["const"], value) for value in merged["enum"]):
            raise _Contradiction
        del merged["enum"]
    types = types_in(merged)
    if types and "enum" in merged:
        values = [value for value in merged["enum"] if any(has_type(value, name) for name in types)]
        if not values:
            raise _Contradiction
        merged["enum"] = values
    if types and "const" in merged and not any(has_type(merged["const"], name) for name in types):
        raise _Contradiction


def types_in(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types that a schema in normal form names."""
    named = node.get("type", ())
    return (named,) if isinstance(named, str) else tuple(named)


def _types(one: Any, other: Any) -> Any:
    first, second = types_in({"type": one}), types_in({"type": other})
    common = [name for name in first if name in second or (name == "integer" and "number" in second)]
    common += [name for name in second if name == "integer" and "number" in first and name not in common]
    if not common:
        raise _Contradiction
    return common[0] if len(common) == 1 else common


def _values(one: list[Any], other: list[Any]) -> list[Any]:
    if len(one) * len(other) > 10_000:
        raise _NotMergeable
    common = [value for value in one if any(equal_json(value, each) for each in other)]
    if not common:
        raise _Contradiction
    return common


def _no_value(_one: Any, _other: Any) -> Any:
    raise _Contradiction


def _schemas(one: Any, other: Any) -> Any:
    if isinstance(one, bool) or isinstance(other, bool):
        raise _NotMergeable
    return _merge(one, other)


def _properties(one: dict[str, Node], other: dict[str, Node]) -> dict[str, Node]:
    merged = {**one, **{name: node for name, node in other.items() if name not in one}}
    for name in one.keys() & other.keys():
        found = merge(one[name], other[name])
        if found is None:
            raise _NotMergeable
        merged[name] = found
    return merged


def _patterns(one: dict[str, Node], other: dict[str, Node]) -> dict[str, Node]:
    if one.keys() & other.keys():
        raise _NotMergeable
    return {**one, **other}


def _additional(one: Any, other: Any) -> Any:
    if one is True or one == {}:
        return other
    if other is True or other == {}:
        return one
    raise _NotMergeable


def _names(one: list[str], other: list[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


def _either(one: bool, other: bool) -> bool:
    return one or other


_RULES: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "type": _types,
    "enum": _values,
    "const": _no_value,
    "properties": _properties,
    "patternProperties": _patterns,
    "additionalProperties": _additional,
    "required": _names,
    "items": _schemas,
    "uniqueItems": _either,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
