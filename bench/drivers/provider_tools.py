"""Measures a provider with one source of many tools. Prints seconds and bytes as one line of JSON.

Each operation is measured with an eighth, a quarter, half and all of the tools, in processor time of this process and
in wall time.
"""

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import tracemalloc
from collections.abc import Awaitable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeVar

from measure import BENCH

from toolcrib import Client, StdioServer
from toolcrib.provider import Provider

T = TypeVar("T")
SHARES = (8, 4, 2, 1)
QUERY = "create an issue"


class Clock:
    """Measures operations one after the other."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, float]] = {}

    async def time(self, name: str, work: Awaitable[T]) -> T:
        """Note the wall time and the processor time of an operation; return its result."""
        gc.collect()
        start, cpu_start = perf_counter(), process_time()
        result = await work
        self.figures[name] = {"wall": perf_counter() - start, "cpu": process_time() - cpu_start}
        return result


def check(found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{found} tools, expected {expected}")


async def measure_one(python: str, count: int, folder: Path) -> dict[str, Any]:
    """Return operation -> times, with `count` tools, and the memory per tool."""
    clock, text = Clock(), folder / "text"
    text.write_text("")
    server = StdioServer(python, [str(BENCH / "tools_server.py"), str(count), str(text)])
    store = folder / "tools.db"
    async with Client(server) as client:
        await client.list_tools()
        check(len(await clock.time("bare_list", client.list_tools(use_cache=False))), count)
    async with Provider(store) as provider:
        await clock.time("register", provider.add_source("bench", server))
        if await clock.time("refresh", provider.refresh("bench")):
            raise AssertionError("nothing changed")
        text.write_text(" Changed.")
        change = await clock.time("refresh_changed", provider.refresh("bench"))
        check(len(change.changed), len(range(0, count, 100)))
    await clock.time("start", start_and_close(store, count))
    async with Provider(store) as provider:
        view = provider.view()
        check(len(await clock.time("first_list", view.list_tools())), count)
        await clock.time("list", view.list_tools())
        await clock.time("first_search", view.search_tools(QUERY))
        if not await clock.time("search", view.search_tools(QUERY)):
            raise AssertionError("the search found no tools")
    return clock.figures | {"bytes_per_tool": await measure_memory(store, count)}


async def start_and_close(store: Path, count: int) -> None:
    async with Provider(store) as provider:
        check(len(provider.list_tools()), count)


async def measure_memory(store: Path, count: int) -> float:
    """Return the Python allocations of an open provider, with one view, per tool."""
    gc.collect()
    tracemalloc.start()
    async with Provider(store) as provider:
        await provider.view().list_tools()
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return allocated / count


async def measure(options: argparse.Namespace) -> dict[int, Any]:
    counts = [max(options.tools // share, 1) for share in SHARES]
    found = {}
    for count in (counts[0], *counts):  # the extra first one pays for everything that is created once per process
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            found[count] = await measure_one(options.server_python, count, Path(folder))
    return {count: found[count] for count in counts}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--server-python", default=sys.executable, help="interpreter that runs the server")
    parser.add_argument("--tools", type=int, default=5000)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))
