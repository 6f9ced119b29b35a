"""Reads JSON Schemas from servers: their references, their subschemas, and the alternatives that they describe.

Only what is certain is read: anything else is treated as the schema `True` or `{}`, which accepts all values. All work
is linear in the size of the document, for any references and branches, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

Schema = Mapping[str, Any] | bool
"""A JSON Schema. `True` accepts every value, `False` none."""

Alternatives = tuple[Mapping[str, Any], ...]

TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""The types of JSON Schema."""

MAX_DEPTH: Final = 32
"""Levels of nested references and branches that are followed."""
MAX_ALTERNATIVES: Final = 50
"""Alternatives of one schema, and parts of one `allOf`, that are read."""
MAX_KEYWORDS: Final = 200
"""Keywords of a schema that is merged with another one."""
MAX_SEARCHED: Final = 10_000
"""Subschemas that are searched for anchors."""

_BRANCHES: Final = ("anyOf", "oneOf")
_EXPANDED: Final = frozenset({"$ref", "allOf", "nullable", "type", *_BRANCHES})
_TYPE_ONLY: Final = frozenset({"type"})
_ANYTHING: Final[Mapping[str, Any]] = {}

# The keywords whose values contain schemas. All other values are data.
_MAPS: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
_PLACES: Final = _MAPS | frozenset(
    {
        *("additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if"),
        *("items", "not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Any]]:
    """Yield each direct subschema: its keyword, its name if the keyword's value is a map, and the subschema."""
    for keyword, inner in schema.items():
        if keyword not in _PLACES:
            continue
        if keyword in _MAPS and isinstance(inner, Mapping):
            for name, part in inner.items():
                yield keyword, name, part
        else:
            for part in inner if isinstance(inner, list) else (inner,):
                yield keyword, None, part


def list_of(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the list that is the value of a keyword; an empty list for any other value."""
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types that a schema names; empty if it names none, or an unknown one."""
    named = schema.get("type")
    names: list[Any] = named if isinstance(named, list) else [named]
    return tuple(dict.fromkeys(names)) if all(isinstance(name, str) and name in TYPES for name in names) else ()


class SchemaDocument:
    """A schema with the definitions that its references point to.

    Results are cached, so the schema must not change while the document is in use.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._resolved: dict[str, Schema] = {}
        # By identity. Each entry keeps its schema alive, so that no other object can get the same identity.
        self._alternatives: dict[int, tuple[Mapping[str, Any], Alternatives]] = {}

    def resolve(self, reference: object) -> Schema:
        """Return the schema that a local reference points to; `True` for any other reference."""
        if not isinstance(reference, str):
            return True
        if reference not in self._resolved:
            self._resolved[reference] = self._find(reference)
        return self._resolved[reference]

    def dereference(self, schema: Any) -> dict[str, Any]:
        """Return a schema with its reference replaced by its target; keywords beside the reference take precedence.

        A reference that is the only part of `allOf` is replaced too: pydantic before 2.9 writes such schemas.
        """
        merged: dict[str, Any] = {}
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, Mapping):
                break
            parts = list_of(schema, "allOf")
            inner = parts[0] if len(parts) == 1 and "$ref" not in schema else None
            left_out = ("$ref",) if inner is None else ("$ref", "allOf")
            merged = {**{key: value for key, value in schema.items() if key not in left_out}, **merged}
            schema = inner if inner is not None else self.resolve(schema["$ref"]) if "$ref" in schema else None
        return merged

    def alternatives(self, schema: Any) -> Alternatives:
        """Return plain schemas, without references and branches and with at most one type; a value must match one.

        None is stricter than the schema, so the schema rejects a value that no alternative accepts. `False` has no
        alternatives. The empty schema stands for what is not certain: references that are unresolved or circular, and
        branches beyond the limits.
        """
        return self._expand(schema, 0)

    def properties(self, schema: Any) -> dict[str, Any]:
        """Return the schemas of all properties that a schema names."""
        found: dict[str, Any] = {}
        for each in self.alternatives(schema):
            named = each.get("properties")
            if isinstance(named, Mapping):
                found = {**named, **found} if found else dict(named)
        return found

    def _expand(self, schema: Any, depth: int) -> Alternatives:
        if not isinstance(schema, (dict, Mapping)):  # `dict` first: the check of an abstract class is slow
            return () if schema is False else (_ANYTHING,)
        key = id(schema)
        if key not in self._alternatives:
            self._alternatives[key] = (schema, (_ANYTHING,))  # the result for circular references
            self._alternatives[key] = (schema, tuple(self._alternatives_of(schema, depth)))
        return self._alternatives[key][1]

    def _alternatives_of(self, schema: Mapping[str, Any], depth: int) -> Iterable[Mapping[str, Any]]:
        to_expand = _EXPANDED.intersection(schema)
        if not to_expand or (to_expand == _TYPE_ONLY and isinstance(schema["type"], str) and types_of(schema)):
            return (schema,)
        if depth > MAX_DEPTH:
            return (_ANYTHING,)
        if "$ref" in schema:
            # Older drafts ignore keywords beside a reference, so these are not certain and are not read.
            found = self._expand(self.resolve(schema["$ref"]), depth + 1)
        else:
            found = self._combined(schema, depth)
        return (*found, {"type": "null"}) if schema.get("nullable") is True else found

    def _combined(self, schema: Mapping[str, Any], depth: int) -> Alternatives:
        own = {key: value for key, value in schema.items() if key not in _EXPANDED}
        found: Alternatives = tuple({**own, "type": name} for name in types_of(schema)) or (own,)
        for part in list_of(schema, "allOf")[:MAX_ALTERNATIVES]:
            found = _all_of(found, self._expand(part, depth + 1))
        for word in _BRANCHES:
            if branches := list_of(schema, word):
                found = _all_of(found, self._any_of(branches, depth + 1))
        return found

    def _any_of(self, branches: list[Any], depth: int) -> Alternatives:
        read = branches[:MAX_ALTERNATIVES]
        found = tuple(islice((each for branch in read for each in self._expand(branch, depth)), MAX_ALTERNATIVES + 1))
        complete = len(found) <= MAX_ALTERNATIVES and len(branches) == len(read)
        return found if complete else (*found[: MAX_ALTERNATIVES - 1], _ANYTHING)

    def _find(self, reference: str) -> Schema:
        if not reference.startswith("#"):
            return True
        fragment = unquote(reference[1:])
        found: Any = self.root
        if fragment and not fragment.startswith("/"):
            found = self._anchors.get(fragment, True)
        else:
            for part in fragment.split("/")[1:]:
                found = _member(found, part.replace("~1", "/").replace("~0", "~"))
        return found if isinstance(found, Mapping | bool) else True

    @cached_property
    def _anchors(self) -> dict[str, Schema]:
        found: dict[str, Schema] = {}
        waiting: list[Any] = [self.root]
        for schema in islice(waiting, MAX_SEARCHED):
            if isinstance(schema, Mapping):
                if isinstance(name := schema.get("$anchor"), str):
                    found.setdefault(name, schema)
                waiting += islice((part for _, _, part in subschemas(schema)), MAX_SEARCHED)
        return found


def _member(place: Any, name: str) -> Any:
    if isinstance(place, Mapping):
        return place.get(name)
    if isinstance(place, list) and name.isdecimal() and len(name) < 10 and int(name) < len(place):
        return place[int(name)]
    return None


def _all_of(one: Alternatives, other: Alternatives) -> Alternatives:
    """Return the alternatives of two schemas that both apply. If there are too many, the second is not read."""
    if len(one) * len(other) > MAX_ALTERNATIVES:
        return one
    pairs = (_merged(first, second) for first in one for second in other)
    return tuple(each for each in pairs if each is not None)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return two plain schemas merged into one, or None if their types exclude each other.

    If both have a keyword, that of the first is used; properties of both are kept.
    """
    if not other or len(other) > MAX_KEYWORDS:
        return one
    merged = {**other, **one}
    if "type" in one and "type" in other and one["type"] != other["type"]:
        if {one["type"], other["type"]} != {"integer", "number"}:
            return None
        merged["type"] = "integer"
    if isinstance(first := one.get("properties"), Mapping) and isinstance(second := other.get("properties"), Mapping):
        merged["properties"] = {**second, **first}
    if "minContains" in merged and "contains" in merged:
        # `minContains` belongs to the `contains` of the same schema.
        merged["minContains"] = (one if "contains" in one else other).get("minContains", 1)
    return merged
