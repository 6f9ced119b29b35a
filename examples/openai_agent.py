"""An agent on OpenAI's Responses API, without an SDK: a model, the tools of a hub, and the loop between them.

OPENAI_API_KEY=... python examples/openai_agent.py "How much is 20 plus 22?"
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp

import toolcrib as tc
from toolcrib.adapters import openai_responses

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/responses"
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5.4")
HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
MAX_TURNS = 20


async def ask(session: aiohttp.ClientSession, items: list[Any], tools: list[Any]) -> dict[str, Any]:
    """Send the conversation to the model and return its answer."""
    body = {"model": MODEL, "input": items, "tools": tools, "store": False, "include": ["reasoning.encrypted_content"]}
    async with session.post(URL, json=body, headers=HEADERS) as response:
        answer: dict[str, Any] = await response.json()
        if response.status != 200:
            raise SystemExit(f"the model API answered {response.status}: {answer}")
        return answer


async def main(question: str) -> None:
    demo = tc.StdioServer(sys.executable, [str(Path(__file__).with_name("demo_server.py"))])
    items: list[Any] = [{"role": "user", "content": question}]
    async with tc.Hub({"demo": demo}, on_error="raise") as hub, aiohttp.ClientSession() as session:
        for _ in range(MAX_TURNS):
            answer = await ask(session, items, openai_responses.tools(hub, strict=True, read_more=True))
            items += answer["output"]
            for item in answer["output"]:
                for part in item.get("content", []) if item["type"] == "message" else []:
                    print(part.get("text", ""))
                if item["type"] == "function_call":
                    print(f"(function_call {item['name']})")
            results = await openai_responses.results(hub, answer, timeout=60, max_result_tokens=10_000)
            if not results:
                return
            items += results


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "How much is 20 plus 22?"))
