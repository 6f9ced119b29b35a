"""A small MCP server over raw HTTP that misbehaves on request. By default it is correct, in both eras.

Its faults are the ANSWERS of http_behaviours.py. A gate (`server.gate("tools/call", "status", status=500)`) applies one
*before* anything is executed; a call of the tool of that name applies it *after* its nonce was recorded as executed. It
journals every request; `breaches` are the rules of the protocol that the client broke.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from tests.faults.http_behaviours import ANSWERS
from tests.faults.http_mcp import VERBS, Handler, Request, Session
from tests.faults.http_wire import BUFFER, Connection, Received, listening


@dataclass
class Gate:
    """A behaviour for some requests, before anything is executed."""

    on: str
    """A JSON-RPC method, a verb, "resume" (GET with Last-Event-ID), "stand" (GET without), or "any"."""
    do: str
    how: dict[str, Any]
    skip: int = 0
    times: int | None = None

    def takes(self, received: Received) -> bool:
        kinds = {"any", received.verb, received.method}
        if received.verb == "GET":
            kinds.add("stand" if received.header("last-event-id") is None else "resume")
        if self.on not in kinds or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class BadWebServer:
    """One server on its own port. Options are plain attributes, to be changed at any time."""

    verbs: Mapping[str, Handler] = VERBS
    request_type = Request

    def __init__(self, **options: Any) -> None:
        self.era = "both"  # or "legacy" (discover is unknown), "modern" (initialize, GET and DELETE are)
        self.streams_answers = False  # every answer is an event stream
        self.event_ids = True  # events of a session have ids
        self.gives_session = True
        self.offers_get = True
        self.expired_body = True  # the 404 to an unknown session carries a JSON-RPC error
        self.tokens: set[str] | None = None  # bearer tokens that are taken; None: no authorisation at all
        self.challenge = 'Bearer realm="crib", scope="tools"'
        self.idle: float | None = None  # idle sockets are closed after this many seconds; 0: right after an answer
        self.deaf = False  # accepts, reads nothing
        self.hasty: int | None = None  # the status with which a body above a megabyte is refused before it is read
        self.receive: int | None = None  # the kernel's buffer for each connection
        self.ssl: ssl.SSLContext | None = None
        self.host = "127.0.0.1"
        self.path = "/mcp"
        for name, value in options.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        self.gates: list[Gate] = []
        self.requests: list[Received] = []
        self.executed: Counter[str] = Counter()
        self.cancelled: list[str] = []  # nonces named by notifications/cancelled
        self.gone: list[str] = []  # nonces whose answer the client did not wait for: it closed the connection
        self.breaches: list[str] = []
        self.sessions: dict[str, Session] = {}
        self.nonces: dict[tuple[str, Any], str] = {}  # by session and id of the request
        self.works: dict[tuple[str, Any], asyncio.Task[None]] = {}  # calls of the legacy era, which go on alone
        self.connections: dict[int, Connection] = {}
        self.in_call: dict[str, Connection] = {}  # nonce -> where it is being answered
        self.listening: list[Request] = []  # active subscriptions
        self.release = asyncio.Event()  # ends the waiting of the tool `slow`
        self.accepted = 0
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    # ---- life ------------------------------------------------------------------------------------------------

    async def start(self, port: int = 0) -> BadWebServer:
        """Listen on a free port, or again on the given one."""
        socket = listening(port, receive=self.receive)
        self.port = socket.getsockname()[1]
        self._server = await asyncio.start_server(self._accept, sock=socket, limit=BUFFER, ssl=self.ssl)
        return self

    async def stop(self) -> None:
        """Stop listening and reset every connection."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for connection in [*self.connections.values()]:
            connection.reset()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def origin(self) -> str:
        return f"{'https' if self.ssl else 'http'}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return self.origin + self.path

    def gate(self, on: str, do: str, *, skip: int = 0, times: int | None = None, **how: Any) -> Gate:
        self.gates.append(Gate(on, do, how, skip, times))
        return self.gates[-1]

    def expire(self) -> None:
        """Forget all sessions."""
        self.sessions.clear()

    def push(self, message: dict[str, Any]) -> None:
        """Send a message on the GET stream of each session."""
        for session in self.sessions.values():
            if session.standing is not None:
                session.standing.put(message)

    @property
    def standing(self) -> bool:
        """Whether any session has its standalone stream."""
        return any(session.standing is not None for session in self.sessions.values())

    def received(self, method: str) -> list[Received]:
        return [one for one in self.requests if one.method == method]

    def breach(self, text: str) -> None:
        self.breaches.append(text)

    # ---- connections -----------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        connection = Connection(next(self._numbers), reader, writer)
        self.connections[connection.number] = connection
        self.beside(self._serve(connection))

    def beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, connection: Connection) -> None:
        try:
            while self.deaf:
                await asyncio.sleep(0.05)
            while not connection.ended:
                received = await self._next(connection)
                if received is None:
                    return
                self.requests.append(received)
                await self._request_context(self.request_type(self, connection, received))
                if (received.header("connection") or "").lower() == "close":
                    return
        finally:
            self.connections.pop(connection.number, None)
            await connection.over()

    async def _next(self, connection: Connection) -> Received | None:
        try:
            async with asyncio.timeout(self.idle or None):
                return await connection.read_request(self.hasty)
        except TimeoutError:
            return None

    async def _request_context(self, request: Request) -> None:
        """Answer, and record if the client disconnects meanwhile, which ends the call only in the modern era."""
        work = asyncio.create_task(self._answer(request))
        watch = asyncio.create_task(request.connection.until_gone())
        if request.nonce is not None and not request.modern:
            self.works[request.key] = work
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                self.connections.pop(request.connection.number, None)
                if request.nonce is not None and not request.connection.ended:
                    self.gone.append(request.nonce)
                if request.modern or request.nonce is None:
                    work.cancel()
            await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        except ConnectionError:
            request.connection.ended = True
            request.connection.writer.transport.abort()
        finally:
            work.cancel()
            watch.cancel()
            if self.works.get(request.key) is work:
                del self.works[request.key]
            if self.in_call.get(request.nonce or "") is request.connection and request.key not in self.works:
                del self.in_call[request.nonce or ""]
            await asyncio.gather(work, watch, return_exceptions=True)

    async def _answer(self, request: Request) -> None:
        for gate in self.gates:
            if gate.takes(request.received):
                return await ANSWERS[gate.do](request, gate.how)
        given = (request.received.header("authorization") or "").removeprefix("Bearer ")
        if self.tokens is not None and given not in self.tokens:
            return await request.respond(401, {"WWW-Authenticate": self.challenge})
        if request.received.target.partition("?")[0] not in self.paths():
            return await request.respond(404)
        return await self.verbs[request.received.verb](self, request)

    def paths(self) -> set[str]:
        return {self.path}
