"""A settings file as text, the positions of its keys, and errors that name those positions.

Errors never quote a value, because it may be a secret; they do name keys and variables.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .._util.files import read_regular_file
from ..errors import ConfigError
from ..protocol.sanitize import one_line

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of the largest file that is read."""

MAX_DEPTH = 64
"""Levels of nested containers in a file."""

UNEDITABLE = "is written in a way that cannot be edited automatically: please edit it by hand"
"""The message of the error for an edit that would change more than it should."""


_NONE: Mapping[str, Any] = MappingProxyType({})


class Table(dict[str, Any]):
    """An object of a file: a dict that also has the positions of its keys."""

    __slots__ = ("places", "repeats")

    def __init__(self, values: Mapping[str, Any] = _NONE, places: Mapping[str, int] = _NONE) -> None:
        super().__init__(values)
        self.places = dict(places)
        self.repeats: dict[str, int] = {}
        """Keys that occur more than once, each with the position of its previous occurrence."""

    def put(self, key: str, value: Any, place: int) -> None:
        """Set a key as JSON does, where the last of several equal keys wins; duplicates are recorded in `repeats`."""
        if key in self.places:
            self.repeats[key] = self.places[key]
        self[key] = value
        self.places[key] = place

    def __reduce__(self) -> tuple[Any, ...]:
        return (Table, (dict(self), self.places))


def place_of(table: Any, *keys: str) -> int | None:
    """Return the position of the last of these nested keys, or of the nearest key above it that has a position."""
    found = None
    for key in keys:
        if not isinstance(table, Table):
            break
        found = table.places.get(key, found)
        table = table.get(key)
    return found


class Document:
    """The text of a settings file; empty for settings that come from a mapping, which often have no `path` either."""

    def __init__(self, path: Path | None = None, text: str = "") -> None:
        self.path = path
        self.text = text

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        while (end := self.text.find("\n", starts[-1])) >= 0:
            starts.append(end + 1)
        return starts

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and column, the inverse of `place`."""
        return self._line_starts[min(line, len(self._line_starts)) - 1] + column - 1

    def line(self, offset: int | None) -> int | None:
        """Return the line of an offset, None if the offset is None."""
        return None if offset is None else self.place(offset)[0]

    def named(self, offset: int | None = None) -> str:
        """Return `file:line:column`, which editors and terminals turn into links; empty without file and offset."""
        where = one_line(str(self.path), 1000) if self.path is not None else ""
        if offset is None:
            return where
        return ":".join([*([where] if where else ["line"]), *map(str, self.place(offset))])

    def error(
        self,
        message: str,
        *,
        offset: int | None = None,
        key: str | None = None,
        expected: str | None = None,
        server: str | None = None,
    ) -> ConfigError:
        """Return a `ConfigError` whose message begins with the position, and that has it in `line` and `column`."""
        where = self.named(offset)
        file = None if self.path is None else str(self.path)
        shown = f"{where}: {message}" if where else message
        line, column = (None, None) if offset is None else self.place(offset)
        return ConfigError(shown, file=file, line=line, column=column, key=key, expected=expected, server=server)


def read_document(path: Path) -> Document:
    """Read a file as text: UTF-8, with or without a byte order mark, at most 4 MiB."""
    return decode_document(path, read_content(path))


def read_content(path: Path) -> bytes:
    """Return the bytes of a settings file; raise `ConfigError` if it cannot be read, is not a file or is too large."""
    document = Document(path)
    try:
        content = read_regular_file(path, MAX_BYTES + 1)
    except OSError as exc:
        raise document.error(
            f"cannot be read: {exc.strerror or type(exc).__name__}", expected="a settings file"
        ) from exc
    except ValueError:
        raise document.error("expected a path without NUL characters and lone surrogates", expected="a path") from None
    if content is None:
        raise document.error("expected a regular file", expected="a regular file")
    if len(content) > MAX_BYTES:
        expected = f"at most {MAX_BYTES} bytes"
        raise document.error(f"is too large: expected {expected}", expected=expected)
    return content


def decode_document(path: Path, content: bytes) -> Document:
    """Return the content of a file as a `Document`; raise `ConfigError` if it is not UTF-8."""
    try:
        return Document(path, content.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        valid = content[: exc.start].decode("utf-8-sig")
    # Raised outside the `except` block: a chained decode error would contain the whole file, secrets included.
    raise Document(path, valid).error("is not UTF-8 text", offset=len(valid), expected="UTF-8 text")
