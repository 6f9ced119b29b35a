"""Raw HTTP/1.1 on asyncio sockets: the requests that a test's server receives, and every byte that it sends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

BUFFER = 64 * 1024


def listening(port: int = 0, *, backlog: int = 500, receive: int | None = None) -> socket.socket:
    """Return a listening socket; `receive`: bytes that the kernel buffers for a server that does not read."""
    # Named TCP, or asyncio would not switch Nagle off: each answer in two writes would take 40 ms.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if receive is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    made.bind(("127.0.0.1", port))
    made.listen(backlog)
    made.setblocking(False)
    return made


@dataclass(frozen=True)
class Received:
    """One request as received."""

    verb: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(found) <= 1, f"{name} came {len(found)} times"
        return found[0] if found else None

    @cached_property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message of the body; empty if there is none, as in a provider's form."""
        is_json = (self.header("content-type") or "").startswith("application/json")
        return json.loads(self.body) if self.body and is_json else {}

    @property
    def method(self) -> str:
        """The JSON-RPC method of a POST ("" for an answer), the verb of anything else."""
        return self.message.get("method", "") if self.verb == "POST" else self.verb

    @property
    def params(self) -> dict[str, Any]:
        return self.message.get("params") or {}

    @property
    def arguments(self) -> dict[str, Any]:
        return self.params.get("arguments") or {}

    @property
    def nonce(self) -> str | None:
        return self.arguments.get("nonce") if self.method == "tools/call" else None

    @property
    def raw(self) -> str:
        """The whole request as text, to search for what must not be in it."""
        head = "\n".join(f"{name}: {value}" for name, value in self.headers)
        return f"{self.verb} {self.target}\n{head}\n\n{self.body.decode(errors='replace')}"


class Connection:
    """One accepted connection, from the server's side."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader, self.writer = reader, writer
        self.ended = False
        self._ahead = b""

    async def read_head(self) -> list[str] | None:
        """Return the lines of the next head; None if the peer disconnected or does not speak HTTP."""
        try:
            first = self._ahead or await self.reader.readexactly(1)
            self._ahead = b""
            if not first.isalpha():
                await self.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return None
            head = first + await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            return None
        return head.decode("latin-1").rstrip("\r\n").split("\r\n")

    async def read_request(self, hasty: int | None = None) -> Received | None:
        """Return the next request with its body; None if the peer disconnected early, or the request was refused."""
        lines = await self.read_head()
        if lines is None:
            return None
        verb, target, _ = lines[0].split(" ")
        pairs = (line.partition(":") for line in lines[1:])
        headers = tuple((name, value.strip()) for name, _, value in pairs)
        lower = {name.lower(): value for name, value in headers}
        if hasty is not None and int(lower.get("content-length", "0")) > 1 << 20:
            await self.send(b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % hasty)
            while await self.reader.read(BUFFER):
                continue
            return None
        try:
            if lower.get("transfer-encoding", "").lower() == "chunked":
                body = await self._read_chunked()
            else:
                body = await self.reader.readexactly(int(lower.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            return None
        return Received(verb, target, headers, body, self.number)

    async def _read_chunked(self) -> bytes:
        parts = []
        while size := int((await self.reader.readuntil(b"\r\n")).strip(), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(parts)

    async def until_gone(self) -> None:
        """Wait until the peer closes or resets; data that it sends meanwhile is kept for the next request."""
        try:
            byte = await self.reader.read(1)
        except (ConnectionError, ssl.SSLError):
            return
        if byte:
            self._ahead += byte
            await asyncio.Event().wait()

    async def send(self, data: bytes) -> None:
        """Write, and wait until the kernel has nearly all of it; raises `ConnectionError` if the peer disconnected."""
        if self.ended:
            raise ConnectionResetError("ended by us")
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        """Close with a FIN after the written data."""
        self.ended = True
        self.writer.close()

    async def over(self) -> None:
        """Wait until the connection is closed; the fate of its last bytes does not matter."""
        if not self.ended:
            self.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await self.writer.wait_closed()

    def reset(self) -> None:
        """Close with an RST: the peer's next read fails at once."""
        self.ended = True
        if not self.writer.is_closing():
            linger = struct.pack("ii", 1, 0)
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


class Exchange:
    """One request and the bytes of its answer."""

    def __init__(self, connection: Connection, received: Received) -> None:
        self.connection = connection
        self.received = received
        self.chunked = False

    async def head(self, status: int, headers: Headers = (), *, chunked: bool = False) -> None:
        """Send the status line and exactly these headers; `chunked` adds its own."""
        self.chunked = chunked
        pairs = [*(headers.items() if isinstance(headers, Mapping) else headers)]
        if chunked:
            pairs.append(("Transfer-Encoding", "chunked"))
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Odd"
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in pairs)]
        await self.raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        await self.connection.send(data)

    async def part(self, data: bytes) -> None:
        """Send a piece of the body, as a chunk if the head announced that."""
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)

    async def end(self) -> None:
        """End the body."""
        if self.chunked:
            await self.raw(b"0\r\n\r\n")

    async def respond(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        """Send a complete answer; adds its length unless the headers have one."""
        pairs = [*(headers.items() if isinstance(headers, Mapping) else headers)]
        if not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in pairs):
            pairs.append(("Content-Length", str(len(body))))
        await self.head(status, pairs)
        if body:
            await self.raw(body)
