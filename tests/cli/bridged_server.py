"""A tool server with something of everything, to be put behind a bridge: python bridged_server.py [JOURNAL]

What happened to its calls is written to the journal, for those who cannot ask it any more.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import toolcrib as tc

journal = Path(sys.argv[1] if len(sys.argv) > 1 else os.devnull)
server = tc.ToolServer("crib", "2.1", title="The Crib", instructions="Mind the step.")


def note(step: str) -> None:
    with journal.open("a") as file:
        file.write(f"{step}\n")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def pid() -> int:
    return os.getpid()


@server.tool
def die() -> None:
    os._exit(3)


@server.tool
def refuse() -> None:
    raise tc.RemoteError(-31999, "not today", {"why": "rain"})


@server.tool
async def count(steps: int, ctx: tc.Context) -> str:
    for step in range(1, steps + 1):
        await ctx.progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool
async def chatter(ctx: tc.Context) -> str:
    await ctx.debug("low")
    await ctx.warning("high")
    return "said"


@server.tool
async def nap(ctx: tc.Context) -> None:
    await ctx.progress(1)
    note("nap began")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        note("nap cancelled")
        raise


@server.tool
async def ask_user(question: str, ctx: tc.Context) -> str:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    said = await ctx.elicit(question, schema)
    return f"{question} {said.action} {(said.content or {}).get('name')}"


@server.tool
async def ask_page(ctx: tc.Context) -> str:
    return (await ctx.elicit_url("sign in", "https://example.com/sign-in")).action


@server.tool
async def ask_model(ctx: tc.Context) -> str:
    return (await ctx.sample("what is it?")).text


@server.tool
async def ask_roots(ctx: tc.Context) -> str:
    return " ".join(root.uri for root in await ctx.roots())


@server.tool
def capabilities(ctx: tc.Context) -> list[str]:
    return sorted(ctx.client_capabilities)


@server.tool
def grow() -> None:
    server.add_tool(add, name="grown")


@server.tool
def touch() -> None:
    server.notify_resource_updated("crib://plot")


@server.resource("crib://plot")
def plot() -> str:
    return "a plot"


@server.prompt
def explain(topic: str) -> str:
    return f"Explain {topic}."


@server.completion("explain", "topic")
def topics(value: str) -> list[str]:
    return [topic for topic in ("apples", "bees") if topic.startswith(value)]


if __name__ == "__main__":
    note(f"began {os.getpid()}")
    server.run()
