"""The reference server over streamable HTTP, both eras behind one URL.

A modern server knows neither clients nor connections. To let a test count the connections of a client, a visit ends
when the client closes its last `subscriptions/listen`: later requests belong to another life.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

from aiohttp import web

from tests.interaction.reference_server import MODERN, Journal, Message, ReferenceServer
from tests.interaction.reference_server_headers import SESSION, VERSION, mismatch, param_mismatch
from tests.interaction.reference_server_methods import META
from tests.interaction.reference_server_web import EVENT_STREAM, STREAM_HEADERS, Front, Life, Refusal, Stream, broken

LAST_EVENT = "Last-Event-ID"
STATUSES = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}
"""HTTP statuses of errors in the modern era; other errors are sent as normal answers."""
LISTEN = "subscriptions/listen"
UNRELATED = {"sampling/createMessage", "roots/list", "notifications/resources/updated"}
"""Sent on the standalone stream if there is one, as are changed lists; the rest is sent on its request's stream."""


class Exchange(Stream):
    """One request and the messages about it."""

    def __init__(self, message: Message, name: str) -> None:
        super().__init__(name)
        self.id = message["id"]
        self.method: str = message["method"]
        self.token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")


class Visit(Life):
    """A life with its requests in flight; in the legacy era also a session."""

    def __init__(self, server: ReferenceServer, astray: bool) -> None:
        super().__init__(server)
        self.astray = astray
        self.open: dict[str, Exchange] = {}
        self.session = self.version = ""
        self.standing = Stream("standing")
        self.streams: dict[str, Stream] = {self.standing.name: self.standing}
        self.asked_to_stand = False

    def exchange(self, message: Message) -> Exchange:
        made = self.open[str(message["id"])] = Exchange(message, f"call{message['id']}" if self.session else "")
        self.streams[made.name] = made
        return made

    def deliver(self, said: list[Message], current: Exchange | None = None) -> None:
        """Send each message on one stream. The answer to the current request is last, because it ends its stream."""
        own = [message for message in said if current is not None and _is_answer_to(message, current)]
        for message in said:
            if message not in own:
                self._put(message, current)
        for message in own:
            self._put(message, None)

    def _put(self, message: Message, current: Exchange | None) -> None:
        if "method" not in message and (answered := self.open.pop(str(message["id"]), None)) is not None:
            if self.astray and answered.method == "tools/call":
                return self.standing.add(message)
            answered.add(message)
            answered.end()
            if not self.session:  # a modern id must only differ from those in flight
                self.server.ids.discard(answered.id)
            return None
        return (self._related(message) or self._unrelated(message, current)).add(message)

    def _related(self, message: Message) -> Stream | None:
        params = message.get("params") or {}
        if message.get("method") == "notifications/progress":
            return next((each for each in self.open.values() if each.token == params["progressToken"]), None)
        return self.open.get(str((params.get("_meta") or {}).get(META + "subscriptionId")))

    def _unrelated(self, message: Message, current: Exchange | None) -> Stream:
        method = message.get("method", "")
        stands = self.standing.reader is not None
        if current is None or (stands and (not method or method in UNRELATED or method.endswith("list_changed"))):
            return self.standing
        return current


def _is_answer_to(message: Message, exchange: Exchange) -> bool:
    return "method" not in message and str(message["id"]) == str(exchange.id)


class StreamableFront(Front):
    """One URL for POST, GET and DELETE."""

    def __init__(self, journal: Journal, era: str, options: Message, **web_options: Any) -> None:
        super().__init__(journal, era, options, **web_options)
        self._visits: list[Visit] = []
        self._sessions: dict[str, Visit] = {}
        self._deleted: set[str] = set()
        self._cuts: list[str] = list(self.web["cuts"])
        self._blind: int = self.web["blind"]

    def make_life(self, server: ReferenceServer) -> Visit:
        return Visit(server, self.web["astray"])

    def die(self) -> None:
        self._visits.clear()
        self._sessions.clear()
        super().die()

    def forget(self) -> None:
        """Expire all sessions."""
        for visit in self._sessions.values():
            visit.over = True
            visit.standing.end()
        self._sessions.clear()

    def lose_standing(self, *said: Message) -> None:
        """Cut the connections of the standalone streams, and only then send something on them."""
        for visit in self._sessions.values():
            if visit.standing.transport is not None:
                visit.standing.transport.abort()
            for message in said:
                visit.standing.add(message)

    def left_open(self) -> list[str]:
        kept = [f"the session {id}" for id, visit in self._sessions.items() if visit.server.initialized]
        return [*super().left_open(), *kept]

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == self.path and request.method == "POST":
            return await self._post(request)
        if request.path == self.path and request.method == "GET":
            return await self._get(request)
        if request.path == self.path and request.method == "DELETE":
            return self._delete(request)
        self.fault(f"{request.method} {request.path}")
        raise Refusal(404)

    # ---- POST ------------------------------------------------------------------------------------------------

    async def _post(self, request: web.BaseRequest) -> web.StreamResponse:
        self.check_accept(request, "application/json", EVENT_STREAM)
        message = await self.read(request)
        stamped = META + "protocolVersion" in ((message.get("params") or {}).get("_meta") or {})
        if stamped or self.era == "modern" or request.headers.get(VERSION, "") >= MODERN:
            return await self._post_modern(request, message)
        if message.get("method") == "initialize":
            return await self._initialize(request, message)
        visit = self._session_of(request)
        if "method" in message and "id" in message:
            exchange = visit.exchange(message)
            visit.deliver(visit.take(message), exchange)
            return await self._reply(request, visit, exchange)
        if "method" not in message and message.get("id") not in visit.server.asked:
            self.fault(f"an answer to nothing that was asked: {message}")
            raise self._refusal(400, "Nobody asked")
        if message.get("method") == "notifications/initialized" and self.web["streamable"] and not visit.asked_to_stand:
            self.fault("notifications/initialized before the standing stream was asked for")
        await self.ponder(message)
        visit.deliver(visit.take(message))
        return web.Response(status=202)

    async def _post_modern(self, request: web.BaseRequest, message: Message) -> web.StreamResponse:
        if SESSION in request.headers or LAST_EVENT in request.headers:
            self.fault(f"a modern request with a session or an event id: {dict(request.headers)}")
        if "method" not in message or "id" not in message:
            self.fault(f"a modern client posts nothing but requests: {message}")
            raise self._refusal(400, "Not a request")
        wrong, method = mismatch(request.headers, message), message["method"]
        if wrong and method != "initialize":
            self.fault(wrong)
            raise Refusal(400, broken(-32020, wrong, message["id"]))
        if self.era != "older" and (unlike := param_mismatch(request.headers, message)):
            self.journal.note("unlike", unlike)
            raise Refusal(400, broken(-32020, unlike, message["id"]))
        visit = self._visit_of(message)
        exchange = visit.exchange(message)
        said = visit.take(message)
        if said and method == "tools/list" and self._blind:
            self._blind -= 1
            said = json.loads(json.dumps(said).replace("x-mcp-header", "x-nothing"))
        if said and method == "initialize":
            said = [broken(-32020, f"no header {VERSION}", message["id"])]
        if said and self.era == "older":
            visit.open.clear()
            raise self._refusal(400, "Bad Request: Missing session ID")
        visit.deliver(said, exchange)
        return await self._reply(request, visit, exchange)

    def _visit_of(self, message: Message) -> Visit:
        """Return the visit of a request. An id that is already in flight means another client."""
        for visit in self._visits:
            if str(message["id"]) not in visit.open:
                return visit
        self._visits.append(self.new_life())
        return self._visits[-1]

    async def _initialize(self, request: web.BaseRequest, message: Message) -> web.StreamResponse:
        if SESSION in request.headers:
            self.fault("initialize with a session id")
        visit = self._visits.pop() if self._visits else self.new_life()
        visit.session = uuid.uuid4().hex
        exchange = visit.exchange(message)
        visit.deliver(visit.take(message), exchange)
        await exchange.begun()
        result = exchange.messages[0].get("result")
        if not isinstance(result, dict):
            return await self._reply(request, visit, exchange)
        visit.version = result["protocolVersion"]
        self._sessions[visit.session] = visit
        return await self._reply(request, visit, exchange, {SESSION: visit.session})

    async def _reply(
        self, request: web.BaseRequest, visit: Visit, exchange: Exchange, headers: dict[str, str] | None = None
    ) -> web.StreamResponse:
        try:
            if not (visit.session and self.web["eager"]):
                await exchange.begun()
                if exchange.done and len(exchange.messages) == 1:
                    (answer,) = exchange.messages
                    code = None if visit.session else answer.get("error", {}).get("code")
                    return web.json_response(answer, status=STATUSES.get(code, 200), headers=headers)
            return await self._pour(request, visit, exchange, 0, headers)
        except (ConnectionError, asyncio.CancelledError):
            if not visit.session and not visit.over and not exchange.done:
                self._closed(visit, exchange)
            raise

    def _closed(self, visit: Visit, exchange: Exchange) -> None:
        """Handle a closed stream of a request: in the modern era this cancels the request."""
        self.journal.note("closed", exchange.id)
        visit.open.pop(str(exchange.id), None)
        visit.server.ids.discard(exchange.id)
        visit.server.take_back(exchange.id)
        if exchange.method == LISTEN and not any(each.method == LISTEN for each in visit.open.values()):
            visit.over = True
            if visit in self._visits:
                self._visits.remove(visit)

    # ---- streams ---------------------------------------------------------------------------------------------

    async def _pour(
        self,
        request: web.BaseRequest,
        visit: Visit,
        stream: Stream,
        start: int,
        headers: dict[str, str] | None = None,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=STREAM_HEADERS | (headers or {}))
        await response.prepare(request)
        if start == 0 and "2025-11-25" <= visit.version < MODERN:
            await stream.prime(response)
        else:
            await response.write(b": welcome\r\n\r\n")
        if isinstance(stream, Exchange) and stream.method == "tools/call" and self._cuts:
            return await self._cut(request, response, stream, start, self._cuts.pop(0))
        stream.transport = request.transport
        await stream.pour(response, start)
        await response.write_eof()
        return response

    async def _cut(
        self, request: web.BaseRequest, response: web.StreamResponse, stream: Stream, start: int, manner: str
    ) -> web.StreamResponse:
        """End the connection, but not the stream."""
        if manner == "middle":
            await stream.begun()
            event = stream.event(start)
            await response.write(event[: len(event) // 2])
        if manner != "end" and request.transport is not None:
            request.transport.abort()
            return await asyncio.get_running_loop().create_future()
        await response.write_eof()
        return response

    async def _get(self, request: web.BaseRequest) -> web.StreamResponse:
        self.check_accept(request, EVENT_STREAM)
        if self.era == "modern":
            self.fault("a standing stream is none of the modern era's")
            raise Refusal(405, Allow="POST")
        visit = self._session_of(request)
        if (last := request.headers.get(LAST_EVENT)) is not None:
            name, _, number = last.rpartition("/")
            if name not in visit.streams or not number.isdigit() or int(number) > len(visit.streams[name].messages):
                self.fault(f"no event has the id {last!r}")
                raise self._refusal(400, "Unknown event")
            return await self._pour(request, visit, visit.streams[name], int(number))
        visit.asked_to_stand = True
        if not self.web["streamable"]:
            self.fault("a standing stream for a client that wants none")
        if not self.web["standing"] or not self.web["streamable"]:
            raise Refusal(405, Allow="POST, DELETE")
        if visit.standing.reader is not None:
            self.fault("a second standing stream")
            raise self._refusal(409, "Conflict")
        return await self._pour(request, visit, visit.standing, visit.standing.sent)

    # ---- sessions --------------------------------------------------------------------------------------------

    def _session_of(self, request: web.BaseRequest) -> Visit:
        id, version = request.headers.get(SESSION), request.headers.get(VERSION)
        if id is None:
            self.fault(f"{request.method} without a session id")
            raise self._refusal(400, "Bad Request: Missing session ID")
        if id in self._deleted:
            self.fault(f"{request.method} on a session that the client has deleted")
        visit = self._sessions.get(id)
        if visit is None:
            raise self._refusal(404, "Session not found")
        if version != visit.version and (version is not None or visit.version >= "2025-06-18"):
            self.fault(f"{request.method} with the version {version}, not {visit.version}")
            raise self._refusal(400, "Bad Request: Unsupported protocol version")
        return visit

    def _delete(self, request: web.BaseRequest) -> web.StreamResponse:
        visit = self._session_of(request)
        visit.over = True
        del self._sessions[visit.session]
        self._deleted.add(visit.session)
        for stream in visit.streams.values():
            stream.end()
        return web.Response(status=204)

    def _refusal(self, status: int, why: str) -> Refusal:
        return Refusal(status) if self.web["wordless"] else Refusal(status, broken(-32600, why, "server-error"))
