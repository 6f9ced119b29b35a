"""The bad web server over HTTP+SSE, the transport of the first revision: one stream of answers, a POST per message."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.faults.http_behaviours import ANSWERS
from tests.faults.http_mcp import METHODS, STREAM, Handler, Request, Session
from tests.faults.http_server import BadWebServer
from tests.faults.http_wire import Connection, Received

PLACE = "/messages"


class SseRequest(Request):
    """A request whose answer goes to the session's stream; the POST is answered with 202 by default."""

    server: BadSseServer

    def __init__(self, server: BadSseServer, connection: Connection, received: Received) -> None:
        super().__init__(server, connection, received)
        (ident,) = parse_qs(urlsplit(received.target).query).get("session", [""])
        self.session = server.sessions.get(ident)
        self.key = (ident, self.id)

    async def open_stream(self, *, ids: bool | None = None) -> None:
        self.opened = True

    async def say(self, message: dict[str, Any]) -> None:
        assert self.session is not None
        assert self.session.standing is not None
        self.session.standing.put(message)

    async def answer(self, message: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> None:
        await self.say(message)


async def get(server: BadSseServer, request: Request) -> None:
    session = Session(uuid.uuid4().hex, "2024-11-05", {})
    stream = session.standing = session.stream()
    server.sessions[session.id] = session
    await request.head(200, STREAM, chunked=True)
    session.listener = request
    try:
        endpoint = server.endpoint.replace("$SESSION", session.id)
        await request.part(f"event: endpoint\ndata: {endpoint}\n\n".encode())
        position = 0
        while not stream.over:
            for event in stream.events[position:]:
                await request.part(event)
            position = len(stream.events)
            stream.news.clear()
            await stream.news.wait()
        await request.end()
    finally:
        server.sessions.pop(session.id, None)
        for key, work in [*server.works.items()]:
            if key[0] == session.id:
                work.cancel()


async def post(server: BadSseServer, request: Request) -> None:
    if request.session is None:
        return await request.respond(404)
    if request.received.header("content-type") != "application/json":
        server.breach(f"{request.method}: Content-Type is {request.received.header('content-type')!r}")
    if request.id is not None and request.method:
        if request.id in request.session.seen:
            server.breach(f"{request.method}: id {request.id} again in one session")
        request.session.seen.add(request.id)
    if request.method == "tools/call" and request.params.get("name") in ANSWERS:
        return await METHODS["tools/call"](server, request)  # a behaviour has the POST for itself
    await request.respond(202)
    if not request.method:
        request.session.asked[request.received.message["id"]].set_result(request.received.message)
    elif request.method == "notifications/cancelled":
        key = request.key[0], request.params.get("requestId")
        server.cancelled.append(server.nonces.get(key, f"unknown {key}"))
        if key in server.works:
            server.works[key].cancel()
    elif request.id is not None:
        server.works[request.key] = server.beside(_answer(server, request))
    return None


async def _answer(server: BadSseServer, request: Request) -> None:
    """End the POST, and handle its request in the background."""
    try:
        if request.method in METHODS and request.method not in ("server/discover", "subscriptions/listen"):
            await METHODS[request.method](server, request)
        else:
            await request.error(-32601, f"Method not found: {request.method}")
    finally:
        server.works.pop(request.key, None)
        server.in_call.pop(request.nonce or "", None)


class BadSseServer(BadWebServer):
    """Options as those of `BadWebServer`, and `endpoint`: the data of the first event."""

    verbs: dict[str, Handler] = {"GET": get, "POST": post}  # type: ignore[dict-item]  # noqa: RUF012
    request_type = SseRequest  # type: ignore[assignment]

    def __init__(self, **options: Any) -> None:
        self.endpoint = f"{PLACE}?session=$SESSION"
        super().__init__(**{"path": "/sse", "gives_session": False, **options})

    def paths(self) -> set[str]:
        return {self.path, PLACE}

    def cut(self, how: str = "reset") -> None:
        """Cut every stream."""
        streams = {one.connection for one in self.requests if one.verb == "GET"}
        for number in streams & set(self.connections):
            connection = self.connections[number]
            connection.reset() if how == "reset" else connection.close()
