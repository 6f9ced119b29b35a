"""Shared by the unit tests: bounded waiting, a clock to advance, a scripted server over a stream in memory."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

from toolcrib.errors import RemoteError
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Message
from toolcrib.transports.message_stream import MemoryStream

LEGACY = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "played", "version": "1"},
}
MODERN = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "played", "version": "2"}},
    "ttlMs": 0,
    "cacheScope": "public",
}
SILENCE = object()


async def eventually(condition: Callable[[], Any], within: float = 10.0) -> Any:
    """Wait until the condition is true, and return its value."""
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {within} s: {inspect.getsource(condition).strip()}"
        await asyncio.sleep(0.001)
    return value


class Clock:
    """The clock of the running loop, which a test can advance, so that no test waits for a deadline."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ahead = 0.0
        real = self._loop.time
        self._loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]

    def now(self) -> float:
        return self._loop.time()

    async def advance(self, seconds: float) -> None:
        """Advance the time, and run everything that is due by then."""
        self._ahead += seconds
        await turns()


async def turns(count: int = 5) -> None:
    """Run the loop for several turns, until everything that needs no outside event has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


class PlayedServer:
    """A server as a table: method to result, error, function of the params, or silence. Unknown methods are refused.

    It is also a server argument of a client: each connection gets a new stream.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {}
        self.answers.update({key.replace("__", "/"): answer for key, answer in answers.items()})
        self.received: list[Message] = []
        self.end: MemoryStream
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self) -> MemoryStream:
        ours, self.end = MemoryStream.pair()
        self._spawn(self._serve(self.end))
        return ours

    def named(self, method: str) -> list[Message]:
        """Return the messages received with this method."""
        return [message for message in self.received if message.get("method") == method]

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.received if "method" in message]

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, end: MemoryStream) -> None:
        while True:
            try:
                message = await end.receive()
            except EOFError:
                return
            self.received.append(message)
            if "id" in message and "method" in message:
                self._spawn(self._answer(end, message))

    async def _answer(self, end: MemoryStream, message: Message) -> None:
        said = self.answers.get(message["method"], RemoteError(-32601, "unknown method"))
        if callable(said):
            said = said(message.get("params", {}))
            if inspect.isawaitable(said):
                said = await said
        if isinstance(said, RemoteError):
            await end.send(jsonrpc.error(message["id"], said.code, said.message, said.data))
        elif said is not SILENCE:
            await end.send(jsonrpc.result(message["id"], said))
