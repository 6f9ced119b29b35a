"""Functions as tools, resources and prompts: `python examples/tool_server.py [stdio|http|sse] [--port 8000]`.

`stdio` is for a client that starts it: `Client(StdioServer("python", ["examples/tool_server.py"]))`. With the others,
the server prints its URL to stderr.
"""

from __future__ import annotations

import argparse
import struct
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

import toolcrib as tc

HERE = Path(__file__).parent
SITE = {"/": ["/docs", "/blog"], "/docs": ["/docs/client", "/docs/http"], "/blog": ["/blog/1", "/blog/2", "/blog/3"]}

server = tc.ToolServer("math", version="1.0.0", instructions="Adds, plots, and crawls a very small site.")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(name="plot", description="Plot a series as bars", annotations={"readOnlyHint": True})
def plot(
    values: Annotated[list[float], Field(min_length=1, max_length=100, description="The bars' heights")],
) -> tc.ImageContent:
    return tc.ImageContent(bars(values), "image/png")


class Answer(BaseModel):
    """The answer that the user is asked for."""

    ok: bool


@server.tool
async def crawl(url: str, depth: int = 1, *, ctx: tc.Context) -> list[str]:  # ctx is not part of the schema
    """Collect the pages that a page leads to.

    Args:
        url: Where to begin, such as "/".
        depth: How many links away.
    """
    pages = level = [url]
    for step in range(depth):
        level = [link for page in level for link in SITE.get(page, [])]
        pages = pages + level
        await ctx.progress(step + 1, depth, f"{len(pages)} pages")
        await ctx.log("info", f"depth {step + 1}: {len(level)} pages")
        if len(pages) > 5 and step + 1 < depth:
            answer = await ctx.elicit(f"{len(pages)} pages so far. Go on?", Answer)
            if answer.action != "accept" or not answer.data.ok:
                break
    return pages


@tc.tool  # without a server: it can be added to several
def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


TALLY = {"type": "object", "properties": {"by": {"type": "integer", "minimum": 1}}, "required": ["by"]}


class Tally:
    """A tool with state and an explicit schema: it receives its arguments as one validated dict."""

    def __init__(self) -> None:
        self.count = 0

    async def count_on(self, arguments: dict[str, Any]) -> str:
        self.count += arguments["by"]
        return f"now at {self.count}"


server.add_tool(now)
server.add_tool(Tally().count_on, name="count", description="Count on", input_schema=TALLY)


@server.resource("config://app", mime_type="application/json")
def config() -> dict[str, Any]:
    """The configuration of this server."""
    return {"site": "/", "pages": len(SITE)}


@server.resource("file:///{path}")
def read(path: str) -> bytes | None:
    """A file of this folder."""
    file = HERE / path  # paths that lead upwards never reach this function
    return file.read_bytes() if file.is_file() else None


@server.prompt
def explain(topic: str, to: Literal["a child", "a colleague", "an expert"] = "a colleague") -> str:
    """Ask for an explanation."""
    return f"Explain {topic} to {to} in one sentence."


def bars(values: list[float], height: int = 32) -> bytes:
    """A black and white PNG, eight pixels for each value."""
    top = max(*values, 1e-9)
    rows = bytearray()
    for y in range(height, 0, -1):
        rows.append(0)
        rows += bytes(0b11111111 if value * height < top * y else 0b10000001 for value in values)
    header = struct.pack(">IIBBBBB", 8 * len(values), height, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows))), (b"IEND", b""))
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transport", nargs="?", choices=["stdio", "http", "sse"], default="stdio")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    server.run(options.transport, port=options.port)
