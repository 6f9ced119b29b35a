"""An agent on Anthropic's Messages API, without an SDK: a model, the tools of a hub, and the loop between them.

ANTHROPIC_API_KEY=... python examples/anthropic_agent.py "How much is 20 plus 22?"
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp

import toolcrib as tc
from toolcrib.adapters import anthropic_messages

URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"
MODEL = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5")
HEADERS = {"x-api-key": os.environ.get("ANTHROPIC_API_KEY", ""), "anthropic-version": "2023-06-01"}
MAX_TURNS = 20


async def ask(session: aiohttp.ClientSession, messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    """Send the conversation to the model and return its answer."""
    body = {"model": MODEL, "max_tokens": 4096, "messages": messages, "tools": tools}
    async with session.post(URL, json=body, headers=HEADERS) as response:
        answer: dict[str, Any] = await response.json()
        if response.status != 200:
            raise SystemExit(f"the model API answered {response.status}: {answer}")
        return answer


async def main(question: str) -> None:
    demo = tc.StdioServer(sys.executable, [str(Path(__file__).with_name("demo_server.py"))])
    messages: list[Any] = [{"role": "user", "content": question}]
    async with tc.Hub({"demo": demo}, on_error="raise") as hub, aiohttp.ClientSession() as session:
        for _ in range(MAX_TURNS):
            tools = anthropic_messages.tools(hub, read_more=True)
            answer = await ask(session, messages, tools)
            messages.append({"role": "assistant", "content": answer["content"]})
            for block in answer["content"]:
                print(block["text"] if block["type"] == "text" else f"({block['type']} {block.get('name', '')})")
            if answer["stop_reason"] != "tool_use":
                return
            results = await anthropic_messages.results(hub, answer, timeout=60, max_result_tokens=10_000)
            messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "How much is 20 plus 22?"))
