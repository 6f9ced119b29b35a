"""Proxies between a client and a server: one with TCP faults, and an HTTP proxy that works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.faults.http_wire import BUFFER, Connection, Received, listening


@dataclass(frozen=True)
class Fault:
    """The faults of a proxy. Bytes are counted from the moment at which the fault takes effect."""

    latency: float = 0.0
    """Seconds before each piece goes on, either way."""
    drip: float = 0.0
    """Answers are forwarded byte by byte, with this many seconds in between."""
    up: int | None = None
    """After this many bytes of requests, `then` happens."""
    down: int | None = None
    """After this many bytes of answers, `then` happens."""
    then: str = "fin"
    """"fin", "reset", "half" (FIN to the client, requests still go on), "blackhole" (nothing is forwarded)."""


FINE = Fault()


class Passage:
    """One connection through the proxy."""

    def __init__(self, client: Connection, server: Connection, fault: Fault) -> None:
        self.client, self.server = client, server
        self.up = self.down = 0
        self.last_request = b""
        self._fault = fault
        self.mute: set[str] = set()  # directions in which nothing is forwarded

    @property
    def fault(self) -> Fault:
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self._fault = fault
        self.up = self.down = 0

    @property
    def verb(self) -> str:
        """The verb of the current or last request."""
        return self.last_request.partition(b" ")[0].decode("latin-1")

    async def pump_up(self) -> None:
        while data := await self._read(self.client):
            if data.startswith((b"POST ", b"GET ", b"DELETE ", b"CONNECT ")):
                self.last_request = data
            if not await self._pass(data, self.server, "up"):
                return
        self.server.close()

    async def pump_down(self) -> None:
        while data := await self._read(self.server):
            if not await self._pass(data, self.client, "down"):
                return
        self.client.close()

    async def _read(self, source: Connection) -> bytes:
        try:
            return await source.reader.read(BUFFER)
        except ConnectionError:
            return b""

    async def _pass(self, data: bytes, sink: Connection, way: str) -> bool:
        """Forward a piece; return whether to go on after it."""
        if way in self.mute:
            return True
        if self.fault.latency:
            await asyncio.sleep(self.fault.latency)
        limit = getattr(self.fault, way)
        last = limit is not None and getattr(self, way) + len(data) >= limit
        if last and not (way == "up" and self.fault.then == "half"):
            data = data[: limit - getattr(self, way)]
        setattr(self, way, getattr(self, way) + len(data))
        try:
            for piece in [data[n : n + 1] for n in range(len(data))] if self.fault.drip and way == "down" else [data]:
                await sink.send(piece)
                if self.fault.drip:
                    await asyncio.sleep(self.fault.drip)
        except ConnectionError:
            return False
        if last:
            then, self.fault = self.fault.then, FINE
            self.break_off(then)
        return not self.client.ended

    def break_off(self, how: str) -> None:
        """Break the connection at once."""
        if how == "half":
            self.client.writer.write_eof()
            self.mute = {"down"}
        elif how == "blackhole":
            self.mute = {"up", "down"}
        else:
            for end in (self.client, self.server):
                end.reset() if how == "reset" else end.close()


class _Line:
    """A listener and the tasks of its connections."""

    def __init__(self) -> None:
        self.accepted = 0
        self.connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> Any:
        socket = listening()
        self.port = socket.getsockname()[1]
        self._server = await asyncio.start_server(self._accept, sock=socket, limit=BUFFER)
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        connection = Connection(self.accepted, reader, writer)
        task = asyncio.create_task(self._carry(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, connection: Connection) -> None:
        self.connections.add(connection)
        try:
            await self.carry(connection)
        finally:
            self.connections.discard(connection)
            await connection.over()

    async def carry(self, client: Connection) -> None:
        raise NotImplementedError

    async def _reach(self, host: str, port: int) -> Connection:
        reader, writer = await asyncio.open_connection(host, port, limit=BUFFER)
        return Connection(0, reader, writer)


async def _whichever_ends(*works: Coroutine[Any, Any, None], all_of_them: bool = False) -> None:
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.ALL_COMPLETED if all_of_them else asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class FaultProxy(_Line):
    """A TCP proxy to one port. `plan` returns the fault of each new connection, by its number from 1."""

    def __init__(self, port: int, plan: Callable[[int], Fault] = lambda number: FINE) -> None:
        super().__init__()
        self.target = port
        self.spec = plan
        self.passages: list[Passage] = []

    async def carry(self, client: Connection) -> None:
        passage = Passage(client, await self._reach("127.0.0.1", self.target), self.spec(client.number))
        self.passages.append(passage)
        try:
            await _whichever_ends(passage.pump_up(), passage.pump_down(), all_of_them=True)
        finally:
            self.passages.remove(passage)
            await passage.server.over()


class ForwardProxy(_Line):
    """An HTTP proxy: CONNECT for https, the absolute form for http. `asked` are the requested targets."""

    def __init__(self, refusal: int | None = None) -> None:
        super().__init__()
        self.refusal = refusal
        self.asked: list[Received] = []

    async def carry(self, client: Connection) -> None:
        while not client.ended and (received := await client.read_request()) is not None:
            self.asked.append(received)
            if self.refusal is not None:
                await client.send(b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\n\r\n" % self.refusal)
            elif received.verb == "CONNECT":
                await self._tunnel(client, received)
            else:
                await self._forward(client, received)

    async def _tunnel(self, client: Connection, received: Received) -> None:
        host, _, port = received.target.rpartition(":")
        passage = Passage(client, await self._reach(host, int(port)), FINE)
        await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await _whichever_ends(passage.pump_up(), passage.pump_down())
        finally:
            client.close()
            await passage.server.over()

    async def _forward(self, client: Connection, received: Received) -> None:
        """Forward one request on its own connection, whose end is the end of the answer."""
        url = urlsplit(received.target)
        server = await self._reach(str(url.hostname), url.port or 80)
        headers = [(k, v) for k, v in received.headers if not k.lower().startswith(("proxy-", "connection"))]
        lines = [f"{received.verb} {url.path}{'?' if url.query else ''}{url.query} HTTP/1.1", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers]
        await server.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + received.body)

        async def answer() -> None:
            while data := await server.reader.read(BUFFER):
                await client.send(data)

        try:
            await _whichever_ends(answer(), client.until_gone())
        finally:
            await server.over()
