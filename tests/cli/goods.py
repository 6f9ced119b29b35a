"""A tool server with all that a command line has to show: pictures, sounds, files, questions, progress, types."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Literal

import toolcrib as tc

server = tc.ToolServer("goods", version="1.0.0")
PNG = b"\x89PNG\r\n\x1a\nno picture"


@server.tool
def typed(
    count: int,
    share: float = 0.5,
    deep: bool = False,
    tags: list[str] | None = None,
    where: dict[str, int] | None = None,
    colour: Literal["red", "green"] = "red",
) -> dict[str, Any]:
    """Gives back what it was given."""
    return {"count": count, "share": share, "deep": deep, "tags": tags, "where": where, "colour": colour}


@server.tool
def picture(times: int = 1) -> list[Any]:
    """A picture, as often as is wished, and a sound."""
    return [*([tc.ImageContent(PNG, "image/png")] * times), tc.AudioContent(b"RIFF", "audio/wav")]


@server.tool
async def form(ctx: tc.Context) -> dict[str, Any]:
    """Asks for several things."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name"},
            "age": {"type": "integer"},
            "member": {"type": "boolean", "default": True},
            "colour": {"type": "string", "enum": ["red", "green"]},
        },
        "required": ["name", "age"],
    }
    answer = await ctx.elicit("Who are you?\x1b[31m", schema)
    return {"action": answer.action, "content": answer.content}


@server.tool
async def visit(ctx: tc.Context) -> str:
    """Sends the person to a page."""
    return (await ctx.elicit_url("Please log in.", "https://login.example/?a=1")).action


@server.tool
async def think(ctx: tc.Context) -> str:
    """Asks the client's model."""
    return (await ctx.sample("What is the answer?")).text


@server.tool
async def forever(ctx: tc.Context, journal: str) -> str:
    """Works until it is cancelled, and notes that in a file."""
    await ctx.progress(1, 2, "half")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        Path(journal).write_text("cancelled", "utf-8")
        raise
    return "never"


@server.tool
def fails(lines: int = 1) -> tc.ToolResult:
    """Always fails."""
    return tc.ToolResult.from_error("\n".join(f"reason {n + 1}" for n in range(lines)))


@server.resource("goods://text", mime_type="text/plain", description="Some text.")
def text() -> str:
    return "first\r\nsecond\n"


@server.resource("goods://picture", mime_type="image/png")
def image() -> bytes:
    return PNG


@server.resource("goods://number/{n}")
def number(n: str) -> str:
    return f"number {n}"


@server.prompt
def greeting(name: str, mood: str = "happy") -> str:
    """Greet somebody."""
    return f"Say a {mood} hello to {name}."


if __name__ == "__main__":
    server.run(sys.argv[1] if len(sys.argv) > 1 else "stdio")
