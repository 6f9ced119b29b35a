"""What is taken out of a call's arguments before they are sent: models like to write `null` and `[]` for "nothing".

`clean` does it always. `clean_for_schema` does it only where the tool's schema would refuse the value; where the schema
does not say so for sure, the value stays, because a null can mean something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

MAX_DEPTH = 128
"""Arguments nested deeper are no message that we would send; their depths are left as they are."""

_REF_DEPTH = 32
_STEPS = 20_000
# Keywords that leave no doubt, so that `not` of a schema made only of these can be answered.
_PLAIN_KEYWORDS = frozenset({"type", "enum", "const", "title", "description", "default", "examples", "$comment"})
_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})

# Written out: `dict | list` would build the union anew at every look.
_ARRAYS = (list, tuple)
_CONTAINERS = (dict, list, tuple)
_SCALARS = frozenset({str, int, float, bool})

Schema = Mapping[str, Any] | bool


# ---- always --------------------------------------------------------------------------------------------------


def clean(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Clean by four rules; the input stays as it is.

    1. Nulls go. 2. Strings in a `sources` array become `{"type": ...}`. 3. Objects and arrays inside are cleaned the
    same way. 4. Objects and arrays that are empty then go too.
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
    """Return the arguments without what a model writes for "nothing", as `clean_arguments` of a client does.

    Without a schema: nulls, empty objects and empty arrays are removed at every depth, and strings in an array called
    `sources` become `{"type": ...}` (`clean_arguments="always"`). With the tool's `input_schema`: only where the schema
    refuses the value (`clean_arguments="schema"`). The input is not changed.
    """
    return clean(arguments) if schema is None else dict(clean_for_schema(dict(arguments), schema))


# ---- by schema -----------------------------------------------------------------------------------------------


def clean_for_schema(arguments: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    """Take out nulls, and objects and arrays that are or become empty, only where the schema refuses them.

    Strings in a `sources` array become `{"type": ...}` only where its items must be objects. The input is never
    changed; if there is nothing to do, it is given back itself.
    """
    if _SCALARS.issuperset(map(type, arguments.values())) or not _suspicious(arguments, 0):
        return arguments
    if not isinstance(schema, Mapping) or not schema:
        return arguments
    return _Judge(schema).clean_object(arguments, schema, 0)


def refuses(schema: Schema, value: Any, root: Schema | None = None) -> bool:
    """Whether the schema surely refuses the value; in doubt it does not. Local references are looked up in `root`."""
    return _Judge(schema if root is None else root).refuses(schema, value, 0)


def resolved(reference: Any, root: Schema) -> Schema:
    """The schema that a local reference points to; anything else is never fetched and says nothing."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    place: Any = root
    for part in reference[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if not isinstance(place, Mapping) or name not in place:
            return True
        place = place[name]
    return place if isinstance(place, Mapping | bool) and reference[1:2] in ("", "/") else True


def _suspicious(value: Any, depth: int) -> bool:
    """Whether there can be anything to do: a quick pass without the schema, which ends nearly every call's cleaning."""
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


class _Judge:
    """One schema document and the patience to read it: servers write them, and a branching one could cost for ever."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.steps = _STEPS
        # Keyed by the identity of schemas; they live at least as long, in the document or in here.
        self.known: dict[tuple[int, object], Any] = {}

    # The value's side: what stays. Every method gives the same object back if nothing changed.

    def clean_object(self, value: dict[str, Any], schema: Schema, depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        changed = False
        for key, item in value.items():
            if item is not None and not isinstance(item, _CONTAINERS):
                kept[key] = item
                continue
            below = self.property_schema(schema, key)
            cleaned = self.clean_value(self.typed_sources(item, below) if key == "sources" else item, below, depth + 1)
            if self.is_refused_nothing(cleaned, below):
                changed = True
                continue
            kept[key] = cleaned
            changed = changed or cleaned is not item
        return kept if changed else value

    def clean_value(self, value: Any, schema: Schema, depth: int) -> Any:
        if depth > MAX_DEPTH:
            return value
        if isinstance(value, dict):
            return self.clean_object(value, schema, depth)
        if isinstance(value, _ARRAYS):
            return self.clean_array(value, schema, depth)
        return value

    def clean_array(self, value: list[Any] | tuple[Any, ...], schema: Schema, depth: int) -> Any:
        below = self.item_schema(schema)
        cleaned = [self.clean_value(item, below, depth + 1) for item in value]
        kept = [item for item in cleaned if not self.is_refused_nothing(item, below)]
        return value if _same(kept, value) else kept

    def typed_sources(self, value: Any, schema: Schema) -> Any:
        if not isinstance(value, _ARRAYS):
            return value
        below = self.item_schema(schema)

        def typed(source: Any) -> Any:
            wrapped = {"type": source}
            fits = isinstance(source, str) and self.refuses(below, source, 0) and not self.refuses(below, wrapped, 0)
            return wrapped if fits else source

        converted = [typed(source) for source in value]
        return value if _same(converted, value) else converted

    def is_refused_nothing(self, value: Any, schema: Schema) -> bool:
        if not _is_nothing(value):
            return False
        return bool(self.remembered(schema, type(value), lambda: self.refuses(schema, value, 0)))

    def property_schema(self, schema: Schema, key: str) -> Schema:
        """What the schema says of the property, put together from all the places that speak of it."""
        return self.remembered(schema, key, lambda: self.gathered(schema, _property_of(key), 0))  # type: ignore[no-any-return]

    def item_schema(self, schema: Schema) -> Schema:
        """What the schema says of every item of an array."""
        return self.remembered(schema, _ITEMS, lambda: self.gathered(schema, _ITEMS, 0))  # type: ignore[no-any-return]

    def remembered(self, schema: Schema, question: object, answer: Callable[[], Any]) -> Any:
        """Large arguments ask the same of the same schema again and again."""
        key = (id(schema), question)
        if key not in self.known:
            self.known[key] = answer()
        return self.known[key]

    # The schema's side: what is surely refused. True as a schema means that nothing is known.

    def refuses(self, schema: Any, value: Any, depth: int) -> bool:
        if not isinstance(schema, Mapping) or not self.may_go_on(depth):
            return schema is False
        if value is None and schema.get("nullable") is True:
            return False
        if "$ref" in schema:
            # Older drafts ignore what stands beside a reference: in doubt, so do we.
            return self.refuses(resolved(schema["$ref"], self.root), value, depth + 1)
        return (
            _refuses_by_itself(schema, value)
            or self.refuses_inside(schema, value, depth)
            or self.refuses_by_branches(schema, value, depth)
        )

    def refuses_inside(self, schema: Mapping[str, Any], value: Any, depth: int) -> bool:
        if not isinstance(value, dict):
            return False
        said = ((self.gathered(schema, _property_of(key), depth), item) for key, item in value.items())
        return any(self.refuses(below, item, depth + 1) for below, item in said)

    def refuses_by_branches(self, schema: Mapping[str, Any], value: Any, depth: int) -> bool:
        for word in ("anyOf", "oneOf"):
            branches = _branches(schema, word)
            if branches and all(self.refuses(branch, value, depth + 1) for branch in branches):
                return True
        if any(self.refuses(branch, value, depth + 1) for branch in _branches(schema, "allOf")):
            return True
        return "not" in schema and _surely_accepts(schema["not"], value)

    def gathered(self, schema: Any, part: _Part, depth: int) -> Schema:
        """What a schema, and all that it is made of, says of a part of the value.

        Alternatives that do not take such a value at all have no say: of "an object or null" only the first speaks of
        properties.
        """
        if not isinstance(schema, Mapping) or not self.may_go_on(depth):
            return schema is not False
        if "$ref" in schema:
            return self.gathered(resolved(schema["$ref"], self.root), part, depth + 1)
        said = [part.of(schema), *(self.gathered(branch, part, depth + 1) for branch in _branches(schema, "allOf"))]
        for word in ("anyOf", "oneOf"):
            speaking = [b for b in _branches(schema, word) if not self.refuses_kind(b, part.whole, depth + 1)]
            if speaking:
                said.append({"anyOf": [self.gathered(branch, part, depth + 1) for branch in speaking]})
        said = [schema for schema in said if schema is not True]
        if len(said) == 1:
            return said[0]
        return {"allOf": said} if said else True

    def refuses_kind(self, schema: Any, kind: str, depth: int) -> bool:
        """Whether values of this type are refused as such, whatever is in them."""
        if not isinstance(schema, Mapping) or not self.may_go_on(depth):
            return schema is False
        if "$ref" in schema:
            return self.refuses_kind(resolved(schema["$ref"], self.root), kind, depth + 1)
        allowed = _allowed_types(schema)
        return allowed is not None and kind not in allowed

    def may_go_on(self, depth: int) -> bool:
        self.steps -= 1
        return self.steps > 0 and depth < _REF_DEPTH


class _Part(NamedTuple):
    """A part of a value: the type of the whole, and what a schema by itself says of the part."""

    whole: str
    of: Callable[[Mapping[str, Any]], Schema]


def _property_of(key: str) -> _Part:
    def of(schema: Mapping[str, Any]) -> Schema:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            return _as_schema(properties[key])
        if "patternProperties" in schema:  # a server's own pattern is not run here: it may take for ever
            return True
        return _as_schema(schema.get("additionalProperties", True))

    return _Part("object", of)


def _item_of(schema: Mapping[str, Any]) -> Schema:
    # Items that mean something by their place must keep it.
    return True if "prefixItems" in schema else _as_schema(schema.get("items", True))


_ITEMS = _Part("array", _item_of)


def _as_schema(found: Any) -> Schema:
    return found if isinstance(found, Mapping | bool) else True


def _branches(schema: Mapping[str, Any], word: str) -> list[Any]:
    branches = schema.get(word)
    return branches if isinstance(branches, list) else []


def _refuses_by_itself(schema: Mapping[str, Any], value: Any) -> bool:
    allowed = _allowed_types(schema)
    if allowed is not None and allowed.isdisjoint(_types_of(value)):
        return True
    if "const" in schema and schema["const"] != value:
        return True
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        return True
    if isinstance(value, dict):
        required = schema.get("required")
        lacks = isinstance(required, list) and any(isinstance(name, str) and name not in value for name in required)
        return lacks or _is_short(value, schema.get("minProperties"))
    if isinstance(value, _ARRAYS):
        needs_one = isinstance(schema.get("contains"), Mapping) and schema.get("minContains", 1) != 0
        return (needs_one and not value) or _is_short(value, schema.get("minItems"))
    return False


def _surely_accepts(schema: Any, value: Any) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _PLAIN_KEYWORDS:
        return schema is True
    if "type" in schema:
        allowed = _allowed_types(schema)
        if allowed is None or allowed.isdisjoint(_types_of(value)):
            return False
    choices = schema.get("enum")
    if "enum" in schema and not (isinstance(choices, list) and value in choices):
        return False
    return "const" not in schema or bool(schema["const"] == value)


def _is_short(value: dict[str, Any] | list[Any] | tuple[Any, ...], least: Any) -> bool:
    return isinstance(least, int | float) and len(value) < least


def _allowed_types(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """The types that the schema names; None where it names none, or one that is not JSON Schema's."""
    named = schema.get("type")
    names = named if isinstance(named, list) else [named]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        return None
    return frozenset(names)


def _types_of(value: Any) -> tuple[str, ...]:
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
            return tuple(_TYPES)


def _same(new: list[Any], old: list[Any] | tuple[Any, ...]) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
