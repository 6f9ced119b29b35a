"""Headers of modern HTTP requests that repeat values of the body, so that proxies and gateways can read them.

A tool's input schema marks a parameter with `x-mcp-header`; a call then carries its value as `Mcp-Param-<name>`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from .._util.schema_document import subschemas
from ..errors import ProtocolError, UsageError
from . import jsonrpc
from .limits import SAMPLE

NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose `Mcp-Name` header repeats this parameter."""
ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = "Mcp-Param-"

# Not `number`, whose text form differs between languages, and not a list of types.
_TYPES: Final = frozenset({"boolean", "integer", "string"})
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")
_SENTINEL: Final = ("=?base64?", "?=")
_JSON_TYPES: Final = frozenset({bool, dict, float, int, list, str, type(None)})


# A path from the root as a linked list: flat tuples for a million properties would take too much memory.
_Way = tuple["_Way", str] | None


class InvalidDeclaration(ValueError):
    """Raised for a schema with an invalid `x-mcp-header`; the tool cannot be offered over modern HTTP."""


class Declaration(NamedTuple):
    """One mirrored parameter: the full name of the header, and the path of the value in the arguments."""

    header: str
    path: tuple[str, ...]


def declarations(schema: Mapping[str, Any]) -> tuple[Declaration, ...]:
    """Return the mirrored parameters of a tool, from its input schema.

    Raises `InvalidDeclaration` if one of them is invalid.
    """
    found: dict[str, Declaration] = {}
    for way, direct, place in _schemas(schema):
        if ANNOTATION not in place:
            continue
        path = _steps(way)
        name = _checked_name(path, direct, place)
        if twin := found.get(name.lower()):
            raise _invalid(path, f"{_shown(name)} is already used at {_shown('.'.join(twin.path))}")
        found[name.lower()] = Declaration(PREFIX + name, path)
    return tuple(found.values())


def parameter_headers(declared: tuple[Declaration, ...], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of one call.

    Missing values, nulls, lists and objects have no header. Other values of a wrong type are mirrored: the server
    rejects them by its schema.
    """
    headers: dict[str, str] = {}
    for header, path in declared:
        value: Any = arguments
        for key in path:
            value = _plain(value.get(key)) if isinstance(value, Mapping) else None
        text = _written(value)
        if text is not None:
            headers[header] = header_value(text)
    return headers


def header_value(value: str) -> str:
    """Return a text as a header's value: unchanged if HTTP preserves it, else as base64 between the sentinels."""
    start, end = _SENTINEL
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith(start) and value.endswith(end)):
        return value
    # A lone surrogate cannot be encoded. Writing the body raises an error for it.
    return start + b64encode(value.encode("utf-8", "replace")).decode() + end


def plain_value(header: str) -> str | None:
    """Return the text of a header's value; None if it has the sentinels but is not base64."""
    start, end = _SENTINEL
    header = header.strip(" \t")
    if not (header.startswith(start) and header.endswith(end) and len(header) >= len(start) + len(end)):
        return header
    try:
        return b64decode(header[len(start) : -len(end)], validate=True).decode()
    except ValueError:
        return None


def contradiction(
    declared: tuple[Declaration, ...], arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> str | None:
    """Return how the headers of a call contradict its arguments, or None. Names in `headers` are in lower case."""
    for header, path in declared:
        expected = parameter_headers((Declaration(header, path),), arguments).get(header)
        given = headers.get(header.lower())
        if expected is None and given is None:
            continue
        if expected is None or given is None:
            return f"{header}: {'not' if expected is None else 'only'} in the body"
        said = plain_value(given)
        if said is None or not _same(said, plain_value(expected) or ""):
            return f"{header}: differs from the body"
    return None


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return _INTEGER.fullmatch(other) is not None and float(one) == int(other)
    except (ValueError, OverflowError):
        return False


def _schemas(root: Mapping[str, Any]) -> Iterator[tuple[_Way, bool, Mapping[str, Any]]]:
    """Yield every subschema with its path, and whether that path goes through `properties` alone."""
    waiting: list[tuple[_Way, bool, Any]] = [(None, True, root)]
    for way, direct, schema in waiting:
        if not isinstance(schema, Mapping):
            continue
        yield way, direct, schema
        for keyword, name, part in subschemas(schema):
            if name is None:
                waiting.append(((way, keyword), False, part))
            else:
                # Only `properties` leads to arguments. Other keywords are part of the path for error messages.
                leads = keyword == "properties"
                waiting.append((((way if leads else (way, keyword)), name), direct and leads, part))


def _steps(way: _Way) -> tuple[str, ...]:
    steps: list[str] = []
    while way is not None:
        way, name = way
        steps.append(str(name))
    return tuple(reversed(steps))


def _checked_name(path: tuple[str, ...], direct: bool, schema: Mapping[str, Any]) -> str:
    name, kind = schema[ANNOTATION], schema.get("type")
    if not path or not direct:
        raise _invalid(path, "allowed only for properties that are reached through `properties` alone")
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise _invalid(path, f"{_shown(name)} is not a valid header name")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise _invalid(path, f"expected a boolean, integer or string parameter, got {_shown(kind)}")
    return name


def _invalid(path: tuple[str, ...], reason: str) -> InvalidDeclaration:
    where = _shown(".".join(path)) if path else "the root of the schema"
    return InvalidDeclaration(f"{ANNOTATION} at {where}: {reason}")


def _shown(value: Any) -> str:
    """Return a server's value for a message: cut, and with control characters escaped."""
    return repr(value[:SAMPLE]) if isinstance(value, str) else f"a {type(value).__name__}"


def _plain(value: Any) -> Any:
    """Return a value as it will be in the body: the encoder decides about enums, dates and subclasses of `str`."""
    if type(value) in _JSON_TYPES:
        return value
    try:
        return jsonrpc.decode(jsonrpc.encode(value))
    except (UsageError, ProtocolError):
        return None  # the call fails when its body is written


def _written(value: Any) -> str | None:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return _written(int(value))  # 42.0 and 42 are the same number in JSON
        case int() | float():
            try:
                return str(value)
            except ValueError:  # more digits than Python converts; writing the body fails for the same reason
                return None
        case _:
            return None
