"""A server with everything, on FastMCP 4: both eras on one stdio, chosen by the client's first request."""

from __future__ import annotations

import base64
import warnings
from typing import Any

import anyio
import mcp_types as t
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool
from fastmcp.utilities.types import Image
from pydantic import BaseModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
TOPICS = ["apples", "apricots", "bees", "beans"]

# Logging and push notifications are deprecated in the newest revision, and still what this server shows.
warnings.simplefilter("ignore")

server = FastMCP("fastmcp4-crib", version="4.0", instructions="A server to try things on.")
naps: list[str] = []
state = {"counter": 0}


class Forecast(BaseModel):
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


@server.tool(output_schema=None)
def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


@server.tool
def forecast(city: str) -> Forecast:
    """A structured result."""
    return Forecast(city=city, degrees=21.5)


@server.tool
def numbers(count: int) -> list[int]:
    """A list, wrapped on the older wire."""
    return list(range(count))


@server.tool
def fail(message: str) -> str:
    """Always fails."""
    raise ToolError(message)


@server.tool(output_schema=None)
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


@server.tool
async def count(steps: int, ctx: Context) -> str:
    """Report progress at each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool
async def chatter(words: list[str], ctx: Context) -> str:
    """Log each word, at rising levels."""
    for level, word in zip(("debug", "info", "warning", "error"), words, strict=False):
        await ctx.log(word, level=level, logger_name="crib")
    return "said"


def is_modern(ctx: Context) -> bool:
    return ctx._is_modern_protocol()


def form(message: str, schema: type[BaseModel]) -> t.ElicitRequest:
    return t.ElicitRequest(
        params=t.ElicitRequestFormParams(message=message, requested_schema=schema.model_json_schema())
    )


@server.tool
async def ask_model(prompt: str, ctx: Context) -> str | t.InputRequiredResult:
    """Request an answer from the client's model."""
    message = t.SamplingMessage(role="user", content=t.TextContent(type="text", text=prompt))
    if is_modern(ctx):
        answer: Any = (ctx.input_responses or {}).get("model")
        if answer is None:
            wanted = t.CreateMessageRequestParams(messages=[message], max_tokens=64, system_prompt="Be brief.")
            return t.InputRequiredResult(input_requests={"model": t.CreateMessageRequest(params=wanted)})
    else:
        answer = await ctx.session.create_message(messages=[message], max_tokens=64, system_prompt="Be brief.")
    return f"{answer.model} said {getattr(answer.content, 'text', '')}"


@server.tool
async def ask_user(question: str, ctx: Context) -> str | t.InputRequiredResult:
    """Ask the user of the client."""
    if not is_modern(ctx):
        got = await ctx.elicit(question, Person)
        return f"hello {got.data.name}" if got.action == "accept" else got.action
    answer: Any = (ctx.input_responses or {}).get("person")
    if answer is None:
        return t.InputRequiredResult(input_requests={"person": form(question, Person)})
    return f"hello {answer.content['name']}" if answer.action == "accept" else str(answer.action)


@server.tool
async def interview(ctx: Context) -> str | t.InputRequiredResult:
    """Two questions, one after the other: two rounds on the modern wire, the first answer kept in the state."""
    if not is_modern(ctx):
        who, what = await ctx.elicit("name?", Person), await ctx.elicit("colour?", Colour)
        return f"{who.data.name} likes {what.data.colour}"
    answers: Any = ctx.input_responses or {}
    if "name" in answers:
        return t.InputRequiredResult(
            input_requests={"colour": form("colour?", Colour)}, request_state=answers["name"].content["name"]
        )
    if "colour" in answers:
        return f"{ctx.request_state} likes {answers['colour'].content['colour']}"
    return t.InputRequiredResult(input_requests={"name": form("name?", Person)})


@server.tool
async def roots(ctx: Context) -> list[str] | t.InputRequiredResult:
    """The roots that the client offers."""
    if is_modern(ctx):
        answer: Any = (ctx.input_responses or {}).get("roots")
        if answer is None:
            return t.InputRequiredResult(input_requests={"roots": t.ListRootsRequest()})
    else:
        answer = await ctx.session.list_roots()
    return [str(root.uri) for root in answer.roots]


@server.tool
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


@server.tool
def nap_log() -> list[str]:
    """How the naps ended."""
    return naps


@server.tool
async def detach(ctx: Context) -> str:
    """Close this call's stream, then go on: with an event store, the client can get the rest later."""
    await ctx.report_progress(1, 2, "before")
    await ctx.close_sse_stream()
    await ctx.report_progress(2, 2, "after")
    return "finished apart"


def bloom() -> str:
    """A tool that was added at run time."""
    return "bloom"


@server.tool
async def grow(ctx: Context) -> str:
    """Add the tool `bloom` and announce that the list changed."""
    server.add_tool(Tool.from_function(bloom))
    await ctx.send_notification(t.ToolListChangedNotification())
    return "grown"


@server.tool
async def cut(ctx: Context) -> str:
    """Remove the tool `bloom` again."""
    server.local_provider.remove_tool("bloom")
    await ctx.send_notification(t.ToolListChangedNotification())
    return "cut"


@server.tool
async def touch(ctx: Context) -> int:
    """Change crib://counter; FastMCP has no subscriptions, so it notifies every client."""
    state["counter"] += 1
    await ctx.send_notification(
        t.ResourceUpdatedNotification(params=t.ResourceUpdatedNotificationParams(uri="crib://counter"))
    )
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


@server.completion
async def complete(ref: Any, argument: Any, context: Any) -> t.Completion | None:
    if argument.name == "topic":
        return t.Completion(values=[topic for topic in TOPICS if topic.startswith(argument.value)], has_more=False)
    if argument.name == "tone":
        chosen = (context.arguments or {}).get("topic", "none") if context else "none"
        return t.Completion(values=[f"{chosen}-{argument.value}"], total=1)
    return None


if __name__ == "__main__":
    server.run("stdio", show_banner=False)
