"""Unions and types of schemas in normal form: which values they accept, and how they are split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..._util.schema_document import MAX_ALTERNATIVES, SchemaDocument
from .merging import ANNOTATIONS, Node, is_nothing, merge, types_in
from .values import equal_json, has_type, type_of

_BY_TYPE: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset(
        {
            *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
            *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
        }
    ),
    "array": frozenset(
        {
            *("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains"),
            *("maxContains", "unevaluatedItems"),
        }
    ),
    "string": frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
"""Keywords that apply only to values of one type."""
_NUMERIC_FORMATS: Final = frozenset({"int32", "int64", "float", "double"})


def infer_types(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types of the values that a schema without a type is about; empty if it does not say."""
    if "const" in node or "enum" in node:
        values = [node["const"]] if "const" in node else node["enum"]
        found = dict.fromkeys(type_of(value) for value in values)
        if "number" in found:
            found.pop("integer", None)
        return tuple(found)
    for name, keywords in _BY_TYPE.items():
        if keywords & node.keys():
            return (name,)
    return ()


def keep_relevant(node: Node, types: tuple[str, ...]) -> None:
    """Remove keywords and values that apply only to other types than these."""
    kinds = {"number" if name == "integer" else name for name in types}
    for name, keywords in _BY_TYPE.items():
        if name not in kinds:
            for keyword in keywords & node.keys():
                if keyword != "format" or "number" not in kinds or node[keyword] not in _NUMERIC_FORMATS:
                    del node[keyword]
    if "enum" in node:
        values = [value for value in node["enum"] if any(has_type(value, name) for name in types)]
        if values:
            node["enum"] = values


def split_types(node: Node, types: Iterable[str]) -> Node:
    """Return a union with one branch for each of these types."""
    branches = []
    for name in types:
        branch = {key: value for key, value in node.items() if key not in ANNOTATIONS}
        branch["type"] = name
        keep_relevant(branch, (name,))
        if name == "null":
            branch = {"type": "null"}
        branches.append(branch)
    return {**{key: value for key, value in node.items() if key in ANNOTATIONS}, "anyOf": branches}


def distribute(node: Node, word: str) -> tuple[Node, list[str]]:
    """Return a union without assertions beside it, and the keywords that could not be moved into its branches."""
    base = {key: value for key, value in node.items() if key != word and key not in ANNOTATIONS}
    if not base:
        return node, []
    branches = []
    left: list[str] = []
    for branch in node[word]:
        merged = merge(base, branch)
        if merged is None:
            left = list(base)
            merged = branch
        if not is_nothing(merged):
            branches.append(merged)
    outer: Node = {key: value for key, value in node.items() if key in ANNOTATIONS}
    if len(branches) == 1:
        return {**branches[0], **outer}, left
    return ({**outer, word: branches} if branches else {**outer, "not": {}}), left


def are_disjoint(branches: list[Node]) -> bool:
    """Return whether no value matches two branches, as far as types and a property with fixed values show it."""
    if len(branches) > MAX_ALTERNATIVES:
        return False
    kinds: list[str] = []
    for branch in branches:
        types = types_in(branch) or (infer_types(branch) if "enum" in branch or "const" in branch else ())
        if not types:
            break
        kinds += {"number" if name == "integer" else name for name in types}
    else:
        if len(kinds) == len(set(kinds)):
            return True
    common = set.intersection(*(_fixed_properties(branch) for branch in branches)) if branches else set()
    return any(_are_different([_values(branch["properties"][name]) for branch in branches]) for name in common)


def _fixed_properties(branch: Node) -> set[str]:
    """Return the names of required properties that have one of a few values."""
    if types_in(branch) != ("object",):
        return set()
    properties = branch.get("properties", {})
    return {name for name in branch.get("required", ()) if _values(properties.get(name, {}))}


def _values(node: Node) -> list[Any]:
    values = [node["const"]] if "const" in node else node.get("enum", [])
    return values if len(values) <= MAX_ALTERNATIVES else []


def _are_different(lists: list[list[Any]]) -> bool:
    values = [value for listed in lists for value in listed]
    if len(values) > MAX_ALTERNATIVES:
        return False
    return not any(equal_json(one, other) for place, one in enumerate(values) for other in values[:place])


def refuses(plain: Mapping[str, Any], value: Any) -> bool:
    """Return whether a schema without references and branches rejects a plain value, by type and fixed values."""
    named = plain.get("type")
    if named is not None and not has_type(value, named):
        return True
    if is_nothing(plain):
        return True
    if "const" in plain:
        return not equal_json(plain["const"], value)
    return "enum" in plain and not any(equal_json(each, value) for each in plain["enum"])


def accepts_null(document: SchemaDocument, node: Mapping[str, Any]) -> bool:
    """Return whether a schema may accept null."""
    return any(not refuses(each, None) for each in document.alternatives(node))
