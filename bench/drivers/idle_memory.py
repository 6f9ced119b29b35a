"""Measures the memory of the client per idle stdio connection, in KiB. Prints one line of JSON."""

import argparse
import asyncio
import gc
import json
import tracemalloc
from contextlib import AsyncExitStack

import psutil

from toolcrib import Client, StdioServer

# A shell is the smallest process that can answer. The memory of the servers is not counted.
TINY_SERVER = """
while read -r line; do
    id=${line##*\\"id\\":}
    id=${id%%[,\\}]*}
    case $line in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}\\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}}\\n' "$id" ;;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hello"}],"resultType":"complete"}}\\n' "$id" ;;
    esac
done
"""  # noqa: E501 - one message a line, as on the wire
WARM_UP_CONNECTIONS = 5


async def connect(stack: AsyncExitStack, count: int) -> None:
    for _ in range(count):
        client = await stack.enter_async_context(Client(StdioServer("sh", ["-c", TINY_SERVER])))
        await client.list_tools()
        answer = (await client.call_tool("echo", {})).text
        if answer != "hello":
            raise AssertionError(f"received {answer!r}")


async def measure(connections: int, *, traced: bool) -> float:
    process = psutil.Process()
    async with AsyncExitStack() as stack:
        await connect(stack, WARM_UP_CONNECTIONS)
        gc.collect()
        if traced:
            tracemalloc.start()
        before = process.memory_info().rss
        await connect(stack, connections)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] if traced else process.memory_info().rss - before
        return grown / connections / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--traced", action="store_true", help="count Python's allocations instead of resident memory")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.connections, traced=options.traced))))
