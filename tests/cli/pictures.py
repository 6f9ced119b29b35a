"""The screenshots in docs/pictures: screens of a real terminal as SVG. `scripts/pictures` regenerates them."""

from __future__ import annotations

import html
import io
import re
import sys
import tempfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from pyte.screens import Char
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.cli.kit import ROOT
from tests.cli.shell import WIDTH, Shell, shell

FOLDER = ROOT / "docs" / "pictures"

# Rich's template, except that it loads no fonts from other sites, and includes the screen as text for screen readers.
_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
    <title>toolcrib %s</title>
    <desc>%s</desc>
    <style>
    .{unique_id}-matrix {{
        font-family: "Fira Code", "DejaVu Sans Mono", Menlo, Consolas, monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
        font-variant-east-asian: full-width;
    }}
    .{unique_id}-title {{ font-family: system-ui, Arial, sans-serif; font-size: 18px; }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    {chrome}
    <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
    </g>
</svg>
"""
_COLOURS = {"brown": "yellow", "default": "default"}


# ---- the screens ------------------------------------------------------------------------------------------------


def _tools(person: Shell) -> None:
    """The first look: the servers, and a running call."""
    person.run("toolcrib add demo -- python3 demo_server.py")
    person.run("toolcrib tools")
    person.type("toolcrib call slow_count steps=20 seconds=0.2")
    person.until(lambda text: re.search(r"counted to 1[2-9]", text))


def _doctor(person: Shell) -> None:
    """One server is healthy, one does not start."""
    for name in ("demo", "issues"):
        person.run(f"toolcrib add {name} -- python3 {name}_server.py")
    person.clear()
    person.run("toolcrib doctor")


def _watch(person: Shell) -> None:
    """Messages of a server while a tool runs."""
    person.run("toolcrib add demo -- python3 demo_server.py")
    person.clear()
    person.type("toolcrib watch demo --call slow_count steps=3")
    person.until("result")


PICTURES: dict[str, Callable[[Shell], None]] = {"tools": _tools, "doctor": _doctor, "watch": _watch}


def taken(name: str, home: Path) -> str:
    """Return the SVG of a picture, taken now."""
    with shell(home, height=40) as person:
        person.run("toolcrib init")
        person.clear()
        PICTURES[name](person)
        return _as_svg(name, person.screen.cells)


def normal(screen: str) -> str:
    """Return a screen without the parts that differ in each run: times, bars, spinners."""
    text = re.sub(r"<?\d+(\.\d+)? m?s\b", "0 s", screen)
    text = re.sub(r"\d+:\d\d:\d\d(\.\d+)?", "0:00:00", text)
    text = re.sub(r"[━╸╺]+ +\d+%", "0%", text)
    text = re.sub(r"counted to 1\d|[\u2800-\u28ff]", "", text)
    return " ".join(sorted(text.split()))


def said_in(svg: str) -> str:
    """Return the screen of a picture as text."""
    found = re.search(r"<desc>(.*?)</desc>", svg, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


# ---- from the terminal's cells to a picture ----------------------------------------------------------------------


def _as_svg(title: str, rows: list[list[Char]]) -> str:
    while rows and not "".join(cell.data for cell in rows[-1]).strip():
        rows.pop()
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    said = []
    for row in rows:
        line = Text(no_wrap=True)
        for style, cells in groupby(row, _style):
            # One piece per word: each word then starts at its own column in any font.
            for piece in re.findall(r"\s+|\S+", "".join(cell.data for cell in cells)):
                line.append(piece, style)
        line.rstrip()
        said.append(line.plain)
        console.print(line)
    console.print()
    text = html.escape("\n".join(said)).replace("{", "{{").replace("}", "}}")
    return console.export_svg(
        title=f"toolcrib {title}", theme=MONOKAI, code_format=_SVG % (title, text), unique_id=title
    )


def _style(cell: Char) -> str:
    marks = {"bold": cell.bold, "italic": cell.italics, "underline": cell.underscore, "reverse": cell.reverse}
    return " ".join([*(mark for mark, on in marks.items() if on), f"{_colour(cell.fg)} on {_colour(cell.bg)}"])


def _colour(name: str) -> str:
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    return _COLOURS.get(name, name.replace("bright", "bright_"))


def main() -> None:
    """Write all pictures, or those given as arguments."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            (FOLDER / f"{name}.svg").write_text(taken(name, Path(folder) / "home"), "utf-8")
        sys.stdout.write(f"docs/pictures/{name}.svg\n")


if __name__ == "__main__":
    main()
