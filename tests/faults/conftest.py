from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kit import Yard, until


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """A bad server's place; after the test no process of it may be left, orphans included."""
    place = Yard(tmp_path)
    yield place
    until(lambda: not place.living(), within=6, what=f"no process left; living: {place.living()}")


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)
