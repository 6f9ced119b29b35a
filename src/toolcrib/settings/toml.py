"""A reader for TOML with positions: `tomllib` parses the values, a scan of the lines finds the keys."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from .documents import MAX_DEPTH, Document, Table

_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)$")
_PART = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*""")
_Places = dict[tuple[str, ...], int]

# An unterminated string extends to the end of its line or of the text, so that matching takes linear time.
_OPAQUE = re.compile(
    r'''(?P<long>"""(?:[^"\\]++|\\.|"(?!""))*+"{0,5}+|'{3}.*?(?:'{3,5}+|\Z))'''
    r"""|(?P<string>"(?:[^"\\\n]|\\[^\n])*+"?|'[^'\n]*+'?)|(?P<comment>\#[^\n]*+)""",
    re.DOTALL,
)
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}", re.ASCII)


def read_toml(document: Document) -> Table:
    """Return the document's tables as `Table`s; invalid TOML raises `ConfigError` with line and column."""
    fault = ""
    bare = _OPAQUE.sub(_blank, document.text)
    if deep := _DEEP_KEY.search(bare):
        # Checked before parsing, because tomllib takes quadratic time for long keys.
        raise _too_deep(document, deep.start())
    try:
        values = tomllib.loads(document.text)
    except tomllib.TOMLDecodeError as exc:
        # Before Python 3.14, the position is only in the message.
        fault = str(exc)
    except RecursionError:
        raise _too_deep(document, None) from None
    if not fault:
        table: Table = _located(document, values, _places(document.text, bare), ())
        return table
    # Raised outside the `except` block: newer decode errors contain the whole document.
    position = _POSITION.search(fault)
    offset = document.offset(int(position[1]), int(position[2])) if position else len(document.text)
    what = _POSITION.sub("", fault).removesuffix("(at end of document)").strip()
    raise document.error(f"is not TOML: {what}", offset=offset, expected="TOML")


def _located(document: Document, value: Any, places: _Places, path: tuple[str, ...]) -> Any:
    if len(path) > MAX_DEPTH:
        raise _too_deep(document, places.get(path[:1]))
    if isinstance(value, list):
        return [_located(document, item, places, (*path, str(index))) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    inner = {key: _located(document, item, places, (*path, key)) for key, item in value.items()}
    found = {key: places.get((*path, key), places.get(path)) for key in value}
    return Table(inner, {key: place for key, place in found.items() if place is not None})


def _too_deep(document: Document, offset: int | None) -> Exception:
    expected = f"at most {MAX_DEPTH} nested containers"
    return document.error(f"expected {expected}", offset=offset, expected=expected)


def _blank(opaque: re.Match[str]) -> str:
    """Return a replacement of equal length: a word for a string, which may be a key, else blanks."""
    return re.sub(r"[^\n]", "_" if opaque["string"] else " ", opaque[0])


def _places(text: str, bare: str) -> _Places:
    """Return the offsets of `[tables]` and `keys =`; `bare` is the text with strings and comments blanked out."""
    found: _Places = {}
    prefix: tuple[str, ...] = ()
    opened = 0
    offset = 0
    for line, seen in zip(text.split("\n"), bare.split("\n"), strict=True):
        header = re.match(r"[ \t]*\[\[?", seen) if not opened else None
        path, end = _dotted(line, header.end() if header else 0) if not opened else ((), 0)
        if header and seen.startswith("]", end):
            prefix = path
            _note(found, path, offset)
        elif path and seen.startswith("=", end):
            _note(found, (*prefix, *path), offset + len(line) - len(line.lstrip()))
        # A list may continue on the next lines, where `[` does not begin a table.
        opened += sum(map(seen.count, "[{")) - sum(map(seen.count, "]}"))
        offset += len(line) + 1
    return found


def _note(found: _Places, path: tuple[str, ...], offset: int) -> None:
    for length in range(1, min(len(path), MAX_DEPTH) + 1):
        found.setdefault(path[:length], offset)


def _dotted(line: str, at: int) -> tuple[tuple[str, ...], int]:
    parts = []
    while part := _PART.match(line, at):
        parts.append(part[1] or part[2] or part[3] or "")
        at = part.end()
        if not line.startswith(".", at):
            break
        at += 1
    return tuple(parts[: MAX_DEPTH + 1]), at
