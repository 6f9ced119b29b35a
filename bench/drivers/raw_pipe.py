"""asyncio's subprocess streams with a reader task and one drain per call; no time-outs, states or types."""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bare_descriptors import INFO, META
from measure import Child, Session, drive
from orjson import dumps, loads


@asynccontextmanager
async def open_session(child: Child) -> AsyncIterator[Session]:
    loop = asyncio.get_running_loop()
    process = await asyncio.create_subprocess_exec(child.command, *child.args, stdin=PIPE, stdout=PIPE)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None
    waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
    last_id = 0

    async def send(message: dict[str, Any]) -> None:
        stdin.write(dumps(message) + b"\n")
        await stdin.drain()

    async def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
        nonlocal last_id
        last_id += 1
        future = waiting[last_id] = loop.create_future()
        await send({"jsonrpc": "2.0", "id": last_id, "method": method, "params": params})
        return await future

    async def read() -> None:
        while line := await stdout.readline():
            message = loads(line)
            waiting.pop(message["id"]).set_result(message["result"])

    reader = asyncio.create_task(read())
    meta = {"_meta": META} if child.mode == "auto" else {}
    if meta:
        await request("server/discover", meta)
    else:
        await request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO})
        await send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(text: str) -> str:
        result = await request("tools/call", {"name": "echo", "arguments": {"text": text}, **meta})
        answer: str = result["content"][0]["text"]
        return answer

    yield Session(lambda: request("tools/list", meta), call)
    stdin.close()
    await reader
    await process.wait()


if __name__ == "__main__":
    drive(open_session)
