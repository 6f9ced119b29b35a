"""A `Transport` of the Claude Agent SDK that plays the Claude CLI's side of its control protocol.

Tests run with it without a process: the SDK's own code calls the in-process servers, and asks for permissions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, Transport, query

Wire = dict[str, Any]
Play = Callable[["PlayedCli"], Awaitable[None]]
"""What the CLI does after it got the prompt."""


class PlayedCli(Transport):
    """Runs `play` in place of the CLI."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._inbox: asyncio.Queue[Wire | None] = asyncio.Queue()
        self._replies: dict[str, asyncio.Future[Wire]] = {}
        self._count = 0
        self._playing: asyncio.Task[None] | None = None

    # ---- the transport -----------------------------------------------------------------------------------------

    async def connect(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        pass

    async def close(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
            await asyncio.wait([self._playing])
        self._inbox.put_nowait(None)

    async def write(self, data: str) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            match message["type"]:
                case "control_request":  # of the SDK: `initialize`
                    answer = {"subtype": "success", "request_id": message["request_id"], "response": {"commands": []}}
                    self._inbox.put_nowait({"type": "control_response", "response": answer})
                case "control_response":
                    reply = self._replies.pop(message["response"]["request_id"], None)
                    if reply is not None and not reply.done():
                        reply.set_result(message["response"])
                case "user" if self._playing is None:
                    self._playing = asyncio.create_task(self._run())

    async def _run(self) -> None:
        text, is_error = "done", False
        try:
            await self._play(self)
        except Exception as exc:  # noqa: BLE001  # reported as the CLI reports its errors
            text, is_error = f"{type(exc).__name__}: {exc}", True
        result = {"type": "result", "subtype": "success", "is_error": is_error, "result": text, "session_id": "s"}
        self._inbox.put_nowait({**result, "duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "total_cost_usd": 0})
        self._inbox.put_nowait(None)

    async def read_messages(self) -> AsyncIterator[Wire]:
        while (message := await self._inbox.get()) is not None:
            yield message

    # ---- what a play does ----------------------------------------------------------------------------------------

    async def control(self, request: Wire) -> Wire:
        """Send a control request to the SDK, and return the response."""
        self._count += 1
        id = f"cli-{self._count}"
        reply = self._replies[id] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait({"type": "control_request", "request_id": id, "request": request})
        try:
            response: Wire = await reply
        except asyncio.CancelledError:
            with suppress(asyncio.QueueFull):
                self._inbox.put_nowait({"type": "control_cancel_request", "request_id": id})
            raise
        if response["subtype"] != "success":
            raise RuntimeError(response["error"])
        return response.get("response") or {}

    async def send(self, server: str, method: str, params: Wire | None = None, *, id: int | None = None) -> Wire:
        """Send an MCP message to an in-process server; return the answer, or an acknowledgement of a notification."""
        message: Wire = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        if not method.startswith("notifications/"):
            message["id"] = self._count + 1 if id is None else id
        answer = await self.control({"subtype": "mcp_message", "server_name": server, "message": message})
        response: Wire = answer["mcp_response"]
        return response

    async def initialize(self, server: str) -> Wire:
        """Open the session with an in-process server, and return the result of `initialize`."""
        client = {"name": "claude-code", "version": "2"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        answer = await self.send(server, "initialize", params)
        await self.send(server, "notifications/initialized")
        result: Wire = answer["result"]
        return result

    async def list_tools(self, server: str) -> list[Wire]:
        """Return the tools that a server lists."""
        answer = await self.send(server, "tools/list")
        if "error" in answer:
            return []
        tools: list[Wire] = answer["result"]["tools"]
        return tools

    async def call_tool(self, server: str, tool: str, arguments: Any) -> Wire:
        """Call a tool, and return its result; an error answer becomes a result with `isError`, as in the CLI."""
        answer = await self.send(server, "tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            text = f"MCP error {answer['error']['code']}: {answer['error']['message']}"
            return {"content": [{"type": "text", "text": text}], "isError": True}
        result: Wire = answer["result"]
        return result

    async def may_call(self, name: str, arguments: Any) -> Wire:
        """Ask the SDK for the permission to call a tool."""
        ask = {"subtype": "can_use_tool", "tool_name": name, "input": arguments, "tool_use_id": "toolu_1"}
        return await self.control(ask)


async def run_query(play: Play, options: ClaudeAgentOptions) -> ResultMessage:
    """Run a query of the SDK whose CLI is played, and return its result."""

    async def prompt() -> AsyncIterator[Wire]:
        yield {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None}

    result: ResultMessage | None = None
    async for message in query(prompt=prompt(), options=options, transport=PlayedCli(play)):
        if isinstance(message, ResultMessage):
            result = message
    assert result is not None
    return result
