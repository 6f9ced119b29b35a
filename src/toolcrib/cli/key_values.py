"""`key=value` arguments of a command line, typed by a JSON Schema.

a=1            a value of the type that the schema requires: JSON if it fits, else the text itself
a.b=1          a property of the object a
a=1 a=2        an array; also a='[1, 2]', and a=1,2 if the items are not strings
a:='{"b": 1}'  JSON, whatever the schema says
a=@FILE        the content of a file; a:=@FILE as JSON
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from .._util.schema_document import SchemaDocument, list_of
from .._util.suggest import did_you_mean, similar_names
from ..types import Wire
from .exit_codes import CliError

_WORD: Final = re.compile(r"([^=]+?)(:?=)(.*)", re.DOTALL)
_INTEGER: Final = re.compile(r"[-+]?\d{1,1000}", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_MAX_SHOWN: Final = 60
_TYPES: Final[dict[type, tuple[str, ...]]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}


class Misfit(Exception):
    """Raised for a text that has no value of the type that the schema requires."""


class _GivenWord(NamedTuple):
    """One `key=value` of the command line."""

    key: str
    text: str
    is_json: bool


def is_argument(word: str) -> bool:
    """Return whether a word is `key=value`, or the `-` for standard input."""
    return word == "-" or _WORD.fullmatch(word) is not None


def merged(words: Iterable[str], schema: Wire, base: Wire) -> tuple[Wire, list[str]]:
    """Return `base` with the arguments of the words added, and a description of each problem with them.

    Raises `CliError` for a word that is not `key=value`.
    """
    document = SchemaDocument(schema)
    grouped: dict[str, list[_GivenWord]] = {}
    for word in words:
        given = _read(word, schema, grouped)
        grouped.setdefault(given.key, []).append(given)
    values, problems = json.loads(json.dumps(base)), []
    # Whole objects before their properties.
    for key, several in sorted(grouped.items(), key=lambda item: len(_path(item[0], schema, document))):
        path = _path(key, schema, document)
        try:
            value = _value(several, _at(path, schema, document), document)
        except Misfit as exc:
            problems.append(f"{key}: {exc}")
            continue
        place = values
        for part in path[:-1]:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place
        if isinstance(place, dict):
            place[path[-1]] = value
        else:
            problems.append(f"{key}: given twice, once as a whole")
    return values, problems


def missing(values: Wire, schema: Wire) -> list[str]:
    """Return a problem for each required argument that is not given."""
    properties = SchemaDocument(schema).properties(schema)
    lacking = [name for name in _required(schema) if name not in values]
    return [f"missing {name} ({described(properties.get(name), schema)})" for name in lacking]


def refused(values: Wire, schema: Wire) -> list[str]:
    """Return what a validator finds wrong with the arguments; nothing if the schema is invalid or too large."""
    from ..policy.json_schema import ArgumentValidator  # noqa: PLC0415  # slow to import, and not needed to list tools

    return ArgumentValidator(schema).problems(values)


def unknown(values: Wire, schema: Wire) -> list[str]:
    """Return a problem for the arguments that the schema does not name, with similar names."""
    known = SchemaDocument(schema).properties(schema)
    strange = [key for key in values if key not in known] if known else []
    if not strange:
        return []
    meant = dict.fromkeys(name for key in strange for name in similar_names(key, known, 1))
    what = "is not an argument of it" if len(strange) == 1 else "are not arguments of it"
    return [f"{', '.join(strange)} {what}{did_you_mean(meant, separator=', ')}"]


def usage(schema: Wire) -> str:
    """Return the arguments as they are typed: `a=<number> [b=<string>]`."""
    shown = ((f"{name}=<{kind}>", required) for name, kind, required, _ in parameters(schema))
    return " ".join(text if required else f"[{text}]" for text, required in shown)


def parameters(schema: Wire) -> list[tuple[str, str, bool, str]]:
    """Return the name, the type, whether it is required, and the description of each argument."""
    document, required = SchemaDocument(schema), _required(schema)

    def about(parameter: Any) -> str:
        return str(parameter.get("description") or "") if isinstance(parameter, dict) else ""

    return [
        (name, _described(each, document), name in required, about(each))
        for name, each in document.properties(schema).items()
    ]


def described(schema: Any, root: Wire) -> str:
    """Return a short description of the values that a schema accepts."""
    return _described(schema, SchemaDocument(root))


def typed(text: str, schema: Any, root: Wire) -> Any:
    """Return the value that a text means to a schema; raises `Misfit` if it cannot mean any."""
    return _typed(text, schema, SchemaDocument(root))


def _described(schema: Any, document: SchemaDocument) -> str:
    words = dict.fromkeys(_described_plain(each, document) for each in document.alternatives(schema))
    return " or ".join(words) or "nothing"


def _described_plain(plain: Mapping[str, Any], document: SchemaDocument) -> str:
    if (choices := _choices(plain)) is not None:
        return "|".join(each if isinstance(each, str) else json.dumps(each) for each in choices)
    kind = _kind(plain)
    if kind == "array":
        inner = _described(plain.get("items"), document)
        return "array" if inner == "any" else f"array of {inner}"
    return kind


def _choices(plain: Mapping[str, Any]) -> list[Any] | None:
    """Return the only values that a schema accepts, if it lists them."""
    if "const" in plain:
        return [plain["const"]]
    choices = plain.get("enum")
    return choices if isinstance(choices, list) else None


# ---- words ---------------------------------------------------------------------------------------------------


def _read(word: str, schema: Wire, earlier: Collection[str]) -> _GivenWord:
    match = _WORD.fullmatch(word)
    if match is None:
        raise CliError(f"{word!r}: expected key=value", hint=_hint_for(word, schema, earlier))
    key, sign, text = match.groups()
    if text.startswith("@"):
        text = _file(key, text[1:])
    return _GivenWord(key, text, sign == ":=")


def _hint_for(word: str, schema: Wire, earlier: Collection[str]) -> str:
    """Return how to type a word without a key: with the first argument of the tool that is not given yet."""
    unused = [(name, required) for name, _, required, _ in parameters(schema) if name not in earlier]
    name = next((name for name, required in unused if required), unused[0][0] if unused else None)
    if not SchemaDocument(schema).properties(schema):
        return "it takes no arguments"
    if name is None:
        return "name each argument, such as a=2; key:=JSON gives JSON, key=@FILE the content of a file"
    return f"name each argument, such as {shlex.quote(f'{name}={word}')}; it takes {usage(schema)}"


def _file(key: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8")
    except (OSError, ValueError) as exc:
        reason = "it is not UTF-8 text" if isinstance(exc, ValueError) else exc.strerror
        hint = f"{key}:='\"@...\"' gives a text that begins with @"
        raise CliError(f"{key}: cannot read {path}: {reason}", hint=hint) from None


def _value(several: list[_GivenWord], schema: Any, document: SchemaDocument) -> Any:
    if len(several) == 1:
        return _one(several[0], schema, document)
    arrays = [each for each in document.alternatives(schema) if _kind(each) in ("array", "any")]
    if not arrays:
        raise Misfit(f"given {len(several)} times, expected one {_described(schema, document)}")
    return [_one(given, arrays[0].get("items"), document) for given in several]


def _one(given: _GivenWord, schema: Any, document: SchemaDocument) -> Any:
    if not given.is_json:
        return _typed(given.text, schema, document)
    try:
        return from_json(given.text)
    except ValueError as exc:
        raise Misfit(f"expected JSON, got {_shown(given.text)} ({exc})") from None


def from_json(text: str) -> Any:
    """Return the value of a JSON text; raises `ValueError` if it is not JSON, or has a number that is not finite."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text} is not a finite number")
    return number


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "...")


def _path(key: str, schema: Any, document: SchemaDocument) -> list[str]:
    """Return the names of nested properties that a key means: dots separate them, unless a name has one itself."""
    head, dot, rest = key.partition(".")
    if not dot or not head or not rest:
        return [key]
    properties = document.properties(schema)
    return [key] if key in properties else [head, *_path(rest, properties.get(head), document)]


def _at(path: list[str], schema: Any, document: SchemaDocument) -> Any:
    """Return the schema of a nested property."""
    for part in path:
        objects = (each for each in document.alternatives(schema) if _kind(each) in ("object", "any"))
        plain: Mapping[str, Any] = next(objects, {})
        properties = plain.get("properties")
        known = isinstance(properties, Mapping) and part in properties
        schema = properties[part] if known and properties is not None else plain.get("additionalProperties")
    return schema


def _required(schema: Wire) -> list[str]:
    return [name for name in list_of(schema, "required") if isinstance(name, str)]


# ---- values --------------------------------------------------------------------------------------------------


def _typed(text: str, schema: Any, document: SchemaDocument) -> Any:
    plain = document.alternatives(schema)
    fitting = [value for value in _readings(text, {*map(_kind, plain)}) if any(_fits(value, each) for each in plain)]
    if fitting:
        # JSON that is an object or an array is meant as such, even if it is not valid.
        doubtful = len(fitting) > 1 and not isinstance(fitting[0], dict | list)
        valid = (value for value in fitting if _is_valid(value, schema, document.root)) if doubtful else iter(fitting)
        return next(valid, fitting[0])
    # For an array, the text is one item, or several separated by commas.
    for items in (each.get("items") for each in plain if _kind(each) == "array"):
        splits = items is not None and "string" not in map(_kind, document.alternatives(items))
        parts = [part.strip() for part in text.split(",")] if splits else [text]
        with contextlib.suppress(Misfit):
            return [_typed(part, items, document) for part in parts] if text else []
    raise Misfit(f"expected {_described(schema, document)}, got {_shown(text)}")


def _readings(text: str, kinds: set[str]) -> Iterator[Any]:
    """Yield the values that a text can mean, the text itself last."""
    if "boolean" in kinds and text.lower() in ("true", "false"):
        yield text.lower() == "true"
    elif not kinds.isdisjoint(("integer", "number")) and (number := _number(text)) is not None:
        yield int(number) if "integer" in kinds and number == int(number) else number
    elif kinds != {"string"}:
        with contextlib.suppress(ValueError):
            value = from_json(text)
            if value is not None or "string" not in kinds:
                yield value
    yield text


def _number(text: str) -> int | float | None:
    """Return a finite number, also one that JSON spells otherwise, as +5 and .5; None for any other text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    with contextlib.suppress(ValueError):
        return _finite(text) if _NUMBER.fullmatch(text) else None
    return None


def _kind(plain: Mapping[str, Any]) -> str:
    kind = plain.get("type")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in plain else "array" if "items" in plain else "any"


def _fits(value: Any, plain: Mapping[str, Any]) -> bool:
    if _kind(plain) not in ("any", *_TYPES[type(value)]):
        return False
    choices = _choices(plain)
    return choices is None or any(value == each and type(value) is type(each) for each in choices)


def _is_valid(value: Any, schema: Any, root: Wire) -> bool:
    definitions: Wire = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    return not refused({"value": value}, {**definitions, "properties": {"value": schema}})
