"""The reference server over HTTP+SSE: one stream of messages, whose first event names the URL to post messages to."""

from __future__ import annotations

import asyncio
import uuid

from aiohttp import web

from tests.interaction.reference_server import ReferenceServer
from tests.interaction.reference_server_headers import SESSION
from tests.interaction.reference_server_web import EVENT_STREAM, STREAM_HEADERS, Front, Life, Refusal, Stream


class Line(Life):
    """A life that lasts as long as its stream."""

    def __init__(self, server: ReferenceServer) -> None:
        super().__init__(server)
        self.key = uuid.uuid4().hex
        self.stream = Stream()


class SseFront(Front):
    """GET opens the line; its first event names the URL for posts."""

    path = "/sse"

    def make_life(self, server: ReferenceServer) -> Line:
        return Line(server)

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if SESSION in request.headers:
            self.fault("a session id over HTTP+SSE")
        if request.path == self.path:
            if request.method != "GET":
                raise Refusal(405, Allow="GET")
            return await self._get(request)
        if request.path == "/messages" and request.method == "POST":
            return await self._post(request)
        self.fault(f"{request.method} {request.path}")
        raise Refusal(404)

    async def _get(self, request: web.BaseRequest) -> web.StreamResponse:
        self.check_accept(request, EVENT_STREAM)
        line = self.new_life()
        response = web.StreamResponse(headers=STREAM_HEADERS)
        await response.prepare(request)
        origin = self.origin if self.web["absolute"] else ""
        await response.write(f"event: endpoint\r\ndata: {origin}/messages?line={line.key}\r\n\r\n".encode())
        try:
            await line.stream.pour(response, 0)
        finally:
            line.over = True
            if line in self.lives:
                self.lives.remove(line)
        return response

    async def _post(self, request: web.BaseRequest) -> web.StreamResponse:
        message = await self.read(request)
        line = next((life for life in self.lives if life.key == request.query.get("line")), None)
        if line is None:
            raise Refusal(404)
        if "method" not in message and message.get("id") not in line.server.asked:
            self.fault(f"an answer to nothing that was asked: {message}")
            raise Refusal(400)
        await self.ponder(message)
        for said in line.take(message):
            line.stream.add(said)
        await asyncio.sleep(0)  # the answer may well come before the receipt
        return web.Response(status=202, text="Accepted")
