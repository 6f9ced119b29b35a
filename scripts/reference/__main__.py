"""Writes the reference pages and the diagrams: `python -m scripts.reference`; `--check` only lists the stale ones."""

from __future__ import annotations

import sys
from pathlib import Path

from . import (
    adapters,
    api,
    call_path,
    cli,
    errors,
    events,
    frameworks,
    layers,
    provider,
    provider_path,
    settings,
    states,
)

FOLDER = Path(__file__).parents[2] / "docs/reference"
PAGES = (adapters, api, cli, errors, events, frameworks, provider, settings)
PICTURES = (layers, states, call_path, provider_path)


def pages() -> dict[Path, str]:
    """Return the path and the expected content of every page and every generated diagram."""
    texts = {FOLDER / f"{module.__name__.rpartition('.')[2]}.md": module.page() for module in PAGES}
    return {**texts, **{module.PICTURE: module.picture() for module in PICTURES}}


def stale() -> dict[Path, str]:
    """Return the pages and diagrams that are missing or differ from their expected content."""
    return {path: text for path, text in pages().items() if not path.exists() or path.read_text() != text}


def main(arguments: list[str]) -> int:
    """Write the stale files, or only list them with `--check`; return the exit code."""
    checking = arguments == ["--check"]
    found = stale()
    for path, text in found.items():
        if not checking:
            path.write_text(text)
        sys.stdout.write(f"{'stale' if checking else 'written'}: {path.name}\n")
    return int(checking and bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
