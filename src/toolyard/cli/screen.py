"""The only door to the terminal: tables and colours where somebody looks, plain lines and JSON where a program reads.

Whatever a server says passes `plain` or `cell` on its way: control, bidi and invisible characters never arrive.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TextIO

from ..protocol.text import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console

_WHOLE: Final = sys.maxsize
# Spaces that are no ASCII ones are everyday text, and harmless; what is left of `\s` is.
_SPACES: Final = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_GAP: Final = 3
"""Columns of the terminal between two of a table."""
_SHORTEST: Final = 20


@dataclass(frozen=True, slots=True)
class Styled:
    """A value of a table with a colour, if there are colours."""

    value: Any
    style: str

    def __str__(self) -> str:
        return str(self.value)


_kept: list[TextIO] = []


def stdout() -> TextIO:
    """Where answers go, and nothing else."""
    return _kept[-1] if _kept else sys.stdout


@contextmanager
def keeping_stdout() -> Iterator[None]:
    """What servers of this process print goes to stderr meanwhile: it is no part of the answer."""
    _kept.append(sys.stdout)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = _kept.pop()


def is_terminal() -> bool:
    """Whether somebody looks at what we print."""
    return stdout().isatty()


def can_ask() -> bool:
    """Whether somebody sits there who can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@cache
def out() -> Console:
    """Where answers go."""
    from rich.console import Console  # noqa: PLC0415  # slow; a piped listing does without

    return Console(file=stdout(), highlight=False, markup=False, emoji=False, soft_wrap=not is_terminal())


@cache
def err() -> Console:
    """Where everything else goes: progress, warnings, errors."""
    from rich.console import Console  # noqa: PLC0415  # slow; most commands have nothing to complain about

    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def plain(text: str) -> str:
    """A server's text, all of it: newlines and tabs stay, other control and invisible characters do not."""
    return printable(_SPACES.sub(" ", text.replace("\r\n", "\n")), _WHOLE)


def cell(value: Any) -> str:
    """Anything on one line."""
    return one_line(str(value), _WHOLE)


def say(text: str = "") -> None:
    """A line of the answer, as it is: no markup, and no line is broken."""
    stdout().write(plain(text) + "\n")


def say_title(text: str) -> None:
    """A line of the answer that stands out, on one line."""
    if is_terminal():
        out().print(cell(text), style="bold", soft_wrap=True)
    else:
        stdout().write(cell(text) + "\n")


def note(text: str, style: str = "dim") -> None:
    """A line beside the answer, for a person."""
    if sys.stderr.isatty():
        err().print(plain(text), style=style)
    else:
        sys.stderr.write(plain(text) + "\n")


def complain(message: str, hint: str = "", quoted: str = "") -> None:
    """What went wrong: one line, what to do next, and what the server wrote about it."""
    lines = [("error: ", "bold red", cell(message))]
    lines += [("", "", f"  | {cell(line)}") for line in plain(quoted).splitlines() if line.strip()]
    lines += [("hint: ", "bold cyan", cell(hint))] if hint else []
    for label, style, text in lines:
        if sys.stderr.isatty():
            err().print(label, style=style, end="")
            err().print(text, style="" if label else "dim")
        else:
            sys.stderr.write(label + text + "\n")


def as_json(value: Any) -> str:
    """JSON to be read, escaped wherever a terminal could take it for more than text: it means the same either way."""
    text = json.dumps(value, indent=2, ensure_ascii=not _speaks_unicode(), default=str)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def show_json(value: Any) -> None:
    """The answer for a program; on a terminal with colours."""
    text = as_json(value)
    if not is_terminal():
        stdout().write(text + "\n")
        return
    from rich.highlighter import JSONHighlighter  # noqa: PLC0415  # slow; only for a terminal

    out().print(JSONHighlighter()(text), soft_wrap=True)


def _speaks_unicode() -> bool:
    return (stdout().encoding or "").lower().replace("-", "") == "utf8"


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, styles: Sequence[str] = (), brief: bool = False
) -> None:
    """Rows under headings on a terminal; tab-separated lines without headings where a program reads.

    `brief`: on a terminal of the last column only the first sentence, as far as there is room on one line.
    """
    if not is_terminal():
        for row in rows:
            stdout().write("\t".join(cell(value) for value in row) + "\n")
        return
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # slow; only for a terminal
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = [*rows]
    if not rows:
        return
    shown = [[Text(cell(each), each.style if isinstance(each, Styled) else "") for each in row] for row in rows]
    if brief:
        taken = sum(max(len(column), *(row[at].cell_len for row in shown)) for at, column in enumerate(columns[:-1]))
        room = max(out().width - taken - _GAP * len(columns), _SHORTEST)
        for row in shown:
            row[-1] = Text(_SENTENCE.split(row[-1].plain, maxsplit=1)[0])
            row[-1].truncate(room, overflow="ellipsis")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for at, column in enumerate(columns):
        numbers = all(isinstance(row[at], int) or row[at] == "" for row in rows)
        style = styles[at] if at < len(styles) else ""
        table.add_column(column, style=style, overflow="fold", justify="right" if numbers else "left")
    for row in shown:
        table.add_row(*row)
    out().print(table)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows a person that something takes a moment."""
    if not sys.stderr.isatty():
        yield
        return
    with err().status(what, spinner="dots"):
        yield
