"""Turns any JSON value that a server sent as a schema into a small, well-formed schema of JSON Schema 2020-12.

The normal form has these properties. Keywords have values of the right types; keywords of older drafts are replaced.
References are followed, except to schemas that contain themselves and to those that would make the schema too large:
these are in `definitions` and are referred to as `{"$ref": "#/$defs/NAME"}`. The parts of `allOf` are merged where one
schema can express them; the others stay in `allOf`. Boolean subschemas are `{}` and `{"not": {}}`, except as
`additionalProperties`, `unevaluatedProperties` and `unevaluatedItems`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from ..._util.schema_document import TYPES, SchemaDocument
from .compiled import DROPPED, READ_AS_NULL_TYPE, REPLACED_BY_ANYTHING, LossList
from .merging import Node, is_nothing, merge, nothing, types_in
from .values import TooDeep, copy_json, escape_pointer

MAX_NODES: Final = 10_000
"""Subschemas of a compiled schema."""
MAX_INLINED_NODES: Final = 1_000
"""Subschemas after which references are kept instead of followed."""
MAX_LEVELS: Final = 40
"""Levels of nested subschemas."""
MAX_PARTS: Final = 50
"""Parts of one `allOf` that are merged."""
MAX_DATA_DEPTH: Final = 20
"""Levels of nested values in `enum`, `const`, `default` and `examples`."""

_INVALID: Final = object()

_REMOVED: Final = frozenset(
    {
        *("$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
        *("$defs", "definitions"),
    }
)
"""Keywords without a meaning in a schema that is one document."""
_READ_ELSEWHERE: Final = frozenset({"$ref", "allOf", "nullable", "additionalItems", "dependencies"})
_BRANCHES: Final = ("anyOf", "oneOf")
_IN_PLACE: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas"})
"""Keywords whose subschemas may evaluate properties of the same object."""
_KEEP_BOOLEANS: Final = frozenset({"additionalProperties", "unevaluatedProperties", "unevaluatedItems"})
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class NormalSchema:
    """A schema in normal form, and the definitions that it refers to."""

    root: Node
    definitions: dict[str, Node] = field(default_factory=dict)


def normalize(schema: Any, losses: LossList) -> NormalSchema:
    """Return a schema in normal form. What it cannot express is added to `losses`."""
    return _Normalizer(schema, losses).run()


class _Normalizer:
    def __init__(self, schema: Any, losses: LossList) -> None:
        self._source = schema
        self._document = SchemaDocument(schema)
        self._losses = losses
        self._nodes = 0
        self._descents = 0  # properties and items that lead to the current schema
        self._open: dict[int, int] = {}  # by identity: the schemas around the current one, with their `_descents`
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self._waiting: list[tuple[str, Any]] = []

    def run(self) -> NormalSchema:
        root = self._schema(self._source, "", 0)
        definitions: dict[str, Node] = {}
        for name, source in self._waiting:  # grows while it is read
            definitions[name] = self._schema(source, f"/$defs/{escape_pointer(name)}", 0)
        return NormalSchema(root, definitions)

    def _schema(self, source: Any, pointer: str, level: int) -> Node:
        if source is True:
            return {}
        if source is False:
            return nothing()
        self._nodes += 1
        key = id(source)
        if not isinstance(source, Mapping) or level > MAX_LEVELS or self._nodes > MAX_NODES or key in self._open:
            self._losses.add(pointer, "", REPLACED_BY_ANYTHING)
            return {}
        self._open[key] = self._descents
        try:
            return self._mapping(source, pointer, level)
        finally:
            del self._open[key]

    def _mapping(self, source: Mapping[str, Any], pointer: str, level: int) -> Node:
        found: Node = {}
        for keyword, value in source.items():
            if keyword in _REMOVED or keyword in _READ_ELSEWHERE:
                continue
            read = _READERS.get(keyword)
            value = self._read_schemas(keyword, value, pointer, level) if read is None else read(value)
            if value is _INVALID:
                self._losses.add(pointer, str(keyword), DROPPED)
            elif value is not None or keyword in _DATA:
                found[keyword] = value
        self._read_tuples(source, found, pointer, level)
        self._read_dependencies(source, found, pointer, level)
        if any(found.get(word) == [] for word in _BRANCHES):
            return nothing()  # all branches reject every value
        found = self._with_parts(source, found, pointer, level)
        if source.get("nullable") is True and "type" in found and "null" not in types_in(found):
            self._losses.add(pointer, "nullable", READ_AS_NULL_TYPE)
            found["type"] = [*types_in(found), "null"]
            if "enum" in found:
                found["enum"] = [*found["enum"], None]
        return found

    # ---- references and allOf ----------------------------------------------------------------------------------

    def _with_parts(self, source: Mapping[str, Any], found: Node, pointer: str, level: int) -> Node:
        """Return a schema with those merged into it that also apply: of `$ref`, `allOf`, and unions of one branch."""
        parts: list[Node] = []
        if "$ref" in source:
            parts.append(self._reference(source["$ref"], pointer, level))
        if "allOf" in source:
            listed = source["allOf"]
            if isinstance(listed, list):
                parts += self._list(listed, f"{pointer}/allOf", level)
            else:
                self._losses.add(pointer, "allOf", DROPPED)
        for word in _BRANCHES:
            if word in found and len(found[word]) == 1:
                parts += found.pop(word)
        unevaluated = found.pop("unevaluatedProperties", None)
        rest: list[Node] = []
        for index, part in enumerate(parts):
            merged = merge(found, part) if index < MAX_PARTS else None
            if merged is None:
                rest.append(part)
            else:
                found = dict(merged)
        if rest:
            found["allOf"] = [*found.get("allOf", ()), *rest]
        if unevaluated is not None and "additionalProperties" not in found:
            in_place = found.keys() & _IN_PLACE
            found["unevaluatedProperties" if in_place else "additionalProperties"] = unevaluated
        return found

    def _reference(self, reference: Any, pointer: str, level: int) -> Node:
        target = self._document.resolve(reference)
        if isinstance(target, bool):
            # `True` also stands for a reference that leads nowhere, or out of the document.
            self._losses.add(pointer, "$ref", REPLACED_BY_ANYTHING)
            return {} if target else nothing()
        descents = self._open.get(id(target))
        if descents is None and (self._nodes <= MAX_INLINED_NODES or not self._descents) and level < MAX_LEVELS:
            return self._schema(target, pointer, level + 1)
        if descents == self._descents:  # it only refers to itself
            self._losses.add(pointer, "$ref", REPLACED_BY_ANYTHING)
            return {}
        return {"$ref": f"#/$defs/{self._definition(reference, target)}"}

    def _definition(self, reference: str, target: Any) -> str:
        """Return the name of the definition for the target of a reference."""
        key = id(target)
        if key not in self._names:
            base = _NOT_IN_A_NAME.sub("_", reference.rpartition("/")[2].lstrip("#"))[:50] or "root"
            name, count = base, 1
            while name in self._taken:
                count += 1
                name = f"{base}_{count}"
            self._taken.add(name)
            self._names[key] = name
            self._waiting.append((name, target))
        return self._names[key]

    # ---- subschemas --------------------------------------------------------------------------------------------

    def _read_schemas(self, keyword: str, value: Any, pointer: str, level: int) -> Any:
        """Return the value of a keyword that contains schemas: `_INVALID` if it is not well-formed, None if empty."""
        form = _FORMS.get(keyword)
        if form is None or not isinstance(value, form):
            # An unknown keyword is an annotation.
            return _INVALID
        if keyword in _KEEP_BOOLEANS and isinstance(value, bool):
            return value
        if keyword == "items" and isinstance(value, list):
            return None  # read with `additionalItems`
        place = f"{pointer}/{keyword}"
        self._descents += keyword in _DESCENDING
        try:
            if isinstance(value, list):
                return self._branches(keyword, value, place, level)
            if keyword in _MAPS:
                return self._map(value, place, level) or (None if keyword != "properties" else {})
            return self._schema(value, place, level + 1)
        finally:
            self._descents -= keyword in _DESCENDING

    def _branches(self, keyword: str, sources: list[Any], pointer: str, level: int) -> Any:
        found = self._list(sources, pointer, level)
        if not sources:
            return _INVALID
        return [node for node in found if not is_nothing(node)] if keyword in _BRANCHES else found

    def _list(self, sources: list[Any], pointer: str, level: int) -> list[Node]:
        found = []
        for index, source in enumerate(sources):
            if self._nodes > MAX_NODES:
                self._losses.add(pointer, "", REPLACED_BY_ANYTHING)
                break
            found.append(self._schema(source, f"{pointer}/{index}", level + 1))
        return found

    def _map(self, sources: Mapping[str, Any], pointer: str, level: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for name, source in sources.items():
            if self._nodes > MAX_NODES:
                self._losses.add(pointer, "", REPLACED_BY_ANYTHING)
                break
            found[str(name)] = self._schema(source, f"{pointer}/{escape_pointer(str(name))}", level + 1)
        return found

    def _read_tuples(self, source: Mapping[str, Any], found: Node, pointer: str, level: int) -> None:
        """Replace `items` with a list, and `additionalItems`, of the older drafts."""
        listed = source.get("items")
        if not isinstance(listed, list):
            return
        self._descents += 1
        if listed and "prefixItems" not in found:
            found["prefixItems"] = self._list(listed, f"{pointer}/items", level)
        if "additionalItems" in source:
            found["items"] = self._schema(source["additionalItems"], f"{pointer}/additionalItems", level + 1)
        self._descents -= 1

    def _read_dependencies(self, source: Mapping[str, Any], found: Node, pointer: str, level: int) -> None:
        """Replace `dependencies` of the older drafts."""
        listed = source.get("dependencies")
        if not isinstance(listed, Mapping):
            if "dependencies" in source:
                self._losses.add(pointer, "dependencies", DROPPED)
            return
        names = {str(name): value for name, value in listed.items() if isinstance(value, list)}
        schemas = {name: value for name, value in listed.items() if not isinstance(value, list)}
        required = _read_dependent(names)
        if required is _INVALID or found.keys() & {"dependentRequired", "dependentSchemas"}:
            self._losses.add(pointer, "dependencies", DROPPED)
            return
        if required:
            found["dependentRequired"] = required
        if schemas:
            found["dependentSchemas"] = self._map(schemas, f"{pointer}/dependencies", level)


# ---- values: each reader returns a well-formed value, None if there is nothing to say, or `_INVALID` ---------------


def _read_text(value: Any) -> Any:
    return value if isinstance(value, str) else _INVALID


def _read_bool(value: Any) -> Any:
    return value if isinstance(value, bool) else _INVALID


def _read_number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return value if is_number else _INVALID


def _read_positive(value: Any) -> Any:
    return value if _read_number(value) is value and value > 0 else _INVALID


def _read_count(value: Any) -> Any:
    return int(value) if _read_number(value) is value and value >= 0 and value == int(value) else _INVALID


def _read_type(value: Any) -> Any:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        return _INVALID
    names = list(dict.fromkeys(names))
    if "integer" in names and "number" in names:
        names.remove("integer")
    return names[0] if len(names) == 1 else names


def _read_data(value: Any) -> Any:
    try:
        return copy_json(value, MAX_DATA_DEPTH)
    except TooDeep:
        return _INVALID


def _read_values(value: Any) -> Any:
    return _read_data(value) if isinstance(value, list) and value else _INVALID


def _read_names(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return _INVALID
    return list(dict.fromkeys(value)) or None


def _read_dependent(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return _INVALID
    found = {str(name): _read_names(names) for name, names in value.items()}
    if _INVALID in found.values():
        return _INVALID
    return {name: names for name, names in found.items() if names} or None


_DATA: Final = frozenset({"const", "default"})
"""Keywords whose value may be null."""
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "type": _read_type,
    "enum": _read_values,
    "const": _read_data,
    "default": _read_data,
    "examples": _read_values,
    "required": _read_names,
    "dependentRequired": _read_dependent,
    "multipleOf": _read_positive,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _read_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _read_count),
    **dict.fromkeys(("minContains", "maxContains"), _read_count),
    **dict.fromkeys(("title", "description", "pattern", "format"), _read_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _read_text),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _read_bool),
}
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DESCENDING: Final = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "prefixItems", "contains", "unevaluatedItems"),
    }
)
_FORMS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(_MAPS, Mapping),
    **dict.fromkeys(("anyOf", "oneOf", "prefixItems"), list),
    "items": object,
    **dict.fromkeys(("contains", "not", "if", "then", "else", "propertyNames"), object),
    **dict.fromkeys(_KEEP_BOOLEANS, object),
}
