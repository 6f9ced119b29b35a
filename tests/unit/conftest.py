from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_lost_exceptions(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """asyncio logs what nobody waited for: an exception of a task, a task that was forgotten."""
    yield
    lost = [r.getMessage() for r in caplog.get_records("call") if r.name == "asyncio" and r.levelno >= logging.ERROR]
    assert lost == []
