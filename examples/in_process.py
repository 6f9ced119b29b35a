"""A client and a server in one process: a call needs no child process, no socket and no JSON."""

from __future__ import annotations

import asyncio
import json
import time

from tool_server import server

import toolcrib as tc


def row(what: object, happened: object) -> None:
    print(f"  {what!s:<12}{happened}")


def answer(request: tc.ElicitRequest) -> dict[str, bool]:
    row("(asked)", request.message)
    return {"ok": True}


async def main() -> None:
    async with tc.Client(
        server, elicitation_handler=answer, log_handler=lambda line: row("(log)", line.data)
    ) as client:
        for tool in await client.list_tools():
            row(tool.name, tool.description)

        print("Calls")
        row("add", (await client.call_tool("add", {"a": 2, "b": 3})).data)
        row("crawl", (await client.call_tool("crawl", {"url": "/", "depth": 3})).data)
        (picture,) = (await client.call_tool("plot", {"values": [1, 2, 3]})).content
        row("plot", picture)
        row("count", (await client.call_tool("count", {"by": 2})).text)

        print("Invalid arguments")
        row("add", (await client.call_tool("add", {"a": 2, "c": 3})).text)

        print("Resources and prompts")
        row("config", (await client.read_resource("config://app")).text)
        row("explain", (await client.get_prompt("explain", {"topic": "MCP"})).text)
        row("complete", (await client.complete({"type": "ref/prompt", "name": "explain"}, "to", "a c")).values)

        print("JSON-RPC")
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "now"}}
        row("keys", sorted(json.loads(json.dumps(await server.handle(request)))["result"]))

        began, count = time.perf_counter(), 2000
        for _ in range(count):
            await client.call_tool("add", {"a": 2, "b": 3})
        row("speed", f"{(time.perf_counter() - began) / count * 1e6:.0f} us for a call")


if __name__ == "__main__":
    asyncio.run(main())
