"""Helpers of the peer tests: a table of peers, and a client that records requests and notifications of its server."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

import toolcrib as tc
from tests.peers.forking import ForkServer

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".peers"
SERVERS = Path(__file__).with_name("servers")

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ROOTS = ["file:///crib/one", "file:///crib/two"]


def present(path: Path, what: str) -> Path:
    """Return the path if it exists; otherwise fail the test with a hint to run `scripts/test`."""
    if not path.exists():
        pytest.fail(
            f"{what} is not there ({path.relative_to(ROOT)}); run scripts/test once, it prepares the peers",
            pytrace=False,
        )
    return path


@dataclass(frozen=True)
class Peer:
    """One framework in one era, over one transport."""

    environment: str
    framework: str
    mode: str
    version: str
    transport: str = "stdio"

    def __str__(self) -> str:
        era = "modern" if self.is_modern else "legacy"
        return f"{self.framework}-{era}" + ("" if self.transport == "stdio" else f"-{self.transport}")

    @property
    def script(self) -> str:
        return f"{self.framework}_server.py"

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    @property
    def marks_wrapped_results(self) -> bool:
        """Whether wrapped scalars (`{"result": ...}`) are marked: only FastMCP does that, the SDK does not."""
        return self.framework == "fastmcp4"

    @property
    def has_subscriptions(self) -> bool:
        return self.framework != "fastmcp4"


SDK1 = Peer("sdk1", "sdk1", "auto", LEGACY)
SDK2_MODERN = Peer("sdk2", "sdk2", "auto", MODERN)
SDK2_LEGACY = Peer("sdk2", "sdk2", "legacy", LEGACY)
FASTMCP_MODERN = Peer("sdk2", "fastmcp4", "auto", MODERN)
FASTMCP_LEGACY = Peer("sdk2", "fastmcp4", "legacy", LEGACY)
STDIO_PEERS = (SDK1, SDK2_MODERN, SDK2_LEGACY, FASTMCP_MODERN, FASTMCP_LEGACY)
HTTP_PEERS = tuple(replace(peer, transport="http") for peer in STDIO_PEERS)
SSE_PEERS = tuple(replace(peer, transport="sse") for peer in STDIO_PEERS)
WEB_PEERS = HTTP_PEERS + SSE_PEERS
PEERS = STDIO_PEERS + WEB_PEERS


def over_http(*peers: Peer) -> list[Peer]:
    return [replace(peer, transport="http") for peer in peers]


def over_sse(*peers: Peer) -> list[Peer]:
    return [replace(peer, transport="sse") for peer in peers]


def over_each_transport(*peers: Peer) -> list[Peer]:
    return [replace(peer, transport=transport) for transport in ("stdio", "http", "sse") for peer in peers]


# ---- which of them a test meets --------------------------------------------------------------------------------------

Met = TypeVar("Met")


class Chosen(Generic[Met]):
    """The parameters of a test: all in the nightly tier, representative ones in the others."""

    def __init__(self, nightly: Iterable[Met], change: Iterable[Met], quick: Iterable[Met] | None = None) -> None:
        self._of = {"nightly": list(nightly), "all": list(change)}
        self._of["quick"] = self._of["all"] if quick is None else list(quick)
        assert all(each in self._of["nightly"] for each in (*self._of["all"], *self._of["quick"]))

    def of(self, tier: str) -> list[Met]:
        """Return the parameters for a tier."""
        assert self._of[tier], f"nothing is met in the tier {tier}: mark the test"
        return [each for each in self._of["nightly"] if each in self._of[tier]]

    def where(self, is_met: Callable[[Met], bool]) -> Chosen[Met]:
        return Chosen(*(filter(is_met, each) for each in self._of.values()))


_QUICK = [SDK1, *over_http(SDK2_MODERN)]

# One old and one new version; FastMCP where it has something else on top of the SDK.
ONE_TRANSPORT = Chosen(PEERS, [SDK1, *over_http(SDK2_MODERN, FASTMCP_MODERN)], _QUICK)
"""For what no transport can change."""
EACH_TRANSPORT = Chosen(PEERS, [*over_each_transport(SDK1, SDK2_MODERN), *over_http(FASTMCP_MODERN)], _QUICK)
"""For what a transport can change: requests of the server, notifications, cancellation, many calls at once."""


class ScriptedClient:
    """A client with every handler: `answers` and `says` are the replies of user and model."""

    def __init__(self, server: Any, *, roots: list[str] | None = None, **options: Any) -> None:
        self.asked: list[tc.ElicitRequest] = []
        self.sampled: list[tc.SamplingRequest] = []
        self.logged: list[tc.LogMessage] = []
        self.roots_asked = 0
        self.answers: Callable[[tc.ElicitRequest], Any] = lambda _: None
        self.says: Callable[[tc.SamplingRequest], Any] = lambda _: "nothing"
        self._roots = ROOTS if roots is None else roots
        self.client = tc.Client(
            server,
            elicitation_handler=self._elicit,
            sampling_handler=self._sample,
            roots=self._give_roots,
            log_handler=self.logged.append,
            log_level="warning",
            **options,
        )

    async def __aenter__(self) -> ScriptedClient:
        await self.client.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.client.close()

    async def _elicit(self, request: tc.ElicitRequest) -> Any:
        self.asked.append(request)
        answer = self.answers(request)
        return await answer if inspect.isawaitable(answer) else answer

    def _sample(self, request: tc.SamplingRequest) -> Any:
        self.sampled.append(request)
        return self.says(request)

    def _give_roots(self) -> list[str]:
        self.roots_asked += 1
        return self._roots


async def eventually(condition: Callable[[], Awaitable[Any]], within: float = 20.0, what: str = "") -> Any:
    """Poll until the answer is true, and return it. Each poll is a round trip to the server."""
    end = time.monotonic() + within
    while not (value := await condition()):
        assert time.monotonic() < end, f"not within {within} s: {what}"
        await asyncio.sleep(0)
    return value


async def first(changes: Any, within: float = 20.0) -> tc.Change:
    """Return the next change of a `listen`, with a time limit."""
    async with asyncio.timeout(within):
        change = await anext(changes)
    assert isinstance(change, tc.Change)
    return change


def run_in(python: str | ForkServer, script: Path, *arguments: str) -> dict[str, Any]:
    """Run one of our clients in a peer's environment; return its observations, the last line of its output."""
    command = python.command if isinstance(python, ForkServer) else lambda *rest: [python, *rest]
    done = subprocess.run(
        command(str(script), *arguments),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen
