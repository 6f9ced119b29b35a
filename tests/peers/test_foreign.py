"""Transports of the `mcp` SDK's own client, 1.x and 2.x, in place of ours: each in an environment that has that SDK."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.peers.conftest import ROOT, SERVERS
from tests.peers.kit import HANDSHAKE, MODERN

SCRIPT = Path(__file__).with_name("foreign_client.py")


def seen_by_a_client(python: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(SCRIPT), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


CASES = [
    pytest.param("sdk1", "manager", "auto", HANDSHAKE, id="sdk1-context-manager"),
    pytest.param("sdk1", "pair", "auto", HANDSHAKE, id="sdk1-pair"),
    pytest.param("sdk1", "http", "auto", HANDSHAKE, id="sdk1-triple-of-streamablehttp-client"),
    pytest.param("sdk1", "http", "legacy", HANDSHAKE, id="sdk1-triple-handshake-first"),
    pytest.param("sdk2", "manager", "auto", MODERN, id="sdk2-context-manager"),
    pytest.param("sdk2", "manager", "legacy", HANDSHAKE, id="sdk2-context-manager-handshake"),
    pytest.param("sdk2", "pair", "auto", MODERN, id="sdk2-pair"),
    # The SDK's HTTP transport sends the modern headers only for its own sessions, so the era is the older one.
    pytest.param("sdk2", "http", "auto", HANDSHAKE, id="sdk2-pair-of-streamable-http-client"),
]


@pytest.mark.parametrize("environment, shape, mode, version", CASES)
def test_a_client_works_over_a_transport_of_the_sdk(
    python_of: Callable[[str], str], environment: str, shape: str, mode: str, version: str
) -> None:
    seen = seen_by_a_client(python_of(environment), shape, str(SERVERS / f"{environment}_server.py"), mode)

    assert seen["sdk"].split(".")[0] == environment[-1]
    assert (seen["server"], seen["version"]) == (f"{environment}-yard", version)
    assert {"add", "echo", "ask_user"} <= set(seen["tools"])
    assert (seen["text"], seen["data"]) == ("grüße", {"city": "Bonn", "degrees": 21.5})
    assert seen["sums"] == [str(n + 1) for n in range(16)]
    assert seen["progress"] == [1, 2, 3]
    assert (seen["elicited"], seen["asked"]) == ("hello Ann", ["who?"])
    assert seen["resource"] == "good day"
    assert seen["nearest"] == ["forecast"]
    assert seen["tasks_left"] == []
