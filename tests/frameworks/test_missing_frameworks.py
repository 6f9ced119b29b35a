"""The adapter of a framework that is not installed says which package it needs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
ADAPTERS: Final = [
    path.stem
    for path in sorted((ROOT / "tests/frameworks/drivers").glob("[a-z]*.py"))
    if (ROOT / "src/toolcrib/adapters" / path.name).exists()
]


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_error_names_the_package_and_the_command(name: str) -> None:
    with pytest.raises(ImportError, match=r"pip install .*[a-z]+"):
        importlib.import_module(f"toolcrib.adapters.{name}")
    assert f"toolcrib.adapters.{name}" not in sys.modules
