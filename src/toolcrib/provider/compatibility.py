"""Compares two definitions of a tool: did only texts change, can every caller go on as before, or neither. Pure.

A change is judged as a security reviewer would: what is not certainly harmless is breaking. An input schema may accept
more, an output schema may promise more; all other differences are breaking. Arguments that a schema does not declare
do not count: a new optional argument is additive, although a schema without `additionalProperties` accepted that name
with any value before.

Longer than 400 lines: one function for each keyword of JSON Schema that is compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Literal

import orjson

from .._util.schema_document import subschemas


class ChangeKind(StrEnum):
    """How much a tool changed."""

    NEW = "new"
    """There was no such tool before."""
    TEXT = "text"
    """Only titles, descriptions, examples or icons changed."""
    ADDITIVE = "additive"
    """Every call that was valid is still valid, and its result has all that it had."""
    BREAKING = "breaking"
    """Anything else, and whatever is not certain."""


_RANK: Final = {kind: place for place, kind in enumerate(ChangeKind)}
_TEXT, _ADDITIVE, _BREAKING = ChangeKind.TEXT, ChangeKind.ADDITIVE, ChangeKind.BREAKING

MAX_DEPTH: Final = 100
"""Levels of a schema that are compared; a difference below is breaking."""

MAX_COMPARED_BYTES: Final = 256 * 1024
"""The size of a definition that is compared; a difference in a larger one is breaking."""

_TEXT_FIELDS: Final[Mapping[str, type]] = {"title": str, "description": str, "icons": list}
_TEXT_KEYWORDS: Final[Mapping[str, type]] = {"title": str, "description": str, "$comment": str, "examples": list}
_LOWER_LIMITS: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER_LIMITS: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_REMOVABLE: Final = frozenset({"pattern", "format", "multipleOf", "uniqueItems"})
"""Keywords without which a schema accepts more, and which cannot be compared otherwise."""
_HAZARDS: Final = frozenset(
    {
        *("$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords by which a change in one place has an effect in another."""
_IN_PLACE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords whose schemas apply to the same value, and so may declare the same properties."""
_DEFINITIONS: Final = ("$defs", "definitions")


def encode_canonically(value: Any) -> bytes:
    """Return a JSON value as bytes that do not depend on the order of keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=_plain)
    except TypeError:
        # orjson supports neither integers of more than 64 bits nor lone surrogates.
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain)
        return text.encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"expected a JSON value, got {type(value).__name__}")


def classify(old: Mapping[str, Any], new: Mapping[str, Any]) -> ChangeKind:
    """Return how much a tool's definition changed; `text` also if the definitions are equal.

    Any change of the behaviour hints (`readOnlyHint`, `destructiveHint`, ...) is breaking, in both directions: a looser
    hint lets clients skip a confirmation, and a stricter one says that the tool now does what was not approved. A
    change of `_meta`, of `execution` or of an unknown field is breaking. Descriptions inside the schemas are text.
    """
    if not _is_equal(old, new) and max(len(encode_canonically(each)) for each in (old, new)) > MAX_COMPARED_BYTES:
        return _BREAKING
    return _worst(_compare_field(key, old.get(key), new.get(key)) for key in _changed_keys(old, new))


def _compare_field(key: str, old: Any, new: Any) -> ChangeKind:
    if key in _TEXT_FIELDS:
        return _compare_text(_TEXT_FIELDS[key], old, new)
    if key == "annotations" and isinstance(old or {}, Mapping) and isinstance(new or {}, Mapping):
        changed = _changed_keys(old or {}, new or {})
        if changed == ["title"]:
            return _compare_text(str, (old or {}).get("title"), (new or {}).get("title"))
        return _BREAKING if changed else _TEXT
    if key in ("inputSchema", "outputSchema") and isinstance(old, Mapping) and isinstance(new, Mapping):
        return compare_input(old, new) if key == "inputSchema" else compare_output(old, new)
    return _BREAKING


def _compare_text(kind: type, old: Any, new: Any) -> ChangeKind:
    return _TEXT if all(value is None or isinstance(value, kind) for value in (old, new)) else _BREAKING


def compare_input(old: Mapping[str, Any], new: Mapping[str, Any]) -> ChangeKind:
    """Return how much an input schema changed; it may accept more, or declare further optional arguments."""
    return _compare_documents(old, new, _compare_input)


def compare_output(old: Mapping[str, Any], new: Mapping[str, Any]) -> ChangeKind:
    """Return how much an output schema changed; it may declare further properties, and require more."""
    return _compare_documents(old, new, _compare_output)


Compare = Callable[[Any, Any, int], ChangeKind]


def _compare_documents(old: Mapping[str, Any], new: Mapping[str, Any], compare: Compare) -> ChangeKind:
    if _is_same(old, new):
        return _TEXT
    if _is_hazardous(old) or _is_hazardous(new):
        return _BREAKING
    return compare(old, new, 0)


# ---- input schemas -----------------------------------------------------------------------------------------------


def _compare_input(old: Any, new: Any, depth: int) -> ChangeKind:
    if depth > MAX_DEPTH:
        return _TEXT if _is_same(old, new) else _BREAKING
    old, new = _as_object(old), _as_object(new)
    if old is False or new is False:
        return _TEXT if old is new else _ADDITIVE if old is False else _BREAKING
    if old is None or new is None:
        return _BREAKING
    if "anyOf" in new and "anyOf" not in old:
        return _compare_with_branches(old, new, depth)
    changed = [key for key in _changed_keys(old, new) if not _is_text(key, old, new)]
    kinds = [_TEXT]
    if "enum" in changed or "const" in changed:
        kinds.append(_compare_values(old, new))
    kinds += (_compare_input_keyword(key, old, new, depth) for key in changed if key not in ("enum", "const"))
    return _worst(kinds)


def _compare_input_keyword(key: str, old: Mapping[str, Any], new: Mapping[str, Any], depth: int) -> ChangeKind:
    before, after = old.get(key), new.get(key)
    if key in _LOWER_LIMITS or key in _UPPER_LIMITS:
        return _compare_limits(before, after if key in new else None, sign=1 if key in _LOWER_LIMITS else -1)
    if key in _REMOVABLE:
        return _ADDITIVE if key not in new or (key == "uniqueItems" and after is False) else _BREAKING
    if key == "type":
        return _compare_types(old, new)
    if key == "required":
        return _compare_sets(after if key in new else [], before if key in old else [])
    if key == "properties":
        return _compare_arguments(old, new, depth)
    if key == "additionalProperties":
        return _compare_additional(old, new, depth)
    if key == "items" and key in old:
        return _ADDITIVE if key not in new else _compare_input(before, after, depth + 1)
    if key == "anyOf" and isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        return _compare_branches(old, before, after, depth)
    if key in _DEFINITIONS:
        return _compare_definitions(before, after)
    return _BREAKING if not (key in old and key in new and _is_same_value(key, before, after)) else _TEXT


def _compare_limits(old: Any, new: Any, sign: int) -> ChangeKind:
    """Compare a limit; a lower one (`sign` 1) may fall, an upper one (-1) may rise, both may be dropped (None)."""
    if not _is_number(old) or not (new is None or _is_number(new)):
        return _BREAKING
    return _ADDITIVE if new is None or new * sign <= old * sign else _BREAKING


def _compare_branches(schema: Mapping[str, Any], old: list[Any], new: list[Any], depth: int) -> ChangeKind:
    """Compare alternatives one by one; there may be more of them."""
    kinds = [_ADDITIVE if len(new) > len(old) else _TEXT]
    # A branch that declares a property narrows one of the same name that is declared beside the branches.
    alone = not (_IN_PLACE | {"properties", "patternProperties", "additionalProperties"}) & (schema.keys() - {"anyOf"})
    for before, after in zip(old, new, strict=False):
        if alone:
            kinds.append(_compare_input(before, after, depth + 1))
        elif not _is_same(before, after):
            return _BREAKING
    return _worst(kinds)


def _compare_with_branches(old: Mapping[str, Any], new: Mapping[str, Any], depth: int) -> ChangeKind:
    """Compare a schema with alternatives that took its place: one of them must accept all that it accepted."""
    left_out = {*_TEXT_KEYWORDS, "default"} if _is_equal(old.get("default"), new.get("default")) else {*_TEXT_KEYWORDS}
    branches = new["anyOf"]
    if not isinstance(branches, list) or new.keys() - left_out != {"anyOf"}:
        return _BREAKING
    plain = {key: value for key, value in old.items() if key not in left_out}
    found = (_compare_input(plain, branch, depth + 1) for branch in branches)
    return _ADDITIVE if any(kind is not _BREAKING for kind in found) else _BREAKING


def _compare_arguments(old: Mapping[str, Any], new: Mapping[str, Any], depth: int) -> ChangeKind:
    before, after = old.get("properties", {} if depth == 0 else None), new.get("properties", {})
    if not isinstance(before, Mapping) or not isinstance(after, Mapping) or before.keys() - after.keys():
        return _BREAKING
    required = old.get("required", [])
    if not isinstance(required, list):
        return _BREAKING
    kinds = [_TEXT]
    for name, schema in after.items():
        if name in before:
            earlier = before[name]
            if name in required and name not in new.get("required", []):
                schema = _without_added_default(earlier, schema)
            kinds.append(_compare_input(earlier, schema, depth + 1))
        else:
            # An explicit `true` says that callers may use any names.
            certain = old.get("additionalProperties", False) is False
            certain = certain and "patternProperties" not in old and not _IN_PLACE & old.keys()
            kinds.append(_ADDITIVE if certain and name not in required else _BREAKING)
    return _worst(kinds)


def _without_added_default(old: Any, new: Any) -> Any:
    """Return a schema without its default, if the argument had none because it was required."""
    if isinstance(old, Mapping) and isinstance(new, Mapping) and "default" not in old:
        return {key: value for key, value in new.items() if key != "default"}
    return new


def _compare_additional(old: Mapping[str, Any], new: Mapping[str, Any], depth: int) -> ChangeKind:
    before = old.get("additionalProperties", True)
    if before is False:
        return _ADDITIVE
    return _compare_input(before, new.get("additionalProperties", True), depth + 1)


def _compare_types(old: Mapping[str, Any], new: Mapping[str, Any]) -> ChangeKind:
    if "type" not in new:
        return _ADDITIVE
    before, after = _as_list(old.get("type")), _as_list(new["type"])
    if before is None or after is None:
        return _BREAKING
    accepted = {*after, "integer"} if "number" in after else set(after)
    if not set(before) <= accepted:
        return _BREAKING
    return _TEXT if set(before) == set(after) else _ADDITIVE


def _compare_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> ChangeKind:
    """Compare the values that `enum` or `const` allow."""
    before, after = _values(old), _values(new)
    if before is None:  # the new schema restricts the values, or the old one was malformed
        return _BREAKING
    if "enum" not in new and "const" not in new:
        return _ADDITIVE
    if after is None or not before <= after:
        return _BREAKING
    return _TEXT if before == after else _ADDITIVE


def _values(schema: Mapping[str, Any]) -> set[bytes] | None:
    """Return the values that a schema lists; None if it lists none, or uses both keywords."""
    if "const" in schema:
        return None if "enum" in schema else {encode_canonically(schema["const"])}
    listed = schema.get("enum")
    return {encode_canonically(value) for value in listed} if isinstance(listed, list) else None


def _compare_sets(smaller: Any, larger: Any) -> ChangeKind:
    """Compare lists of names, of which the first must be contained in the second."""
    if not _is_names(smaller) or not _is_names(larger) or not set(smaller) <= set(larger):
        return _BREAKING
    return _TEXT if set(smaller) == set(larger) else _ADDITIVE


def _compare_definitions(old: Any, new: Any) -> ChangeKind:
    """Compare maps of definitions: the old ones must stay as they were, because it is not known where they apply."""
    before, after = ({} if value is None else value for value in (old, new))
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return _BREAKING
    if not all(name in after and _is_same(schema, after[name]) for name, schema in before.items()):
        return _BREAKING
    return _ADDITIVE if len(after) > len(before) else _TEXT


# ---- output schemas ----------------------------------------------------------------------------------------------


def _compare_output(old: Any, new: Any, depth: int) -> ChangeKind:
    if depth > MAX_DEPTH or not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return _TEXT if _is_same(old, new) else _BREAKING
    kinds = [_TEXT]
    for key in _changed_keys(old, new):
        before, after = old.get(key), new.get(key)
        if _is_text(key, old, new):
            continue
        if key == "required":
            kinds.append(_compare_sets(before if key in old else [], after if key in new else []))
        elif key == "properties":
            kinds.append(_compare_results(old, new, depth))
        elif key == "items":
            kinds.append(_compare_output(before, after, depth + 1))
        elif key in _DEFINITIONS:
            kinds.append(_compare_definitions(before, after))
        elif not (key in old and key in new and _is_same_value(key, before, after)):
            kinds.append(_BREAKING)
    return _worst(kinds)


def _compare_results(old: Mapping[str, Any], new: Mapping[str, Any], depth: int) -> ChangeKind:
    before, after = old.get("properties", {}), new.get("properties", {})
    if not isinstance(before, Mapping) or not isinstance(after, Mapping) or before.keys() - after.keys():
        return _BREAKING
    kinds = [_compare_output(schema, after[name], depth + 1) for name, schema in before.items()]
    if after.keys() - before.keys():
        is_open = old.get("additionalProperties", True) is True
        is_open = is_open and not {"patternProperties", "propertyNames", "maxProperties"} & old.keys()
        kinds.append(_ADDITIVE if is_open and not _IN_PLACE & old.keys() else _BREAKING)
    return _worst([_TEXT, *kinds])


# ---- parts -------------------------------------------------------------------------------------------------------


def _worst(kinds: Iterable[ChangeKind]) -> ChangeKind:
    return max(kinds, key=_RANK.__getitem__, default=_TEXT)


def _changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the keys of which the values differ. Python's `==` does not tell 1 from `True`."""
    return [
        key for key in dict.fromkeys((*old, *new)) if not (key in old and key in new and _is_equal(old[key], new[key]))
    ]


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or encode_canonically(one) == encode_canonically(other)


def _is_text(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    kind = _TEXT_KEYWORDS.get(key)
    return kind is not None and _compare_text(kind, old.get(key), new.get(key)) is _TEXT


def _is_same(old: Any, new: Any) -> bool:
    """Return whether two schemas differ at most in their texts."""
    return _is_equal(_without_texts(old), _without_texts(new))


def _is_same_value(key: str, old: Any, new: Any) -> bool:
    return _is_same({key: old}, {key: new})


def _without_texts(schema: Any, depth: int = 0) -> Any:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return schema
    plain = {
        key: value
        for key, value in schema.items()
        if not (key in _TEXT_KEYWORDS and isinstance(value, _TEXT_KEYWORDS[key]))
    }
    for key, value in plain.items():
        parts = list(subschemas({key: value}))
        if not parts:
            continue
        stripped = [_without_texts(part, depth + 1) for _, _, part in parts]
        if parts[0][1] is not None:
            plain[key] = {name: part for (_, name, _), part in zip(parts, stripped, strict=True)}
        else:
            plain[key] = stripped if isinstance(value, list) else stripped[0]
    return plain


def _is_hazardous(schema: Any) -> bool:
    """Return whether a change in one place of the document may have an effect in another."""
    waiting = [schema]
    for part in waiting:
        if isinstance(part, Mapping):
            reference = part.get("$ref", "#/$defs/")
            local = isinstance(reference, str) and reference.startswith(("#/$defs/", "#/definitions/"))
            if not local or not _HAZARDS.isdisjoint(part) or isinstance(part.get("id"), str):
                return True
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False


def _as_object(schema: Any) -> Mapping[str, Any] | Literal[False] | None:
    """Return a schema as an object, False as it is, and None for anything else."""
    if schema is True:
        return {}
    return schema if schema is False or isinstance(schema, Mapping) else None


def _as_list(value: Any) -> list[str] | None:
    names = [value] if isinstance(value, str) else value
    return names if _is_names(names) else None


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
