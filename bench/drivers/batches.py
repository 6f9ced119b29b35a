"""Measures several ways of calling one tool in short batches that take turns, so that noise affects all of them.

Processor time is that of this process, all threads included; the minimum is that of the quietest batch. Standard
library only: the drivers run in the environments of the frameworks too.
"""

import argparse
import asyncio
import gc
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, process_time
from typing import Any, NamedTuple

BATCH = 50
"""Calls in a batch, one after the other."""
WIDE_BATCH = 4
"""Calls of each caller in a batch with many in flight."""

Call = Callable[[str], Awaitable[str]]
SyncCall = Callable[[str], str]
Run = Callable[[int, int], Awaitable[None]]
"""Makes a number of calls, a number of them at once."""


class Way(NamedTuple):
    """One way of calling: how its batches run, and how many calls a batch has."""

    run: Run
    batch: int = BATCH
    wide: bool = True
    """Whether it is also measured with many calls in flight."""


def checked(sent: str, received: str) -> None:
    if sent != received:
        raise AssertionError(f"sent {sent!r}, received {received!r}")


def on_this_loop(call: Call, batch: int = BATCH, wide: bool = True) -> Way:
    """Return a way whose calls are made on the loop of the measurement."""

    async def caller(times: int) -> None:
        for number in range(times):
            text = f"call {number}"
            checked(text, await call(text))

    async def run(times: int, width: int) -> None:
        if width == 1:
            await caller(times)
        else:
            await asyncio.gather(*(caller(times // width) for _ in range(width)))

    return Way(run, batch, wide)


def on_loop(loop: asyncio.AbstractEventLoop, call: Call) -> Way:
    """Return a way whose calls are made on a loop of another thread."""
    there = on_this_loop(call)

    async def run(times: int, width: int) -> None:
        work: Any = there.run(times, width)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    return Way(run)


def in_threads(call: SyncCall, pool: ThreadPoolExecutor) -> Way:
    """Return a way whose calls block threads of the pool."""

    def caller(times: int) -> None:
        for number in range(times):
            text = f"call {number}"
            checked(text, call(text))

    async def run(times: int, width: int) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(pool, caller, times // width) for _ in range(width)))

    return Way(run)


async def take_turns(
    ways: Mapping[str, Way], seconds: float, warm_up: int = 0, width: int = 1
) -> dict[str, dict[str, float]]:
    """Return way -> median and minimum of its batches, per call, in wall time and processor time.

    Each way gets about `seconds`. The order is reversed after every turn.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for way in ways.values():
        await way.run(max(width, min(warm_up, way.batch * 20)), width)
    gc.collect()
    order = list(ways.items())
    end = perf_counter() + seconds * len(ways)
    while perf_counter() < end or not all(taken.values()):
        for name, way in order:
            times = way.batch if width == 1 else width * WIDE_BATCH
            start, cpu_start = perf_counter(), process_time()
            await way.run(times, width)
            taken[name].append(((perf_counter() - start) / times, (process_time() - cpu_start) / times))
        order.reverse()
    return {name: summarize(batches) for name, batches in taken.items()}


def summarize(batches: list[tuple[float, float]]) -> dict[str, float]:
    """Return median and minimum of batches, in wall time and processor time per call."""
    walls, cpus = zip(*batches, strict=True)
    return {
        "wall": statistics.median(walls),
        "cpu": statistics.median(cpus),
        "min_wall": min(walls),
        "min_cpu": min(cpus),
    }


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server-python", default=sys.executable, help="interpreter that runs the server")
    parser.add_argument("--free", action="store_true", help="do not pin processes to processors")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each way of calling")
    parser.add_argument("--warm-up", type=int, default=200, help="calls before each measurement")
    parser.add_argument("--in-flight", type=int, default=64)
    return parser
