"""The measurement that all client drivers share. Each driver runs in its own process and prints one line of JSON.

Standard library only: the drivers run in the peers' environments too.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

BENCH = Path(__file__).resolve().parent.parent
ECHO_SERVER = str(BENCH / "echo_server.py")
HTTP_SERVER = str(BENCH / "http_server.py")
PATHS = {"json": "/mcp", "events": "/sse-answers"}
# Modules that calls over stdio must not load, and others that make imports slow.
WATCHED = ("pydantic", "aiohttp", "mcp", "httpx", "anyio", "jsonschema_rs", "opentelemetry", "ssl", "typing_extensions")


class Session(NamedTuple):
    """One connected client: `call` sends a text to the echo tool and returns the text of the answer."""

    list_tools: Callable[[], Awaitable[Any]]
    call: Callable[[str], Awaitable[str]]


@dataclass(frozen=True)
class Child:
    """A stdio server to start."""

    command: str
    args: list[str]
    mode: str  # "auto" negotiates the modern era with these servers, "legacy" uses the handshake


@dataclass(frozen=True)
class Site:
    """A running HTTP server."""

    url: str
    mode: str


# A driver accepts the kinds of servers that it supports.
Open = Callable[[Any], AbstractAsyncContextManager[Session]]


async def checked(session: Session, text: str) -> None:
    answer = await session.call(text)
    if answer != text:
        raise AssertionError(f"sent {text!r}, received {answer!r}")


async def sequential(session: Session, seconds: float) -> list[float]:
    """Call in sequence for `seconds`; return the latency of each call."""
    latencies = []
    number = 0
    now = perf_counter()
    end = now + seconds
    while now < end:
        number += 1
        await checked(session, f"call {number}")
        done = perf_counter()
        latencies.append(done - now)
        now = done
    return latencies


async def in_flight(session: Session, seconds: float, width: int) -> tuple[float, float]:
    """Return calls per second and client processor time per call, with `width` concurrent sequential callers."""
    calls = 0
    start, cpu_start = perf_counter(), process_time()
    end = start + seconds

    async def caller(name: int) -> None:
        nonlocal calls
        number = 0
        while perf_counter() < end:
            number += 1
            await checked(session, f"caller {name} call {number}")
            calls += 1

    await asyncio.gather(*(caller(name) for name in range(width)))
    return calls / (perf_counter() - start), (process_time() - cpu_start) / calls


async def lifecycle(open_session: Open, server: Child | Site) -> float:
    """Connect, list, call, close; return the seconds."""
    start = perf_counter()
    async with open_session(server) as session:
        await session.list_tools()
        await checked(session, "once")
    return perf_counter() - start


def keep_apart(options: argparse.Namespace) -> list[str]:
    """Pin this process to a processor; return the arguments that pin a server to another one.

    The scheduler's placement of the two processes can change the figures by a factor of two, at random. Both are
    therefore pinned where the cost of the client shows most: on one processor for sequential calls (no wake-up of a
    sleeping processor hides it), on two for concurrent calls (the server works in parallel).
    """
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if options.free or len(processors) < 2:
        return []
    client, other = processors[:2]
    os.sched_setaffinity(0, {client})
    return ["--cpu", str(other)]


@contextmanager
def http_server(options: argparse.Namespace, *placed: str) -> Iterator[str]:
    """Start an HTTP server and yield the start of its URLs; closing its standard input stops it."""
    command = [options.server_python, HTTP_SERVER, *placed]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"


@contextmanager
def servers(options: argparse.Namespace) -> Iterator[tuple[Child | Site, Child | Site]]:
    """Yield the server for sequential calls, on this processor, and the one for concurrent calls, on another."""
    placed, python, mode = keep_apart(options), options.server_python, options.mode
    if options.over == "stdio":
        yield Child(python, [ECHO_SERVER], mode), Child(python, [ECHO_SERVER, *placed], mode)
    else:
        path = PATHS[options.over]
        with http_server(options) as near, http_server(options, *placed) as far:
            yield Site(near + path, mode), Site(far + path, mode)


def loaded_modules() -> list[str]:
    return [name for name in WATCHED if name in sys.modules]


async def warm_up(session: Session, calls: int, width: int = 1) -> None:
    """Make `calls` calls, `width` at once, which opens `width` connections over HTTP."""
    await session.list_tools()
    for number in range(0, calls, width):
        await asyncio.gather(*(checked(session, f"warm {number + one}") for one in range(width)))
    gc.collect()


async def measure(open_session: Open, options: argparse.Namespace) -> dict[str, Any]:
    with servers(options) as (beside, apart):
        return await measure_both(open_session, options, beside, apart)


async def measure_both(
    open_session: Open, options: argparse.Namespace, beside: Child | Site, apart: Child | Site
) -> dict[str, Any]:
    async with open_session(beside) as session:
        await warm_up(session, options.warm_up)
        modules = loaded_modules()
        latencies = await sequential(session, options.seconds)
    async with open_session(apart) as session:
        await warm_up(session, options.warm_up, options.in_flight)
        rate, cpu = await in_flight(session, options.seconds, options.in_flight)
    lives = [await lifecycle(open_session, beside) for _ in range(options.lifecycles)]
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    return {
        "sequential_p50": cuts[49],
        "sequential_p99": cuts[98],
        "in_flight_rate": rate,
        "in_flight_cpu": cpu,
        "lifecycle": statistics.median(lives),
        "calls": len(latencies),
        "modules": modules,
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server-python", default=sys.executable, help="interpreter that runs the server")
    parser.add_argument(
        "--over", choices=["stdio", *PATHS], default="stdio", help="stdio, or HTTP with JSON answers or event streams"
    )
    parser.add_argument("--mode", choices=["auto", "legacy"], default="auto")
    parser.add_argument("--free", action="store_true", help="do not pin processes to processors")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each of the two measurements")
    parser.add_argument("--warm-up", type=int, default=200, help="calls before each measurement")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--lifecycles", type=int, default=3)
    return parser.parse_args()


def drive(open_session: Open) -> None:
    print(json.dumps(asyncio.run(measure(open_session, parse_options()))))
