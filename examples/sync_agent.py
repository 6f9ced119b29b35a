"""The loop of an agent without `async`: a model chooses tools, the hub calls them, and the model gets the results.

The model here is a function of a few lines, so the example needs no account and no package. A real model takes the same
input: the tools and the messages.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import toolcrib as tc
from toolcrib.sync import Hub

Message = dict[str, Any]
SHOP = tc.ToolServer("shop")
STOCK = {"apple": 3, "pear": 0}


@SHOP.tool
def stock(fruit: str) -> int:
    """Return how many pieces of a fruit are in stock."""
    if fruit not in STOCK:
        raise tc.ToolFailed(f"unknown fruit: {fruit}; known: {', '.join(STOCK)}")
    return STOCK[fruit]


def model(messages: list[Message], tools: list[tc.Tool]) -> Message:
    """Choose a tool, correct a call that failed, and answer with the sum in the end."""
    names = {tool.original_name: tool.name for tool in tools}
    answers = [block for message in messages if message["role"] == "tool" for block in message["content"]]
    said = [answer["content"][0]["text"] for answer in answers]

    def call(tool: str, arguments: dict[str, Any]) -> Message:
        return {"role": "assistant", "call": {"id": f"call-{len(answers)}", "name": names[tool], "input": arguments}}

    match [answer["status"] for answer in answers]:
        case []:
            return call("stock", {"fruit": "apples"})
        case [*_, "error"]:
            return call("stock", {"fruit": "apple"})
        case ["error", "success"]:
            return call("add", {"a": int(said[-1]), "b": 4})
        case _:
            return {"role": "assistant", "text": f"There will be {json.loads(said[-1])['sum']} apples."}


def main() -> None:
    demo = tc.StdioServer(sys.executable, [str(Path(__file__).with_name("demo_server.py"))])
    with Hub({"shop": SHOP, "demo": demo}) as hub:
        tools = hub.list_tools()
        print(f"{len(tools)} tools: {', '.join(tool.name for tool in tools)}\n")
        messages: list[Message] = [{"role": "user", "text": "How many apples will there be, if I bring four?"}]
        print(f"user   {messages[0]['text']}")
        while "text" not in (said := model(messages, tools)):
            call = said["call"]
            print(f"model  {call['name']} {call['input']}")
            result = hub.call_tool(call["name"], call["input"]).to_tool_result(call["id"])
            print(f"tool   {result['status']}: {result['content'][0]['text']}")
            messages += [said, {"role": "tool", "content": [result]}]
        print(f"model  {said['text']}")


if __name__ == "__main__":
    main()
