"""Changes one table of a TOML text, and no byte outside it.

A table can be written in many ways: `[a.b]`, `a.b.c = 1`, `b.c = 1` under `[a]`, `b = { c = 1 }`, and several of them
together. tomlkit splits the text into its statements; the statements of the table are cut out and replaced here.
tomlkit's own edits are not used: they delete the comments above the next table, and put a new table among the dotted
keys of another one, which changes their meaning.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, Item, Key, Table

from ...errors import ConfigError
from ..documents import UNEDITABLE, Document

_MAX_LINE: Final = 100
"""Columns up to which a list stays on one line."""

_Path = tuple[str, ...]
_Edit = tuple[int, int, str]
"""Start, end, and the replacement."""


class _Piece(NamedTuple):
    """A part of a text as tomlkit parsed it: a header, whose item is a `Table`, a key with its value, or a gap."""

    path: _Path
    item: Item | None
    before: str
    value: str
    after: str

    @property
    def text(self) -> str:
        return f"{self.before}{self.value}{self.after}"


@dataclass(frozen=True, slots=True, eq=False)
class _Statement:
    """A header, or a key with its value: whole lines from `start` to `end`, or a member of an inline table."""

    path: _Path
    start: int
    value: int
    value_end: int
    end: int
    item: Item
    """The value; a `Table` for a header."""
    block: _Path
    """The path of the header above the statement, its own for a header."""
    header: int
    """Where that header starts; -1 above the first one."""

    @property
    def is_header(self) -> bool:
        return isinstance(self.item, Table)

    def holds(self, path: _Path) -> bool:
        """Return whether this is an inline table that contains `path`."""
        return isinstance(self.item, InlineTable) and _is_within(path, self.path)


def put(document: Document, path: _Path, value: Mapping[str, Any]) -> str:
    """Return the text with this table: instead of the previous one, else after the last table of its section."""
    text, statements = document.text, _statements(document)
    for each in statements:
        if each.holds(path):
            return _put_inline(document, each, path, value)
    block = _block(path, value, _newline(text))
    if any(each.is_header and _is_within(each.path, path) for each in statements):
        return _without(document, path, block)
    text = _without(document, path)
    return _with_block(text, _behind_neighbours(Document(document.path, text), path[:-1]), block, _newline(text))


def remove(document: Document, path: _Path) -> str:
    """Return the text without this table, in whatever ways it is written."""
    return _without(document, path)


def _is_within(path: _Path, outer: _Path) -> bool:
    return path[: len(outer)] == outer


# ---- statements


def _statements(document: Document) -> list[_Statement]:
    try:
        pieces = list(_pieces(tomlkit.parse(document.text).body, ()))
    except (TOMLKitError, RecursionError):  # though tomllib has read the text
        pieces = []
    return _located(document, _in_order(document.text, pieces), (), 0, len(document.text))


def _members(document: Document, table: _Statement) -> list[_Statement]:
    """Return the keys of an inline table; their paths are those in the whole document."""
    assert isinstance(table.item, InlineTable)
    pieces = _pieces(table.item.value.body, table.path)
    return _located(document, pieces, table.path, table.value + 1, table.value_end - 1)


def _located(document: Document, pieces: Iterable[_Piece], path: _Path, start: int, end: int) -> list[_Statement]:
    """Return the statements of `text[start:end]`, which consists of these pieces."""
    found: list[_Statement] = []
    block, header, at = path, -1, start
    for piece in pieces:
        if found and document.text.startswith(",", at) and not piece.text.startswith(","):
            at += 1  # before tomlkit 0.15, the commas of an inline table are not part of its body
        if not document.text.startswith(piece.text, at):
            break
        if isinstance(piece.item, Table):
            block, header = piece.path, at
        value = at + len(piece.before)
        value_end = value + len(piece.value)
        next_start = value_end + len(piece.after)
        if piece.item is not None:
            found.append(_Statement(piece.path, at, value, value_end, next_start, piece.item, block, header))
        at = next_start
    if at != end:  # tomlkit did not preserve the text
        raise document.error(UNEDITABLE, offset=at, expected="a file that can be edited in place")
    return found


def _pieces(body: Iterable[tuple[Key | None, Item]], path: _Path, prefix: str = "") -> Iterator[_Piece]:
    """Yield the pieces of a body; `prefix` is the dotted key in front of its keys."""
    for key, item in body:
        if key is None:
            yield _Piece(path, None, "", item.as_string(), "")
            continue
        inner, around = (*path, key.key), item.trivia
        behind = f"{around.comment_ws}{around.comment}{around.trail}"
        if isinstance(item, AoT):
            yield from _pieces([(key, table) for table in item.body], path)
        elif isinstance(item, Table) and item.is_super_table():  # a table without a header
            yield from _pieces(item.value.body, inner, f"{prefix}{key.as_string()}." if key.is_dotted() else "")
        elif isinstance(item, Table):
            name = f"[[{item.display_name}]]" if item.is_aot_element() else f"[{item.display_name}]"
            yield _Piece(inner, item, around.indent, name, behind)
            yield from _pieces(item.value.body, inner)
        else:
            yield _Piece(inner, item, f"{around.indent}{prefix}{key.as_string()}{key.sep}", item.as_string(), behind)


def _in_order(text: str, pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Yield the pieces in the order of the text: tomlkit groups all tables of an array after the first one."""
    block: list[_Piece] = []
    blocks = defaultdict[str, deque[list[_Piece]]](deque, {"": deque([block])})
    for piece in pieces:
        if isinstance(piece.item, Table):
            blocks[piece.text].append(block := [])
        block.append(piece)
    at, header = 0, ""
    while blocks[header]:
        for piece in blocks[header].popleft():
            yield piece
            at += len(piece.text)
        header = text[at : _line_end(text, at)]


# ---- inline tables


def _put_inline(document: Document, table: _Statement, path: _Path, value: Mapping[str, Any]) -> str:
    """Return the text with this value in an inline table, or instead of that table."""
    text = document.text
    if table.path == path:
        return text[: table.value] + _shown(value) + text[table.value_end :]
    members = _members(document, table)
    for each in members:
        if each.holds(path):
            return _put_inline(document, each, path, value)
    added = f"{_dotted(path[len(table.path) :])} = {_shown(value)}"
    kept = [each for each in members if not _is_within(each.path, path)]
    if not kept:
        return f"{text[: table.value + 1]} {added} {text[table.value_end - 1 :]}"
    end = kept[-1].value_end
    return _apply([*_member_cuts(document, table, path), (end, end, f", {added}")], text)


def _member_cuts(document: Document, table: _Statement, path: _Path) -> list[_Edit]:
    """Return the edits that remove the value at this path from an inline table, with its commas."""
    members = _members(document, table)
    for each in members:
        if each.holds(path) and each.path != path:
            return _member_cuts(document, each, path)
    kept = [each for each in members if not _is_within(each.path, path)]
    if not kept:
        return [(table.value + 1, table.value_end - 1, "")]
    pairs = list(pairwise(members))[members.index(kept[0]) :]
    cuts = [(last.value_end, each.value_end, "") for last, each in pairs if each not in kept]
    return [(members[0].start, kept[0].start, ""), *cuts]


def _apply(edits: list[_Edit], text: str) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


# ---- whole tables


def _without(document: Document, path: _Path, instead: str = "") -> str:
    """Return the text without this table; `instead` replaces its first header and the keys below that."""
    text, statements = document.text, _statements(document)
    first = next((each for each in statements if each.is_header and _is_within(each.path, path)), None)
    for each in reversed(statements):
        if each.is_header and _is_within(each.path, path):
            # Up to its last key, including the comments in between. Later comments may belong to the next table.
            end = max(of.end for of in statements if of.header == each.start)
            if instead and each is first:
                text = text[: each.start] + instead + text[each.start + len(text[each.start : end].rstrip("\r\n")) :]
            else:
                text = _cut(text, each.start, end, with_gap=True)
        elif each.is_header or _is_within(each.block, path):
            continue
        elif _is_within(each.path, path):
            text = _cut(text, each.start, each.end)
        elif each.holds(path):
            text = _apply(_member_cuts(document, each, path), text)
    return text


def _cut(text: str, start: int, end: int, *, with_gap: bool = False) -> str:
    """Return the text without these lines.

    The blank line above a table is removed too, and the newline before the last line of the text.
    """
    if with_gap:
        above = re.search(r"(?:\A|\n)([ \t]*\r?\n)\Z", text[:start])
        start -= len(above[1]) if above else 0
    if end == len(text) and not text.endswith("\n"):
        start = len(text[:start].removesuffix("\n").removesuffix("\r"))
    return text[:start] + text[end:]


def _behind_neighbours(document: Document, section: _Path) -> int:
    """Return the offset for a new table: after the last one of its section, else at the end, before blank lines."""
    text = document.text
    within = [each for each in _statements(document) if _is_within(each.block, section)]
    if not within:
        return _line_end(text, len(text.rstrip())) if text.strip() else 0
    at = within[-1].end
    comments = re.compile(r"(?:[ \t]*#[^\n]*(?:\n|\Z))+").match(text, at)
    # Comments directly above the next table belong to that table.
    is_next = comments is not None and text[comments.end() :].lstrip(" \t").startswith("[")
    return comments.end() if comments is not None and not is_next else at


def _line_end(text: str, at: int) -> int:
    return text.find("\n", at) + 1 or len(text)


def _with_block(text: str, at: int, block: str, newline: str) -> str:
    head, tail = text[:at], text[at:]
    if not head:
        return block + newline + tail
    if not head.endswith("\n"):
        return f"{head}{newline}{newline}{block}{tail}"
    return f"{head}{newline}{block}{newline}{tail}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# ---- values


def _block(path: _Path, value: Mapping[str, Any], newline: str) -> str:
    lines = [f"[{_dotted(path)}]"]
    for key, item in value.items():
        if item is not None:
            line = f"{_dotted((key,))} = {_shown(item)}"
            if len(line) > _MAX_LINE and isinstance(item, list | tuple):
                line = newline.join([f"{_dotted((key,))} = [", *(f"    {_shown(each)}," for each in item), "]"])
            lines.append(line)
    return newline.join(lines)


def _dotted(path: _Path) -> str:
    return ".".join(tomlkit.key(key).as_string() for key in path)


def _shown(value: Any) -> str:
    match value:
        case bool() | str() | int() | float():
            return tomlkit.item(value).as_string()
        case list() | tuple():
            return f"[{', '.join(map(_shown, value))}]"
        case Mapping():
            items = [f"{_dotted((key,))} = {_shown(item)}" for key, item in value.items() if item is not None]
            return f"{{ {', '.join(items)} }}" if items else "{}"
        case _:
            expected = "strings, numbers, true, false, lists and tables"
            raise ConfigError(f"TOML cannot represent {type(value).__name__}: expected {expected}", expected=expected)
