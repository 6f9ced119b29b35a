"""Parser for docstrings in the styles of Google, NumPy and Sphinx: the text, and the text on each parameter.

| style | a parameter | other sections |
| --- | --- | --- |
| Google | an indented `name (type): text` below `Args:` | `Returns:` |
| NumPy | `name : type` with an indented text below `Parameters` and a line of dashes | `Returns` and a line of dashes |
| Sphinx | `:param type name: text` | `:returns: text` |

One docstring may mix them. A section starts at the margin of the docstring, so examples, which are indented or fenced,
are never read as sections.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Final, NamedTuple

_PARAMETERS: Final = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
# Sections that are left out: the output schema describes the result, and callers do not see exceptions.
_LEFT_OUT: Final = frozenset({"returns", "return", "yields", "yield", "receives", "raises", "warns"})

_NAME: Final = r"(?:\\?\*){0,2}(\w+)"
_GOOGLE_ENTRY: Final = re.compile(_NAME + r"\s*(?:\(.*?\))?\s*:(?:\s+|$)(.*)")
_NUMPY_ENTRY: Final = re.compile(r"((?:\\?\*){0,2}\w+(?:\s*,\s*(?:\\?\*){0,2}\w+)*)\s*(?::.*)?")
_UNDERLINE: Final = re.compile(r"-{3,}|={3,}")
_FIELD: Final = re.compile(r":(\w+)(?:\s+([^\s:].*?))?\s*:(?:\s+(.*))?")
_FENCE: Final = re.compile(r"`{3,}|~{3,}")

_FIELD_PARAMETERS: Final = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "kwparam"})
_FIELD_LEFT_OUT: Final = frozenset(
    {"type", "return", "returns", "rtype", "raise", "raises", "except", "exception", "yield", "yields", "ytype", "meta"}
)

Texts = dict[str, list[str]]
"""The lines on each parameter."""


class Docstring(NamedTuple):
    """The text without the sections on parameters, returns and exceptions; and each parameter's own text."""

    text: str
    parameters: dict[str, str]


def parse(doc: str | None, names: Collection[str]) -> Docstring:
    """Read a docstring. `names` are the function's parameters: other words do not start an entry in Google's style."""
    lines = [line.rstrip() for line in inspect.cleandoc(doc or "").splitlines()]
    kept: list[str] = []
    texts: Texts = {}
    at, fence = 0, ""
    while at < len(lines):
        line, end = lines[at], at
        if not fence:
            end = (
                _read_google(lines, at, names, texts) or _read_numpy(lines, at, texts) or _read_sphinx(lines, at, texts)
            )
        mark = _FENCE.match(line)
        if mark is not None:
            fence = "" if fence and line.startswith(fence) else fence or mark[0]
        if end <= at:
            kept.append(line)
            end = at + 1
        at = end
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Docstring(text, {name: " ".join(found) for name, found in texts.items() if name in names and found})


# Each reader parses the section or field that starts at a line, if it is of its style, and returns the number of the
# line after it; otherwise 0.


def _read_google(lines: list[str], at: int, names: Collection[str], texts: Texts) -> int:
    title = lines[at]
    section = title[:-1].lower() if title.endswith(":") else ""
    if section not in _PARAMETERS and section not in _LEFT_OUT:
        return 0
    end = _end_of_indented(lines, at + 1)
    if end == at + 1:
        return 0
    if section in _PARAMETERS:
        block, current = lines[at + 1 : end], None
        margin = min(len(line) - len(line.lstrip()) for line in block if line)
        for line in block:
            entry = _GOOGLE_ENTRY.fullmatch(line[margin:])
            if entry and entry[1] in names:
                current = texts[entry[1]] = []
                line = entry[2]
            if current is not None and line.strip():
                current.append(line.strip())
    return end


def _read_numpy(lines: list[str], at: int, texts: Texts) -> int:
    section = lines[at].lower()
    if (section not in _PARAMETERS and section not in _LEFT_OUT) or not _is_underlined(lines, at):
        return 0
    end = at + 2
    current: list[list[str]] = []
    while end < len(lines) and not _is_underlined(lines, end):
        line = lines[end]
        entry = _NUMPY_ENTRY.fullmatch(line) if section in _PARAMETERS and line else None
        if entry:
            words = re.findall(r"\w+", entry[1])
            current = [[] for _ in words]
            texts.update(zip(words, current, strict=True))
        elif line and not line[0].isspace() and (section in _PARAMETERS or _FIELD.fullmatch(line)):
            break  # text after the section, which strictly should not be there, or another style
        else:
            for each in current:
                each += [line.strip()] if line else []
        end += 1
    return end


def _read_sphinx(lines: list[str], at: int, texts: Texts) -> int:
    field = _FIELD.fullmatch(lines[at])
    if field is None or (field[1] not in _FIELD_PARAMETERS and field[1] not in _FIELD_LEFT_OUT):
        return 0
    end = at + 1
    while end < len(lines) and lines[end] and _FIELD.fullmatch(lines[end]) is None:
        end += 1  # the rest of the paragraph, also if it is not indented as it should be
    end = max(end, _end_of_indented(lines, end))
    if field[1] in _FIELD_PARAMETERS and field[2]:
        words = (field[3] or "", *lines[at + 1 : end])
        texts[field[2].split()[-1].lstrip("\\*")] = [word.strip() for word in words if word.strip()]
    return end


def _is_underlined(lines: list[str], at: int) -> bool:
    return (
        at + 1 < len(lines)
        and bool(lines[at])
        and not lines[at][0].isspace()
        and _UNDERLINE.fullmatch(lines[at + 1]) is not None
    )


def _end_of_indented(lines: list[str], start: int) -> int:
    """Return the end of the block of indented and blank lines at `start`; `start` if no line is indented."""
    end = start
    for at in range(start, len(lines)):
        if not lines[at]:
            continue
        if not lines[at][0].isspace():
            break
        end = at + 1
    return end
