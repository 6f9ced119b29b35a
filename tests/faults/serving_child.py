"""A tool server as a separate program, for tests of a whole process: `serving_child.py TRANSPORT [SECONDS]`.

SECONDS limits how long requests may take to end when the server is stopped; default: the usual limit.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

import toolcrib as tc
from toolcrib.server.serving import uvicorn_server

server = tc.ToolServer("child", "1.0")


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


@server.tool
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@server.tool
async def talk(ctx: tc.Context, seconds: float = 60) -> str:
    await ctx.log("error", "begun")
    await asyncio.sleep(seconds)
    return "said"


@server.tool
async def ask(ctx: tc.Context) -> str:
    return (await ctx.elicit("Go on?", {"type": "object", "properties": {}})).action


@server.tool
def block(seconds: float) -> str:
    time.sleep(seconds)
    return "unblocked"


@server.tool
async def stubborn() -> str:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@server.tool
async def flood(ctx: tc.Context, count: int, size: int) -> str:
    for number in range(count):
        await ctx.log("error", f"{number}:".ljust(size, "."))
    return "all said"


@server.tool
def noise() -> str:
    print("this is no message")
    os.write(1, b"nor is this\n")
    os.system("echo nor this")
    sys.stdout.flush()
    return "quiet"


@server.tool
async def fail(text: str) -> str:
    raise RuntimeError(text)


@server.tool
def threads() -> int:
    return threading.active_count()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        uvicorn_server.DRAIN_SECONDS = float(sys.argv[2])  # type: ignore[misc,assignment]
    options = {} if sys.argv[1] == "stdio" else {"port": 0}
    server.run(sys.argv[1], **options)  # type: ignore[arg-type]
