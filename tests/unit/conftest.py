from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
IS_OLDEST_PYTHON = sys.version_info[:2] == (3, 11)


@pytest.hookimpl(tryfirst=True)  # before the tier leaves out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what measures time to the tiers `all` and `nightly`, on one Python: the algorithms are the same on all."""
    mark = pytest.mark.slow if IS_OLDEST_PYTHON else pytest.mark.skip("time is measured on the oldest Python only")
    for item in items:
        if item.get_closest_marker("serial") and HERE in item.path.parents:
            item.add_marker(mark)


@pytest.fixture(autouse=True)
def _no_lost_exceptions(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """asyncio logs what nobody waited for: an exception of a task, a task that was forgotten."""
    yield
    lost = [r.getMessage() for r in caplog.get_records("call") if r.name == "asyncio" and r.levelno >= logging.ERROR]
    assert lost == []
