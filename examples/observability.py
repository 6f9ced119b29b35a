"""Events of every server, and an interceptor that counts every call.

One of the two servers is killed in the middle of a call to show the events of its recovery.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import toolcrib as tc

demo = tc.StdioServer(sys.executable, [str(Path(__file__).with_name("demo_server.py"))])
clock = tc.ToolServer("clock")
calls: Counter[str] = Counter()


@clock.tool
def tick(count: int) -> int:
    """Return count + 1."""
    return count + 1


def show(event: tc.events.Event) -> None:
    name = type(event).__name__
    match event:
        case tc.events.ConnectionCompleted():
            print(f"  {name:<24}{event.server} speaks {event.protocol_version}")
        case tc.events.ToolExecutionCompleted():
            print(f"  {name:<24}{event.server} {event.tool}{' (tool error)' if event.is_error else ''}")
        case tc.events.ToolExecutionFailed():
            print(f"  {name:<24}{event.server} {event.tool}: {type(event.error).__name__}")
        case tc.events.Disconnected() | tc.events.Reconnected():
            print(f"  {name:<24}{event.server}")


async def measure(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
    """Count the outcomes. An interceptor may also change the call, or answer in its place."""
    try:
        result = await proceed(call)
    except tc.ToolcribError as error:
        calls[f"{call.server} {type(error).__name__}"] += 1
        raise
    calls[f"{call.server} {'error' if result.is_error else 'ok'}"] += 1
    return result


async def main() -> None:
    hub = tc.Hub({"demo": demo, "clock": clock}, reconnect=tc.ReconnectPolicy(base_delay=0.05))
    stop = hub.on(tc.events.Event, show)
    hub.intercept(measure)
    back = asyncio.Event()
    hub.on(tc.events.Reconnected, lambda _: back.set())
    print("Start")
    async with hub:
        print("Calls")
        await hub.call_tool("mcp__clock__tick", {"count": 1})
        await hub.call_tool("mcp__demo__add", {"a": 2, "b": 3})
        await hub.call_tool("mcp__demo__fail")
        print("The demo server is killed")
        pid = json.loads(await hub.resources.read_text("demo", "demo://status"))["pid"]
        try:
            await hub.call_tool(
                "mcp__demo__slow_count", {"steps": 100}, on_progress=lambda *_: os.kill(pid, signal.SIGKILL)
            )
        except tc.OutcomeUnknown as error:
            print(f"  (caller)                {type(error).__name__}, sent={error.sent}")
        await asyncio.wait_for(back.wait(), 30)
        print("The demo server is used again")
        await hub.call_tool("mcp__demo__echo", {"text": "there"})
        print("Status")
        for state in hub.list_servers():
            print(f"  {state.name:<8}{state.status.state:<12}tools: {len(state.tools)}, tokens: {state.tokens}")
        stop()
    print("Counted", dict(sorted(calls.items())))


if __name__ == "__main__":
    asyncio.run(main())
