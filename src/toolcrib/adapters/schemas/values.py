"""Copies and texts of JSON values from servers, within limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

MAX_JSON_DEPTH: Final = 128
"""Levels of nested objects and arrays of a copied value."""

_PLAIN: Final = frozenset({str, int, bool, type(None)})


class TooDeep(ValueError):
    """A value is nested more deeply than the limit."""


def copy_json(value: Any, levels: int = MAX_JSON_DEPTH) -> Any:
    """Return a copy of a JSON value; raises `TooDeep`. Values without a JSON form become null or text."""
    kind = type(value)
    if kind in _PLAIN or (kind is float and isfinite(value)):
        return value
    if kind is float:
        return None
    if levels <= 0:
        raise TooDeep("too deep")
    if isinstance(value, Mapping):
        return {str(key): copy_json(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(item, levels - 1) for item in value]
    return str(value)


def text_of(value: Any) -> str:
    """Return a value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def escape_pointer(name: str) -> str:
    """Return a name as one part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name


def type_of(value: Any) -> str:
    """Return the JSON Schema type of a JSON value; `integer` for a whole number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "object" if isinstance(value, Mapping) else "array"


def has_type(value: Any, name: str) -> bool:
    """Return whether a JSON value has a type of JSON Schema."""
    found = type_of(value)
    return found == name or (found == "integer" and name == "number")


def equal_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; `True` and `1` are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return bool(one == other) and text_of(one) == text_of(other)
    return bool(one == other)
