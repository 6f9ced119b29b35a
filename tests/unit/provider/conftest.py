from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakePlugin = Callable[..., Path]


@pytest.fixture
def make_plugin(tmp_path: Path) -> MakePlugin:
    """Return a function that writes a manifest into a new folder and returns the folder."""

    def make(manifest: Any, *, file: str = "plugin.json", folder: str = "plugin") -> Path:
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        (place / file).write_text(text, encoding="utf-8", newline="")
        return place.resolve()

    return make
