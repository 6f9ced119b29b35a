"""`key=value` on a command line, typed by a schema. Pure, but for the files that are named.

a=1            as the schema says: a number, a text, true, one of the choices
a.b=1          inside of an object
a=1 a=2        an array; also a='[1, 2]', and a=1,2 where the items are no texts
a:='{"b": 1}'  JSON, whatever the schema says
a=@FILE        what is in the file; a:=@FILE as JSON
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from .._util.suggest import did_you_mean, similar_names
from ..errors import ConfigError
from ..policy.argument_cleaning import resolved
from ..types import Wire
from .exit_codes import CliError

_WORD: Final = re.compile(r"([^=]+?)(:?=)(.*)", re.DOTALL)
_INTEGER: Final = re.compile(r"[-+]?\d{1,1000}", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_BRANCHES: Final = ("anyOf", "oneOf")
_DEEP: Final = 8
_MANY: Final = 50
_PATIENCE: Final = 2_000
_LONG: Final = 60
# A text can be read as many things; whatever says more than "a text" is tried before.
_RANKS: Final = {"boolean": 0, "integer": 1, "number": 2, "array": 3, "object": 4, "any": 5, "string": 6, "null": 7}


class Misfit(Exception):
    """A text that cannot be what the schema wants."""


class _GivenWord(NamedTuple):
    """One word of the command line."""

    key: str
    text: str
    is_json: bool


def is_argument(word: str) -> bool:
    """Whether a word is `key=value`, or the `-` for standard input."""
    return word == "-" or _WORD.fullmatch(word) is not None


def merged(words: Iterable[str], schema: Wire, base: Wire) -> tuple[Wire, list[str]]:
    """The arguments that the words mean, on top of `base`, and what is wrong with them: which, expected what, got what.

    A word that is no argument at all is `CliError`.
    """
    grouped: dict[str, list[_GivenWord]] = {}
    for word in words:
        given = _read(word)
        grouped.setdefault(given.key, []).append(given)
    values, problems = json.loads(json.dumps(base)), []
    # What is given as a whole comes before what goes inside of it.
    for key, several in sorted(grouped.items(), key=lambda item: len(_path(item[0], schema, schema))):
        path = _path(key, schema, schema)
        try:
            value = _value(several, _at(path, schema, schema), schema)
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
    """Arguments that must be given and are not."""
    properties = _properties(schema, schema)
    lacking = [name for name in _required(schema) if name not in values]
    return [f"missing {name} ({described(properties.get(name), schema)})" for name in lacking]


def refused(values: Wire, schema: Wire) -> list[str]:
    """What the schema has against the arguments. One that is no schema has nothing against any."""
    from ..server.functions.json_schema import Checker  # noqa: PLC0415  # slow; lists do without

    with contextlib.suppress(ConfigError):
        return Checker(schema, "inputSchema").problems(values)
    return []


def unknown(values: Wire, schema: Wire) -> list[str]:
    """Arguments that the schema does not name, with what may have been meant."""
    known = _properties(schema, schema)
    strange = [key for key in values if key not in known] if known else []
    if not strange:
        return []
    meant = dict.fromkeys(name for key in strange for name in similar_names(key, known, 1))
    what = "is not an argument of it" if len(strange) == 1 else "are not arguments of it"
    return [f"{', '.join(strange)} {what}{did_you_mean(meant, separator=', ')}"]


def usage(schema: Wire) -> str:
    """The arguments as one would type them: `a=<number> [b=<string>]`."""
    names = _required(schema)
    shown = ((key, f"{key}=<{described(each, schema)}>") for key, each in _properties(schema, schema).items())
    return " ".join(text if key in names else f"[{text}]" for key, text in shown)


def parameters(schema: Wire) -> list[tuple[str, str, bool, str]]:
    """Name, type, whether it must be given, and description of each."""
    names = _required(schema)
    return [
        (
            key,
            described(each, schema),
            key in names,
            str(each.get("description") or "") if isinstance(each, dict) else "",
        )
        for key, each in _properties(schema, schema).items()
    ]


def described(schema: Any, root: Wire) -> str:
    """What a schema wants, in few words."""
    words = dict.fromkeys(_described(each, root) for each in _alternatives(schema, root))
    return " or ".join(words) or "nothing"


def _described(plain: Wire, root: Wire) -> str:
    if (choices := choices_of(plain)) is not None:
        return "|".join(each if isinstance(each, str) else json.dumps(each) for each in choices)
    kind = _kind(plain)
    if kind == "array":
        inner = described(plain.get("items"), root)
        return "array" if inner == "any" else f"array of {inner}"
    return kind


def choices_of(plain: Wire) -> list[Any] | None:
    """The only values that a schema takes, if it names them."""
    if "const" in plain:
        return [plain["const"]]
    choices = plain.get("enum")
    return choices if isinstance(choices, list) else None


# ---- the command line's side ---------------------------------------------------------------------------------


def _read(word: str) -> _GivenWord:
    match = _WORD.fullmatch(word)
    if match is None:
        raise CliError(f"{word!r}: expected key=value", hint="key:=JSON gives JSON; key=@FILE what is in a file")
    key, sign, text = match.groups()
    if text.startswith("@"):
        text = _file(key, text[1:])
    return _GivenWord(key, text, sign == ":=")


def _file(key: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8")
    except (OSError, ValueError) as exc:
        reason = "it is no text" if isinstance(exc, ValueError) else exc.strerror
        hint = f"{key}:='\"@...\"' gives a text that begins with @"
        raise CliError(f"{key}: the file {path} cannot be read: {reason}", hint=hint) from None


def _value(several: list[_GivenWord], schema: Any, root: Wire) -> Any:
    if len(several) == 1:
        return _one(several[0], schema, root)
    arrays = [each for each in _alternatives(schema, root) if _kind(each) in ("array", "any")]
    if not arrays:
        raise Misfit(f"given {len(several)} times, expected one {described(schema, root)}")
    return [_one(given, arrays[0].get("items"), root) for given in several]


def _one(given: _GivenWord, schema: Any, root: Wire) -> Any:
    if not given.is_json:
        return typed(given.text, schema, root)
    try:
        return from_json(given.text)
    except ValueError as exc:
        raise Misfit(f"expected JSON, got {shown(given.text)} ({exc})") from None


def from_json(text: str) -> Any:
    """A value of JSON; `ValueError` if it is none, NaN and Infinity included."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def shown(text: str) -> str:
    """A text in an error message."""
    return repr(text if len(text) <= _LONG else text[:_LONG] + "...")


def _path(key: str, schema: Any, root: Wire) -> list[str]:
    """Where a key leads: dots go inside, unless a name has one itself."""
    head, dot, rest = key.partition(".")
    if not dot or not head or not rest or key in _properties(schema, root):
        return [key]
    return [head, *_path(rest, _properties(schema, root).get(head), root)]


def _at(path: list[str], schema: Any, root: Wire) -> Any:
    for part in path:
        plain = next((each for each in _alternatives(schema, root) if _kind(each) in ("object", "any")), {})
        properties = plain.get("properties")
        known = isinstance(properties, Mapping) and part in properties
        schema = properties[part] if known and properties is not None else plain.get("additionalProperties")
    return schema


# ---- the schema's side ---------------------------------------------------------------------------------------


def _alternatives(schema: Any, root: Wire, depth: int = 0, visits: Iterator[int] | None = None) -> list[Wire]:
    """The schemas without branches that a value may fit, references followed; `{}` says nothing.

    Servers write schemas, and a branching one could cost for ever: `visits` counts what is left of our patience.
    """
    visits = count() if visits is None else visits
    if not isinstance(schema, Mapping) or depth > _DEEP or next(visits) > _PATIENCE:
        return [] if schema is False else [{}]
    rest = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", *_BRANCHES)}
    if "$ref" in schema:
        target = resolved(schema["$ref"], root)
        return [{**each, **rest} for each in _alternatives(target, root, depth + 1, visits)]
    for part in _listed(schema, "allOf"):
        for each in _alternatives(part, root, depth + 1, visits)[:1]:
            rest = {**each, **rest}
    branches = [branch for word in _BRANCHES for branch in _listed(schema, word)]
    if branches:
        found = (each for branch in branches[:_MANY] for each in _alternatives(branch, root, depth + 1, visits))
        return [{**rest, **each} for each, _ in zip(found, range(_MANY), strict=False)]
    kinds = schema.get("type")
    return [{**rest, "type": kind} for kind in kinds] if isinstance(kinds, list) else [rest]


def _listed(schema: Mapping[str, Any], word: str) -> list[Any]:
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _properties(schema: Any, root: Wire) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in _alternatives(schema, root):
        properties = each.get("properties")
        if isinstance(properties, dict):
            found = {**properties, **found}
    return found


def _required(schema: Wire) -> list[str]:
    return [name for name in _listed(schema, "required") if isinstance(name, str)]


def _kind(plain: Wire) -> str:
    kind = plain.get("type")
    if isinstance(kind, str) and kind in _RANKS:
        return kind
    return "object" if "properties" in plain else "array" if "items" in plain else "any"


def typed(text: str, schema: Any, root: Wire) -> Any:
    """The value that a text means to a schema; `Misfit` if none."""
    plain = sorted(_alternatives(schema, root), key=lambda each: _RANKS[_kind(each)])
    for each in plain:
        for read in _READERS[_kind(each)]:
            with contextlib.suppress(ValueError):
                value = read(text)
                if _is_chosen(value, each):
                    return value
    # One item, or some with commas between them, for an array; only where the text is nothing else.
    for each in (each for each in plain if _kind(each) == "array"):
        items = each.get("items")
        splits = "string" not in map(_kind, _alternatives(items, root)) and items is not None
        parts = text.split(",") if splits else [text]
        with contextlib.suppress(Misfit):
            return [typed(part.strip() if splits else part, items, root) for part in parts] if text else []
    raise Misfit(f"expected {described(schema, root)}, got {shown(text)}")


def _is_chosen(value: Any, plain: Wire) -> bool:
    choices = choices_of(plain)
    return choices is None or any(value == each and type(value) is type(each) for each in choices)


def _boolean(text: str) -> bool:
    return bool(_of(bool)(text.lower()))


def _integer(text: str) -> int:
    number = _number(text)
    if isinstance(number, float) and not number.is_integer():
        raise ValueError(text)
    return int(number)


def _number(text: str) -> int | float:
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text) or (number := float(text)) - number != 0:  # 1e999 is infinite
        raise ValueError(text)
    return number


def _of(kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = from_json(text)
        if not isinstance(value, kind):
            raise ValueError(text)
        return value

    return read


_READERS: Final[dict[str, tuple[Callable[[str], Any], ...]]] = {
    "boolean": (_boolean,),
    "integer": (_integer,),
    "number": (_number,),
    "array": (_of(list),),
    "object": (_of(dict),),
    "any": (from_json, str),
    "string": (str,),
    "null": (_of(type(None)),),
}
"""The ways to read a text as a value of a type, in the order in which they are tried."""
