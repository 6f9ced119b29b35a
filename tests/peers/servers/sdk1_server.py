"""A server with everything, on the `mcp` SDK 1.x: the legacy era's reference peer. Runs on stdio.

With an argument, a protocol revision, it serves only that one, as the SDK's releases of that time did.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import anyio
import mcp.server.session
import mcp.types
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import (
    Completion,
    EmbeddedResource,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import AnyUrl, BaseModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
LEVELS = ("debug", "info", "warning", "error")
TOPICS = ["apples", "apricots", "bees", "beans"]

server = FastMCP("sdk1-crib", instructions="A server to try things on.", log_level="ERROR")
lowlevel = server._mcp_server
naps: list[str] = []
watched: set[str] = set()
state = {"counter": 0}
logs = {"level": "debug"}


class Forecast(BaseModel):
    city: str
    degrees: float


class Person(BaseModel):
    name: str


class Colour(BaseModel):
    colour: str


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


@server.tool()
def forecast(city: str) -> Forecast:
    """A structured result."""
    return Forecast(city=city, degrees=21.5)


@server.tool()
def numbers(count: int) -> list[int]:
    """A list, wrapped on the wire."""
    return list(range(count))


@server.tool()
def fail(message: str) -> str:
    """Always fails."""
    raise ValueError(message)


@server.tool(structured_output=False)
def showcase() -> list[Any]:
    """One block of each kind."""
    return [
        TextContent(type="text", text="first"),
        Image(data=PNG, format="png"),
        ResourceLink(type="resource_link", uri=AnyUrl("crib://greeting"), name="greeting"),
        EmbeddedResource(
            type="resource",
            resource=TextResourceContents(uri=AnyUrl("crib://inside"), text="inside", mimeType="text/plain"),
        ),
    ]


@server.tool()
async def count(steps: int, ctx: Context[Any, Any, Any]) -> str:
    """Report progress at each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool()
async def chatter(words: list[str], ctx: Context[Any, Any, Any]) -> str:
    """Log each word, at rising levels, from the level that the client requested."""
    for level, word in zip(LEVELS, words, strict=False):
        if LEVELS.index(level) >= LEVELS.index(logs["level"]):
            await ctx.log(level, word, logger_name="crib")
    return "said"


@server.tool()
async def ask_model(prompt: str, ctx: Context[Any, Any, Any]) -> str:
    """Request an answer from the client's model."""
    answer = await ctx.session.create_message(
        messages=[SamplingMessage(role="user", content=TextContent(type="text", text=prompt))],
        max_tokens=64,
        system_prompt="Be brief.",
        related_request_id=ctx.request_id,
    )
    assert isinstance(answer.content, TextContent)
    return f"{answer.model} said {answer.content.text}"


@server.tool()
async def ask_user(question: str, ctx: Context[Any, Any, Any]) -> str:
    """Ask the user of the client."""
    answer = await ctx.elicit(question, Person)
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool()
async def interview(ctx: Context[Any, Any, Any]) -> str:
    """Two questions, one after the other."""
    who = await ctx.elicit("name?", Person)
    what = await ctx.elicit("colour?", Colour)
    if who.action != "accept" or what.action != "accept":
        return "refused"
    return f"{who.data.name} likes {what.data.colour}"


@server.tool()
async def roots(ctx: Context[Any, Any, Any]) -> list[str]:
    """The roots that the client offers."""
    answer = await ctx.session.list_roots()
    return [str(root.uri) for root in answer.roots]


@server.tool()
async def nap(seconds: float, ctx: Context[Any, Any, Any]) -> str:
    """Sleep, report progress, and record how the call ended."""
    naps.append("started")
    await ctx.report_progress(0, seconds, "asleep")
    try:
        await anyio.sleep(seconds)
    except BaseException:
        naps.append("cancelled")
        raise
    naps.append("rested")
    return "rested"


@server.tool()
def nap_log() -> list[str]:
    """How the naps ended."""
    return naps


@server.tool()
async def detach(ctx: Context[Any, Any, Any]) -> str:
    """Close this call's stream, then go on: with an event store, the client can get the rest later."""
    await ctx.report_progress(1, 2, "before")
    await ctx.close_sse_stream()
    await ctx.report_progress(2, 2, "after")
    return "finished apart"


@server.tool()
async def grow(ctx: Context[Any, Any, Any]) -> str:
    """Add the tool `bloom` and announce that the list changed."""
    server.add_tool(lambda: "bloom", name="bloom", description="Grown at run time.")
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def cut(ctx: Context[Any, Any, Any]) -> str:
    """Remove the tool `bloom` again."""
    server.remove_tool("bloom")
    await ctx.session.send_tool_list_changed()
    return "cut"


@server.tool()
async def touch(ctx: Context[Any, Any, Any]) -> int:
    """Change crib://counter and notify its subscribers."""
    state["counter"] += 1
    if "crib://counter" in watched:
        await ctx.session.send_resource_updated(AnyUrl("crib://counter"))
    return state["counter"]


@lowlevel.subscribe_resource()
async def on_subscribe(uri: AnyUrl) -> None:
    watched.add(str(uri))


@lowlevel.unsubscribe_resource()
async def on_unsubscribe(uri: AnyUrl) -> None:
    watched.discard(str(uri))


@lowlevel.set_logging_level()
async def on_level(level: str) -> None:
    logs["level"] = level


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


@server.prompt()
def explain(topic: str, tone: str = "kind") -> str:
    """Explain a topic."""
    return f"Explain {topic} in a {tone} tone."


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
    if argument.name == "topic":
        return Completion(values=[t for t in TOPICS if t.startswith(argument.value)], hasMore=False)
    if argument.name == "tone":
        chosen = (context.arguments or {}).get("topic", "none") if context else "none"
        return Completion(values=[f"{chosen}-{argument.value}"], total=1)
    return None


def serve_only(revision: str) -> None:
    mcp.types.LATEST_PROTOCOL_VERSION = revision
    mcp.server.session.SUPPORTED_PROTOCOL_VERSIONS = [revision]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_only(sys.argv[1])
    server.run("stdio")
