"""The server of the plugins that are written in Python; `http` or `sse` as argument serves on the port in PORT."""

from __future__ import annotations

import asyncio
import os
import sys

import toolcrib as tc

server = tc.ToolServer("python-plugin", "1.2.3")
_count = 0


@server.tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
def add(a: int, b: int) -> int:
    """Return the sum."""
    return a + b


@server.tool
def env(names: list[str]) -> dict[str, str | None]:
    """Return these variables of the server's environment."""
    return {name: os.environ.get(name) for name in names}


@server.tool
def pid() -> int:
    """Return the number of the server's process."""
    return os.getpid()


@server.tool
async def crash(code: int = 7) -> None:
    """End the process at once, without an answer."""
    print("the plugin crashes", file=sys.stderr, flush=True)
    os._exit(code)


@server.tool
async def sleep(seconds: float) -> str:
    """Answer after this time."""
    print("the plugin sleeps", file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
    return "awake"


@server.tool
def counter() -> int:
    """Return how often this tool was called in this process."""
    global _count  # noqa: PLW0603  # the state that the tests look for
    _count += 1
    return _count


if __name__ == "__main__":
    transport = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    if transport == "stdio":
        server.run()
    else:
        server.run(transport, port=int(os.environ["PORT"]))
