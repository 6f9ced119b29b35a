"""A reader for JSON with comments and trailing commas, which records the position of every key.

For plain JSON it returns the same values as `json`. It takes linear time for any text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..errors import ConfigError
from ..protocol.sanitize import one_line
from .documents import MAX_DEPTH, Document, Table

_BLANKS = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z]+")
_WORDS = {"true": True, "false": False, "null": None}
_STRINGS = json.JSONDecoder()
_STRING = "a string in double quotes on one line, with JSON escapes"


def read_jsonc(document: Document) -> Any:
    """Return the document's value, with objects as `Table`s; invalid JSON raises `ConfigError` with line and column."""
    return Reader(document).whole()


class Reader:
    """A recursive-descent parser; `at` is the offset of the next character."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.text = document.text
        self.at = 0
        self.keys: list[str] = []

    def whole(self) -> Any:
        self.skip()
        value = self.value(0)
        self.skip()
        if self.at < len(self.text):
            raise self.error("the end of the file after its value")
        return value

    def value(self, depth: int) -> Any:
        first = self.text[self.at : self.at + 1]
        if first == '"':
            return self.string()
        if first in ("{", "["):
            if depth >= MAX_DEPTH:
                raise self.error(f"at most {MAX_DEPTH} nested containers")
            return self.object(depth) if first == "{" else self.array(depth)
        if number := _NUMBER.match(self.text, self.at):
            return self.number(number)
        word = _WORD.match(self.text, self.at)
        if word is None or word[0] not in _WORDS:
            raise self.error("a value: an object, a list, a string in double quotes, a number, true, false or null")
        self.at = word.end()
        return _WORDS[word[0]]

    def object(self, depth: int) -> Table:
        table = Table()
        opened = self.enter()
        while not self.closes("}", opened):
            place = self.at
            if not self.text.startswith('"', place):
                raise self.error("a key in double quotes, or }")
            key = self.string()
            self.keys.append(key)
            self.skip()
            if not self.text.startswith(":", self.at):
                raise self.error("a colon after the key")
            self.at += 1
            self.skip()
            table.put(key, self.value(depth + 1), place)
            self.keys.pop()
            self.comma("}", opened)
        return table

    def array(self, depth: int) -> list[Any]:
        items: list[Any] = []
        opened = self.enter()
        while not self.closes("]", opened):
            items.append(self.value(depth + 1))
            self.comma("]", opened)
        return items

    def enter(self) -> int:
        opened = self.at
        self.at += 1
        self.skip()
        return opened

    def closes(self, closer: str, opened: int) -> bool:
        if self.at >= len(self.text):
            raise self.never_closed(closer, opened)
        if not self.text.startswith(closer, self.at):
            return False
        self.at += 1
        return True

    def comma(self, closer: str, opened: int) -> None:
        """Consume the comma after an item, optional after the last one; `closes` consumes the closing bracket."""
        self.skip()
        if self.text.startswith(",", self.at):
            self.at += 1
            self.skip()
        elif self.at >= len(self.text):
            raise self.never_closed(closer, opened)
        elif not self.text.startswith(closer, self.at):
            raise self.error(f"a comma or {closer}")

    def never_closed(self, closer: str, opened: int) -> ConfigError:
        line = self.document.line(opened)
        return self.error(f"{closer} before the end of the file (opened on line {line})")

    def string(self) -> str:
        try:
            value, self.at = _STRINGS.raw_decode(self.text, self.at)
        except json.JSONDecodeError as exc:
            self.at = min(exc.pos, len(self.text))
        else:
            return str(value)
        # Raised outside the `except` block: a chained decode error would contain the whole document.
        raise self.error(_STRING)

    def number(self, number: re.Match[str]) -> int | float:
        whole, fraction, exponent = number.groups()
        try:
            value = float(number[0]) if fraction or exponent else int(whole)
        except ValueError:  # thousands of digits
            value = None
        if value is None:
            raise self.error("a number with fewer digits")
        self.at = number.end()
        return value

    def skip(self) -> None:
        """Skip blanks and comments."""
        text = self.text
        while True:
            self.at = _BLANKS.match(text, self.at).end()  # type: ignore[union-attr]  # it also matches the empty string
            if text.startswith("//", self.at):
                end = text.find("\n", self.at)
                self.at = end if end >= 0 else len(text)
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise self.error("*/ at the end of the comment that begins here")
                self.at = end + 2
            else:
                return

    def error(self, expected: str) -> ConfigError:
        key = ".".join(one_line(key, 80) for key in self.keys)
        message = f"{key}: expected {expected}" if key else f"expected {expected}"
        return self.document.error(message, offset=self.at, key=key or None, expected=expected)
