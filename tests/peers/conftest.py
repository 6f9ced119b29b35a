"""The peers and visitors of each test, and one open client per peer for all tests.

`scripts/test` prepares the peers' environments; a missing one fails the test that needs it, with a hint. A test with a
`peer` or a `visitor` runs once for each of them in its tier: those of the marker `peers(...)` or `visitors(...)`, or
else of `ONE_TRANSPORT` and `TOURISTS`.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

import toolcrib as tc
from tests.peers.kit import ENVIRONMENTS, ONE_TRANSPORT, SERVERS, Peer, ScriptedClient, present
from tests.peers.visits import TOURISTS, Visitor
from tests.peers.web import Servers, WebServer, framework_server

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "peers(chosen): the servers of other makes that the test meets")
    config.addinivalue_line("markers", "visitors(chosen): the clients of other makes that the test meets")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_named = any("::" in argument for argument in metafunc.config.args)
    tier = "nightly" if is_named else metafunc.config.getoption("tier")  # as for markers: a test that is named runs
    for name, chosen in (("peer", ONE_TRANSPORT), ("visitor", TOURISTS)):
        if name in metafunc.fixturenames:
            marker = metafunc.definition.get_closest_marker(f"{name}s")
            met = (chosen if marker is None else marker.args[0]).of(tier)
            metafunc.parametrize(name, met, ids=str, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests of visits by visitor, so that two test processes rarely make the same visit."""
    places = [place for place, item in enumerate(items) if _visitor(item)]
    ordered = sorted((items[place] for place in places), key=_visitor)
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def _visitor(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    visitor = callspec.params.get("visitor") if callspec is not None and item.path.parent == HERE else None
    return str(visitor or "")


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], str]:
    """Return the Python of a peer's environment."""
    return lambda environment: str(present(ENVIRONMENTS / environment / "bin/python", f"the environment {environment}"))


@pytest.fixture(scope="session")
def web_servers() -> Iterator[Servers]:
    """HTTP servers, started on first use: one process of each kind serves all tests."""
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def web(web_servers: Servers) -> Callable[[Peer], WebServer]:
    """Return the process that serves a peer's server over HTTP."""
    return lambda peer: web_servers.get(peer.framework, lambda: framework_server(peer.environment, peer.framework))


@pytest.fixture(scope="session")
def server_of(python_of: Callable[[str], str], web: Callable[[Peer], WebServer]) -> Callable[..., tc.ServerConfig]:
    """Return the config of one of our servers on a peer's framework."""

    def configure(peer: Peer, *args: str) -> tc.ServerConfig:
        if peer.transport == "http":
            return tc.HttpServer(web(peer).url("stateful/mcp"))
        if peer.transport == "sse":
            return tc.SseServer(web(peer).url("sse"))
        return tc.StdioServer(python_of(peer.environment), [str(SERVERS / peer.script), *args])

    return configure


@pytest.fixture(scope="session")
def npm_server() -> Callable[..., tc.StdioServer]:
    """Return the config of a reference server from npm. Without node its tests are skipped."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not on this machine")

    def configure(name: str, *args: str, env: dict[str, str] | None = None) -> tc.StdioServer:
        script = ENVIRONMENTS / f"npm/node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
        return tc.StdioServer(node, [str(present(script, f"the npm server {name}")), *args], env=env)

    return configure


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client reopen an ended stream at once instead of after a second."""
    monkeypatch.setattr("toolcrib.transports.http.sse_reader.DEFAULT_RETRY_SECONDS", 0.02)
    monkeypatch.setattr("toolcrib.client.subscriptions.RELISTEN_SECONDS", 0.02)


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> Peer:
    assert isinstance(request.param, Peer)
    return request.param


@pytest.fixture
def visitor(request: pytest.FixtureRequest) -> Visitor:
    assert isinstance(request.param, Visitor)
    return request.param


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def open_yard(
    server_of: Callable[..., tc.ServerConfig],
) -> AsyncIterator[Callable[[Peer], Awaitable[ScriptedClient]]]:
    """Open a client of a peer, once for all tests."""
    faulty_servers: dict[Peer, ScriptedClient] = {}
    async with AsyncExitStack() as stack:

        async def open_once(peer: Peer) -> ScriptedClient:
            if peer not in faulty_servers:
                faulty_servers[peer] = await stack.enter_async_context(ScriptedClient(server_of(peer), mode=peer.mode))
            return faulty_servers[peer]

        yield open_once


@pytest_asyncio.fixture(loop_scope="session")
async def scripted(peer: Peer, open_yard: Callable[[Peer], Awaitable[ScriptedClient]]) -> ScriptedClient:
    """A client of the peer with every handler. Tests share the process, so each checks only its own effects."""
    return await open_yard(peer)
