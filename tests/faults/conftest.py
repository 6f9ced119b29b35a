from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.http_kit import Certificates, Web, make_certificates
from tests.faults.kit import ERAS, Children, FaultyServer, assert_nothing_undone, frozen_garbage, until


@pytest.fixture(scope="session", autouse=True)
def _cheap_collections() -> Iterator[None]:
    with frozen_garbage():
        yield


@pytest.fixture
def faulty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[FaultyServer]:
    """A directory and config for a bad server. After the test, none of its processes may be left, orphans included."""
    place = FaultyServer(tmp_path)
    with Children(str(place.record.path)).recorded() as children:
        yield place
        until(lambda: not children.living(), within=6, what="no process is left")
    assert_nothing_undone(caplog)


@pytest.fixture
async def web(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    """Bad web servers and proxies. After the test, no connection may be open and no rule broken by the client."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    place = Web()
    yield place
    await place.end()
    assert_nothing_undone(caplog)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)
