"""Ten real servers: seven healthy ones, over every transport, and three that fail until they are cured."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import toolcrib as tc
from tests.faults.kit import Ledger, Outcome, Record, outcome_of
from tests.hub.kit import Hub, bad, counting_server, state
from tests.peers.kit import ENVIRONMENTS, SERVERS, present
from tests.serving import served
from tests.unit.kit import eventually

WEB = str(Path(__file__).with_name("web_child.py"))
SICK = str(Path(__file__).with_name("sick_child.py"))

WELL = ("slow", "quick", "sdk", "web", "old", "here", "there")
ILL = ("hangs", "crashes", "garbage")


@dataclass
class Ten:
    """Their configurations, what each has executed, and the lives and cures of the sick."""

    directory: Path
    servers: dict[str, Any] = field(default_factory=dict)
    executed: dict[str, Callable[[], Counter[str]]] = field(default_factory=dict)

    def only(self, *names: str) -> dict[str, Any]:
        return {name: self.servers[name] for name in names}

    def lives(self, name: str) -> int:
        return Record(self.directory / f"{name}.log").lives

    def cure(self) -> None:
        for name in ILL:
            self._cure(name).touch()

    def _cure(self, name: str) -> Path:
        return self.directory / f"{name}.cure"

    def add_child(self, name: str, **script: Any) -> None:
        faulty = bad(self.directory, name)
        self.servers[name] = faulty.server(**script)
        self.executed[name] = lambda: faulty.record.executed

    def add_sick(self, name: str) -> None:
        faulty = bad(self.directory, name)
        log = str(self.directory / f"{name}.log")
        arguments = ["-S", "-E", SICK, name, str(self._cure(name)), log, *faulty.command()]
        self.servers[name] = tc.StdioServer(sys.executable, arguments)

    def add_here(self, name: str) -> tc.ToolServer:
        server, ran = counting_server(name)
        self.servers[name] = server
        self.executed[name] = lambda: ran
        return server


@contextlib.asynccontextmanager
async def ten(directory: Path) -> AsyncIterator[Ten]:
    """Yield stdio servers of Toolcrib and of the SDK, an HTTP and an SSE server, and two in-process servers."""
    made = Ten(directory)
    made.add_sick("hangs")
    made.add_child("slow", delay=0.3)
    made.add_sick("crashes")
    made.add_child("quick")
    python = present(ENVIRONMENTS / "sdk2/bin/python", "the environment sdk2")
    made.servers["sdk"] = tc.StdioServer(str(python), [str(SERVERS / "sdk2_server.py")])
    made.add_sick("garbage")
    old = made.add_here("old")
    made.add_here("here")
    made.add_here("there")
    log = directory / "web.log"
    made.executed["web"] = lambda: Record(log).executed
    async with serving_child(log) as url, served(old.asgi(path="/sse", transport="sse")) as address:
        made.servers |= {"web": tc.HttpServer(url), "old": tc.SseServer(f"{address}/sse")}
        yield made


@contextlib.asynccontextmanager
async def serving_child(log: Path) -> AsyncIterator[str]:
    """Yield the address of a tool server in its own process."""
    child = await asyncio.create_subprocess_exec(sys.executable, WEB, "http", str(log), stderr=asyncio.subprocess.PIPE)
    assert child.stderr is not None
    try:
        async with asyncio.timeout(30):
            line = (await child.stderr.readline()).decode()
        assert " serves MCP at http" in line, line
        yield line.split()[-1]
    finally:
        child.terminate()
        await child.communicate()


async def ready(hub: Hub) -> None:
    """All that are well have listed their tools."""
    await eventually(lambda: all(state(hub, name).tools for name in WELL), within=60)


async def echo(hub: Hub, name: str, nonce: str, **options: Any) -> tc.ToolResult:
    argument = "text" if name == "sdk" else "nonce"
    return await hub.call_tool(f"mcp__{name}__echo", {argument: nonce}, **options)


async def nonced(hub: Hub, ledger: Ledger, name: str, **options: Any) -> Outcome:
    """A call with its place in the ledger."""
    nonce = ledger.open()
    outcome = await outcome_of(echo(hub, name, nonce, **options))
    ledger.outcomes[nonce].append(outcome)
    return outcome
