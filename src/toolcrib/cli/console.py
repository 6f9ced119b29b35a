"""All output: tables and colours on a terminal, plain lines and JSON for programs.

Text of servers passes through `plain` or `cell`, which remove control, bidi and invisible characters.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TextIO

from ..protocol.sanitize import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WHOLE: Final = sys.maxsize
# Spaces outside ASCII are common and harmless; the other characters of `\s` are not.
_SPACES: Final = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_GAP: Final = 3
"""Columns of the terminal between two of a table."""
_MIN_COLUMN: Final = 20
"""The narrowest column of text in a table; with less room a table becomes a list."""
_ECHO: Final = 3
"""Columns that are left free behind a live line: a terminal echoes ^C there, which must not start a new row."""
_LEFT: Final = 2
"""Columns by which a text below its name is moved to the right."""


@dataclass(frozen=True, slots=True)
class Styled:
    """A value of a table with a colour, if there are colours."""

    value: Any
    style: str

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Its values are shown whole and on one line, unless it is `text`."""

    heading: str
    style: str = ""
    text: bool = False
    """The text may be wrapped at words, or truncated in a brief table."""
    optional: int = 0
    """Columns that do not fit are left out, those with the highest number first."""


_kept: list[TextIO] = []


def stdout() -> TextIO:
    """Return the stream for answers, and nothing else."""
    return _kept[-1] if _kept else sys.stdout


@contextmanager
def keeping_stdout() -> Iterator[None]:
    """Redirect what servers in this process print to stderr, as it does not belong to the answer."""
    _kept.append(sys.stdout)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = _kept.pop()


def is_tty(stream: TextIO) -> bool:
    """Return whether the stream is a terminal, by its descriptor: rich's proxies do not always report it."""
    try:
        return os.isatty(stream.fileno())
    except (OSError, ValueError):  # no descriptor, or closed
        return False


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return is_tty(stdout())


def can_ask() -> bool:
    """Return whether the user can be prompted at a terminal."""
    return is_tty(sys.stdin) and is_tty(sys.stderr)


@cache
def out() -> Console:
    """Return the console for answers."""
    from rich.console import Console  # noqa: PLC0415  # slow; a piped listing does without

    return Console(file=stdout(), highlight=False, markup=False, emoji=False, soft_wrap=not is_terminal())


@cache
def err() -> Console:
    """Return the console for everything else: progress, warnings, errors."""
    from rich.console import Console  # noqa: PLC0415  # slow; most commands have no errors to print

    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def plain(text: str) -> str:
    """Return a server's text with newlines and tabs, but without other control and invisible characters."""
    return printable(_SPACES.sub(" ", text.replace("\r\n", "\n")), _WHOLE)


def cell(value: Any) -> str:
    """Return any value as text on one line."""
    return one_line(str(value), _WHOLE)


def say(text: str = "") -> None:
    """Print a line of the answer; on a terminal it is wrapped at words."""
    text = plain(text)
    stdout().write((wrapped(text, out().width) if text and is_terminal() else text) + "\n")


def show_text(text: str) -> None:
    """Write a server's text as it is, lines unbroken: it may be code, or a table."""
    stdout().write(plain(text) + "\n")


def indented(text: str) -> str:
    """Return a server's text moved to the right, so that none of its lines can imitate output of toolcrib."""
    return "\n".join(" " * _LEFT + line for line in plain(text).strip("\n").split("\n"))


def say_title(text: str) -> None:
    """Print a heading on one line."""
    if is_terminal():
        out().print(cell(text), style="bold", soft_wrap=True)
    else:
        stdout().write(cell(text) + "\n")


def note(text: str, style: str = "dim") -> None:
    """Print a line for the user to stderr."""
    if is_tty(sys.stderr):
        err().print(wrapped(plain(text), err().width), style=style)
    else:
        sys.stderr.write(plain(text) + "\n")


def complain(message: str, hint: str = "", quoted: str = "") -> None:
    """Print an error: one line, what the server wrote about it, and a hint what to do next."""
    lines = [("error: ", "bold red", cell(message))]
    lines += [("", "", f"  | {cell(line)}") for line in plain(quoted).splitlines() if line.strip()]
    lines += [("hint: ", "bold cyan", cell(hint))] if hint else []
    for label, style, text in lines:
        if is_tty(sys.stderr):
            shown = wrapped(label + text, err().width, "" if label else "  | ")
            err().print(label, style=style, end="")
            err().print(shown[len(label) :], style="" if label else "dim")
        else:
            sys.stderr.write(label + text + "\n")


def cell_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    from rich.cells import cell_len  # noqa: PLC0415  # slow; only for a terminal

    return cell_len(text)


def wrapped(text: str, width: int, given: str = "") -> str:
    """Return a text in lines of at most `width` columns, broken at spaces only: a longer word stays whole.

    `given` is what the rest of a line begins with; default: as far to the right as the line itself.
    """
    from rich.cells import cell_len  # noqa: PLC0415  # slow; only for a terminal

    lines: list[str] = []
    for line in text.split("\n"):
        shown = ""
        indent = given or line[: len(line) - len(line.lstrip(" "))]
        for word in re.findall(r"\s*\S+|\s+$", line):
            if shown.strip() and cell_len(shown + word) > width:
                lines.append(shown)
                shown = indent + word.lstrip()
            else:
                shown += word
        lines.append(shown)
    return "\n".join(lines)


def as_json(value: Any) -> str:
    """Return indented JSON; characters that are not printable are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=not _speaks_unicode(), default=str)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def json_line(value: Any) -> str:
    """Return JSON on one line, in printable ASCII."""
    return json.dumps(value, default=str).replace("\x7f", "\\u007f")


def show_json(value: Any) -> None:
    """Print the answer as JSON; on a terminal with colours."""
    text = as_json(value)
    if not is_terminal():
        stdout().write(text + "\n")
        return
    from rich.highlighter import JSONHighlighter  # noqa: PLC0415  # slow; only for a terminal

    out().print(JSONHighlighter()(text), soft_wrap=True)


def _speaks_unicode() -> bool:
    return (stdout().encoding or "").lower().replace("-", "") == "utf8"


def show_table(columns: Sequence[Column | str], rows: Iterable[Sequence[Any]], *, brief: bool = False) -> None:
    """Print rows under headings on a terminal, or tab-separated lines without headings for programs.

    On a terminal no name is ever broken: text is wrapped at words, optional columns are left out, and if
    even that is too wide each row is a list. `brief`: only the first sentence of texts, truncated to one line.
    """
    if not is_terminal():
        for row in rows:
            stdout().write("\t".join(cell(value) for value in row) + "\n")
        return
    from rich.text import Text  # noqa: PLC0415  # slow; only for a terminal

    rows = [*rows]
    if not rows:
        return
    layout = [column if isinstance(column, Column) else Column(column) for column in columns]
    shown = [[Text(cell(each), each.style if isinstance(each, Styled) else "") for each in row] for row in rows]
    if brief:
        shown = [
            [Text(_first_sentence(each)) if column.text else each for column, each in zip(layout, row, strict=False)]
            for row in shown
        ]
    kept, widths = _fitted(layout, shown, out().width, brief=brief)
    if widths is None:
        _show_list(layout, shown, kept, brief=brief)
        return
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # slow; only for a terminal
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for at in kept:
        numbers = all(isinstance(row[at], int) or row[at] == "" for row in rows)
        table.add_column(
            layout[at].heading,
            style=layout[at].style,
            overflow="fold",
            no_wrap=not layout[at].text,
            width=widths[at],
            justify="right" if numbers else "left",
        )
    for row in shown:
        if brief:
            for at in kept:
                row[at].truncate(widths[at], overflow="ellipsis")
        table.add_row(*(row[at] for at in kept))
    out().print(table)


def _first_sentence(text: Text) -> str:
    return _SENTENCE.split(text.plain, maxsplit=1)[0]


def _fitted(
    layout: list[Column], rows: list[list[Text]], width: int, *, brief: bool
) -> tuple[list[int], dict[int, int] | None]:
    """Return the columns to show and their widths; None for the widths if the terminal is too narrow for a table."""
    from rich.cells import cell_len  # noqa: PLC0415  # slow; only for a terminal

    natural = {at: max(cell_len(c.heading), *(row[at].cell_len for row in rows)) for at, c in enumerate(layout)}
    kept = list(natural)
    while True:
        room = width - _GAP * len(kept)
        texts = [at for at in kept if layout[at].text]
        left = room - sum(natural[at] for at in kept if at not in texts)
        least = {at: min(natural[at], _MIN_COLUMN if brief else _longest_word(rows, at)) for at in texts}
        if left >= sum(least.values()):
            return kept, {**{at: natural[at] for at in kept}, **_shared(left, {at: natural[at] for at in texts}, least)}
        optional = max(kept, key=lambda at: layout[at].optional)
        if not layout[optional].optional:
            return kept, None
        kept.remove(optional)


def _longest_word(rows: list[list[Text]], at: int) -> int:
    from rich.cells import cell_len  # noqa: PLC0415  # slow; only for a terminal

    words = (cell_len(word) for row in rows for word in row[at].plain.split())
    return max(_MIN_COLUMN, *words, 0)


def _shared(room: int, natural: dict[int, int], least: dict[int, int]) -> dict[int, int]:
    """Return the widths of columns of text that share `room`, each between its least and its natural width."""
    widths: dict[int, int] = {}
    # Columns that need less than their share leave more to the others.
    for count, at in zip(range(len(natural), 0, -1), sorted(natural, key=lambda at: natural[at]), strict=True):
        others = sum(least[other] for other in natural if other not in widths and other != at)
        widths[at] = max(least[at], min(natural[at], room // count, room - others))
        room -= widths[at]
    return widths


def _show_list(layout: list[Column], rows: list[list[Text]], kept: list[int], *, brief: bool) -> None:
    """Print a table that is too wide as a list: each row a name, with the other values below it."""
    from rich.text import Text  # noqa: PLC0415  # slow; only for a terminal

    width = out().width
    for row in rows:
        count = 1 + next((at for at, column in enumerate(kept) if layout[column].heading), 0)
        leading, others = kept[:count], kept[count:]
        out().print("  ".join(row[at].plain for at in leading), style="bold", soft_wrap=True)
        facts = [row[at].plain for at in others if not layout[at].text and row[at].plain]
        texts = [row[at].plain for at in others if layout[at].text and row[at].plain]
        for text in (["  ".join(facts)] if facts else []) + texts:
            if brief:
                short = Text(text)
                short.truncate(width - _LEFT, overflow="ellipsis")
                text = short.plain  # the same, shorter
            out().print(wrapped(" " * _LEFT + text, width, " " * _LEFT), soft_wrap=True)


@contextmanager
def waiting(describe: Callable[[], str]) -> Iterator[None]:
    """Show on a terminal what the command waits for: `describe` is called for every frame."""
    if not is_tty(sys.stderr):
        yield
        return
    from rich.live import Live  # noqa: PLC0415  # slow; only for a terminal

    with Live(console=err(), transient=True, refresh_per_second=10, get_renderable=_spinning(describe)):
        yield


def _spinning(describe: Callable[[], str]) -> Callable[[], Any]:
    from rich.text import Text  # noqa: PLC0415  # slow; only for a terminal

    def render() -> Any:
        frame = _FRAMES[int(time.monotonic() * 10) % len(_FRAMES)]
        text = Text(no_wrap=False, overflow="fold")
        return narrowed(text.append(f"{frame} ", "green").append(plain(describe())))

    return render


_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def narrowed(renderable: Any) -> Any:
    """Return a live display narrow enough that the ^C of a terminal leaves nothing of it behind."""
    from rich.constrain import Constrain  # noqa: PLC0415  # slow; only for a terminal

    return Constrain(renderable, max(err().width - _ECHO, _MIN_COLUMN))
