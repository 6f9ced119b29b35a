"""Transports and server objects of the `mcp` SDK, 1.x and 2.x: each in an environment with that SDK."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers.kit import LEGACY, MODERN, PEERS, SERVERS, Peer, run_in
from tests.peers.web import Servers, WebServer

SCRIPT = Path(__file__).with_name("foreign_client.py")
PATHS = {"http": "stateful/mcp", "renamed": "stateful/mcp", "sse": "sse"}  # the others start a process themselves
SLOW = pytest.mark.slow
NIGHTLY = pytest.mark.nightly  # the era is negotiated as with Toolcrib's transports

CASES = [
    pytest.param("sdk1", "manager", "auto", LEGACY, id="sdk1-context-manager", marks=SLOW),
    pytest.param("sdk1", "pair", "auto", LEGACY, id="sdk1-pair", marks=SLOW),
    pytest.param("sdk1", "http", "auto", LEGACY, id="sdk1-triple-of-streamablehttp-client"),
    pytest.param("sdk1", "http", "legacy", LEGACY, id="sdk1-triple-handshake-first", marks=NIGHTLY),
    pytest.param("sdk2", "manager", "auto", MODERN, id="sdk2-context-manager"),
    pytest.param("sdk2", "manager", "legacy", LEGACY, id="sdk2-context-manager-handshake", marks=NIGHTLY),
    pytest.param("sdk2", "pair", "auto", MODERN, id="sdk2-pair", marks=SLOW),
    # The SDK's HTTP transport sends the modern headers only for its own sessions, so the era is the older one.
    pytest.param("sdk2", "http", "auto", LEGACY, id="sdk2-pair-of-streamable-http-client", marks=SLOW),
    pytest.param("sdk1", "renamed", "auto", LEGACY, id="sdk1-triple-of-streamable-http-client", marks=SLOW),
    pytest.param("sdk1", "sse", "auto", LEGACY, id="sdk1-pair-of-sse-client", marks=SLOW),
    pytest.param("sdk2", "sse", "auto", MODERN, id="sdk2-pair-of-sse-client", marks=SLOW),
    pytest.param("sdk2", "sse", "legacy", LEGACY, id="sdk2-pair-of-sse-client-handshake", marks=NIGHTLY),
    pytest.param("sdk1", "in-process", "auto", LEGACY, id="sdk1-server-object"),
    pytest.param("sdk2", "in-process", "auto", MODERN, id="sdk2-server-object"),
    pytest.param("sdk2", "in-process", "legacy", LEGACY, id="sdk2-server-object-handshake", marks=SLOW),
]


@pytest.mark.parametrize("environment, shape, mode, version", CASES)
def test_a_client_works_over_a_transport_of_the_sdk(
    web_servers: Servers,
    web: Callable[[Peer], WebServer],
    environment: str,
    shape: str,
    mode: str,
    version: str,
) -> None:
    peer = next(peer for peer in PEERS if peer.framework == environment)
    server = web(peer).url(PATHS[shape]) if shape in PATHS else str(SERVERS / peer.script)

    seen = run_in(web_servers.fork_server(environment), SCRIPT, shape, server, mode)

    assert seen["sdk"].split(".")[0] == environment[-1]
    assert (seen["server"], seen["version"]) == (f"{environment}-crib", version)
    assert {"add", "echo", "ask_user"} <= set(seen["tools"])
    assert (seen["text"], seen["data"]) == ("grüße", {"city": "Bonn", "degrees": 21.5})
    assert seen["sums"] == [str(n + 1) for n in range(16)]
    assert seen["progress"] == [1, 2, 3]
    assert (seen["elicited"], seen["asked"]) == ("hello Ann", ["who?"])
    assert seen["resource"] == "good day"
    assert "forecst" in seen["unknown"]
    assert seen["tasks_left"] == []


@pytest.mark.parametrize("environment", ["sdk1", "sdk2"])
def test_a_server_object_that_ends_fails_its_client_at_once(web_servers: Servers, environment: str) -> None:
    seen = run_in(web_servers.fork_server(environment), SCRIPT, "broken", "", "auto")
    assert "ended before the server answered" in seen["error"]  # not a time-out
    assert seen["tasks_left"] == []
