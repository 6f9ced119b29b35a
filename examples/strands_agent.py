"""An agent of Strands with the tools of two servers. Needs `pip install strands-agents` and access to Amazon Bedrock.

A test runs it against a local HTTP server that speaks Bedrock's Converse API (AWS_ENDPOINT_URL_BEDROCK_RUNTIME).
"""

from __future__ import annotations

import sys
from pathlib import Path

from strands import Agent
from strands.hooks import AfterToolCallEvent
from strands.models import BedrockModel

import toolcrib as tc
from toolcrib.adapters import strands
from toolcrib.sync import Hub

SHOP = tc.ToolServer("shop")
STOCK = {"apple": 3, "pear": 0}


@SHOP.tool
def stock(fruit: str) -> int:
    """Return how many pieces of a fruit are in stock."""
    if fruit not in STOCK:
        raise tc.ToolFailed(f"unknown fruit: {fruit}; known: {', '.join(STOCK)}")
    return STOCK[fruit]


def show(event: AfterToolCallEvent) -> None:
    """Print a call of the model, and its result."""
    print(f"model  {event.tool_use['name']} {event.tool_use['input']}")
    print(f"tool   {event.result['status']}: {event.result['content'][0]['text']}")


def main() -> None:
    demo = tc.StdioServer(sys.executable, [str(Path(__file__).with_name("demo_server.py"))])
    question = "How many apples will there be, if I bring four?"
    # A hub without `async`, since a call of the agent runs an event loop of its own.
    with Hub({"shop": SHOP, "demo": demo}) as hub:
        agent = Agent(model=BedrockModel(streaming=False), tools=strands.tools(hub), callback_handler=None)
        agent.add_hook(show, AfterToolCallEvent)
        print(f"user   {question}")
        print(f"model  {str(agent(question)).strip()}")


if __name__ == "__main__":
    main()
