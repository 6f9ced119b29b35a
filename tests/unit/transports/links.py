"""A link in memory whose pipe the test opens and closes, and an inbound that records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Message
from toolcrib.transports.channel import RequestOptions
from toolcrib.transports.jsonrpc_stream import Receiver, StreamChannel, Ticket
from toolcrib.types import Wire


class Letter:
    def __init__(self, message: Message) -> None:
        self.message = message
        self.sent = False


class ScriptedLink:
    """While `open_pipe`, messages are handed over at once; otherwise they wait and can be withdrawn."""

    def __init__(self) -> None:
        self.open_pipe = True
        self.handed_over: list[Message] = []
        self.queue: list[Letter] = []
        self.closed: list[bool] = []
        self.receiver: Receiver

    async def open(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, message: Message) -> Ticket:
        letter = Letter(message)
        self.queue.append(letter)
        if self.open_pipe:
            self.flush()
        return letter

    def flush(self) -> None:
        for letter in self.queue:
            letter.sent = True
            self.handed_over.append(letter.message)
        self.queue.clear()

    def withdraw(self, ticket: Ticket) -> bool:
        if ticket.sent:
            return False
        assert isinstance(ticket, Letter)
        if ticket in self.queue:
            self.queue.remove(ticket)
        return True

    async def close(self, *, force: bool) -> None:
        self.closed.append(force)

    def methods(self) -> list[str]:
        return [message["method"] for message in self.handed_over if "method" in message]

    def replies(self) -> list[Message]:
        return [message for message in self.handed_over if "method" not in message]


class Recorder:
    """An `Inbound`: `answer` answers the peer's requests; everything else is recorded in order."""

    def __init__(self) -> None:
        self.takes_requests = True
        self.received: list[tuple[str, Wire]] = []
        self.ended: list[Exception] = []
        self.answer: Callable[[str, Wire], Awaitable[Wire]] = self.echo

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def echo(self, method: str, params: Wire) -> Wire:
        return {"method": method, "params": params}

    async def on_request(self, method: str, params: Wire) -> Wire:
        return await self.answer(method, params)

    def on_notification(self, method: str, params: Wire) -> None:
        self.received.append((method, params))

    def on_closed(self, error: Exception) -> None:
        self.ended.append(error)


class Bench:
    """A channel between a scripted link and a recorder."""

    def __init__(self) -> None:
        self.link = ScriptedLink()
        self.inbound = Recorder()
        self.channel = StreamChannel(self.link)

    async def ask(self, method: str = "tools/call", params: Wire | None = None, **options: Any) -> asyncio.Task[Wire]:
        """Start a request and let it run as far as possible."""
        task = asyncio.create_task(self.channel.request(method, params, options=RequestOptions(**options)))
        await asyncio.sleep(0)
        return task

    @property
    def last_id(self) -> int:
        ids: list[int] = [message["id"] for message in self.link.handed_over if "id" in message]
        return ids[-1]

    def receive(self, message: Any) -> None:
        self.link.receiver.on_message(message)

    def answer(self, id: Any, result: Any = None) -> None:
        self.receive(jsonrpc.result(id, {} if result is None else result))

    def progress(self, token: Any, progress: Any, **more: Any) -> None:
        params = {"progressToken": token, "progress": progress, **more}
        self.receive(jsonrpc.notification("notifications/progress", params))
