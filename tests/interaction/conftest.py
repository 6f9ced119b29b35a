from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.interaction.kit import Clock, Place, fan
from toolcrib.client import subscriptions

# `pair` and `manager` differ from `memory`, and `plain` from `http`, in a few lines. Over stdio, `legacy` differs from
# `handshake` only by the missing probe.
EVERYWHERE = fan()
EVERY_TRANSPORT = [*fan(["memory"]), *fan(["stdio"], ["modern", "older"]), *fan(["http", "sse"])]
BY_DEFAULT = [*fan(["memory"]), *fan(["http"], ["modern"])]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only(places): the behaviour exists only on these ways and eras")
    config.addinivalue_line("markers", "fan(places): the ways and eras that matter; at night the test runs on all")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `place` as the markers of the test ask (see marks.py), in the chosen tier."""
    if "place" in metafunc.fixturenames:
        places = _choose_places(metafunc.definition, metafunc.config.getoption("tier"))
        metafunc.parametrize("place", places, ids=map("-".join, places), indirect=True)


def _choose_places(test: pytest.Item, tier: str) -> list[tuple[str, str]]:
    existing = [place for place in EVERYWHERE if all(place in mark.args[0] for mark in test.iter_markers("only"))]
    if tier == "nightly":
        return existing
    for wanted in (_places_that_matter(test), EVERY_TRANSPORT):
        if places := [place for place in existing if place in wanted]:
            return places
    return existing  # the behaviour exists only on ways that none of these fans has


def _places_that_matter(test: pytest.Item) -> list[tuple[str, str]]:
    for mark in test.iter_markers():  # nearest first
        if mark.name == "fan":
            return mark.args[0]  # type: ignore[no-any-return]
        if mark.name == "transport":
            return EVERY_TRANSPORT
    return BY_DEFAULT


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A way to connect to a server. After the test, fails if the server recorded a fault of the client."""
    way, era = request.param
    here = Place(way, era, tmp_path)
    yield here
    here.end()
    assert here.journal.faults == []


@pytest.fixture
async def harness(place: Place) -> AsyncIterator[Place]:
    """The `place` of tests with an event loop. Closes clients that a test left open; every server must end."""
    yield place
    await place.leave()


@pytest.fixture
async def clock() -> Clock:
    return Clock(asyncio.get_running_loop())


@pytest.fixture
def lucky(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make random numbers 0, so that a back-off with full jitter takes no time."""
    monkeypatch.setattr(random, "random", lambda: 0.0)


@pytest.fixture
def relisten_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reopen an ended `subscriptions/listen` after 10 ms instead of a second."""
    monkeypatch.setattr(subscriptions, "RELISTEN_SECONDS", 0.01)
