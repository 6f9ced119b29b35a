"""A settings file as text: where things stand in it, and errors that say so.

No error repeats what stands in a value: it may be a secret. Keys and names of variables are shown.
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
"""The largest file that is read."""

MAX_DEPTH = 64
"""Containers inside of containers in a file."""

UNEDITABLE = "is written in a way that cannot be changed from here: please edit it by hand"
"""The error of an edit that would change more than it should."""


_NONE: Mapping[str, Any] = MappingProxyType({})


class Table(dict[str, Any]):
    """An object of a file: a plain dict that also knows where its keys stand."""

    __slots__ = ("places", "repeats")

    def __init__(self, values: Mapping[str, Any] = _NONE, places: Mapping[str, int] = _NONE) -> None:
        super().__init__(values)
        self.places = dict(places)
        self.repeats: dict[str, int] = {}
        """Keys that were there already, and where they stood before."""

    def put(self, key: str, value: Any, place: int) -> None:
        """Set a key as JSON does: the last of several wins, but it is known that there were several."""
        if key in self.places:
            self.repeats[key] = self.places[key]
        self[key] = value
        self.places[key] = place

    def __reduce__(self) -> tuple[Any, ...]:
        return (Table, (dict(self), self.places))


def place_of(table: Any, *keys: str) -> int | None:
    """Where the last of these nested keys stands, or the nearest above it that can be found."""
    found = None
    for key in keys:
        if not isinstance(table, Table):
            break
        found = table.places.get(key, found)
        table = table.get(key)
    return found


class Document:
    """The text of a file, or of nothing: a mapping of the program has neither lines nor, mostly, a name."""

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
        """Line and column, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The reverse of `place`."""
        return self._line_starts[min(line, len(self._line_starts)) - 1] + column - 1

    def line(self, offset: int | None) -> int | None:
        """The line, where anything is known of it."""
        return None if offset is None else self.place(offset)[0]

    def named(self, offset: int | None = None) -> str:
        """`file:line:column`, as editors and terminals make links of it; empty where there is no file."""
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
        """A `ConfigError` that begins with the place; `.line` and `.column` are there too."""
        where = self.named(offset)
        file = None if self.path is None else str(self.path)
        shown = f"{where}: {message}" if where else message
        line, column = (None, None) if offset is None else self.place(offset)
        return ConfigError(shown, file=file, line=line, column=column, key=key, expected=expected, server=server)


def read_document(path: Path) -> Document:
    """The file as text: UTF-8, with or without a byte order mark, of at most 4 MiB."""
    return decoded(path, read_content(path))


def read_content(path: Path) -> bytes:
    """What is in a settings file; `ConfigError` if it is none, cannot be read or is too large."""
    document = Document(path)
    try:
        content = read_regular_file(path, MAX_BYTES + 1)
    except OSError as exc:
        raise document.error(
            f"cannot be read: {exc.strerror or type(exc).__name__}", expected="a settings file"
        ) from exc
    except ValueError:
        raise document.error("expected a path without NUL and lone surrogates", expected="a path") from None
    if content is None:
        raise document.error("expected a plain file", expected="a plain file")
    if len(content) > MAX_BYTES:
        expected = f"at most {MAX_BYTES} bytes"
        raise document.error(f"is too large: expected {expected}", expected=expected)
    return content


def decoded(path: Path, content: bytes) -> Document:
    """The content of a file as text; `ConfigError` where it is no UTF-8."""
    try:
        return Document(path, content.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        valid = content[: exc.start].decode("utf-8-sig")
    # Raised out here, because a decode error carries the whole file, secrets included, wherever it is chained.
    raise Document(path, valid).error("is not UTF-8 text", offset=len(valid), expected="UTF-8 text")
