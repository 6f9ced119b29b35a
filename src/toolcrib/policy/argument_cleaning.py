"""Removes what models write for "nothing", such as `null` and `[]`, from the arguments of a call.

`clean` always removes it. `clean_for_schema` removes it only where the tool's schema certainly rejects the value,
because null can have a meaning. It reads the schema through `SchemaDocument`, not through a validator: servers supply
the schemas, and the work of a validator is unbounded. jsonschema-rs needs more than a minute to list the errors of a
null for ten levels of `anyOf` with four references each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .._util.schema_document import TYPES, Schema, SchemaDocument, types_of

MAX_DEPTH = 128
"""Levels of nested arguments that are cleaned; messages nested deeper are rejected when they are sent."""

# A schema made only of these is read completely, so `not` of such a schema is certain.
_PLAIN_KEYWORDS = frozenset({"type", "enum", "const", "title", "description", "default", "examples", "$comment"})

# Tuples, because `dict | list` would build a union at every check.
_ARRAYS = (list, tuple)
_CONTAINERS = (dict, list, tuple)
_SCALARS = frozenset({str, int, float, bool})


# ---- always --------------------------------------------------------------------------------------------------


def clean(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments cleaned by four rules; the input is not changed.

    1. Nulls are removed. 2. Strings in a `sources` array become `{"type": ...}`. 3. Objects and arrays inside are
    cleaned in the same way. 4. Objects and arrays that are then empty are removed too.
    """
    return _clean_object(arguments, 0)


def _clean_object(value: Mapping[str, Any], depth: int) -> dict[str, Any]:
    cleaned = {}
    for key, item in value.items():
        kept = _clean_value(_typed_sources(item) if key == "sources" else item, depth + 1)
        if not _is_nothing(kept):
            cleaned[key] = kept
    return cleaned


def _typed_sources(value: Any) -> Any:
    if not isinstance(value, _ARRAYS):
        return value
    return [{"type": source} if isinstance(source, str) else source for source in value]


def _clean_value(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return _clean_object(value, depth)
    if isinstance(value, _ARRAYS):
        return [item for item in (_clean_value(item, depth + 1) for item in value) if not _is_nothing(item)]
    return value


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, _CONTAINERS) and not value)


def clean_tool_arguments(arguments: Mapping[str, Any], schema: Schema | None = None) -> dict[str, Any]:
    """Return the arguments without what models write for "nothing", as a client's option `clean_arguments` does.

    Without a schema, nulls, empty objects and empty arrays are removed at every depth, and strings in an array named
    `sources` become `{"type": ...}` (`clean_arguments="always"`). With the tool's `input_schema`, both happens only
    where the schema rejects the value (`clean_arguments="schema"`). The input is not changed.
    """
    return clean(arguments) if schema is None else dict(clean_for_schema(dict(arguments), schema))


# ---- by schema -----------------------------------------------------------------------------------------------


def clean_for_schema(arguments: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    """Remove nulls, and objects and arrays that are or become empty, only where the schema rejects them.

    Strings in a `sources` array become `{"type": ...}` only where its items must be objects. The input is not changed;
    if there is nothing to remove, the same object is returned.
    """
    if _SCALARS.issuperset(map(type, arguments.values())) or not _suspicious(arguments, 0):
        return arguments
    if not isinstance(schema, Mapping) or not schema:
        return arguments
    return _SchemaCleaner(schema).clean_object(arguments, schema, 0)


def refuses(schema: Schema, value: Any, root: Schema | None = None) -> bool:
    """Return whether the schema certainly rejects the value. Local references are looked up in `root`."""
    return _SchemaCleaner(schema if root is None else root).refuses(schema, value)


def _suspicious(value: Any, depth: int) -> bool:
    """Return whether there may be anything to remove: a quick check without the schema that settles most calls."""
    if isinstance(value, dict):
        if not value:
            return depth > 0
        for key, item in value.items():
            if item is None or (key == "sources" and isinstance(item, _ARRAYS)):
                return True
            if isinstance(item, _CONTAINERS) and depth < MAX_DEPTH and _suspicious(item, depth + 1):
                return True
        return False
    if not value:
        return True
    return any(
        item is None or (isinstance(item, _CONTAINERS) and depth < MAX_DEPTH and _suspicious(item, depth + 1))
        for item in value
    )


class _SchemaCleaner:
    """Cleans the arguments of one call by a schema. Its methods return the same object if nothing changed."""

    def __init__(self, root: Schema) -> None:
        self._document = SchemaDocument(root)
        # Caches, by identity, of the schemas of properties and items, and of which empty values they reject: large
        # arguments need the same ones many times. The schemas stay alive in the document or in these caches.
        self._parts: dict[tuple[int, str | None], Schema] = {}
        self._refused: dict[tuple[int, type], bool] = {}

    def clean_object(self, value: dict[str, Any], schema: Schema, depth: int) -> dict[str, Any]:
        """Return an object without the null or empty properties that the schema rejects."""
        kept: dict[str, Any] = {}
        changed = False
        for key, item in value.items():
            if item is not None and not isinstance(item, _CONTAINERS):
                kept[key] = item
                continue
            below = self._part(schema, key)
            cleaned = self._clean_value(
                self._typed_sources(item, below) if key == "sources" else item, below, depth + 1
            )
            if self._is_refused_nothing(cleaned, below):
                changed = True
                continue
            kept[key] = cleaned
            changed = changed or cleaned is not item
        return kept if changed else value

    def refuses(self, schema: Schema, value: Any) -> bool:
        """Return whether a schema certainly rejects a value; nested objects and arrays are not examined."""
        return all(self._refuses_plain(each, value) for each in self._document.alternatives(schema))

    def _refuses_plain(self, plain: Mapping[str, Any], value: Any) -> bool:
        if _refuses_whole(plain, value) or ("not" in plain and self._accepts(plain["not"], value)):
            return True
        inside = value.items() if isinstance(value, dict) else ()
        return any(self.refuses(_of_part(plain, key), it) for key, it in inside if not isinstance(it, _CONTAINERS))

    def _accepts(self, schema: Any, value: Any) -> bool:
        """Return whether a schema certainly accepts a value."""
        if not isinstance(schema, Mapping):
            return schema is True
        certain = schema.keys() <= _PLAIN_KEYWORDS and isinstance(schema.get("enum", []), list)
        return certain and bool("type" not in schema or types_of(schema)) and not self.refuses(schema, value)

    def _clean_value(self, value: Any, schema: Schema, depth: int) -> Any:
        if depth > MAX_DEPTH:
            return value
        if isinstance(value, dict):
            return self.clean_object(value, schema, depth)
        if isinstance(value, _ARRAYS):
            below = self._part(schema, None)
            cleaned = [self._clean_value(item, below, depth + 1) for item in value]
            kept = [item for item in cleaned if not self._is_refused_nothing(item, below)]
            return value if _same(kept, value) else kept
        return value

    def _typed_sources(self, value: Any, schema: Schema) -> Any:
        if not isinstance(value, _ARRAYS):
            return value
        below = self._part(schema, None)

        def typed(source: Any) -> Any:
            wrapped = {"type": source}
            fits = isinstance(source, str) and self.refuses(below, source) and not self.refuses(below, wrapped)
            return wrapped if fits else source

        converted = [typed(source) for source in value]
        return value if _same(converted, value) else converted

    def _is_refused_nothing(self, value: Any, schema: Schema) -> bool:
        if not _is_nothing(value):
            return False
        key = (id(schema), type(value))
        if key not in self._refused:
            self._refused[key] = self.refuses(schema, value)
        return self._refused[key]

    def _part(self, schema: Schema, name: str | None) -> Schema:
        """Return the schema of a property, or of the items of an array if `name` is None."""
        key = (id(schema), name)
        if key not in self._parts:
            self._parts[key] = self._read_part(schema, name)
        return self._parts[key]

    def _read_part(self, schema: Schema, name: str | None) -> Schema:
        whole = "array" if name is None else "object"
        # Alternatives of another type are ignored: of "an object or null", only the first has properties.
        plain = [each for each in self._document.alternatives(schema) if each.get("type", whole) == whole]
        parts = [_of_part(each, name) for each in plain]
        if not parts or any(each is True for each in parts):
            return schema is not False
        return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _of_part(plain: Mapping[str, Any], name: str | None) -> Schema:
    """Return a plain schema's schema of a property, or of the items of an array if `name` is None."""
    if name is None:
        # Items whose position has a meaning must keep it.
        found = True if "prefixItems" in plain else plain.get("items", True)
    else:
        properties = plain.get("properties")
        if isinstance(properties, Mapping) and name in properties:
            found = properties[name]
        else:  # a server's regular expression is not evaluated: it may take minutes
            found = True if "patternProperties" in plain else plain.get("additionalProperties", True)
    return found if isinstance(found, Mapping | bool) else True


def _refuses_whole(plain: Mapping[str, Any], value: Any) -> bool:
    """Return whether a plain schema rejects a value, regardless of the values that it contains."""
    if "type" in plain and plain["type"] not in _types_of_value(value):
        return True
    if "const" in plain and plain["const"] != value:
        return True
    choices = plain.get("enum")
    if isinstance(choices, list) and value not in choices:
        return True
    if isinstance(value, dict):
        required = plain.get("required")
        lacks = isinstance(required, list) and any(isinstance(name, str) and name not in value for name in required)
        return lacks or _is_short(value, plain.get("minProperties"))
    if isinstance(value, _ARRAYS):
        needs_one = isinstance(plain.get("contains"), Mapping) and plain.get("minContains", 1) != 0
        return (needs_one and not value) or _is_short(value, plain.get("minItems"))
    return False


def _is_short(value: dict[str, Any] | list[Any] | tuple[Any, ...], least: Any) -> bool:
    return isinstance(least, int | float) and len(value) < least


def _types_of_value(value: Any) -> Collection[str]:
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case float() if not value.is_integer():
            return ("number",)
        case int() | float():
            return ("number", "integer")
        case str():
            return ("string",)
        case list() | tuple():
            return ("array",)
        case dict():
            return ("object",)
        case _:
            return TYPES


def _same(new: list[Any], old: list[Any] | tuple[Any, ...]) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
