"""A `ToolServer` with every feature, which clients of other SDKs use, in the era that the client chooses.

    python ours.py --transport stdio|http|sse [--port P]

Over HTTP it ends when its standard input does, so that it cannot outlive the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import sys
import threading
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field

import toolcrib as tc

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
LEVELS = ("debug", "info", "warning", "error")
TOPICS = ["apples", "apricots", "bees", "beans"]

server = tc.ToolServer("our-crib", "3.2.1", instructions="A server to try things on.", page_size=10)
naps: list[str] = []
state = {"counter": 0}


@dataclass
class Forecast:
    city: str
    degrees: float


class Person(BaseModel):
    name: str


class Colour(BaseModel):
    colour: str


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


@server.tool
def forecast(city: str) -> Forecast:
    """A structured result."""
    return Forecast(city, 21.5)


@server.tool
def numbers(count: int) -> list[int]:
    """A list, wrapped on the wire."""
    return list(range(count))


@server.tool
def nothing() -> None:
    """No content at all."""


@server.tool(mime_type="image/png")
def picture() -> bytes:
    """Return bytes, which become an image by their MIME type."""
    return PNG


@server.tool
def fail(message: str) -> str:
    """Always fails."""
    raise ValueError(message)


@server.tool
def refuse() -> str:
    """Answer with a custom JSON-RPC error."""
    raise tc.RemoteError(1234, "not today", {"until": "tomorrow"})


@server.tool
def showcase() -> list[Any]:
    """One block of each kind."""
    return [
        "first",
        tc.ImageContent(PNG, "image/png"),
        tc.AudioContent(b"RIFF", "audio/wav"),
        tc.ResourceLink("crib://greeting", "greeting"),
        tc.EmbeddedResource(tc.ResourceContents("crib://inside", "text/plain", "inside")),
    ]


@server.tool
async def count(steps: int, ctx: tc.Context) -> str:
    """Report progress at each step."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool
def count_in_a_thread(steps: int, ctx: tc.SyncContext) -> str:
    """Report progress at each step, from a worker thread."""
    for step in range(1, steps + 1):
        ctx.progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool
async def march(steps: int, ctx: tc.Context) -> str:
    """Report progress at each step, and request input before the next; modern: a round per step."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps)
        await ctx.roots()
    return f"marched {steps}"


@server.tool
async def chatter(words: list[str], ctx: tc.Context) -> str:
    """Log each word, at rising levels."""
    for level, word in zip(LEVELS, words, strict=False):
        await ctx.log(level, word, logger="crib")
    return "said"


@server.tool
async def ask_model(prompt: str, ctx: tc.Context) -> str:
    """Request an answer from the client's model."""
    answer = await ctx.sample(prompt, max_tokens=64, system_prompt="Be brief.")
    return f"{answer.model} said {answer.text}"


@server.tool
async def ask_user(question: str, ctx: tc.Context) -> str:
    """Ask the user of the client."""
    answer = await ctx.elicit(question, Person)
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool
async def ask_page(url: str, ctx: tc.Context) -> str:
    """Send the user to a page."""
    return (await ctx.elicit_url("sign there", url)).action


@server.tool
async def interview(ctx: tc.Context) -> str:
    """Two questions, one after the other."""
    who = await ctx.elicit("name?", Person)
    what = await ctx.elicit("colour?", Colour)
    return f"{who.data.name} likes {what.data.colour}"


@server.tool
async def roots(ctx: tc.Context) -> list[str]:
    """The roots that the client offers."""
    return [root.uri for root in await ctx.roots()]


@server.tool
def who(ctx: tc.SyncContext) -> dict[str, Any]:
    """Describe the client and the request."""
    return {
        "client": dict(ctx.client_info),
        "version": ctx.protocol_version,
        "can": sorted(ctx.client_capabilities),
        "session": ctx.session_id is not None,
    }


@server.tool
def ship(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    weight: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Weight"})],
    ctx: tc.SyncContext,
) -> dict[str, Any]:
    """Two arguments that the modern era repeats in headers."""
    sent = {name: value for name, value in ctx.headers.items() if name.startswith("mcp-param-")}
    return {"region": region, "weight": weight, "headers": sorted(sent)}


@server.tool
async def nap(seconds: float, ctx: tc.Context) -> str:
    """Sleep, report progress, and record how the call ended."""
    naps.append("started")
    await ctx.progress(0.5, seconds, "asleep")
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        naps.append("cancelled")
        raise
    naps.append("rested")
    return "rested"


@server.tool
def nap_log() -> list[str]:
    """How the naps ended."""
    return naps


@server.tool
async def detach(ctx: tc.Context) -> str:
    """Close this call's stream, then go on: the client gets the rest later."""
    await ctx.progress(1, 2, "before")
    await ctx.close_stream()
    await ctx.progress(2, 2, "after")
    return "finished apart"


@server.tool
def grow() -> str:
    """Add the tool `bloom`; clients are notified."""
    server.add_tool(lambda: "bloom", name="bloom", description="Grown at run time.")
    return "grown"


@server.tool
def cut() -> str:
    """Remove the tool `bloom` again."""
    server.remove_tool("bloom")
    return "cut"


@server.tool
def touch() -> int:
    """Change crib://counter and notify its subscribers."""
    state["counter"] += 1
    server.notify_resource_updated("crib://counter")
    return state["counter"]


@server.resource("crib://greeting", mime_type="text/plain")
def greeting() -> str:
    """A fixed text."""
    return "good day"


@server.resource("crib://logo", mime_type="image/png")
def logo() -> bytes:
    """A fixed picture."""
    return PNG


@server.resource("crib://counter", mime_type="text/plain")
def counter() -> str:
    """How often `touch` ran."""
    return str(state["counter"])


@server.resource("crib://plot/{name}", mime_type="application/json")
def plot(name: str) -> dict[str, str]:
    """A plot by name."""
    return {"plot": name}


@server.prompt
def explain(topic: str, tone: str = "kind") -> str:
    """Explain a topic."""
    return f"Explain {topic} in a {tone} tone."


@server.completion("explain", "topic")
def topics(value: str) -> list[str]:
    return [topic for topic in TOPICS if topic.startswith(value)]


@server.completion("explain", "tone")
def tones(value: str, known: dict[str, str]) -> list[str]:
    return [f"{known.get('topic', 'none')}-{value}"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=["stdio", "http", "sse"], default="stdio")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    if options.transport == "stdio":
        server.run("stdio")
        return
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.run(options.transport, port=options.port)


if __name__ == "__main__":
    main()
