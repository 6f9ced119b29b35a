from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.http_kit import Certificates, Web, make_certificates
from tests.faults.kit import Yard, until


@pytest.fixture
def yard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Yard]:
    """A bad server's place; after the test no process of it may be left, orphans included, and nothing undone."""
    place = Yard(tmp_path)
    yield place
    until(lambda: not place.living(), within=6, what=f"no process left; living: {place.living()}")
    nothing_undone(caplog)


@pytest.fixture(scope="session")
def settled() -> Iterator[None]:
    """What was loaded before the first test is no garbage: the collection after each test need not look at it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
async def web(settled: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    """Bad web servers and lines; after the test no connection may be open, no rule of the protocol broken by us."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    place = Web()
    yield place
    await place.end()
    nothing_undone(caplog)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def nothing_undone(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # an exception that nobody retrieved is told when its task is collected
    complaints = [record for record in (*caplog.get_records("call"), *caplog.records) if record.name == "asyncio"]
    assert [record.getMessage() for record in complaints if record.levelno >= logging.ERROR] == []


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)
