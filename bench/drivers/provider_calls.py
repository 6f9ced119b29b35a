"""Measures calls of a tool that is registered in a provider. Prints seconds as one line of JSON.

The library is an argument and must be installed for the interpreter. All ways of calling take turns in short batches on
the same server, so that noise affects all of them: the difference to the bare client is the overhead. Processor time is
that of this process alone, and the minimum is that of the quietest batch.
"""

import argparse
import asyncio
import gc
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

from batches import summarize
from measure import ECHO_SERVER, Child, Session, checked, in_flight, keep_apart

BATCH = 50
AUDITED_CALLS = 1_000
AUDITED_BATCHES = 8
LEASES = 20_000


class Opened(NamedTuple):
    """The ways of calling the echo tool; the bare client is one of them."""

    ways: dict[str, Session]
    count_statements: Callable[[], int]
    """Returns how many SQL statements were executed so far."""


# ---- the libraries -------------------------------------------------------------------------------------------


@asynccontextmanager
async def toolcrib(server: Child) -> AsyncIterator[Opened]:
    import sqlalchemy as sa

    from toolcrib import Client, StdioServer
    from toolcrib.provider import Provider

    statements = 0

    def count(*_: object) -> None:
        nonlocal statements
        statements += 1

    config = StdioServer(server.command, server.args)
    sa.event.listen(sa.engine.Engine, "before_cursor_execute", count)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with Provider(Path(folder) / "tools.db") as provider, Client(config) as client:
            source = await provider.add_source("bench", config)
            view = provider.view()
            (listed,) = await view.list_tools()

            async def bare(text: str) -> str:
                return (await client.call_tool("echo", {"text": text})).text

            async def execute(text: str) -> str:
                return (await provider.execute(source.id, "echo", {"text": text})).get_text()

            async def call_view(text: str) -> str:
                return (await view.call_tool(listed.name, {"text": text})).text

            yield Opened(
                {
                    "bare": Session(client.list_tools, bare),
                    "execute": Session(view.list_tools, execute),
                    "view": Session(view.list_tools, call_view),
                },
                lambda: statements,
            )


@asynccontextmanager
async def fastmcp(server: Child) -> AsyncIterator[Opened]:
    """Open a proxy of the server, in this process, over the client that is measured alone too."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport
    from fastmcp.server import create_proxy

    async with (
        Client(StdioTransport(server.command, server.args, keep_alive=False)) as client,
        Client(create_proxy(client)) as proxy,
    ):

        def calling(connected: Any) -> Session:
            async def call(text: str) -> str:
                answer: str = (await connected.call_tool("echo", {"text": text})).content[0].text
                return answer

            return Session(connected.list_tools, call)

        yield Opened({"bare": calling(client), "execute": calling(proxy)}, lambda: 0)


MAKES = {"toolcrib": toolcrib, "fastmcp": fastmcp}


# ---- the measurement -----------------------------------------------------------------------------------------


async def repeated(session: Session, times: int) -> tuple[float, float]:
    """Return the wall time and the processor time per call."""
    start, cpu_start = perf_counter(), process_time()
    for number in range(times):
        await checked(session, f"call {number}")
    return (perf_counter() - start) / times, (process_time() - cpu_start) / times


async def measure_sequential(opened: Opened, seconds: float, warm_up: int) -> dict[str, Any]:
    """Return way -> median and minimum of its batches, in wall time and processor time."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in opened.ways}
    for session in opened.ways.values():
        await repeated(session, warm_up)
    gc.collect()
    end = perf_counter() + seconds * len(taken)
    while perf_counter() < end or not all(taken.values()):
        for name, session in opened.ways.items():
            taken[name].append(await repeated(session, BATCH))
    return {name: summarize(batches) for name, batches in taken.items()}


async def measure_in_flight(opened: Opened, seconds: float, width: int) -> dict[str, Any]:
    figures = {}
    for name, session in opened.ways.items():
        before = opened.count_statements()
        rate, cpu = await in_flight(session, seconds, width)
        calls = rate * seconds
        figures[name] = {"rate": rate, "cpu": cpu, "statements": (opened.count_statements() - before) / calls}
    return figures


async def measure_audit() -> float:
    """Return the processor time per call that its row in the audit takes, in memory and in the store, at best.

    It is not part of the other figures: the rows are stored later, in batches.
    """
    from toolcrib.provider.store import open_store
    from toolcrib.provider.store.audit import AuditWriter
    from toolcrib.provider.store.rows import ExecutionRow

    def make_row(number: int) -> ExecutionRow:
        return ExecutionRow(
            id=f"{number:024x}",
            at=1.8e9 + number / 1000,
            principal="local",
            source_id="0123456789abcdef",
            tool="echo",
            tool_hash="0" * 64,
            generation=1,
            outcome="ok",
            sent=True,
            attempts=1,
            duration_ms=0.1,
            error="",
        )

    taken = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with await open_store(Path(folder) / "audit.db") as store:
            for batch in range(AUDITED_BATCHES):
                rows = [make_row(batch * AUDITED_CALLS + number) for number in range(AUDITED_CALLS)]
                start = process_time()
                audit = AuditWriter(store)
                for row in rows:
                    audit.record(row)
                await audit.close(timeout=60)
                taken.append((process_time() - start) / AUDITED_CALLS)
    return min(taken)


async def measure_lease() -> float:
    """Return the time of a lease of a pooled connection that exists."""
    from toolcrib.upstreams.pool import ConnectionPool, PoolKey

    class Idle:
        connected = True

    class Opener:
        def open(self) -> Idle:
            return Idle()

        async def close(self, connection: Idle) -> None: ...

    pool: ConnectionPool[Idle] = ConnectionPool()
    opener, key = Opener(), PoolKey("bench", 1, "shared")
    start = perf_counter()
    for _ in range(LEASES):
        async with pool.lease(key, opener):
            pass
    taken = (perf_counter() - start) / LEASES
    await pool.close()
    return taken


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    placed = keep_apart(options)
    make = MAKES[options.make]
    figures: dict[str, Any] = {}
    async with make(Child(options.server_python, [ECHO_SERVER], "auto")) as opened:
        figures["sequential"] = await measure_sequential(opened, options.seconds, options.warm_up)
    async with make(Child(options.server_python, [ECHO_SERVER, *placed], "auto")) as opened:
        for session in opened.ways.values():
            await repeated(session, options.warm_up)
        figures["in_flight"] = await measure_in_flight(opened, options.seconds, options.in_flight)
    if options.make == "toolcrib":
        figures |= {"audit": await measure_audit(), "lease": await measure_lease()}
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("make", choices=MAKES)
    parser.add_argument("--server-python", default=sys.executable, help="interpreter that runs the server")
    parser.add_argument("--free", action="store_true", help="do not pin processes to processors")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each way of calling, twice")
    parser.add_argument("--warm-up", type=int, default=200, help="calls before each measurement")
    parser.add_argument("--in-flight", type=int, default=64)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))
