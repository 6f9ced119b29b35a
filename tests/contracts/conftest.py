from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.web import WebServer, framework_server


@pytest.fixture(scope="session")
def sdk1() -> Iterator[WebServer]:
    """A server of the SDK 1.x over HTTP and SSE."""
    yield from _started(framework_server("sdk1", "sdk1"))


@pytest.fixture(scope="session")
def sdk2() -> Iterator[WebServer]:
    """A server of the SDK 2.x over HTTP and SSE."""
    yield from _started(framework_server("sdk2", "sdk2"))


def _started(server: WebServer) -> Iterator[WebServer]:
    try:
        yield server.start()
    finally:
        server.close()
