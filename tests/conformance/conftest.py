from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache

import pytest

from tests.conformance.kit import OWN, JudgedRevision, PlayedRevision, client_server, judge_all, play_all
from tests.conformance.served import Served, serving
from tests.peers.forking import ForkServer


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """The server under test: one process for all scenarios, as a server lives in the world."""
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def judged_revision(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], JudgedRevision]:
    """The results of the suite for the server in a revision: one run of the suite for all scenarios."""
    return cache(lambda wire: judge_all(served.url, wire, tmp_path_factory.mktemp("server")))


@pytest.fixture(scope="session")
def client_of() -> Iterator[Callable[[str], ForkServer]]:
    """The client under test in our own environment, which has no SDK, or in that of a peer."""
    with ExitStack() as stack:
        yield cache(lambda environment: stack.enter_context(closing(client_server(environment))))


@pytest.fixture(scope="session")
def played_revision(
    client_of: Callable[[str], ForkServer], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], PlayedRevision]:
    """The results of the suite for the client in a revision: one run of the suite for all scenarios."""
    return cache(lambda wire: play_all(wire, tmp_path_factory.mktemp("client"), client_of(OWN)))
