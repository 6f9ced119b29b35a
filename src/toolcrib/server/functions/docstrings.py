"""What a docstring in Google's style says: of the function, and of each of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Final, NamedTuple

_PARAMETERS: Final = frozenset({"args", "arguments", "parameters", "params", "keyword args", "keyword arguments"})
# What a caller over the wire is told elsewhere: by the output schema, or not at all.
_LEFT_OUT: Final = frozenset({"returns", "return", "yields", "yield", "raises"})
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+|$)(.*)")


class Docstring(NamedTuple):
    """The text without the sections on parameters, returns and exceptions; and each parameter's own text."""

    text: str
    parameters: dict[str, str]


def parse(doc: str | None, names: Collection[str]) -> Docstring:
    """Read a docstring; `names` are the function's parameters: a line that begins with another word is no entry."""
    lines = inspect.cleandoc(doc or "").splitlines()
    kept: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        title = lines[at].rstrip()
        end = _end_of_block(lines, at + 1)
        section = title[:-1].lower() if title.endswith(":") and end > at + 1 else ""
        if section in _PARAMETERS:
            parameters.update(_entries(lines[at + 1 : end], names))
            at = end
        elif section in _LEFT_OUT:
            at = end
        else:
            kept.append(title)
            at += 1
    return Docstring(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), parameters)


def _end_of_block(lines: list[str], start: int) -> int:
    """Where the indented lines that begin at `start` end; `start` itself if there are none."""
    end = start
    for at in range(start, len(lines)):
        if not lines[at].strip():
            continue
        if not lines[at][0].isspace():
            break
        end = at + 1
    return end


def _entries(block: list[str], names: Collection[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    current: list[str] | None = None
    margin = min(len(line) - len(line.lstrip()) for line in block if line.strip())
    for line in block:
        words = line[margin:].rstrip()
        entry = _ENTRY.fullmatch(words)
        if entry and entry[1] in names:
            current = texts.setdefault(entry[1], [])
            words = entry[2]
        if current is not None and words.strip():
            current.append(words.strip())
    return {name: " ".join(text) for name, text in texts.items() if text}
