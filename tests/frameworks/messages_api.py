"""A local server that speaks enough of the Anthropic Messages API for the Claude CLI, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.frameworks.driver import Call

Wire = dict[str, Any]
USAGE = {"input_tokens": 1, "output_tokens": 1}


@dataclass
class ScriptedApi:
    """Answers each request with the calls of the next turn, and in the end with the text `done`."""

    turns: list[list[Call]]
    tools: list[list[Wire]] = field(default_factory=list)
    """The tools of each request of the agent."""
    results: dict[str, Wire] = field(default_factory=dict)
    """The `tool_result` blocks, by the id of their call: `toolu_{turn}_{call}`."""
    url: str = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[ScriptedApi]:
        """Listen on a free port of this machine."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_route("*", "/{path:.*}", self._other)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()

    async def _other(self, request: web.Request) -> web.Response:
        return web.json_response({"input_tokens": 1})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        blocks: list[Wire] = [{"type": "text", "text": "done"}]
        stop = "end_turn"
        if body.get("tools"):  # the CLI has side requests without tools
            for message in body["messages"]:
                for block in message["content"] if isinstance(message["content"], list) else []:
                    if block["type"] == "tool_result":
                        self.results[block["tool_use_id"]] = block
            turn = len(self.tools)
            self.tools.append(body["tools"])
            if turn < len(self.turns):
                calls = enumerate(self.turns[turn])
                stop = "tool_use"
                blocks = [
                    {"type": "tool_use", "id": f"toolu_{turn}_{number}", "name": call.name, "input": call.arguments}
                    for number, call in calls
                ]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "usage": USAGE}
        if not body.get("stream"):
            return web.json_response({**message, "content": blocks, "stop_reason": stop, "stop_sequence": None})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in _events({**message, "content": [], "stop_reason": None, "stop_sequence": None}, blocks, stop):
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await response.write_eof()
        return response


def _events(message: Wire, blocks: list[Wire], stop: str) -> list[Wire]:
    events: list[Wire] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": stop, "stop_sequence": None}
    return [*events, {"type": "message_delta", "delta": end, "usage": USAGE}, {"type": "message_stop"}]
