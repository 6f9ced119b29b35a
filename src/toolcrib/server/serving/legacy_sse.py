"""Serving over HTTP+SSE, the first revision's way: one stream out, and messages are posted where it says."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Any, Final
from urllib.parse import parse_qs

from ...errors import ProtocolError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Message
from ..handler import RequestHandler
from ..quota import ByteBudget, SubscriptionQuota
from .asgi import (
    BODY_TIMEOUT,
    AsgiApp,
    BodyReader,
    Headers,
    Receive,
    Refused,
    Scope,
    Send,
    check_duplicates,
    path_of,
    reply,
    text_headers,
    until_gone,
)
from .security import RequestGuard
from .sse_stream import HEAD, KEEP_ALIVE
from .stream_session import StreamSession

log = logging.getLogger("toolcrib.server")

MAX_SESSIONS: Final = 1_000
FULL: Final = 4 * 1024 * 1024
"""Bytes that may wait for a client that does not read, before who sends waits too and no more messages are taken."""
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the requests at work and waiting, of all sessions together."""
KEY: Final = "session_id"


class _SseSession:
    """What goes out to one client, and the session behind it."""

    def __init__(self, handler: RequestHandler, principal: Any, quota: SubscriptionQuota, held: ByteBudget) -> None:
        self.key = secrets.token_urlsafe(24)
        self.principal = principal
        self.session = StreamSession(handler, self.send, principal=principal, session=self.key, quota=quota, held=held)
        self._queue: list[bytes] = []
        self._size = 0
        self._notifications = asyncio.Event()
        self._room: asyncio.Future[None] | None = None
        self._ended = False

    @property
    def full(self) -> bool:
        """Whether the client does not read what it is told."""
        return self._size > FULL

    def check_room(self) -> None:
        """Raise `Refused` while the client does not read what the server sends."""
        if self.full:
            raise Refused(503, "the stream is not read", headers=((b"retry-after", b"1"),))

    def send(self, message: Message | list[Message]) -> asyncio.Future[None] | None:
        """Take a message; gives what to wait for if too much is waiting already."""
        event = b"event: message\ndata: %s\n\n" % jsonrpc.encode(message)
        if self._ended:
            return None
        self._queue.append(event)
        self._size += len(event)
        self._notifications.set()
        if self.full and self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        return self._room

    async def pump(self, send: Send, endpoint: str, keep_alive: float) -> None:
        """Bring it out as a response."""
        await send({"type": "http.response.start", "status": 200, "headers": list(HEAD)})
        data = f"event: endpoint\ndata: {endpoint}\n\n".encode()
        while data:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            data = await self._next(keep_alive)
        await send({"type": "http.response.body", "body": b""})

    async def _next(self, keep_alive: float) -> bytes:
        """What is to be said next; a comment after a silence, nothing at the end."""
        if not self._queue and not self._ended:
            self._release()
            self._notifications.clear()
            try:
                async with asyncio.timeout(keep_alive):
                    await self._notifications.wait()
            except TimeoutError:
                return b":\n\n"
        data = b"".join(self._queue)
        self._queue.clear()
        self._size = 0
        return data

    def _release(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def end(self) -> None:
        """Say nothing more than what is said already."""
        self._ended = True
        self._notifications.set()
        self._release()


class SseApp(AsgiApp):
    """An ASGI app: GET `path` opens the stream, whose first event says where messages are posted.

    That place has an unguessable key in it; it is also bound to the principal that opened the stream, and to anybody
    else it does not exist. A session lives as long as its stream.
    """

    def __init__(
        self,
        handler: RequestHandler,
        *,
        path: str = "/sse",
        messages: str | None = None,
        guard: RequestGuard | None = None,
        keep_alive: float = KEEP_ALIVE,
        max_sessions: int = MAX_SESSIONS,
        body_timeout: float = BODY_TIMEOUT,
    ) -> None:
        self._handler = handler
        self._path = "/" + path.strip("/")
        self._messages = f"{self._path.rstrip('/')}/messages" if messages is None else messages
        self._guard = guard or RequestGuard()
        self._keep_alive = keep_alive
        self._max_sessions = max_sessions
        self._bodies = BodyReader(timeout=body_timeout)
        self._lines: dict[str, _SseSession] = {}
        self._quota = SubscriptionQuota()
        self._held = ByteBudget(MAX_HELD_BYTES)

    def __len__(self) -> int:
        return len(self._lines)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers: Headers = dict(scope["headers"])
        check_duplicates(scope["headers"], headers)
        principal = await self._guard.admit(headers)
        path = path_of(scope)
        if path == self._path:
            _check_method(scope, "GET")
            await self._stream(receive, send, principal, scope.get("root_path", "").rstrip("/"))
        elif path == self._messages:
            _check_method(scope, "POST")
            line = self._find(scope, principal)
            message, size = await self._message(receive, headers)
            line.check_room()  # others may have been posted meanwhile
            line.session.feed(message, text_headers(headers), size)
            await reply(send, 202)
        else:
            raise Refused(404, "there is nothing here", plain=True)

    async def _stream(self, receive: Receive, send: Send, principal: Any, root: str) -> None:
        if len(self._lines) >= self._max_sessions:
            raise Refused(503, "too many sessions are open", headers=((b"retry-after", b"30"),))
        line = _SseSession(self._handler, principal, self._quota, self._held)
        self._lines[line.key] = line
        endpoint = f"{root}{self._messages}?{KEY}={line.key}"
        pump = asyncio.ensure_future(line.pump(send, endpoint, self._keep_alive))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait([pump, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._lines.pop(line.key, None)
            line.end()
            for task in (pump, gone):
                task.cancel()
            said, _ = await asyncio.gather(pump, gone, return_exceptions=True)
            await line.session.close()
        if isinstance(said, Exception):
            log.debug("the stream to a client broke: %r", said)

    async def _message(self, receive: Receive, headers: Headers) -> tuple[Any, int]:
        """The message in a body, and the size of the body."""
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":  # a page of another origin could send anything else without a preflight request
            raise Refused(415, "messages are application/json")
        body = await self._bodies.read(receive, headers)
        try:
            return jsonrpc.decode(body), len(body)
        except ProtocolError as exc:
            raise Refused(400, exc.message, code=jsonrpc.PARSE_ERROR) from None

    def _find(self, scope: Scope, principal: Any) -> _SseSession:
        keys = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(KEY, [""])
        line = self._lines.get(keys[0])
        if line is None or line.principal != principal:
            raise Refused(404, "there is no such session (any more); open a new stream")
        line.check_room()
        return line

    async def drain(self, seconds: float) -> None:
        """Give what is at work so much time."""
        await asyncio.gather(*(line.session.close(seconds) for line in self._lines.values()))

    async def close(self) -> None:
        """End every session and its stream."""
        lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            await line.session.close()
            line.end()


def _check_method(scope: Scope, method: str) -> None:
    if scope["method"] != method:
        raise Refused(405, f"here only {method} is known", headers=((b"allow", method.encode()),), plain=True)
