"""Writes the pages: `python -m scripts.reference`; with `--check` it only tells which are out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from . import api, cli, errors, events, layers, settings

FOLDER = Path(__file__).parents[2] / "docs/reference"
PAGES = (api, cli, errors, events, settings)


def pages() -> dict[Path, str]:
    """Return every page, and the picture of the layers, with what each should contain."""
    texts = {FOLDER / f"{module.__name__.rpartition('.')[2]}.md": module.page() for module in PAGES}
    return {**texts, layers.PICTURE: layers.picture()}


def stale() -> dict[Path, str]:
    """Those that say something else, or are not there."""
    return {path: text for path, text in pages().items() if not path.exists() or path.read_text() != text}


def main(arguments: list[str]) -> int:
    """Write what is out of date, or tell it."""
    checking = arguments == ["--check"]
    found = stale()
    for path, text in found.items():
        if not checking:
            path.write_text(text)
        sys.stdout.write(f"{'stale' if checking else 'written'}: {path.name}\n")
    return int(checking and bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
