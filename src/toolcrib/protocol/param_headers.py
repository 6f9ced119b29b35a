"""Modern HTTP: what a request's body says, said again in its headers, so that what stands between can read it.

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

# Not `number`: its spelling differs between languages. Not a list of types either: the parameter has one or is out.
_TYPES: Final = frozenset({"boolean", "integer", "string"})
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")
_SENTINEL: Final = ("=?base64?", "?=")
_JSON_TYPES: Final = frozenset({bool, dict, float, int, list, str, type(None)})


# A path from the root: the path before and one name. A flat tuple for each of a million properties would be too much.
_Way = tuple["_Way", str] | None


class InvalidDeclaration(ValueError):
    """A schema whose `x-mcp-header` breaks the rules: the tool may not be offered over modern HTTP."""


class Declaration(NamedTuple):
    """One parameter that is mirrored: the whole header's name, and the way to the value in the arguments."""

    header: str
    path: tuple[str, ...]


def declarations(schema: Mapping[str, Any]) -> tuple[Declaration, ...]:
    """The mirrored parameters of a tool, by its input schema.

    Raises `InvalidDeclaration` if one of them breaks a rule.
    """
    found: dict[str, Declaration] = {}
    for way, direct, place in _schemas(schema):
        if ANNOTATION not in place:
            continue
        path = _steps(way)
        name = _checked_name(path, direct, place)
        if twin := found.get(name.lower()):
            raise _invalid(path, f"{_shown(name)} is already the name at {_shown('.'.join(twin.path))}")
        found[name.lower()] = Declaration(PREFIX + name, path)
    return tuple(found.values())


def parameter_headers(declared: tuple[Declaration, ...], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers of one call. A value that is absent or null has none, and so has one that no header can say: a list
    or an object, which the server refuses by its schema. Any other wrong type is mirrored for the same reason."""
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
    """Text as a header's value: itself if it passes through HTTP unchanged, else base64 between the sentinels."""
    start, end = _SENTINEL
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith(start) and value.endswith(end)):
        return value
    # Half a surrogate pair has no bytes. The body cannot say it either, and that is told where the body is written.
    return start + b64encode(value.encode("utf-8", "replace")).decode() + end


def plain_value(header: str) -> str | None:
    """The text of a header's value; None if it begins and ends like base64 and is none."""
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
    """How the headers of a call contradict its arguments, if they do. Names of headers are given in lower case."""
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
    """Yield every schema in a schema: the path to it, whether that path goes through `properties` alone, and itself."""
    waiting: list[tuple[_Way, bool, Any]] = [(None, True, root)]
    for way, direct, schema in waiting:
        if not isinstance(schema, Mapping):
            continue
        yield way, direct, schema
        for keyword, name, part in subschemas(schema):
            if name is None:
                waiting.append(((way, keyword), False, part))
            else:
                # Only `properties` leads to arguments. Any other keyword is part of the path, to show where it is.
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
        raise _invalid(path, "only a property reached through `properties` alone may have it")
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise _invalid(path, f"{_shown(name)} is no name of a header")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise _invalid(path, f"only boolean, integer and string parameters may have it, not {_shown(kind)}")
    return name


def _invalid(path: tuple[str, ...], reason: str) -> InvalidDeclaration:
    where = _shown(".".join(path)) if path else "the root of the schema"
    return InvalidDeclaration(f"{ANNOTATION} at {where}: {reason}")


def _shown(value: Any) -> str:
    """Somebody else's value in our message: short, and without a character that does something to a terminal."""
    return repr(value[:SAMPLE]) if isinstance(value, str) else f"a {type(value).__name__}"


def _plain(value: Any) -> Any:
    """What the body will say for a value: an enum's, a date's or an own string's spelling is JSON's to decide."""
    if type(value) in _JSON_TYPES:
        return value
    try:
        return jsonrpc.decode(jsonrpc.encode(value))
    except (UsageError, ProtocolError):
        return None  # no body can say it, and the call is refused when it is written


def _written(value: Any) -> str | None:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return _written(int(value))  # JSON knows no difference between 42.0 and 42
        case int() | float():
            try:
                return str(value)
            except ValueError:  # more digits than Python writes: the body is refused for the same reason
                return None
        case _:
            return None
