from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.interaction.kit import Clock, Place, fan, marked


@pytest.fixture(params=marked(fan()))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A way to a server; after the test the server must have no complaint about the client."""
    way, era = request.param
    here = Place(way, era, tmp_path)
    yield here
    here.end()
    assert here.journal.faults == []


@pytest.fixture
async def yard(place: Place) -> AsyncIterator[Place]:
    """The same for tests with an event loop: clients that a test left open are closed, and every server must end."""
    yield place
    await place.leave()


@pytest.fixture
async def clock() -> Clock:
    return Clock(asyncio.get_running_loop())


@pytest.fixture
def lucky(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chance always gives 0, so that a back-off with full jitter takes no time."""
    monkeypatch.setattr(random, "random", lambda: 0.0)
