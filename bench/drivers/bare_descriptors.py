"""System calls on bare file descriptors: no asyncio streams, back-pressure, time-outs, states or typed results.

Each call is one `os.write`. Collecting lines for one write per loop iteration would save system calls but leave the
server idle meanwhile: one write per call is faster if client and server have a processor each, and a sequential
client has nothing to collect.
"""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from measure import Child, Session, drive
from orjson import dumps, loads

INFO = {"name": "raw", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": INFO,
}


class Pipe:
    def __init__(self, child: Child) -> None:
        self.loop = asyncio.get_running_loop()
        self.process = subprocess.Popen(
            [child.command, *child.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin = self.process.stdin.fileno()
        self.stdout = self.process.stdout.fileno()
        os.set_blocking(self.stdin, False)
        os.set_blocking(self.stdout, False)
        self.loop.add_reader(self.stdout, self.read)
        self.waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.rest = b""
        self.last_id = 0

    def request(self, method: str, params: dict[str, Any]) -> "asyncio.Future[dict[str, Any]]":
        self.last_id += 1
        future = self.waiting[self.last_id] = self.loop.create_future()
        self.write({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return future

    def write(self, message: dict[str, Any]) -> None:
        line = dumps(message) + b"\n"
        # Good enough for a lower bound: the calls in flight always fit into the pipe.
        if os.write(self.stdin, line) != len(line):
            raise BufferError("the pipe is full: use a smaller --in-flight")

    def read(self) -> None:
        *lines, self.rest = (self.rest + os.read(self.stdout, 1 << 18)).split(b"\n")
        for line in lines:
            message = loads(line)
            self.waiting.pop(message["id"]).set_result(message["result"])

    def close(self) -> None:
        self.loop.remove_reader(self.stdout)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@asynccontextmanager
async def open_session(child: Child) -> AsyncIterator[Session]:
    pipe = Pipe(child)
    # Sends the same bytes as the other clients: in the modern era every request carries metadata.
    meta = {"_meta": META} if child.mode == "auto" else {}
    try:
        if meta:
            await pipe.request("server/discover", meta)
        else:
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
            await pipe.request("initialize", hello)
            pipe.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

        async def call(text: str) -> str:
            result = await pipe.request("tools/call", {"name": "echo", "arguments": {"text": text}, **meta})
            answer: str = result["content"][0]["text"]
            return answer

        yield Session(lambda: pipe.request("tools/list", meta), call)
    finally:
        pipe.close()


if __name__ == "__main__":
    drive(open_session)
