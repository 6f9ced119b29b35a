"""A server with everything, on the `mcp` SDK 2.x: both eras on one stdio, chosen by the client's first request."""

from __future__ import annotations

import base64
import logging
import warnings
from typing import Annotated, Any

import anyio
import mcp_types as t
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.server.mcpserver.utilities.types import Image
from pydantic import BaseModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
LEVELS = ("debug", "info", "warning", "error")
TOPICS = ["apples", "apricots", "bees", "beans"]

# Logging and push notifications are deprecated in the newest revision, and still what this server shows.
warnings.simplefilter("ignore")

server = MCPServer("sdk2-crib", version="2.0", instructions="A server to try things on.", log_level="ERROR")
lowlevel = server._lowlevel_server
naps: list[str] = []
watched: set[str] = set()
state = {"counter": 0}
logs = {"level": "debug"}
FIRST_MODERN = "2026-07-28"


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
    """A list, wrapped on the older wire."""
    return list(range(count))


@server.tool()
def fail(message: str) -> str:
    """Always fails."""
    raise ValueError(message)


@server.tool(structured_output=False)
def showcase() -> list[Any]:
    """One block of each kind."""
    return [
        t.TextContent(type="text", text="first"),
        Image(data=PNG, format="png"),
        t.AudioContent(type="audio", data=base64.b64encode(b"RIFF").decode(), mime_type="audio/wav"),
        t.ResourceLink(type="resource_link", uri="crib://greeting", name="greeting"),
        t.EmbeddedResource(
            type="resource", resource=t.TextResourceContents(uri="crib://inside", text="inside", mime_type="text/plain")
        ),
    ]


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Report progress at each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool()
async def chatter(words: list[str], ctx: Context) -> str:
    """Log each word, at rising levels, from the level that the client requested."""
    for level, word in zip(LEVELS, words, strict=False):
        if LEVELS.index(level) >= LEVELS.index(logs["level"]):
            await ctx.log(level, word, logger_name="crib")
    return "said"


def model_answer(prompt: str) -> Sample:
    return Sample(
        [t.SamplingMessage(role="user", content=t.TextContent(type="text", text=prompt))],
        max_tokens=64,
        system_prompt="Be brief.",
    )


@server.tool()
async def ask_model(prompt: str, answer: Annotated[t.CreateMessageResult, Resolve(model_answer)]) -> str:
    """Request an answer from the client's model."""
    return f"{answer.model} said {getattr(answer.content, 'text', '')}"


def person(question: str) -> Elicit[Person]:
    return Elicit(question, Person)


@server.tool()
async def ask_user(question: str, answer: Annotated[ElicitationResult[Person], Resolve(person)]) -> str:
    """Ask the user of the client."""
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


def interviewee() -> Elicit[Person]:
    return Elicit("name?", Person)


def favourite(who: Annotated[Person, Resolve(interviewee)]) -> Elicit[Colour]:
    return Elicit("colour?", Colour)


@server.tool()
async def interview(who: Annotated[Person, Resolve(interviewee)], what: Annotated[Colour, Resolve(favourite)]) -> str:
    """Two questions, one after the other: two rounds on the modern wire."""
    return f"{who.name} likes {what.colour}"


def client_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def roots(answer: Annotated[t.ListRootsResult, Resolve(client_roots)]) -> list[str]:
    """The roots that the client offers."""
    return [str(root.uri) for root in answer.roots]


@server.tool()
async def nap(seconds: float, ctx: Context) -> str:
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
async def detach(ctx: Context) -> str:
    """Close this call's stream, then go on: with an event store, the client can get the rest later."""
    await ctx.report_progress(1, 2, "before")
    await ctx.close_sse_stream()
    await ctx.report_progress(2, 2, "after")
    return "finished apart"


@server.tool()
async def grow(ctx: Context) -> str:
    """Add the tool `bloom` and announce that the list changed."""
    server.add_tool(lambda: "bloom", name="bloom", description="Grown at run time.")
    await tools_changed(ctx)
    return "grown"


@server.tool()
async def cut(ctx: Context) -> str:
    """Remove the tool `bloom` again."""
    server.remove_tool("bloom")
    await tools_changed(ctx)
    return "cut"


async def tools_changed(ctx: Context) -> None:
    await ctx.notify_tools_changed()
    if (ctx.protocol_version or "") < FIRST_MODERN:
        await ctx.session.send_tool_list_changed()


@server.tool()
async def touch(ctx: Context) -> int:
    """Change crib://counter and notify its subscribers."""
    state["counter"] += 1
    await ctx.notify_resource_updated("crib://counter")
    if "crib://counter" in watched:
        await ctx.session.send_resource_updated("crib://counter")
    return state["counter"]


@server.tool()
def hang_up() -> str:
    """End every subscription in good order, as a server that sheds load does."""
    entry = lowlevel.get_request_handler("subscriptions/listen")
    assert entry is not None
    entry.handler.close()
    return "hung up"


async def on_subscribe(ctx: Any, params: t.SubscribeRequestParams) -> t.EmptyResult:
    watched.add(str(params.uri))
    return t.EmptyResult()


async def on_unsubscribe(ctx: Any, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
    watched.discard(str(params.uri))
    return t.EmptyResult()


async def on_level(ctx: Any, params: t.SetLevelRequestParams) -> t.EmptyResult:
    logs["level"] = params.level
    return t.EmptyResult()


# MCPServer has no door for the legacy era's subscriptions and log level; its low-level server has.
lowlevel.add_request_handler("resources/subscribe", t.SubscribeRequestParams, on_subscribe)
lowlevel.add_request_handler("resources/unsubscribe", t.UnsubscribeRequestParams, on_unsubscribe)
lowlevel.add_request_handler("logging/setLevel", t.SetLevelRequestParams, on_level)


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
async def complete(ref: Any, argument: Any, context: Any) -> t.Completion | None:
    if argument.name == "topic":
        return t.Completion(values=[topic for topic in TOPICS if topic.startswith(argument.value)], has_more=False)
    if argument.name == "tone":
        chosen = (context.arguments or {}).get("topic", "none") if context else "none"
        return t.Completion(values=[f"{chosen}-{argument.value}"], total=1)
    return None


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    server.run("stdio")
