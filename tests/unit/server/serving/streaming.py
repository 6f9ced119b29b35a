"""The other end of a stream session, in memory."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.kit import eventually
from tests.unit.server.serving.answering import MARK, Bench
from toolcrib.protocol import jsonrpc
from toolcrib.server.serving.stream_session import StreamSession

Wire = dict[str, Any]


class Client:
    """The client end of a stream: sends messages, and records those that it receives."""

    def __init__(self, **options: Any) -> None:
        self.bench = Bench(**options)
        self.received: list[Any] = []
        self.room: asyncio.Future[None] | None = None
        self.session = StreamSession(self.bench, self._send)

    def _send(self, message: Any) -> asyncio.Future[None] | None:
        jsonrpc.encode(message)
        self.received.append(message)
        return self.room

    def say(self, method: str, id: Any = None, **params: Any) -> None:
        message = jsonrpc.notification(method, params)
        self.session.feed(message if id is None else {**message, "id": id})

    def modern(self, method: str, id: Any, **params: Any) -> None:
        self.say(method, id, _meta=MARK, **params)

    def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> None:
        self.say("initialize", 0, protocolVersion=version, capabilities=capabilities, clientInfo={"name": "c"})
        assert self.received.pop()["result"]["protocolVersion"] == version
        self.say("notifications/initialized")

    def call(self, id: Any, name: str, **arguments: Any) -> None:
        self.say("tools/call", id, name=name, arguments=arguments)

    def call_modern(self, id: Any, name: str, **params: Any) -> None:
        self.modern("tools/call", id, name=name, **params)

    def answers(self, id: Any) -> list[Wire]:
        return [m for m in self.received if m.get("id") == id and type(m["id"]) is type(id) and "method" not in m]

    async def answer(self, id: Any) -> Wire:
        """Return the only answer to a request."""
        answers: list[Wire] = await eventually(lambda: self.answers(id))
        assert len(answers) == 1
        return answers[0]

    async def error(self, id: Any) -> Wire:
        error: Wire = (await self.answer(id))["error"]
        return error

    def named(self, method: str) -> list[Wire]:
        return [message for message in self.received if message.get("method") == method]


def said(answer: Wire) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text
