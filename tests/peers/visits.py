"""Visits of other SDKs' clients (in clients/ and npm/) to our server: the visitors, and their reports.

A visit is a separate process in the peer's environment; each is made once, and all tests about it share the report.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.peers.kit import ENVIRONMENTS, LEGACY, MODERN, ROOT, SERVERS, Chosen, present
from tests.peers.web import Servers, ToldServer, WebServer

OURS = SERVERS / "ours.py"
PATHS = {"http": "mcp", "sse": "sse"}
WITHIN = 180.0  # seconds; the longest visit takes about ten on a quiet machine
NPM = {"npm1": "sdk", "npm2": "client"}

Report = dict[str, Any]


@dataclass(frozen=True)
class Visitor:
    """One client, in one era, over one transport."""

    client: str
    era: str
    transport: str

    def __str__(self) -> str:
        return f"{self.client}-{self.era}-{self.transport}"

    @property
    def is_modern(self) -> bool:
        return self.era == "modern"

    @property
    def version(self) -> str:
        return MODERN if self.is_modern else LEGACY

    @property
    def is_npm(self) -> bool:
        return self.client in NPM

    def command(self, errand: str, *target: str, servers: Servers | None = None) -> list[str]:
        """Return the command for the errand in the peer's environment, through a fork server if `servers` are given."""
        if self.is_npm:
            node = shutil.which("node")
            if node is None or shutil.which("npm") is None:
                pytest.skip("node and npm are not on this machine")
            folder = present(ENVIRONMENTS / "npm", "the npm packages")
            script = ROOT / "tests/peers/npm/client.mjs"
            return [node, str(script), str(folder), NPM[self.client], errand, self.transport, self.era, *target]
        program = ["-m", f"tests.peers.clients.{self.client}", errand, self.transport, self.era, *target]
        if servers is not None:
            return servers.fork_server(self.client).command(*program)
        environment = "sdk1" if self.client == "sdk1" else "sdk2"
        python = present(ENVIRONMENTS / environment / "bin/python", f"the environment {environment}")
        return [str(python), "-W", "ignore", *program]


def _each(transport: str, *who: tuple[str, str]) -> list[Visitor]:
    return [Visitor(client, era, transport) for client, era in who]


_OLD = [("sdk1", "legacy"), ("sdk2", "legacy"), ("fastmcp4", "legacy"), ("npm1", "legacy")]
_OLD += [("npm2", "legacy")]
_NEW = [("sdk2", "modern"), ("fastmcp4", "modern"), ("npm2", "modern")]
STDIO = _each("stdio", *_OLD, *_NEW)
HTTP = _each("http", *_OLD, *_NEW)
# HTTP+SSE belongs to the first revision; a client that probes for the modern era finds it there.
SSE = _each("sse", *_OLD, ("sdk2", "modern"))
VISITORS = STDIO + HTTP + SSE

# One old and one new version of each make, and FastMCP's client once: it has the SDK's transports.
_OLD_AND_NEW = [("sdk1", "legacy"), ("sdk2", "modern"), ("npm1", "legacy"), ("npm2", "modern")]
_QUICK = [*_each("stdio", ("sdk1", "legacy")), *_each("http", ("sdk2", "modern"), ("npm1", "legacy"))]
TOURISTS = Chosen(
    VISITORS,
    [
        *_each("stdio", ("sdk1", "legacy"), ("sdk2", "modern"), ("npm2", "modern")),
        *_each("http", *_OLD_AND_NEW, ("fastmcp4", "modern")),
        *_each("sse", ("sdk1", "legacy"), ("sdk2", "modern"), ("npm1", "legacy")),
    ],
    _QUICK,
)
BARE = Chosen(
    STDIO + HTTP,
    [*_each("stdio", ("sdk1", "legacy"), ("sdk2", "modern")), *_each("http", *_OLD_AND_NEW)],
    _each("http", ("sdk2", "modern"), ("npm1", "legacy")),
)
OVER_HTTP = Chosen(HTTP, _each("http", *_OLD_AND_NEW), _each("http", ("sdk2", "modern"), ("npm1", "legacy")))


def cases(visitors: list[Visitor], slow: Callable[[Visitor], bool] = lambda _: False) -> list[Any]:
    """Return the visitors as parameters; slow ones are left out of the quick tier, where others represent them."""
    return [
        pytest.param(visitor, id=str(visitor), marks=[pytest.mark.slow] if slow(visitor) else [])
        for visitor in visitors
    ]


_done: dict[tuple[Visitor, str], subprocess.CompletedProcess[str]] = {}


def our_server(servers: Servers, transport: str) -> WebServer:
    """Our server over HTTP; the same process for every visitor."""
    command = [sys.executable, str(OURS), "--transport", transport, "--port"]
    return servers.get(f"ours-{transport}", lambda: ToldServer(command))


def target_of(visitor: Visitor, servers: Servers) -> list[str]:
    if visitor.transport == "stdio":
        return [sys.executable, str(OURS), "--transport", "stdio"]
    return [our_server(servers, visitor.transport).url(PATHS[visitor.transport])]


def visit(visitor: Visitor, errand: str, servers: Servers) -> Report:
    """Return the observations of the visitor on this errand."""
    if (visitor, errand) not in _done:
        _done[visitor, errand] = subprocess.run(
            visitor.command(errand, *target_of(visitor, servers), servers=servers),
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=WITHIN,
        )
    done = _done[visitor, errand]
    assert done.returncode == 0, done.stderr
    report: Report = json.loads(done.stdout.splitlines()[-1])
    return report


async def watched_visit(
    visitor: Visitor, errand: str, url: str, on_word: Callable[[], None], servers: Servers
) -> Report:
    """Return the observations of a visitor that prints a word during the errand and waits for `on_word`."""
    process = await asyncio.create_subprocess_exec(
        *visitor.command(errand, url, servers=servers),
        cwd=ROOT,
        env=_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=16 * 1024 * 1024,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(WITHIN):
            assert (await process.stdout.readline()).strip().isalpha()
            on_word()
            await asyncio.sleep(0)  # a connection that was aborted is closed in the loop's next turn
            process.stdin.write(b"go on\n")
            said = await process.stdout.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    report: Report = json.loads(said.splitlines()[-1])
    return report


def bare(result: Report) -> Report:
    """Return a result without the fields that the modern era adds to every result."""
    return {key: value for key, value in result.items() if key not in ("_meta", "resultType", "ttlMs", "cacheScope")}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
