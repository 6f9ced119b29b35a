"""An HTTP endpoint without a socket, and requests to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from tests.unit.kit import eventually
from tests.unit.server.serving.answering import MARK, Bench, text
from tests.unit.server.serving.asgi_kit import In, Out, scope
from toolcrib.protocol.param_headers import Declaration
from toolcrib.server.handler import RequestContext
from toolcrib.server.serving.security import RequestGuard
from toolcrib.server.serving.streamable_http import HttpApp

Wire = dict[str, Any]
VERSION = "io.modelcontextprotocol/protocolVersion"


class Talk(Bench):
    """Tools that notify, hold, pause and request input in a given order; `3 hold 4` is `say(3), hold, say(4)`."""

    def may_ask(self, method: str, params: Wire) -> bool:
        return params.get("name") == "talk" or super().may_ask(method, params)

    def mirrored(self, tool: str) -> tuple[Declaration, ...]:  # type: ignore[override]
        return (Declaration("Mcp-Param-Where", ("where",)),) if tool == "add" else ()

    async def answer(self, method: str, params: Wire, exchange: RequestContext) -> Wire:
        if params.get("name") != "talk":
            return await super().answer(method, params, exchange)
        self.ran.append("talk")
        try:
            for step in params["arguments"]["steps"].split():
                await self._step(step, exchange)
        except asyncio.CancelledError:
            self.cancelled.append("talk")
            raise
        return text("talked")

    async def _step(self, step: str, exchange: RequestContext) -> None:
        if step == "hold":
            await self.gate.wait()
            self.gate.clear()
        elif step == "pause":
            await exchange.back_channel.pause()
        elif step == "ask":
            await exchange.back_channel.ask("roots/list", {}, "roots")
        else:
            await exchange.back_channel.notify("told", {"n": step})


class Visit:
    """One request in progress."""

    def __init__(self, app: HttpApp, at: Any, receive: In) -> None:
        self.out, self.receive = Out(), receive
        self.task = asyncio.create_task(app(at, receive, self.out))

    async def over(self) -> Out:
        """Return the complete response."""
        async with asyncio.timeout(10):
            await self.task
        return self.out

    def leave(self) -> None:
        """Disconnect the client; everything sent to it is lost."""
        self.receive.left.set()
        self.out.broken = ConnectionResetError("gone")

    @property
    def received(self) -> list[Any]:
        """Return the notifications, followed by the text of the answer."""
        said = (
            self.out.messages if self.out.events and "event-stream" in (self.out.header("content-type") or "") else []
        )
        return [said_in(message) for message in said]

    async def hears(self, *values: Any) -> None:
        await eventually(lambda: self.received == list(values))


def said_in(message: Wire) -> Any:
    """Return a short form of a message."""
    if "method" in message:
        return message["params"]["n"] if message["method"] == "told" else message["method"]
    if "error" in message:
        return message["error"]["code"]
    content = message["result"].get("content")
    return content[0]["text"] if content else message["result"]


class Site:
    """An endpoint with its tools."""

    def __init__(self, bench: Bench | None = None, *, guard: RequestGuard | None = None, **options: Any) -> None:
        self.bench = bench or Talk()
        self.app = HttpApp(self.bench, guard=guard or RequestGuard(), **options)

    def visit(self, verb: str, body: Any = b"", headers: Mapping[str, str] | None = None, **more: Any) -> Visit:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Visit(self.app, scope(verb, headers=headers, **more), In(data))

    async def get(self, headers: Mapping[str, str], **more: Any) -> Visit:
        """Open a stream, and wait until it has begun."""
        visit = self.visit("GET", headers=headers, **more)
        await eventually(lambda: visit.out.events)
        return visit

    # ---- the modern era --------------------------------------------------------------------------------------

    def modern(self, method: str, params: Wire | None = None, id: Any = 1, headers: Any = None, **more: Any) -> Visit:
        """Send a request with its required headers, updated by the given ones; None removes one."""
        params = {"_meta": MARK, **(params or {})}
        owed: Wire = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if method in ("tools/call", "prompts/get", "resources/read"):
            owed["mcp-name"] = params.get("uri" if method == "resources/read" else "name", "")
        owed = {name: value for name, value in {**owed, **(headers or {})}.items() if value is not None}
        return self.visit("POST", message(method, params, id), owed, **more)

    def call(self, name: str, arguments: Wire | None = None, id: Any = 1, headers: Any = None, **params: Any) -> Visit:
        params = {"name": name, "arguments": arguments or {}, **params}
        return self.modern("tools/call", params, id, headers)

    # ---- the legacy era -----------------------------------------------------------------------------------

    async def session(self, version: str = "2025-11-25", headers: Mapping[str, str] | None = None) -> dict[str, str]:
        """Open a session and return the headers of its requests."""
        params = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": {"name": "c"}}
        out = await self.visit("POST", message("initialize", params, 0), headers).over()
        assert (out.status, out.json["result"]["protocolVersion"]) == (200, version)
        said = {
            **(headers or {}),
            "mcp-session-id": out.header("mcp-session-id") or "",
            "mcp-protocol-version": version,
        }
        assert (await self.tell("notifications/initialized", said)) == 202
        return said

    def ask(
        self, session: Mapping[str, str], method: str, params: Wire | None = None, id: Any = 1, **more: Any
    ) -> Visit:
        return self.visit("POST", message(method, params or {}, id), {**session, **more.pop("headers", {})}, **more)

    def talk(self, session: Mapping[str, str], steps: str, id: Any = 1, **more: Any) -> Visit:
        return self.ask(session, "tools/call", {"name": "talk", "arguments": {"steps": steps}}, id, **more)

    async def tell(self, method: str, session: Mapping[str, str], **params: Any) -> int:
        """Send a notification and return the status."""
        out = await self.visit("POST", {"jsonrpc": "2.0", "method": method, "params": params}, session).over()
        return out.status


def message(method: str, params: Wire, id: Any = 1) -> Wire:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
