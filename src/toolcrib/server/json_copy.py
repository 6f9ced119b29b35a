"""Copies of JSON values as a peer would decode them, so that client and server share no mutable value."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final

import orjson

from ..errors import UsageError
from ..protocol import jsonrpc

_PLAIN: Final = frozenset({str, int, bool, type(None)})


def copied(value: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of an object as a peer would decode it; raises `UsageError` if JSON cannot express a value."""
    try:
        return _object(value)
    except RecursionError:
        raise UsageError("the message cannot be encoded as JSON: it is nested too deeply, or contains itself") from None


def copied_value(value: Any) -> Any:
    """Return a copy of any value as a peer would decode it; raises `UsageError` if JSON cannot express it."""
    return value if type(value) in _PLAIN else copied({"value": value})["value"]


def size_of(value: Any) -> int:
    """Return about how many bytes `value` takes as JSON, whether or not JSON can express all of it."""
    try:
        return len(orjson.dumps(value))
    except TypeError:  # orjson refuses integers above 64 bits
        return len(json.dumps(value, default=repr))


def _object(value: dict[str, Any]) -> dict[str, Any]:
    copy = value.copy()
    for key, item in value.items():
        if type(key) is not str:
            return jsonrpc.decode(jsonrpc.encode(value))  # type: ignore[no-any-return]  # an object stays one
        if type(item) not in _PLAIN:
            copy[key] = _copied(item)
    return copy


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN or (kind is float and isfinite(value)):
        return value
    if kind is dict:
        return _object(value)
    if kind is list or kind is tuple:
        return [_copied(item) for item in value]
    return jsonrpc.decode(jsonrpc.encode(value))
