"""A small request handler for the tests of the endpoints, and a program that serves it on stdio."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from toolcrib.errors import RemoteError
from toolcrib.protocol.metadata import PROGRESS_TOKEN
from toolcrib.server.handler import Deliver, Peer, RequestContext
from toolcrib.server.serving.stdio import serve_stdio

Wire = dict[str, Any]
INFO = {"name": "bench", "version": "1"}
MARK = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
TOOLS = (
    "add",
    "ask",
    "ask_twice",
    "tell",
    "hold",
    "break",
    "refuse",
    "need",
    "odd",
    "cancel",
    "quit",
    "noise",
    "big",
    "who",
)
NOISE = "echo child noise"


def text(value: Any) -> Wire:
    return {"content": [{"type": "text", "text": str(value)}]}


class BenchWatch:
    def __init__(self, bench: Bench, wanted: Wire, deliver: Deliver) -> None:
        self.accepted = {name: value for name, value in wanted.items() if name != "promptsListChanged"}
        if "resourceSubscriptions" in wanted:
            self.accepted["resourceSubscriptions"] = [u for u in wanted["resourceSubscriptions"] if "lost" not in u]
        self.deliver = deliver
        self._bench = bench

    async def close(self) -> None:
        self._bench.watches.remove(self)


class Bench:
    """Tools that do what an endpoint must handle, and a record of their outcomes."""

    def __init__(self, **capabilities: Any) -> None:
        self.capabilities = capabilities or {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True},
            "logging": {},
        }
        self.ran: list[str] = []
        self.cancelled: list[str] = []
        self.failures: list[RemoteError] = []
        self.exchanges: list[RequestContext] = []
        self.watches: list[BenchWatch] = []
        self.early: tuple[str, Wire] | None = None
        self.gate = asyncio.Event()

    def describe(self, peer: Peer) -> Wire:
        return {"serverInfo": INFO, "capabilities": self.capabilities, "instructions": "be kind"}

    def may_ask(self, method: str, params: Wire) -> bool:
        return params.get("name") in ("ask", "ask_twice", "tell", "hold", "cancel", "quit")

    def mirrored(self, tool: str) -> tuple[()]:
        return ()

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> BenchWatch:
        watch = BenchWatch(self, wanted, deliver)
        self.watches.append(watch)
        if self.early is not None:
            deliver(*self.early)
        await asyncio.sleep(0)
        return watch

    def publish(self, method: str, **params: Any) -> None:
        for watch in self.watches:
            watch.deliver(method, params)

    async def answer(self, method: str, params: Wire, exchange: RequestContext) -> Wire:
        self.exchanges.append(exchange)
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            return {"tools": tools, "ttlMs": 5, "cacheScope": "public"}
        if method == "resources/read":
            raise RemoteError(-32002, "Resource not found", {"uri": params.get("uri")})
        if method != "tools/call" or params.get("name") not in TOOLS:
            raise RemoteError(-32601, f"Method not found: {method}")
        name, arguments = params["name"], params.get("arguments", {})
        self.ran.append(name)
        try:
            return await getattr(self, f"_{name}")(arguments, exchange)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        except RemoteError as exc:
            self.failures.append(exc)
            raise

    async def _add(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        return text(arguments["a"] + arguments["b"])

    async def _ask(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        return text(await exchange.back_channel.ask("elicitation/create", {"message": "Well?"}, "well"))

    async def _ask_twice(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        ask = exchange.back_channel.ask
        both = await asyncio.gather(ask("roots/list", {}, "a"), ask("elicitation/create", {"message": "?"}, "b"))
        return text(list(both))

    async def _tell(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        token = exchange.meta.get(PROGRESS_TOKEN)
        for progress in range(arguments.get("times", 2)):
            await exchange.back_channel.notify("notifications/progress", {PROGRESS_TOKEN: token, "progress": progress})
        return text("told")

    async def _hold(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            await exchange.back_channel.notify("notifications/message", {"level": "info", "data": "too late"})
            raise
        return text("held")

    async def _break(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        raise ValueError("the secret is 4711")

    async def _refuse(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        raise RemoteError(-32602, "no", {"why": "because"})

    async def _need(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        raise RemoteError(-32021, "needs sampling", {"requiredCapabilities": {"sampling": {}}})

    async def _odd(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        return text("odd") | {"structuredContent": {"value": object()}}

    async def _cancel(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        raise asyncio.CancelledError

    async def _quit(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        raise GeneratorExit

    async def _noise(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        """Write everything that could disturb a stream of messages."""
        print("printed noise")
        sys.__stdout__.write("buffered noise\n")  # type: ignore[union-attr]
        os.write(1, b"raw noise\n")
        subprocess.run(NOISE, shell=True, check=True)
        return text(repr(sys.stdin.read()) + repr(os.read(0, 100)))

    async def _big(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        return text("x" * arguments["size"])

    async def _who(self, arguments: Mapping[str, Any], exchange: RequestContext) -> Wire:
        return text([exchange.peer.principal, exchange.peer.session, exchange.headers.get("user-agent")])


async def main() -> None:
    print("noise of a module that is being imported")
    await serve_stdio(Bench())


if __name__ == "__main__":
    asyncio.run(main())
