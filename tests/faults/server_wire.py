"""The bytes sent to a server, and its answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
VERSION, INFO, CAPABILITIES, LEVEL = (
    f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities", "logLevel")
)
ACCEPTED = {"action": "accept", "content": {"ok": True}}
PATIENCE = 10.0

Pairs = Sequence[tuple[str, str | bytes]]


def meta(version: Any = MODERN, capabilities: Any = None, **more: Any) -> dict[str, Any]:
    """Return the `_meta` of a modern request."""
    return {
        VERSION: version,
        INFO: {"name": "raw", "version": "1"},
        CAPABILITIES: {"elicitation": {}} if capabilities is None else capabilities,
        **more,
    }


def message(method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})}


def modern(method: str, params: Mapping[str, Any] | None = None, id: Any = 1, **more: Any) -> dict[str, Any]:
    return message(method, {**(params or {}), "_meta": meta(**more)}, id)


def call(tool: str, arguments: Any = None, **params: Any) -> dict[str, Any]:
    """Return the params of a `tools/call`."""
    return {"name": tool, "arguments": {} if arguments is None else arguments, **params}


def modern_headers(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the required headers of a modern request."""
    params = request.get("params", {})
    said = {"Mcp-Protocol-Version": params.get("_meta", {}).get(VERSION, MODERN), "Mcp-Method": request["method"]}
    named = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(request["method"])
    if named is not None:
        said["Mcp-Name"] = str(params.get(named))
    return said


@dataclass
class Answer:
    """A complete response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        said = self.json["error"]
        assert isinstance(said, dict)
        return said

    @property
    def code(self) -> int:
        return int(self.error["code"])

    @property
    def text(self) -> str:
        """The text of the tool's result."""
        return str(self.json["result"]["content"][0]["text"])


class Line:
    """One connection, byte for byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._held = b""

    async def say(self, data: bytes) -> None:
        """Send bytes. A server that stopped reading is not an error: it may have sent the reason."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def head(self) -> Answer:
        """Return the status and headers of the next response."""
        async with asyncio.timeout(PATIENCE):
            try:
                raw = await self.reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as exc:
                if exc.partial:
                    raise
                raise ConnectionResetError("closed without a word") from None
            if raw.startswith(b"HTTP/1.1 100"):
                raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").strip().split("\r\n")
        pairs = [line.partition(":") for line in lines]
        return Answer(int(first.split(" ")[1]), [(name.lower(), value.strip()) for name, _, value in pairs], b"")

    async def answer(self) -> Answer:
        """Return the next response, complete."""
        answer = await self.head()
        async with asyncio.timeout(PATIENCE):
            if (length := answer.header("content-length")) is not None:
                answer.body = await self.reader.readexactly(int(length))
            elif answer.header("transfer-encoding") == "chunked":
                answer.body = b"".join([chunk async for chunk in self.chunks()])
        return answer

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of a body as they arrive."""
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()

    async def events(self) -> AsyncIterator[dict[str, str]]:
        """Yield the events of a stream as they arrive, comments under `:`."""
        chunks = self.chunks()
        while True:
            while b"\n\n" not in self._held:
                chunk = await anext(chunks, None)
                if chunk is None:
                    return
                self._held += chunk
            one, _, self._held = self._held.partition(b"\n\n")
            pairs = [line.partition(":") for line in one.decode().split("\n")]
            yield {name or ":": value.removeprefix(" ") for name, _, value in pairs}

    async def event(self, within: float = PATIENCE) -> dict[str, str]:
        """Return the next event with data."""
        async with asyncio.timeout(within):
            async for event in self.events():
                if event.get("data"):
                    return event
        raise AssertionError("the stream ended")

    async def messages(self, within: float = PATIENCE) -> list[Any]:
        """Return all messages of a stream to its end."""
        async with asyncio.timeout(within):
            return [json.loads(event["data"]) async for event in self.events() if event.get("data")]

    async def ended(self) -> bool:
        """Return whether the server closed the connection without sending more."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    def cut(self) -> None:
        """Abort the connection."""
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def head_of(verb: str, path: str, headers: Pairs) -> bytes:
    """Return the head of a request, unchecked and with nothing added."""
    lines = [f"{verb} {path} HTTP/1.1".encode()]
    lines += [
        name.encode("latin-1") + b": " + (value if isinstance(value, bytes) else value.encode("latin-1"))
        for name, value in headers
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"
