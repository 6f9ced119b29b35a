"""An SSE app on its own port, and a stream that the test reads."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import uvicorn

from tests.unit.kit import eventually
from tests.unit.server.serving.answering import Bench
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.sse import SseEvent, SseParser
from toolcrib.server.serving.legacy_sse import SseApp


class Served:
    """An app on its own port."""

    def __init__(self, app: SseApp, bench: Bench, url: str) -> None:
        self.app = app
        self.bench = bench
        self.url = url


@asynccontextmanager
async def serving(root_path: str = "", **options: Any) -> AsyncIterator[Served]:
    bench = Bench()
    app = SseApp(bench, **options)
    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="warning", lifespan="off", root_path=root_path, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve(sockets=[bound]))
    try:
        await eventually(lambda: server.started)
        yield Served(app, bench, f"http://127.0.0.1:{bound.getsockname()[1]}")
    finally:
        await app.close()
        server.should_exit = True
        await task
    assert len(app) == 0
    assert bench.watches == []


class Reader:
    """A stream that the test reads, and the URL for its messages."""

    def __init__(self, http: aiohttp.ClientSession, url: str, response: aiohttp.ClientResponse) -> None:
        self._http = http
        self._url = url
        self._response = response
        self._stream = SseParser()
        self._events: list[SseEvent] = []
        self.raw = b""
        self.endpoint = ""

    async def event(self) -> SseEvent:
        while not self._events:
            async with asyncio.timeout(10):
                data = await self._response.content.readany()
            if not data:
                raise EOFError
            self.raw += data
            self._events += [event for event in self._stream.feed(data) if isinstance(event, SseEvent)]
        return self._events.pop(0)

    async def message(self) -> Any:
        event = await self.event()
        assert event.event == "message"
        return json.loads(event.data)

    async def post(self, message: Any, headers: Mapping[str, str] = {}, query: str | None = None) -> int:
        path, _, own = self.endpoint.partition("?")
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        whole = {"Content-Type": "application/json", **headers}
        url = f"{self._url}{path}?{own if query is None else query}"
        async with self._http.post(url, data=io.BytesIO(data), headers=whole) as response:
            return response.status

    async def initialize(self, version: str = "2025-11-25") -> None:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "raw"}}
        assert await self.post(jsonrpc.request("i", "initialize", params)) == 202
        assert (await self.message())["result"]["protocolVersion"] == version

    def close(self) -> None:
        self._response.close()


@asynccontextmanager
async def reading(served: Served, path: str = "/sse", **headers: str) -> AsyncIterator[Reader]:
    async with aiohttp.ClientSession(headers=headers) as http, http.get(served.url + path) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        reader = Reader(http, served.url, response)
        first = await reader.event()
        assert first.event == "endpoint"
        reader.endpoint = first.data
        yield reader
