"""A short demonstration of one client: calls, progress, a time-out, a killed server, and its recovery."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path

import toolcrib as tc

SERVER = tc.StdioServer(sys.executable, [str(Path(__file__).with_name("demo_server.py"))])


def title(text: str) -> None:
    print(f"\n{text}")


def row(what: object, happened: object) -> None:
    print(f"  {what!s:<19}{happened}")


class LogRows(logging.Handler):
    """Prints the log messages of Toolcrib (warnings and above by default)."""

    def emit(self, record: logging.LogRecord) -> None:
        row("(log)", record.getMessage())


async def show_calls(client: tc.Client) -> None:
    title("Tools")
    for tool in await client.list_tools():
        row(tool.name, tool.description)

    title("Calls")
    row("add", (await client.call_tool("add", {"a": 2, "b": 3})).data)
    row("echo", (await client.call_tool("echo", {"text": "Hello from the crib"})).text)

    title("Progress")
    counted = await client.call_tool(
        "slow_count", {"steps": 3}, on_progress=lambda done, total, message: row(f"{done:g} of {total:g}", message)
    )
    row("result", counted.text)


async def show_errors(client: tc.Client) -> None:
    title("A tool's own error is a result")
    failed = await client.call_tool("fail", {"reason": "the disk is full"})
    row("is_error", failed.is_error)
    row("text", failed.text)

    title("Other failures are typed exceptions")
    try:
        await client.call_tool("slow_count", {"steps": 100}, timeout=0.3)
    except tc.CallTimeout as error:
        row(type(error).__name__, f"after 0.3 s, sent={error.sent}")
    try:
        await client.call_tool("ad", {"a": 2, "b": 3})
    except tc.ToolNotFound as error:
        row(type(error).__name__, f"ad, nearest: {', '.join(error.nearest)}")


async def process_id(client: tc.Client) -> int:
    status = json.loads((await client.read_resource("demo://status")).text)
    return int(status["pid"])


async def show_recovery(client: tc.Client) -> None:
    title("The server is killed in the middle of a call")
    before = await process_id(client)
    try:
        await client.call_tool("slow_count", {"steps": 100}, on_progress=lambda *_: os.kill(before, signal.SIGKILL))
    except tc.OutcomeUnknown as error:
        row(type(error).__name__, f"sent={error.sent}: it may have run, so it is not repeated")
    row("add", (await client.call_tool("add", {"a": 20, "b": 22})).data)
    row("process", "the same" if await process_id(client) == before else "a new one")


async def main() -> None:
    print(f"Toolcrib {tc.__version__}")
    logging.getLogger("toolcrib").addHandler(LogRows())
    async with tc.Client(SERVER, name="demo", reconnect=tc.ReconnectPolicy(base_delay=0.1)) as client:
        title("Connected")
        info = client.server_info
        assert info is not None
        row("server", f"{info.name} {info.version}")
        row("protocol", info.protocol_version)
        client.on(tc.events.Disconnected, lambda event: row("(event)", f"disconnected from {event.server}"))
        client.on(tc.events.Reconnected, lambda event: row("(event)", f"reconnected to {event.server}"))
        await show_calls(client)
        await show_errors(client)
        await show_recovery(client)
        title("Closing")
    row("status", client.status.state)


if __name__ == "__main__":
    asyncio.run(main())
