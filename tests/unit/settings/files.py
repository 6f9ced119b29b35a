"""Settings files for tests, in a folder of the test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolcrib.settings import ServerEntry, Settings, load_settings

ENVIRON = {"HOME": "/home-of-tests", "TOKEN": "t0ken", "EMPTY": ""}


def write(path: Path, content: Any) -> Path:
    """Write a mapping as JSON, a string unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return path


def load(path: Path, content: Any, **options: Any) -> Settings:
    return load_settings(write(path, content), **{"environ": ENVIRON, **options})


def entry(folder: Path, values: Any, *, name: str = ".mcp.json", **options: Any) -> ServerEntry:
    """Return the only server, `s`, of a file."""
    (found,) = load(folder / name, {"mcpServers": {"s": values}}, **options).entries
    return found
