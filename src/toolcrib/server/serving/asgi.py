"""The common part of the ASGI apps: reading a body within limits, sending responses, detecting disconnections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from ..._util.cancellation import OwnCancellation
from ...protocol import jsonrpc
from ...protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, RequestId
from ...protocol.versions import HEADER_MISMATCH
from ...types import Wire

log = logging.getLogger("toolcrib.server")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = dict[bytes, bytes]


MAX_BODY: Final = 4 * 1024 * 1024
"""Maximum size of a request body in bytes."""
BODY_TIMEOUT: Final = 30.0
"""Seconds that the body of a request may take to arrive, from its headers to its last byte."""
MAX_LENGTH_DIGITS: Final = 18
"""Digits of a `Content-Length` that are parsed; a longer number is above every limit."""
POLL_SECONDS: Final = 0.1
LINGER_SECONDS: Final = 2.0
"""Seconds for which the rest of a body that is too large is still read."""
CLOSE_SECONDS: Final = 2.0
"""Seconds that cancelled tasks have to end when an app is closed."""
UNIQUE_HEADERS: Final = frozenset(
    {b"host", b"origin", b"authorization", b"content-type", b"content-length", b"last-event-id"}
)
"""Headers that a request must not repeat, besides those that begin with `mcp-`."""


class Refused(Exception):
    """Raised to reject an HTTP request with a status code, before its handler runs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: int = INVALID_REQUEST,
        id: RequestId | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        plain: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.plain = plain
        """Whether to send plain text, for a URL without an endpoint for this method. A JSON-RPC body would look like an
        answer of an MCP server, and clients would not fall back to an older transport."""
        self.code = code
        self.id = id
        self.headers = headers

    async def reply(self, send: Send) -> None:
        """Send the response: a JSON-RPC error with the id of the request, if that is known, or plain text."""
        if self.plain:
            await reply(send, self.status, f"{self}\n".encode(), *self.headers, kind=b"text/plain; charset=utf-8")
            return
        body = jsonrpc.error(self.id, self.code, str(self))
        if self.id is None:
            del body["id"]
        await reply(send, self.status, jsonrpc.encode(body), *self.headers)


class ClientDisconnected(Exception):
    """Raised when the client disconnects before it has sent the whole body."""


class AsgiApp(ABC):
    """Base class of the ASGI apps. It does not depend on lifespan events, which a mounted app does not receive."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] == "http":
            send = self.expose(scope, send)
            try:
                await self.respond(scope, receive, send)
            except Refused as exc:
                await exc.reply(send)
            except ClientDisconnected:
                log.debug("a client disconnected before it had sent its whole request")
        elif scope["type"] == "lifespan":
            await self._handle_lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _handle_lifespan(self, receive: Receive, send: Send) -> None:
        while (event := await receive())["type"] != "lifespan.shutdown":
            await send({"type": event["type"] + ".complete"})
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    def expose(self, scope: Scope, send: Send) -> Send:  # noqa: ARG002  # apps with allowed origins need it
        """Return `send` with the headers that let a page of an allowed origin read the response."""
        return send

    @abstractmethod
    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or raise `Refused`."""

    @abstractmethod
    async def drain(self, seconds: float) -> None:
        """End subscriptions, and wait up to `seconds` for running requests to finish."""

    @abstractmethod
    async def close(self) -> None:
        """Cancel running requests, and end all sessions, suspended calls and subscriptions."""


def path_of(scope: Scope) -> str:
    """Return the path below the app's mount point. Some frameworks have removed the mount point from it already."""
    path: str = scope["path"]
    root = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and (path == root or path.startswith(root + "/")) else path


async def reply(
    send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes], kind: bytes = b"application/json"
) -> None:
    """Send a whole response."""
    length = (b"content-length", b"%d" % len(body))
    every = [(b"content-type", kind), length, *headers] if body else [length, *headers]
    try:
        await send({"type": "http.response.start", "status": status, "headers": every})
        await send({"type": "http.response.body", "body": body})
    except OSError as exc:
        log.debug("a client disconnected before its response was sent: %r", exc)


class BodyReader:
    """Reads the bodies of requests, each within a limit of bytes and of seconds.

    One timer serves all of them: a body that has arrived already costs only an entry in a dict.
    """

    def __init__(self, limit: int = MAX_BODY, timeout: float = BODY_TIMEOUT) -> None:
        self._limit = limit
        self._timeout = timeout
        # Earliest deadline first, because all bodies have the same timeout. Each with its event loop, because an app
        # may outlive a loop.
        self._deadlines: dict[OwnCancellation, tuple[float, asyncio.AbstractEventLoop]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, receive: Receive, headers: Headers) -> bytes:
        """Return the whole body; raises `Refused` if it is too large or takes too long to arrive."""
        loop = asyncio.get_running_loop()
        cancellation = OwnCancellation(loop)
        if self._loop is not loop:
            self._loop, self._timer = loop, None
        deadline = loop.time() + self._timeout
        self._deadlines[cancellation] = (deadline, loop)
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)
        try:
            return await read_body(receive, headers, self._limit)
        except asyncio.CancelledError:
            if cancellation.cancelled_by_others() or not cancellation.requested:
                raise
            message = f"the body did not arrive within {self._timeout:g} seconds"
            raise Refused(408, message, headers=((b"connection", b"close"),)) from None
        finally:
            cancellation.take_back()
            del self._deadlines[cancellation]

    def _expire(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        for cancellation, (deadline, its_loop) in self._deadlines.items():
            if cancellation.requested or its_loop is not loop:
                continue
            if deadline > loop.time():
                self._timer = loop.call_at(deadline, self._expire)
                break
            cancellation.cancel()


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """Return the whole body of a request; raises `Refused` if it is above the limit."""
    declared = headers.get(b"content-length", b"")
    fits = not declared.isdigit() or (len(declared) <= MAX_LENGTH_DIGITS and int(declared) <= limit)
    parts: list[bytes] = []
    size, more = 0, True
    while fits:
        event = await receive()
        if event["type"] != "http.request":
            raise ClientDisconnected
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        fits, more = size <= limit, event.get("more_body", False)
        if fits and not more:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    if more and b"expect" not in headers:  # a client with `Expect: 100-continue` has not begun to send the body
        await _discard_body(receive, 4 * limit)
    raise Refused(413, f"the body is above the limit of {limit:,} bytes", headers=((b"connection", b"close"),))


async def _discard_body(receive: Receive, limit: int) -> None:
    """Read and discard up to `limit` bytes: a client that is still sending would get a reset and not the response."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while limit > 0:
                event = await receive()
                limit -= len(event.get("body", b""))
                if not event.get("more_body"):
                    return


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected, or has received its whole response."""
    while (await receive())["type"] != "http.disconnect":  # noqa: ASYNC110  # ASGI has no event to wait for
        await asyncio.sleep(POLL_SECONDS)  # middleware may return the end of the body again and again, without waiting


async def wait_for_end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait up to `CLOSE_SECONDS` seconds until tasks that were cancelled, or are about to finish, have ended."""
    loop = asyncio.get_running_loop()
    here = [task for task in tasks if task.get_loop() is loop]  # an app may outlive a loop
    if here:
        await asyncio.wait(here, timeout=CLOSE_SECONDS)


def text_headers(headers: Headers) -> dict[str, str]:
    """Return the headers as `str`, with names in lower case."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}


def takes_events(headers: Headers) -> bool:
    """Return whether the client accepts event streams; without an `Accept` header it does."""
    accept = headers.get(b"accept", b"*/*").lower()
    return b"text/event-stream" in accept or b"*/*" in accept or b"text/*" in accept


def parts(message: Any) -> tuple[RequestId | None, str | None, Wire]:
    """Return the id, method and params of a message. The id of a notification and the method of a response are None.

    Raises `Refused` if it is not a valid JSON-RPC message.
    """
    if type(message) is not dict or message.get("jsonrpc") != "2.0":
        raise Refused(400, "the body must be one JSON-RPC 2.0 message")
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if "id" in message and not jsonrpc.is_id(id):
        raise Refused(400, "id: must be a string or an integer")
    if "method" not in message:
        if id is None or ("result" in message) == ("error" in message):
            raise Refused(400, "the body is neither a request nor a notification nor a response")
        return id, None, {}
    if not isinstance(method, str):
        raise Refused(400, "method: must be a string", id=id)
    if type(params) is not dict:
        raise Refused(400, "params: must be an object", code=INVALID_PARAMS, id=id)
    if "_meta" in params and type(params["_meta"]) is not dict:
        raise Refused(400, "_meta: must be an object", code=INVALID_PARAMS, id=id)
    return id, method, params


def check_duplicates(every: list[tuple[bytes, bytes]], headers: Headers) -> None:
    """Raise `Refused` for a repeated header that decides about the request: a proxy may have checked the other one."""
    if len(every) == len(headers):
        return
    seen: set[bytes] = set()
    for name, _ in every:
        if name in seen and (name.startswith(b"mcp-") or name in UNIQUE_HEADERS):
            raise Refused(400, f"{name.decode('latin-1')}: sent more than once", code=HEADER_MISMATCH)
        seen.add(name)
