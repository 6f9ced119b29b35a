"""Where the peers are, and one open client per peer for each module of tests.

`scripts/test` prepares the peers' environments; a missing one fails the test that needs it, with what to do.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

import toolyard as ty
from tests.peers.kit import ENVIRONMENTS, PEERS, SERVERS, Peer, Yard, present
from tests.peers.web import Servers, WebServer, yard_server


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], str]:
    """The Python of a peer's environment."""
    return lambda environment: str(present(ENVIRONMENTS / environment / "bin/python", f"the environment {environment}"))


@pytest.fixture(scope="session")
def web_servers() -> Iterator[Servers]:
    """Servers behind a port, started when first asked for: one process of a kind is enough for all tests."""
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def web(web_servers: Servers) -> Callable[[Peer], WebServer]:
    """The process that serves a peer's yard over HTTP."""
    return lambda peer: web_servers.get(peer.framework, lambda: yard_server(peer.environment, peer.framework))


@pytest.fixture(scope="session")
def server_of(python_of: Callable[[str], str], web: Callable[[Peer], WebServer]) -> Callable[..., ty.ServerConfig]:
    """The configuration of one of our servers on a peer's framework."""

    def configure(peer: Peer, *args: str) -> ty.ServerConfig:
        if peer.transport == "http":
            return ty.HttpServer(web(peer).url("stateful/mcp"))
        if peer.transport == "sse":
            return ty.SseServer(web(peer).url("sse"))
        return ty.StdioServer(python_of(peer.environment), [str(SERVERS / peer.script), *args])

    return configure


@pytest.fixture(scope="session")
def npm_server() -> Callable[..., ty.StdioServer]:
    """The configuration of a reference server from npm. Without node its tests are skipped; scripts/test says so."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not on this machine")

    def configure(name: str, *args: str, env: dict[str, str] | None = None) -> ty.StdioServer:
        script = ENVIRONMENTS / f"npm/node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
        return ty.StdioServer(node, [str(present(script, f"the npm server {name}")), *args], env=env)

    return configure


@pytest.fixture(scope="module", params=PEERS, ids=str)
def peer(request: pytest.FixtureRequest) -> Peer:
    assert isinstance(request.param, Peer)
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(peer: Peer, server_of: Callable[..., ty.ServerConfig]) -> AsyncIterator[Yard]:
    """A client of the peer with every handler. Tests share the process, so each looks only at what it did itself."""
    async with Yard(server_of(peer), mode=peer.mode) as opened:
        yield opened
