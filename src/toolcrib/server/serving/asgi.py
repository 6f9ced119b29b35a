"""ASGI in small: reading a bounded body, answering at once, knowing when the client has gone."""

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
"""Bytes of one request."""
BODY_TIMEOUT: Final = 30.0
"""Seconds that the body of a request may take to arrive, from its headers to its last byte."""
LONG: Final = 19
"""Digits of a number that no body has bytes."""
AGAIN: Final = 0.1
LINGERING: Final = 2.0
"""Seconds to read on what is refused for its size."""
CLOSING: Final = 2.0
"""Seconds that cancelled tasks have to end when an app is closed."""
SINGLE: Final = frozenset({b"host", b"origin", b"authorization", b"content-type", b"content-length", b"last-event-id"})


class Refused(Exception):
    """A request that is answered by a status, before anything of it is done."""

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
        """No MCP is spoken there: a body of JSON-RPC would say the contrary, and clients look for an older way."""
        self.code = code
        self.id = id
        self.headers = headers

    async def reply(self, send: Send) -> None:
        """Send it, as a JSON-RPC error that names its request only if there is one."""
        if self.plain:
            await reply(send, self.status, f"{self}\n".encode(), *self.headers, kind=b"text/plain; charset=utf-8")
            return
        body = jsonrpc.error(self.id, self.code, str(self))
        if self.id is None:
            del body["id"]
        await reply(send, self.status, jsonrpc.encode(body), *self.headers)


class Gone(Exception):
    """The client left before it had said everything."""


class AsgiApp(ABC):
    """What every app of ours has in common. It needs no lifespan: a mounted one gets none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One scope, as ASGI has it."""
        if scope["type"] == "http":
            try:
                await self.respond(scope, receive, send)
            except Refused as exc:
                await exc.reply(send)
            except Gone:
                log.debug("a client left before it had said everything")
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        while (event := await receive())["type"] != "lifespan.shutdown":
            await send({"type": event["type"] + ".complete"})
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    @abstractmethod
    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or raise `Refused`."""

    @abstractmethod
    async def drain(self, seconds: float) -> None:
        """End what only listens, and give what is at work so much time."""

    @abstractmethod
    async def close(self) -> None:
        """End everything that runs, waits or listens."""


def path_of(scope: Scope) -> str:
    """The path below the place where the app is mounted; some leave that place away themselves."""
    path: str = scope["path"]
    root = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and (path == root or path.startswith(root + "/")) else path


async def reply(
    send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes], kind: bytes = b"application/json"
) -> None:
    """A whole response."""
    length = (b"content-length", b"%d" % len(body))
    every = [(b"content-type", kind), length, *headers] if body else [length, *headers]
    try:
        await send({"type": "http.response.start", "status": status, "headers": every})
        await send({"type": "http.response.body", "body": body})
    except OSError as exc:
        log.debug("a client went before its answer: %r", exc)


class BodyReader:
    """Reads the bodies of requests, each within a limit of bytes and of seconds.

    One timer serves all of them: a body that is already there costs no more than its place in a table.
    """

    def __init__(self, limit: int = MAX_BODY, timeout: float = BODY_TIMEOUT) -> None:
        self._limit = limit
        self._timeout = timeout
        # The earliest deadline first: all have the same time. With their loops, because an app may outlive one.
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
    fits = not declared.isdigit() or (len(declared) < LONG and int(declared) <= limit)
    parts: list[bytes] = []
    size, more = 0, True
    while fits:
        event = await receive()
        if event["type"] != "http.request":
            raise Gone
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        fits, more = size <= limit, event.get("more_body", False)
        if fits and not more:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    if more and b"expect" not in headers:  # else it waits for our word, and has not begun
        await _throw_away(receive, 4 * limit)
    raise Refused(413, f"the body is above the limit of {limit:,} bytes", headers=((b"connection", b"close"),))


async def _throw_away(receive: Receive, limit: int) -> None:
    """A client that still writes would get a reset instead of the answer; there is an end to this patience too."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGERING):
            while limit > 0:
                event = await receive()
                limit -= len(event.get("body", b""))
                if not event.get("more_body"):
                    return


async def until_gone(receive: Receive) -> None:
    """Return when the client has left, or has got its whole response."""
    while (await receive())["type"] != "http.disconnect":  # noqa: ASYNC110  # there is nothing to be told by
        await asyncio.sleep(AGAIN)  # what stands around us may say the body's end again, without waiting


async def wait_for_end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until tasks that were cancelled, or have nothing more to do, have ended; not for long."""
    loop = asyncio.get_running_loop()
    mine = [task for task in tasks if task.get_loop() is loop]  # an app may outlive a loop
    if mine:
        await asyncio.wait(mine, timeout=CLOSING)


def text_headers(headers: Headers) -> dict[str, str]:
    """Headers as text, names in lower case."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}


def takes_events(headers: Headers) -> bool:
    """Whether the client reads event streams; one that says nothing does."""
    accept = headers.get(b"accept", b"*/*").lower()
    return b"text/event-stream" in accept or b"*/*" in accept or b"text/*" in accept


def parts(message: Any) -> tuple[RequestId | None, str | None, Wire]:
    """Id, method and params of a message: no id is a notification, no method an answer."""
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
    """Of what decides there is one: of two, somebody on the way may have judged the other."""
    if len(every) == len(headers):
        return
    seen: set[bytes] = set()
    for name, _ in every:
        if name in seen and (name.startswith(b"mcp-") or name in SINGLE):
            raise Refused(400, f"{name.decode('latin-1')}: came more than once", code=HEADER_MISMATCH)
        seen.add(name)
