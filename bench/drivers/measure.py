"""The one protocol of measurement. Every driver runs it in a process of its own and prints one line of JSON.

Standard library only: the drivers run in the peers' environments too.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

ECHO_SERVER = str(Path(__file__).resolve().parent.parent / "echo_server.py")
WARM_UP_CALLS = 300
# The modules whose absence from the stdio path is a promise, and the usual suspects of a slow import.
WATCHED = ("pydantic", "aiohttp", "mcp", "httpx", "anyio", "jsonschema_rs", "opentelemetry", "ssl", "typing_extensions")


class Session(NamedTuple):
    """One connected client: `call` sends a text to the echo tool and returns the text of the answer."""

    list_tools: Callable[[], Awaitable[Any]]
    call: Callable[[str], Awaitable[str]]


@dataclass(frozen=True)
class Child:
    command: str
    args: list[str]
    mode: str  # "auto" finds the modern era in the echo server, "legacy" shakes hands


Open = Callable[[Child], AbstractAsyncContextManager[Session]]


async def checked(session: Session, text: str) -> None:
    answer = await session.call(text)
    if answer != text:
        raise AssertionError(f"sent {text!r}, received {answer!r}")


async def sequential(session: Session, seconds: float) -> list[float]:
    """The latency of each call, one after the other."""
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
    """Calls per second, and our own processor time per call, with `width` callers that each wait for their answer."""
    calls = 0
    start, cpu_start = perf_counter(), process_time()
    end = start + seconds

    async def caller(who: int) -> None:
        nonlocal calls
        number = 0
        while perf_counter() < end:
            number += 1
            await checked(session, f"caller {who} call {number}")
            calls += 1

    await asyncio.gather(*(caller(who) for who in range(width)))
    return calls / (perf_counter() - start), (process_time() - cpu_start) / calls


async def lifecycle(open_session: Open, child: Child) -> float:
    """Connect, list, call, close: seconds."""
    start = perf_counter()
    async with open_session(child) as session:
        await session.list_tools()
        await checked(session, "once")
    return perf_counter() - start


def children(options: argparse.Namespace) -> tuple[Child, Child]:
    """The child of the sequential and the child of the concurrent measurement.

    Where the scheduler puts the two processes changes the figures twofold and by chance, so both are placed, each time
    where the client's own cost shows the most: on one processor for calls one after the other (no waking of a sleeping
    processor hides it), on two for many in flight (the child's work is done meanwhile).
    """
    beside = Child(options.server_python, [ECHO_SERVER], options.mode)
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if options.free or len(processors) < 2:
        return beside, beside
    client, other = processors[:2]
    os.sched_setaffinity(0, {client})
    return beside, replace(beside, args=[ECHO_SERVER, "--cpu", str(other)])


def loaded_modules() -> list[str]:
    return [name for name in WATCHED if name in sys.modules]


async def warm_up(session: Session) -> None:
    await session.list_tools()
    for number in range(WARM_UP_CALLS):
        await checked(session, f"warm {number}")
    gc.collect()


async def measure(open_session: Open, options: argparse.Namespace) -> dict[str, Any]:
    beside, apart = children(options)
    async with open_session(beside) as session:
        await warm_up(session)
        modules = loaded_modules()
        latencies = await sequential(session, options.seconds)
    async with open_session(apart) as session:
        await warm_up(session)
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
    parser.add_argument("--server-python", default=sys.executable, help="the interpreter of the child server")
    parser.add_argument("--mode", choices=["auto", "legacy"], default="auto")
    parser.add_argument("--free", action="store_true", help="leave the placing of the processes to the scheduler")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each of the two measurements")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--lifecycles", type=int, default=3)
    return parser.parse_args()


def drive(open_session: Open) -> None:
    print(json.dumps(asyncio.run(measure(open_session, parse_options()))))
