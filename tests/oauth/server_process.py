"""Runs the authorisation server of the tests as a process of its own, for tests with several processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).parents[2]
START_SECONDS = 20.0
CONTROL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server."""

    base: str
    url: str
    """The URL of the MCP server."""
    issuer: str

    async def control(self, **commands: Any) -> dict[str, Any]:
        """Run commands, in their order, and return the state afterwards.

        Commands: `change={...}` (fields of `Behaviour`), `hold=POINT`, `wait=POINT` (until a request waits there),
        `open=POINT`, `fail_next={...}`, `expire_tokens=True`, `prune_clients=True`, `revoke_all=True`.
        """
        timeout = aiohttp.ClientTimeout(total=CONTROL_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{self.base}/control", json=commands) as answer,
        ):
            answer.raise_for_status()
            state: dict[str, Any] = await answer.json()
            return state


@contextlib.asynccontextmanager
async def authorization_server_process(**behaviour: Any) -> AsyncIterator[ServerProcess]:
    """Start the server in a new process, and stop it at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.oauth.authorization_server",
        json.dumps(behaviour),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
        yield ServerProcess(**json.loads(line))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
