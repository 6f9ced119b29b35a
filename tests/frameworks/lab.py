"""The servers that the cases call: `lab`, in the process of the agent, and `demo`, a process that a case can kill."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any, Final

import toolcrib as tc
from toolcrib import types
from toolcrib.server.components.tools import ToolFunction

DEMO: Final = tc.StdioServer(sys.executable, [str(Path(__file__).parents[2] / "examples" / "demo_server.py")])
PNG: Final = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
GREET_SCHEMA: Final = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "title": {"type": "string", "maxLength": 20}},
    "required": ["name"],
}
"""The schema of `greet`: an optional argument that must not be null."""


class Lab:
    """The server in this process, and what happened to it."""

    def __init__(self) -> None:
        self.server = tc.ToolServer("lab")
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """The tools that ran, with their arguments."""
        self.is_waiting = False
        """Whether a call of `wait` has begun."""
        self.was_cancelled = False
        """Whether a call of `wait` was cancelled."""
        for function in (self.add, self.weather, self.plot, self.fail, self.count, self.wait, self.mixed, self.secret):
            self.server.add_tool(function)
        self.server.add_tool(self.report)
        self.server.add_tool(self.greet, input_schema=GREET_SCHEMA)

    def ran(self, name: str) -> int:
        """Return how often a tool ran."""
        return sum(called == name for called, _ in self.calls)

    def add_fresh(self) -> ToolFunction:
        """Add the tool `fresh` to the running server."""
        return self.server.add_tool(self.fresh)

    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.calls.append(("add", {"a": a, "b": b}))
        return a + b

    async def greet(self, arguments: dict[str, Any]) -> str:
        """Greet a person."""
        self.calls.append(("greet", arguments))
        return f"Hello {arguments.get('title', '')} {arguments['name']}".replace("  ", " ")

    async def weather(self, city: str) -> dict[str, Any]:
        """Return the weather."""
        self.calls.append(("weather", {"city": city}))
        return {"city": city, "degrees": 7}

    async def report(self) -> types.ToolResult:
        """Return a text, and data that the text does not show."""
        self.calls.append(("report", {}))
        return types.ToolResult.from_blocks([types.TextContent("The report is ready.")], data={"pages": 12345})

    async def plot(self) -> types.ImageContent:
        """Draw an image."""
        self.calls.append(("plot", {}))
        return types.ImageContent(PNG)

    async def fail(self, reason: str) -> str:
        """Fail."""
        self.calls.append(("fail", {"reason": reason}))
        raise tc.ToolFailed(reason)

    async def count(self, steps: int, ctx: tc.Context) -> str:
        """Count, with progress."""
        self.calls.append(("count", {"steps": steps}))
        for step in range(1, steps + 1):
            await ctx.progress(step, steps, f"step {step}")
        return f"counted to {steps}"

    async def wait(self) -> str:
        """Wait until the call is cancelled."""
        self.is_waiting = True
        try:
            await asyncio.sleep(120)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return "waited"

    async def mixed(self) -> list[Any]:
        """Return content of every kind."""
        self.calls.append(("mixed", {}))
        embedded = types.ResourceContents("memo://1", "text/plain", "an embedded memo")
        blob = types.ResourceContents("memo://2", "application/pdf", None, b"%PDF-1.7")
        return [
            types.TextContent("a caption"),
            types.ImageContent(PNG),
            types.AudioContent(b"RIFF", "audio/wav"),
            types.ResourceLink("memo://3", "the report", "text/plain"),
            types.EmbeddedResource(embedded),
            types.EmbeddedResource(blob),
        ]

    async def secret(self) -> str:
        """Return what no model may see."""
        self.calls.append(("secret", {}))
        return "the secret"

    async def fresh(self) -> str:
        """Return a word."""
        self.calls.append(("fresh", {}))
        return "fresh air"


class UnlistedSource:
    """A source with the tool `add`, whose list can fail, as that of a client does while its server is away."""

    def __init__(self) -> None:
        self.is_broken = False

    async def list_tools(self) -> list[tc.Tool]:
        """Return the tool."""
        if self.is_broken:
            raise tc.ConnectionLost("the connection was lost")
        return [tc.Tool("mcp__lab__add", server="lab", description="Add two numbers.")]

    async def call_tool(self, name: str, arguments: Any, **_: Any) -> tc.ToolResult:
        """Call the tool."""
        return tc.ToolResult.from_text("added")


def kill(pid: int) -> None:
    """Kill the process of `demo`."""
    os.kill(pid, signal.SIGKILL)
