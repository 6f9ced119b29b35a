"""Changes one key of a JSON text with comments, and no byte outside it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ..documents import Document
from ..jsonc import Reader

_MAX_LINE = 88
"""Columns up to which a list stays on one line."""


@dataclass(frozen=True, slots=True)
class _JsonMember:
    """A key and its value in an object: offsets into the text."""

    key: str
    start: int
    value: int
    end: int
    comma: int | None


@dataclass(frozen=True, slots=True)
class _Object:
    """An object: offsets of its braces, and its members."""

    opened: int
    closed: int
    members: tuple[_JsonMember, ...]

    def named(self, key: str) -> list[_JsonMember]:
        return [member for member in self.members if member.key == key]


class _Finder(Reader):
    """Finds the objects of a text that is known to be valid."""

    def object_at(self, at: int) -> _Object:
        self.at = at
        self.skip()
        members: list[_JsonMember] = []
        opened = self.enter()
        while not self.closes("}", opened):
            start = self.at
            key = self.string()
            self.skip()
            self.at += 1
            self.skip()
            value = self.at
            self.value(0)
            end = self.at
            self.skip()
            members.append(_JsonMember(key, start, value, end, self.at if self.text.startswith(",", self.at) else None))
            self.comma("}", opened)
        return _Object(opened, self.at - 1, tuple(members))


def put(document: Document, path: tuple[str, ...], value: Any) -> str:
    """Return the text with this value at this path: instead of the previous value, else after the last member."""
    text = document.text
    finder, here = _Finder(document), 0
    for depth, key in enumerate(path, 1):
        found = finder.object_at(here)
        there = found.named(key)
        if not there:
            return _inserted(text, found, key, _nested(path[depth:], value))
        here = there[-1].value
        if depth == len(path) or not text.startswith("{", here):
            shown = _shown(_nested(path[depth:], value), _indent_of(text, there[-1].start), _style(text, found))
            return text[:here] + shown + text[there[-1].end :]
    raise UsageError("path: expected at least one key")


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def remove(document: Document, path: tuple[str, ...]) -> str:
    """Return the text without this key, including all duplicates of it."""
    text = document.text
    while True:
        finder, here = _Finder(document), 0
        for key in path[:-1]:
            here = finder.object_at(here).named(key)[-1].value
        found = finder.object_at(here)
        there = found.named(path[-1])
        if not there:
            return text
        text = _without(text, found, there[-1])
        document = Document(document.path, text)


@dataclass(frozen=True, slots=True)
class _Style:
    """The layout of an object; it is on one line if `unit`, its indentation, is None."""

    newline: str
    unit: str | None
    comma: str = ", "
    colon: str = ": "


def _style(text: str, found: _Object) -> _Style:
    newline = "\r\n" if "\r\n" in text else "\n"
    within = text[found.opened : found.closed]
    on_one_line = "\n" not in text[found.opened : found.members[0].start] if found.members else False
    if on_one_line:
        is_dense = ": " not in within and ", " not in within
        return _Style(newline, None, *((",", ":") if is_dense else (", ", ": ")))
    return _Style(newline, _unit(text, found))


def _unit(text: str, found: _Object) -> str:
    """Return one level of indentation: this object's, else that of the file's first indented line, else two spaces."""
    if found.members:
        outer, inner = _indent_of(text, found.closed), _indent_of(text, found.members[0].start)
        if inner.startswith(outer) and inner != outer:
            return inner.removeprefix(outer)
    first = re.search(r'\n([ \t]+)"', text)
    return first[1] if first else "  "


def _indent_of(text: str, offset: int) -> str:
    """Return the blanks at the beginning of the line of this offset."""
    start = text.rfind("\n", 0, offset) + 1
    blanks = re.compile(r"[ \t]*").match(text, start)
    return blanks[0] if blanks else ""


def _inserted(text: str, found: _Object, key: str, value: Any) -> str:
    style = _style(text, found)
    outer = _indent_of(text, found.closed if found.members else found.opened)
    indent = _indent_of(text, found.members[-1].start) if found.members else outer + (style.unit or "")
    member = f"{_text(key)}{style.colon}{_shown(value, indent, style)}"
    if not found.members:
        # A comment in the object may extend to the end of its line, so the brace goes on a separate line.
        kept = text[found.opened + 1 : found.closed].rstrip()
        within = f"{kept}{style.newline}{indent}{member}{style.newline}{outer}"
        return text[: found.opened + 1] + within + text[found.closed :]
    last = found.members[-1]
    behind = last.end if last.comma is None else last.comma + 1
    # A member on a separate line goes after the comments of the last one; on the same line it cannot.
    at = behind if style.unit is None else _behind_comments(text, behind, found.closed)
    before = style.comma.rstrip() if last.comma is None else ""
    after = "" if last.comma is None else style.comma.rstrip()
    gap = style.newline + indent if style.unit is not None else style.comma.removeprefix(",")
    return f"{text[: last.end]}{before}{text[last.end : at]}{gap}{member}{after}{text[at:]}"


def _behind_comments(text: str, at: int, limit: int) -> int:
    """Return the end of the comments that follow `at` on the same line."""
    comment = re.compile(r"[ \t]*(?://[^\n\r]*|/\*[^\n]*?\*/)")
    while (found := comment.match(text, at, limit)) is not None:
        at = found.end()
    return at


def _without(text: str, found: _Object, member: _JsonMember) -> str:
    at = found.members.index(member)
    is_last = at == len(found.members) - 1
    above = found.members[at - 1].end if at else found.opened
    start, end = _span(text, found, member, above, is_last)
    head, tail = text[:start], text[end:]
    if is_last and at > 0 and member.comma is None:
        comma = found.members[at - 1].comma
        assert comma is not None
        head = head[:comma] + head[comma + 1 :]
    if len(found.members) == 1 and not head[found.opened + 1 :].strip() and not tail[: tail.index("}")].strip():
        return head[: found.opened + 1] + tail.lstrip()
    return head + tail


def _span(text: str, found: _Object, member: _JsonMember, above: int, is_last: bool) -> tuple[int, int]:
    """Return start and end of the text to remove for a member, including its comma and the blanks around it.

    `above` is the end of the member before it.
    """
    start, end = member.start, member.end if member.comma is None else member.comma + 1
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip() and line > found.opened:
        # Remove its lines, from the end of the line above, with a comment at the end of the last line.
        before = line - 2 if text.startswith("\r\n", line - 2) else line - 1
        behind = _behind_comments(text, end, found.closed)
        if re.compile(r"[ \t]*\r?\n").match(text, behind):
            return before, behind
        # The text that follows must not become part of a comment.
        if is_last and "//" not in text[max(text.rfind("\n", 0, before) + 1, above) : before]:
            return before, end
    if is_last:
        return len(text[:start].rstrip(" \t")), end
    return start, end + len(text[end:]) - len(text[end:].lstrip(" \t"))


def _shown(value: Any, indent: str, style: _Style) -> str:
    """Return a value as JSON: objects on several lines, lists of scalars on one line if they fit."""
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(style.comma, style.colon))
    if style.unit is None or not isinstance(value, Mapping | list) or not value:
        return flat
    is_plain = isinstance(value, list) and not any(isinstance(item, Mapping | list) for item in value)
    if is_plain and len(indent) + len(flat) <= _MAX_LINE:
        return flat
    inner = indent + style.unit
    if isinstance(value, Mapping):
        items = [f"{_text(key)}: {_shown(item, inner, style)}" for key, item in value.items()]
    else:
        items = [_shown(item, inner, style) for item in value]
    joined = f",{style.newline}{inner}".join(items)
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return f"{opening}{style.newline}{inner}{joined}{style.newline}{indent}{closing}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
