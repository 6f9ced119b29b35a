"""The environments of the agent frameworks, under .peers/frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]


def find_python(name: str, config: pytest.Config) -> Path:
    """Return the Python of a framework's environment; fail without it, or skip in the quick tier."""
    environment = ROOT / ".peers/frameworks" / name
    if not (environment / "lock.txt").exists():  # written when the environment is complete
        missing = f"{name} is not in .peers/frameworks; `bash scripts/frameworks {name}` installs it"
        if config.getoption("tier") == "quick":
            pytest.skip(missing)
        pytest.fail(missing)
    return environment / "bin/python"
