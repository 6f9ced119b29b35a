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
    """Run tests that measure time only in the tiers `all` and `nightly` and on one Python version."""
    mark = pytest.mark.slow if IS_OLDEST_PYTHON else pytest.mark.skip("time is measured on the oldest Python only")
    for item in items:
        if item.get_closest_marker("serial") and HERE in item.path.parents:
            item.add_marker(mark)


@pytest.fixture(autouse=True)
def _no_lost_exceptions(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if asyncio logs an exception that was never retrieved, or a task that was destroyed while pending."""
    yield
    lost = [r.getMessage() for r in caplog.get_records("call") if r.name == "asyncio" and r.levelno >= logging.ERROR]
    assert lost == []
