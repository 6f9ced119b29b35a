from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.served import Served, serving


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """The server under test: one process for all scenarios, as a server lives in the world."""
    with serving() as running:
        yield running
