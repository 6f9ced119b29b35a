"""Measures calls of a toolbox against the hub below it. Prints seconds per call as one line of JSON.

Two servers: one over stdio, and one in this process, where little else hides the difference. From another loop or
thread, the hub is called with `asyncio.run_coroutine_threadsafe`: the least that a call across threads costs.
"""

import asyncio
import json
import threading
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from batches import Way, in_threads, make_parser, on_loop, on_this_loop, take_turns
from measure import ECHO_SERVER, keep_apart

from toolcrib import Hub, StdioServer, ToolServer
from toolcrib.adapters import Toolbox


def echo_in_process() -> ToolServer:
    server = ToolServer("bench")

    @server.tool
    async def echo(text: str) -> str:
        """Returns the text."""
        return text

    return server


@contextmanager
def loop_of_another_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def opened(server: Any, width: int) -> AsyncIterator[dict[str, Way]]:
    """Yield the ways of calling; the hub is the first."""
    async with Hub({"bench": server}) as hub:
        box = await Toolbox.load(hub)
        (spec,) = box.tools()

        async def call_hub(text: str) -> str:
            return (await hub.call_tool(spec.name, {"text": text})).text

        async def call(text: str) -> str:
            return (await box.call(spec.name, {"text": text})).text

        async def call_with_json(text: str) -> str:
            return (await box.call(spec.name, json.dumps({"text": text}))).text

        def call_sync(text: str) -> str:
            return box.call_sync(spec.name, {"text": text}).text

        home = asyncio.get_running_loop()

        async def call_hub_across(text: str) -> str:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call_hub(text), home))

        def call_hub_sync(text: str) -> str:
            return asyncio.run_coroutine_threadsafe(call_hub(text), home).result()

        with loop_of_another_thread() as loop, ThreadPoolExecutor(width) as pool:
            yield {
                "hub": on_this_loop(call_hub),
                "call": on_this_loop(call),
                "call_json": on_this_loop(call_with_json),
                "hub_other_loop": on_loop(loop, call_hub_across),
                "other_loop": on_loop(loop, call),
                "hub_sync": in_threads(call_hub_sync, pool),
                "sync": in_threads(call_sync, pool),
            }


async def measure(options: Namespace) -> dict[str, Any]:
    """Return server -> one call at a time, or many in flight -> way -> figures."""
    placed, width, seconds = keep_apart(options), options.in_flight, options.seconds / 2
    figures: dict[str, Any] = {"stdio": {}, "in process": {}}
    async with opened(StdioServer(options.server_python, [ECHO_SERVER]), width) as ways:
        figures["stdio"]["sequential"] = await take_turns(ways, seconds, options.warm_up)
    async with opened(StdioServer(options.server_python, [ECHO_SERVER, *placed]), width) as ways:
        figures["stdio"]["in_flight"] = await take_turns(ways, seconds / 2, options.warm_up, width)
    async with opened(echo_in_process(), width) as ways:
        figures["in process"]["sequential"] = await take_turns(ways, seconds, options.warm_up)
        figures["in process"]["in_flight"] = await take_turns(ways, seconds / 2, options.warm_up, width)
    return figures


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(make_parser().parse_args()))))
