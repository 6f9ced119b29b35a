from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kit import Yard, until


@pytest.fixture
def yard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Yard]:
    """A bad server's place; after the test no process of it may be left, orphans included, and nothing undone."""
    place = Yard(tmp_path)
    yield place
    until(lambda: not place.living(), within=6, what=f"no process left; living: {place.living()}")
    gc.collect()  # an exception that nobody retrieved is told when its task is collected
    complaints = [record for record in (*caplog.get_records("call"), *caplog.records) if record.name == "asyncio"]
    assert [record.getMessage() for record in complaints if record.levelno >= logging.ERROR] == []


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)
