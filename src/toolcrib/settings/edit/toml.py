"""Changing one table of a TOML text, comments and all: every other byte stays as it is.

A table can be written in many ways: `[a.b]`, `a.b.c = 1`, `b.c = 1` under `[a]`, `b = { c = 1 }`, and several of them
together. `tomllib` has judged the text before; here only the borders of its statements are found.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ..documents import Document

_ROOM = 100
"""Columns up to which a list stays on one line."""

_Path = tuple[str, ...]
_WORD = r"[A-Za-z0-9_-]+"
_KEY = rf"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|{_WORD})"""
_DOTTED = re.compile(rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANKS = re.compile(r"[ \t]*")
_LINE_END = re.compile(r"[^\n]*(?:\n|\Z)")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # up to two quotes may stand before the three that end it
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\n]+")


@dataclass(frozen=True, slots=True)
class _Statement:
    """A header, or a key with its value: whole lines from `start` to `end`."""

    path: _Path
    start: int
    end: int
    is_header: bool
    block: _Path
    """The path of the header that it stands under, its own for a header."""
    header: int
    """Where that header stands; -1 above the first one."""
    value: int = -1


@dataclass(frozen=True, slots=True)
class _InlineMember:
    """A key and its value in an inline table."""

    path: _Path
    start: int
    value: int
    end: int


def put(document: Document, path: _Path, value: Mapping[str, Any]) -> str:
    """The text with this table: in the place of the former one, else behind its last neighbour."""
    text = document.text
    statements = list(_statements(text))
    for each in statements:
        depth = len(each.path)
        if not each.is_header and each.path == path[:depth] and text[each.value] == "{":
            return _put_inline(text, each.value, path[depth:], value)
    block = _block(path, value, _newline(text))
    if any(each.is_header and _is_within(each.path, path) for each in statements):
        return _without(text, statements, path, block)
    text = _without(text, statements, path)
    return _with_block(text, _behind_neighbours(text, path[:-1]), block, _newline(text))


def remove(document: Document, path: _Path) -> str:
    """The text without this table, in whatever ways it is written."""
    return _without(document.text, list(_statements(document.text)), path)


def _is_within(path: _Path, outer: _Path) -> bool:
    return path[: len(outer)] == outer


def _statements(text: str) -> Iterator[_Statement]:
    block: _Path = ()
    header = -1
    at = 0
    while at < len(text):
        start, at = at, _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # they match nothing too
        if at == len(text) or text[at] in "#\r\n":
            at = _line_end(text, at)
        elif text[at] == "[":
            opening = 2 if text.startswith("[[", at) else 1
            block, at = _key(text, at + opening)
            header, at = start, _line_end(text, at)
            yield _Statement(block, start, at, True, block, header)
        else:
            path, at = _key(text, at)
            value = _BLANKS.match(text, at + 1).end()  # type: ignore[union-attr]
            at = _line_end(text, _value_end(text, value))
            yield _Statement((*block, *path), start, at, False, block, header, value)


def _line_end(text: str, at: int) -> int:
    return _LINE_END.match(text, at).end()  # type: ignore[union-attr]


def _key(text: str, at: int) -> tuple[_Path, int]:
    """A dotted key, and where the sign behind it stands."""
    at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
    found = _DOTTED.match(text, at)
    assert found is not None, "tomllib has taken this text"
    parts: list[str] = []
    values: Any = tomllib.loads(f"{found[0]} = 0")
    while isinstance(values, dict):
        ((key, values),) = values.items()
        parts.append(key)
    return tuple(parts), _BLANKS.match(text, found.end()).end()  # type: ignore[union-attr]


def _value_end(text: str, at: int) -> int:
    if text[at] in "[{":
        closer = "]" if text[at] == "[" else "}"
        at = _gap(text, at + 1)
        while text[at] != closer:
            if closer == "}":
                at = _BLANKS.match(text, _key(text, at)[1] + 1).end()  # type: ignore[union-attr]
            at = _gap(text, _value_end(text, at))
            at = _gap(text, at + 1) if text[at] == "," else at
        return at + 1
    if (string := _STRING.match(text, at)) is not None:
        return string.end()
    plain = _PLAIN.match(text, at)
    assert plain is not None, "tomllib has taken this text"
    return at + len(plain[0].rstrip())


def _gap(text: str, at: int) -> int:
    return _GAP.match(text, at).end()  # type: ignore[union-attr]


def _members(text: str, at: int) -> tuple[list[_InlineMember], int]:
    """The members of the inline table that begins here, and where its closing brace stands."""
    members: list[_InlineMember] = []
    at = _gap(text, at + 1)
    while text[at] != "}":
        start = at
        path, at = _key(text, at)
        value = _gap(text, at + 1)
        end = _value_end(text, value)
        members.append(_InlineMember(path, start, value, end))
        at = _gap(text, end)
        at = _gap(text, at + 1) if text[at] == "," else at
    return members, at


def _put_inline(text: str, at: int, path: _Path, value: Mapping[str, Any]) -> str:
    """The text with this value at this path in the inline table that begins here; no path: in its place."""
    if not path:
        return text[:at] + _shown(value) + text[_value_end(text, at) :]
    for member in _members(text, at)[0]:
        depth = len(member.path)
        if member.path == path[:depth] and text[member.value] == "{":
            return _put_inline(text, member.value, path[depth:], value)
    text = _without_members(text, at, path)
    members, closed = _members(text, at)
    added = f"{_dotted(path)} = {_shown(value)}"
    if not members:
        return f"{text[: at + 1]} {added} {text[closed:]}"
    end = members[-1].end
    return f"{text[:end]}, {added}{text[end:]}"


def _without_members(text: str, at: int, path: _Path) -> str:
    """The text without what stands at this path in the inline table that begins here."""
    for place, member in reversed(list(enumerate(_members(text, at)[0]))):
        depth = len(member.path)
        if _is_within(member.path, path):
            text = _without_member(text, at, place)
        elif member.path == path[:depth] and text[member.value] == "{":
            text = _without_members(text, member.value, path[depth:])
    return text


def _without_member(text: str, at: int, place: int) -> str:
    members, closed = _members(text, at)
    if len(members) == 1:
        return text[: at + 1] + text[closed:]
    if place:
        return text[: members[place - 1].end] + text[members[place].end :]
    return text[: members[0].start] + text[members[1].start :]


def _without(text: str, statements: list[_Statement], path: _Path, instead: str = "") -> str:
    """The text without this table; `instead` is what stands where its first header was."""
    first = next((each for each in statements if each.is_header and _is_within(each.path, path)), None)
    for each in reversed(statements):
        depth = len(each.path)
        if each.is_header and _is_within(each.path, path):
            # Up to its last key, with the comments in between; what stands behind that is nobody's.
            end = max(of.end for of in statements if of.header == each.start)
            text = (
                _exchanged(text, each.start, end, instead)
                if instead and each is first
                else _cut(text, each.start, end, with_gap=True)
            )
        elif each.is_header or _is_within(each.block, path):
            continue
        elif _is_within(each.path, path):
            text = _cut(text, each.start, each.end)
        elif each.path == path[:depth] and text[each.value] == "{":
            text = _without_members(text, each.value, path[depth:])
    return text


def _exchanged(text: str, start: int, end: int, instead: str) -> str:
    """Other lines in the place of these; the end of the last one stays."""
    return text[:start] + instead + text[start + len(text[start:end].rstrip("\r\n")) :]


def _cut(text: str, start: int, end: int, *, with_gap: bool = False) -> str:
    """Without these lines. A table takes the blank line above along, the last line the end of the one before."""
    if with_gap:
        above = re.search(r"(?:\A|\n)([ \t]*\r?\n)\Z", text[:start])
        start -= len(above[1]) if above else 0
    if end == len(text) and not text.endswith("\n"):
        start = len(text[:start].removesuffix("\n").removesuffix("\r"))
    return text[:start] + text[end:]


def _behind_neighbours(text: str, section: _Path) -> int:
    """Where a new table goes: behind the last one of its section, else behind everything but blank lines."""
    within = [each for each in _statements(text) if each.block[: len(section)] == section]
    if not within:
        return _line_end(text, len(text.rstrip())) if text.strip() else 0
    at = within[-1].end
    comments = re.compile(r"(?:[ \t]*#[^\n]*(?:\n|\Z))+").match(text, at)
    # Comments right above the next table are about that one.
    is_next = comments is not None and text[comments.end() :].lstrip(" \t").startswith("[")
    return comments.end() if comments is not None and not is_next else at


def _with_block(text: str, at: int, block: str, newline: str) -> str:
    head, tail = text[:at], text[at:]
    if not head:
        return block + newline + tail
    if not head.endswith("\n"):
        return f"{head}{newline}{newline}{block}{tail}"
    return f"{head}{newline}{block}{newline}{tail}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _block(path: _Path, value: Mapping[str, Any], newline: str) -> str:
    lines = [f"[{_dotted(path)}]"]
    for key, item in value.items():
        if item is not None:
            line = f"{_dotted((key,))} = {_shown(item)}"
            if len(line) > _ROOM and isinstance(item, list | tuple):
                line = newline.join([f"{_dotted((key,))} = [", *(f"    {_shown(each)}," for each in item), "]"])
            lines.append(line)
    return newline.join(lines)


def _dotted(path: _Path) -> str:
    return ".".join(key if re.fullmatch(_WORD, key) else _text(key) for key in path)


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else "nan" if math.isnan(value) else f"{value:+}"
        case list() | tuple():
            return f"[{', '.join(map(_shown, value))}]"
        case Mapping():
            items = [f"{_dotted((key,))} = {_shown(item)}" for key, item in value.items() if item is not None]
            return f"{{ {', '.join(items)} }}" if items else "{}"
        case _:
            expected = "texts, numbers, true, false, lists and tables"
            raise ConfigError(f"TOML cannot hold {type(value).__name__}: expected {expected}", expected=expected)


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for one control character that JSON lets through.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
