"""MCP of both eras over raw HTTP, as a correct server implements it; records the rules that the client breaks."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.faults.http_behaviours import ANSWERS, TOOLS
from tests.faults.http_wire import Connection, Exchange, Headers, Received

if TYPE_CHECKING:
    from tests.faults.http_server import BadWebServer

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META = "io.modelcontextprotocol/"
INFO = {"name": "bad-web-server", "version": "1.0"}
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}, "logging": {}}
JSON, STREAM = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

Handler = Callable[["BadWebServer", "Request"], Awaitable[None]]
VERBS: dict[str, Handler] = {}
METHODS: dict[str, Handler] = {}


class Stream:
    """The events of one stream of a session, kept so that a client can resume it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.events: list[bytes] = []
        self.over = False
        self.news = asyncio.Event()

    def put(self, message: dict[str, Any] | None) -> bytes:
        """Store an event; without a message, the priming event: an id with empty data."""
        data = "" if message is None else json.dumps({"jsonrpc": "2.0", **message})
        event = f"id: {self.number}-{len(self.events) + 1}\ndata: {data}\n\n".encode()
        self.events.append(event)
        self.news.set()
        return event

    def finish(self) -> None:
        self.over = True
        self.news.set()


@dataclass
class Session:
    """The state of a legacy session between requests."""

    id: str
    version: str
    client: dict[str, Any]
    begun: bool = False
    streams: list[Stream] = field(default_factory=list)
    standing: Stream | None = None
    asked: dict[str, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    listener: Request | None = None  # HTTP+SSE: the GET on which the session's stream is
    seen: set[Any] = field(default_factory=set)

    def stream(self) -> Stream:
        self.streams.append(Stream(len(self.streams) + 1))
        return self.streams[-1]


class Request(Exchange):
    """One MCP request to the server."""

    def __init__(self, server: BadWebServer, connection: Connection, received: Received) -> None:
        super().__init__(connection, received)
        self.server = server
        self.id = received.message.get("id")
        self.method, self.params, self.arguments = received.method, received.params, received.arguments
        self.nonce = received.nonce
        self.meta = self.params.get("_meta") or {}
        self.modern = META + "protocolVersion" in self.meta
        self.session = server.sessions.get(received.header("mcp-session-id") or "")
        self.stream: Stream | None = None
        self.key = (self.session.id if self.session else "", self.id)
        self.opened = False
        self.cut = False  # this server closed the connection itself: events are only kept

    async def open_stream(self, *, ids: bool | None = None) -> None:
        """Answer with an event stream; in a session its events have ids, and the first one is the priming event."""
        self.opened = True
        if self.session is not None and (self.server.event_ids if ids is None else ids):
            self.stream = self.session.stream()
        await self.head(200, STREAM, chunked=True)
        if self.stream is not None:
            await self.part(self.stream.put(None))

    async def part(self, data: bytes) -> None:
        try:
            if not self.cut:
                await super().part(data)
        except ConnectionError:
            if self.stream is None:  # else it was kept, to be asked for again
                raise

    async def say(self, message: dict[str, Any]) -> None:
        """Send one event of the answer. In a session it is stored first, whether or not the client still reads."""
        if not self.opened:
            await self.open_stream()
        if self.stream is not None:
            await self.part(self.stream.put(message))
        else:
            await self.part(b"data: %s\n\n" % json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def respond(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        await super().respond(status, headers, body)
        self._part_company()

    async def end(self) -> None:
        await super().end()
        self._part_company()

    def _part_company(self) -> None:
        """Close the connection right after the answer, unannounced, as a server without keep-alive does."""
        if self.server.idle == 0:
            self.connection.close()

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.say({"method": method, "params": params})

    def complete(self, result: Any) -> dict[str, Any]:
        """Send the complete answer with this result, in the form of the era."""
        if self.modern and isinstance(result, dict):
            result = {"resultType": "complete", **result, "_meta": {META + "serverInfo": INFO}}
        return {"jsonrpc": "2.0", "id": self.id, "result": result}

    def texts(self, text: Any) -> dict[str, Any]:
        return self.complete({"content": [{"type": "text", "text": str(text)}]})

    async def answer(self, message: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Send the last message: an event if the stream is open (or the server prefers events), otherwise JSON."""
        if self.opened or (self.server.streams_answers and status == 200 and headers is None):
            await self.say(message)
            if self.stream is not None:
                self.stream.finish()
            if not self.cut:
                await self.end()
        else:
            await self.respond(status, {**JSON, **(headers or {})}, json.dumps(message).encode())

    async def result(self, result: Any) -> None:
        await self.answer(self.complete(result))

    async def text(self, text: Any) -> None:
        await self.answer(self.texts(text))

    async def error(self, code: int, text: str, data: Any = None, *, status: int = 200) -> None:
        error = {"code": code, "message": text} | ({"data": data} if data is not None else {})
        await self.answer({"jsonrpc": "2.0", "id": self.id, "error": error}, status)


# ---- verbs


def verb(function: Handler) -> Handler:
    VERBS[function.__name__.upper()] = function
    return function


@verb
async def post(server: BadWebServer, request: Request) -> None:
    accept = request.received.header("accept") or ""
    if "application/json" not in accept or "text/event-stream" not in accept:
        server.breach(f"{request.method}: Accept is {accept!r}")
    if (request.received.header("content-type") or "").partition(";")[0] != "application/json":
        server.breach(f"{request.method}: Content-Type is {request.received.header('content-type')!r}")
    await (_modern if request.modern else _legacy)(server, request)


async def _modern(server: BadWebServer, request: Request) -> None:
    if server.era == "legacy":
        return await request.error(-32600, "Bad Request: no session id", status=400)
    if wrong := _mirrored_wrongly(request):
        server.breach(f"{request.method}: {wrong}")
        return await request.error(-32020, wrong, status=400)
    if request.received.header("mcp-session-id") is not None:
        server.breach(f"{request.method}: a session id on the modern wire")
    if request.id is None:
        server.breach(f"{request.method}: a notification or an answer on the modern wire")
        return await request.respond(202)
    version = request.meta[META + "protocolVersion"]
    if version != MODERN:
        data = {"supported": [MODERN], "requested": version}
        return await request.error(-32022, "Unsupported protocol version", data, status=400)
    if request.method not in METHODS or request.method in ("initialize", "ping"):
        return await request.error(-32601, f"Method not found: {request.method}", status=404)
    return await METHODS[request.method](server, request)


def _mirrored_wrongly(request: Request) -> str | None:
    """Return the headers that contradict the body."""
    said = {"mcp-protocol-version": request.meta[META + "protocolVersion"], "mcp-method": request.method}
    if request.method in NAMED:
        said["mcp-name"] = request.params[NAMED[request.method]]
    for name, value in said.items():
        header = request.received.header(name) or ""
        if header.startswith("=?base64?") and header.endswith("?="):
            header = base64.b64decode(header[9:-2]).decode()
        if header != value:
            return f"{name} is {header!r}, the body says {value!r}"
    return None


async def _legacy(server: BadWebServer, request: Request) -> None:
    if server.era == "modern":
        return await request.error(-32601, f"Method not found: {request.method}", status=404)
    if request.method == "initialize":
        if request.received.header("mcp-session-id") is not None:
            server.breach("a session id on initialize")
        return await METHODS["initialize"](server, request)
    if not await _in_session(server, request):
        return None
    if not request.method:
        assert request.session is not None
        request.session.asked[request.received.message["id"]].set_result(request.received.message)
        return await request.respond(202)
    if request.id is None:
        if request.method == "notifications/cancelled":
            key = request.key[0], request.params.get("requestId")
            server.cancelled.append(server.nonces.get(key, f"unknown {key}"))
            if key in server.works:
                server.works[key].cancel()
        return await request.respond(202)
    if request.method not in METHODS or request.method == "server/discover":
        return await request.error(-32601, f"Method not found: {request.method}")
    return await METHODS[request.method](server, request)


async def _in_session(server: BadWebServer, request: Request) -> bool:
    """Return whether the request belongs to a live session; if not, the client has been answered with an error."""
    if not server.gives_session:
        return True
    ident = request.received.header("mcp-session-id")
    if ident is None:
        await request.error(-32600, "Bad Request: no session id", status=400)
        return False
    if request.session is None:
        if server.expired_body:
            await request.error(-32600, "Session not found", status=404)
        else:
            await request.respond(404)
        return False
    request.session.begun |= request.method == "notifications/initialized"
    # A client that never got the whole answer to initialize knows no version when it takes its leave.
    known = request.session.begun or request.method != "DELETE"
    if known and request.received.header("mcp-protocol-version") != request.session.version:
        server.breach(f"{request.method}: version header {request.received.header('mcp-protocol-version')!r}")
    if request.id is not None and request.method:
        if request.id in request.session.seen:
            server.breach(f"{request.method}: id {request.id} again in one session")
        request.session.seen.add(request.id)
    return True


@verb
async def get(server: BadWebServer, request: Request) -> None:
    if server.era == "modern" or not server.offers_get or not server.gives_session:
        return await request.respond(405, {"Allow": "POST"})
    if "text/event-stream" not in (request.received.header("accept") or ""):
        server.breach(f"GET: Accept is {request.received.header('accept')!r}")
    if not await _in_session(server, request) or request.session is None:
        return None
    after = request.received.header("last-event-id")
    if after is None:
        stream, position = request.session.stream(), 0
        request.session.standing = stream
    else:
        number, _, index = after.partition("-")
        if int(number) > len(request.session.streams):
            server.breach(f"GET: resumes after {after!r}, which was never a whole event")
            return await request.respond(400)
        stream, position = request.session.streams[int(number) - 1], int(index)
    await request.head(200, STREAM, chunked=True)
    while True:
        for event in stream.events[position:]:
            await request.part(event)
        position = len(stream.events)
        if stream.over:
            return await request.end()
        stream.news.clear()
        await stream.news.wait()


@verb
async def delete(server: BadWebServer, request: Request) -> None:
    if server.era == "modern" or not server.gives_session:
        return await request.respond(405, {"Allow": "POST"})
    if not await _in_session(server, request) or request.session is None:
        return None
    del server.sessions[request.session.id]
    for key, work in server.works.items():
        if key[0] == request.session.id:
            work.cancel()
    return await request.respond(200)


# ---- methods


def method(name: str) -> Callable[[Handler], Handler]:
    def put(function: Handler) -> Handler:
        METHODS[name] = function
        return function

    return put


@method("initialize")
async def initialize(server: BadWebServer, request: Request) -> None:
    asked = request.params.get("protocolVersion")
    version = asked if asked in LEGACY else LEGACY[0]
    headers: dict[str, str] = {}
    if server.gives_session:
        session = Session(uuid.uuid4().hex, version, request.params.get("capabilities", {}))
        server.sessions[session.id] = session
        headers["Mcp-Session-Id"] = session.id
    result = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}
    await request.answer(request.complete(result), headers=headers)


@method("server/discover")
async def discover(server: BadWebServer, request: Request) -> None:
    await request.result({"supportedVersions": [MODERN], "capabilities": CAPABILITIES, "ttlMs": 0})


@method("ping")
async def ping(server: BadWebServer, request: Request) -> None:
    await request.result({})


METHODS["logging/setLevel"] = ping


@method("tools/list")
async def list_tools(server: BadWebServer, request: Request) -> None:
    schema = {"type": "object"}
    await request.result({"tools": [{"name": name, "inputSchema": schema} for name in (*TOOLS, *ANSWERS)]})


@method("subscriptions/listen")
async def listen(server: BadWebServer, request: Request) -> None:
    """Acknowledge the subscription; it is never answered."""
    meta = {META + "subscriptionId": request.id}
    wanted = request.params.get("notifications", {})
    await request.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": wanted})
    server.listening.append(request)
    try:
        await asyncio.Event().wait()
    finally:
        server.listening.remove(request)


@method("tools/call")
async def call_tool(server: BadWebServer, request: Request) -> None:
    name, nonce = request.params["name"], request.nonce
    behaviour = TOOLS.get(name) or ANSWERS.get(name)
    if behaviour is None:
        return await request.error(-32602, f"Unknown tool: {name}")
    server.nonces[request.key] = str(nonce)
    if nonce is not None and "inputResponses" not in request.params:
        server.executed[nonce] += 1
        server.in_call[nonce] = request.connection
    await behaviour(request, request.arguments)
