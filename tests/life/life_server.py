"""The tool server of the life test: `life_server.py JOURNAL stdio`, or `life_server.py JOURNAL http PORT`.

Every tool appends its nonce to the journal before it does anything else, with one system call, so that a `kill -9`
loses none.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys

import toolcrib as tc
from toolcrib.server.serving.sessions import LegacySession

server = tc.ToolServer("life", "1.0")
journal = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(nonce: str) -> None:
    os.write(journal, f"{nonce}\n".encode())


@server.tool
async def echo(nonce: str) -> str:
    note(nonce)
    return nonce


@server.tool
async def slow(nonce: str, seconds: float, ctx: tc.Context) -> str:
    note(nonce)
    for step in range(4):
        await ctx.progress(step, 4)
        await asyncio.sleep(seconds / 4)
    return nonce


@server.tool
async def fail(nonce: str) -> str:
    note(nonce)
    raise ValueError(nonce)


@server.tool
def block(nonce: str, seconds: float) -> str:
    """A sync function: it runs in a thread and cannot be cancelled."""
    import time

    note(nonce)
    time.sleep(seconds)
    return nonce


@server.tool
async def sessions() -> int:
    """How many sessions of the legacy era live here."""
    gc.collect()
    return sum(type(each) is LegacySession for each in gc.get_objects())


if __name__ == "__main__":
    if sys.argv[2] == "stdio":
        server.run()
    else:
        server.run("http", port=int(sys.argv[3]))
