"""Shared code of the reference server's HTTP fronts: a thread with a loop, a port, lives, streams of events."""

from __future__ import annotations

import asyncio
import json
import threading
import traceback
from collections.abc import Coroutine
from typing import Any

from aiohttp import web

from tests.interaction.reference_server import Journal, Message, ReferenceServer
from tests.interaction.reference_server_tools import Crash

BOUND = 10.0
RETRY = 10
"""Milliseconds that a client must wait before it resumes a stream."""
OPTIONS: Message = {
    "ponder": 0.0,  # seconds that the server takes to read `notifications/initialized`
    "absolute": False,  # HTTP+SSE: whether the endpoint is sent as an absolute URL
    # Streamable HTTP:
    "streamable": True,  # False: the client must not open a standalone stream
    "standing": True,  # whether it gets one
    "eager": False,  # legacy era: every answer is a stream, even if nothing precedes it
    "wordless": False,  # errors of the transport have no JSON-RPC body
    "cuts": [],  # how the next streams of tool calls lose their connection: "end" | "abort" | "middle"
    "astray": False,  # answers to tool calls are sent on the standalone stream
    "blind": 0,  # number of first tool lists that do not declare headers
}
EVENT_STREAM = "text/event-stream"
STREAM_HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Host:
    """A thread with its own event loop: a test may move the clock of its loop, or have no loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="crib-host", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the thread, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * BOUND)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BOUND)
        self._loop.close()


class Refusal(Exception):
    """A status to send to the client instead of an answer."""

    def __init__(self, status: int, body: Message | None = None, **headers: str) -> None:
        super().__init__(status)
        self.response = web.Response(status=status, headers=headers, text="no")
        if body is not None:
            self.response = web.json_response(body, status=status, headers=headers)


class Stream:
    """Messages for the client, in order; as events, they can be read again from any position."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.messages: list[Message] = []
        self.done = False
        self.sent = 0  # number of messages handed to a connection
        self.reader: object | None = None
        self.transport: asyncio.Transport | None = None
        self._changed = asyncio.Event()

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self._changed.set()

    def end(self) -> None:
        self.done = True
        self._changed.set()

    async def begun(self) -> None:
        """Wait until there is a message, or the stream has ended."""
        while not self.messages and not self.done:
            await self._wait()

    async def pour(self, response: web.StreamResponse, start: int) -> None:
        """Write all events from number `start` on, to the end of the stream or until another reader takes over."""
        mine = self.reader = object()
        self._changed.set()  # wakes the previous reader
        try:
            for number in range(start, 1_000_000):
                while number >= len(self.messages):
                    if self.done or self.reader is not mine:
                        return
                    await self._wait()
                self.sent = max(self.sent, number + 1)
                await response.write(self.event(number))
        finally:
            if self.reader is mine:
                self.reader = None

    def event(self, number: int) -> bytes:
        id = f"id: {self.name}/{number + 1}\n" if self.name else ""
        return f"event: message\n{id}data: {json.dumps(self.messages[number])}\n\n".encode()

    async def prime(self, response: web.StreamResponse) -> None:
        """Send the first event, with an id and no data, from which a client can resume."""
        await response.write(f": primed\nid: {self.name}/0\nretry: {RETRY}\ndata:\n\n".encode())

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class Life:
    """One life of the server, as one client sees it."""

    def __init__(self, server: ReferenceServer) -> None:
        server.in_order = False  # what goes through several connections overtakes
        self.server = server
        self.over = False

    def take(self, message: Message) -> list[Message]:
        """Return the server's answer to this message; raises `Crash` if the server crashes at it."""
        said: list[Message] = []
        self.server.handle(message, said.append)
        return said


class Front:
    """The reference server on its own port. When a life crashes, all connections are cut."""

    path = "/mcp"

    def __init__(self, journal: Journal, era: str, options: Message, **web_options: Any) -> None:
        self.journal = journal
        self.era = era
        self.web = OPTIONS | web_options
        self.lives: list[Any] = []
        self.origin = ""
        self._options = options

    async def open(self) -> str:
        self._server = web.Server(self._serve, handler_cancellation=True, access_log=None)
        self._socket = await asyncio.get_running_loop().create_server(self._server, "127.0.0.1", 0)
        host, port = self._socket.sockets[0].getsockname()
        self.origin = f"http://{host}:{port}"
        return self.origin + self.path

    async def close(self) -> None:
        """Record a fault if the client has left anything open."""
        loop = asyncio.get_running_loop()
        until = loop.time() + BOUND
        while (left := self.left_open()) and loop.time() < until:
            await asyncio.sleep(0.001)
        for what in left:
            self.fault(f"the client left {what}")
        self._socket.close()
        await self._server.shutdown(0.0)

    def left_open(self) -> list[str]:
        """Return state that must not exist after the client has left."""
        number = len(self._server.connections)
        return [f"{number} connections open"] if number else []

    def fault(self, what: str) -> None:
        self.journal.note("fault", what)

    def new_life(self) -> Any:
        self.lives.append(self.make_life(ReferenceServer(self.journal.path, self.era, **self._options)))
        return self.lives[-1]

    def make_life(self, server: ReferenceServer) -> Life:
        raise NotImplementedError

    def cut(self) -> None:
        """Cut every connection at once."""
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    def die(self) -> None:
        """Simulate a crash: another process takes over the port and has no state."""
        for life in self.lives:
            life.over = True
        self.lives.clear()
        self.cut()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self._note(request)
        try:
            return await self.respond(request)
        except Refusal as refusal:
            return refusal.response
        except Crash:
            self.die()
            return await asyncio.get_running_loop().create_future()
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            self.fault(f"the front itself broke: {traceback.format_exc()}")
            raise

    def _note(self, request: web.BaseRequest) -> None:
        received = {"verb": request.method, "path": request.path, "headers": dict(request.headers)}
        self.journal.note("web", received)
        if request.headers.get("Host") != self.origin.removeprefix("http://"):
            self.fault(f"the wrong host: {received}")
        doubled = [name for name in set(request.headers) if len(request.headers.getall(name)) > 1]
        if doubled:
            self.fault(f"headers more than once: {doubled}")

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        raise NotImplementedError

    async def read(self, request: web.BaseRequest) -> Message:
        """Return the single message of a POST."""
        if request.content_type != "application/json":
            self.fault(f"a body of the type {request.content_type}")
            raise Refusal(415)
        body = await request.read()
        try:
            message = json.loads(body)
        except ValueError:
            self.fault(f"a body that is not JSON: {body[:100]!r}")
            raise Refusal(400, broken(-32700, "Parse error")) from None
        if not isinstance(message, dict):
            self.fault(f"a body that is not a single message: {body[:100]!r}")
            raise Refusal(400, broken(-32600, "Invalid Request"))
        return message

    async def ponder(self, message: Message) -> None:
        """Wait, so that later requests can overtake `initialized` if the client did not wait for it."""
        if message.get("method") == "notifications/initialized":
            await asyncio.sleep(self.web["ponder"])

    def check_accept(self, request: web.BaseRequest, *kinds: str) -> None:
        """Reject the request unless `Accept` names each of the kinds."""
        named = {part.partition(";")[0].strip() for part in request.headers.get("Accept", "").split(",")}
        if not named >= set(kinds):
            self.fault(f"{request.method} with Accept: {request.headers.get('Accept')}")
            raise Refusal(406)


def broken(code: int, message: str, id: Any = None) -> Message:
    """Return an error of the transport."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
