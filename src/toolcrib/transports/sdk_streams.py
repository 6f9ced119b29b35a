"""Adapters for transports and servers of the `mcp` SDK, 1.x and 2.x, by duck typing. `mcp` is never imported here.

A transport callable may return one of the following, or an async context manager or an awaitable of it:
- a `MessageStream`;
- a pair `(read, write)` of streams, or 1.x's triple with a function for the session id, whose items are the SDK's
  `SessionMessage`s.

A server object of FastMCP or of the SDK is run in this process, over streams in memory.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from ..errors import ConfigError, ConnectionLost
from ..protocol.jsonrpc import Message
from .message_stream import MessageStream, closing_stream

log = logging.getLogger("toolcrib.transports")


def connector(factory: Callable[[], Any]) -> Callable[[], AbstractAsyncContextManager[MessageStream]]:
    """Return a function that opens a `MessageStream` with the user's transport callable, once per connection."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[MessageStream]:
        made = factory()
        if inspect.isawaitable(made):
            made = await made
        if hasattr(made, "__aenter__") and not isinstance(made, MessageStream):
            async with made as entered:
                yield _stream(entered)
        else:
            async with closing_stream(_stream(made)) as stream:
                yield stream

    return connect


def _stream(made: Any) -> MessageStream:
    if isinstance(made, MessageStream):
        return made
    if isinstance(made, tuple) and len(made) in (2, 3) and hasattr(made[1], "send"):
        return StreamPair(made[0], made[1])
    raise ConfigError(
        f"server: the transport callable returned {type(made).__name__}",
        key="server",
        expected="a MessageStream, a pair (read, write) of streams, or an async context manager of one of these",
    )


class StreamPair:
    """A `MessageStream` over a pair of the SDK's streams, or of streams of plain dicts if the SDK is not loaded."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read = read
        self._items = aiter(read) if hasattr(read, "__aiter__") else None
        self._write = write
        self._wrap = _wrapper()

    async def send(self, message: Message) -> None:
        """Hand a message to the write stream."""
        await self._write.send(self._wrap(message))

    async def receive(self) -> Message:
        """Return the next message. The SDK's streams pass exceptions as items; one of them does not end the stream."""
        while True:
            try:
                item = await (anext(self._items) if self._items is not None else self._read.receive())
            except StopAsyncIteration:
                raise EOFError from None
            except Exception as exc:
                if type(exc).__name__ in ("EndOfStream", "ClosedResourceError", "BrokenResourceError"):
                    raise ConnectionLost(f"the transport's stream ended: {type(exc).__name__}") from exc
                raise
            if isinstance(item, Exception):
                return {"garbage": str(item)}
            return _unwrap(item)

    async def close(self) -> None:
        """Close both streams."""
        for stream in (self._write, self._read):
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()


def _wrapper() -> Callable[[Message], Any]:
    """Return the function that wraps a dict for the SDK's streams.

    A program that uses such a stream has loaded the SDK, so its classes can be looked up.
    """
    module = sys.modules.get("mcp.shared.message")
    if module is None:
        return lambda message: message
    envelope = module.SessionMessage
    adapter = getattr(sys.modules.get("mcp_types"), "jsonrpc_message_adapter", None)
    parse = adapter.validate_python if adapter is not None else sys.modules["mcp.types"].JSONRPCMessage.model_validate
    return lambda message: envelope(parse(message))


def _unwrap(item: Any) -> Message:
    message = getattr(item, "message", item)
    if hasattr(message, "model_dump"):
        message = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    return message  # type: ignore[no-any-return]  # the channel validates it


class SdkServer:
    """A server object of FastMCP or of the `mcp` SDK in this process, as a transport callable.

    Each connection is a run of the server over streams in memory; a server has as many as there are clients.
    """

    def __init__(self, server: Any) -> None:
        self.name = str(getattr(server, "name", "") or "custom")
        self._server = server

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Any]:
        """Run the server, and yield the client's pair of streams."""
        low_level = _low_level_server(self._server)
        lifespan = getattr(self._server, "_lifespan_manager", nullcontext)
        make_stream = sys.modules["anyio"].create_memory_object_stream  # loaded, because the server needs it
        (to_server, server_read), (to_client, client_read) = make_stream(1), make_stream(1)
        async with to_server, server_read, to_client, client_read, lifespan():
            options = low_level.create_initialization_options()
            serving = asyncio.create_task(self._serve(low_level, server_read, to_client, options))
            try:
                yield client_read, to_server
            finally:
                serving.cancel()
                await asyncio.wait([serving])

    async def _serve(self, low_level: Any, read: Any, write: Any, options: Any) -> None:
        """Run the server. When it ends, for example because its lifespan fails, the client's stream ends too."""
        try:
            await low_level.run(read, write, options, raise_exceptions=False)
        except Exception as exc:  # noqa: BLE001  # the server is not ours, and may raise anything
            log.warning("the server %s ended: %s: %s", self.name, type(exc).__name__, exc)
        finally:
            read.close()
            write.close()

    def __repr__(self) -> str:
        return f"SdkServer({self._server!r})"


def is_sdk_server(server: Any) -> bool:
    """Return whether this is a server object of FastMCP or of the `mcp` SDK, in any of its versions."""
    return _low_level_server(server) is not None


def _low_level_server(server: Any) -> Any:
    """Return the object whose `run` serves a pair of streams; None for any other object."""
    for each in (server, getattr(server, "_mcp_server", None), getattr(server, "_lowlevel_server", None)):
        if callable(getattr(each, "create_initialization_options", None)) and callable(getattr(each, "run", None)):
            return each
    return None
