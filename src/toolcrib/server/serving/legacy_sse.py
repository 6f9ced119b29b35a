"""Serving over HTTP+SSE, the transport of the first protocol revision.

The server sends all messages on one event stream, and the client posts its messages to the URL in its first event.
"""

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
    wait_for_disconnect,
)
from .security import CredentialTimer, RequestGuard, ends_with_credentials
from .sse_stream import HEAD, KEEP_ALIVE
from .stream_session import StreamSession

log = logging.getLogger("toolcrib.server")

MAX_SESSIONS: Final = 1_000
MAX_UNREAD_BYTES: Final = 4 * 1024 * 1024
"""Bytes that may be queued for a client that does not read; above it, senders wait and posted messages are rejected."""
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the running and queued requests of all sessions together."""
KEY: Final = "session_id"


class _SseSession:
    """The session of one client, and the queue of events for its stream."""

    def __init__(self, handler: RequestHandler, principal: Any, quota: SubscriptionQuota, held: ByteBudget) -> None:
        self.key = secrets.token_urlsafe(24)
        self.principal = principal
        self.stream_session = StreamSession(
            handler, self.send, principal=principal, session=self.key, quota=quota, held=held
        )
        self._queue: list[bytes] = []
        self._size = 0
        self._changed = asyncio.Event()
        self._room: asyncio.Future[None] | None = None
        self._ended = False
        self.timer: CredentialTimer | None = None
        """Ends the stream when all credentials that the client has sent have expired; None if it has ended."""

    def use_principal(self, principal: Any) -> None:
        """Use the newer credentials of the same principal: the stream, which holds the session, ends with them."""
        self.stream_session.use_principal(principal)
        if self.timer is not None:
            self.timer.renew(principal)

    @property
    def full(self) -> bool:
        """Whether too many bytes are queued because the client does not read its stream."""
        return self._size > MAX_UNREAD_BYTES

    def check_room(self) -> None:
        """Raise `Refused` while too many bytes are queued for the client."""
        if self.full:
            raise Refused(503, "read the event stream first: too much is queued", headers=((b"retry-after", b"1"),))

    def send(self, message: Message | list[Message]) -> asyncio.Future[None] | None:
        """Queue a message; returns a future to wait for if too many bytes are queued already."""
        event = b"event: message\ndata: %s\n\n" % jsonrpc.encode(message)
        if self._ended:
            return None
        self._queue.append(event)
        self._size += len(event)
        self._changed.set()
        if self.full and self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        return self._room

    async def pump(self, send: Send, endpoint: str, keep_alive: float) -> None:
        """Send the queued events as a response, until `end` is called."""
        await send({"type": "http.response.start", "status": 200, "headers": list(HEAD)})
        data = f"event: endpoint\ndata: {endpoint}\n\n".encode()
        while data:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            data = await self._next(keep_alive)
        await send({"type": "http.response.body", "body": b""})

    async def _next(self, keep_alive: float) -> bytes:
        """Return the events that are queued, a comment after `keep_alive` seconds without any, or b"" at the end."""
        if not self._queue and not self._ended:
            self._release()
            self._changed.clear()
            try:
                async with asyncio.timeout(keep_alive):
                    await self._changed.wait()
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
        """End the stream after the events that are queued already."""
        self._ended = True
        self._changed.set()
        self._release()


class SseApp(AsgiApp):
    """An ASGI app: GET `path` opens the event stream; its first event has the URL to which messages are posted.

    This URL contains an unguessable key and works only for the principal that opened the stream; any other principal
    gets 404. A session lives as long as its stream.
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
        self._sessions: dict[str, _SseSession] = {}
        self._quota = SubscriptionQuota()
        self._held = ByteBudget(MAX_HELD_BYTES)

    def __len__(self) -> int:
        return len(self._sessions)

    def expose(self, scope: Scope, send: Send) -> Send:
        """Return `send` with the headers that let a page of an allowed origin read the response."""
        return self._guard.expose(scope, send)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or raise `Refused`."""
        headers: Headers = dict(scope["headers"])
        check_duplicates(scope["headers"], headers)
        if await self._guard.answer_public(scope, headers, send):
            return
        principal = await self._guard.admit(headers, scope.get("query_string", b""))
        path = path_of(scope)
        if path == self._path:
            _check_method(scope, "GET")
            await self._stream(receive, send, principal, scope.get("root_path", "").rstrip("/"))
        elif path == self._messages:
            _check_method(scope, "POST")
            session = self._find(scope, principal)
            message, size = await self._message(receive, headers)
            self._guard.check_calls(message, principal)
            session.check_room()  # other messages may have been posted while this one was read
            session.use_principal(principal)
            session.stream_session.feed(message, text_headers(headers), size)
            await reply(send, 202)
        else:
            raise Refused(404, f"not found; the MCP endpoint is {self._path}", plain=True)

    async def _stream(self, receive: Receive, send: Send, principal: Any, root: str) -> None:
        if len(self._sessions) >= self._max_sessions:
            raise Refused(503, "too many open sessions", headers=((b"retry-after", b"30"),))
        session = _SseSession(self._handler, principal, self._quota, self._held)
        self._sessions[session.key] = session
        endpoint = f"{root}{self._messages}?{KEY}={session.key}"
        pump = asyncio.ensure_future(session.pump(send, endpoint, self._keep_alive))
        watcher = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            with ends_with_credentials(principal, session.end) as session.timer:
                await asyncio.wait([pump, watcher], return_when=asyncio.FIRST_COMPLETED)
        finally:
            session.timer = None
            self._sessions.pop(session.key, None)
            session.end()
            for task in (pump, watcher):
                task.cancel()
            pumped, _ = await asyncio.gather(pump, watcher, return_exceptions=True)
            await session.stream_session.close()
        if isinstance(pumped, Exception):
            log.debug("the event stream to a client failed: %r", pumped)

    async def _message(self, receive: Receive, headers: Headers) -> tuple[Any, int]:
        """Return the message in the body, and the size of the body."""
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":  # a page of another origin could send anything else without a preflight request
            raise Refused(415, "Content-Type: must be application/json")
        body = await self._bodies.read(receive, headers)
        try:
            return jsonrpc.decode(body), len(body)
        except ProtocolError as exc:
            raise Refused(400, exc.message, code=jsonrpc.PARSE_ERROR) from None

    def _find(self, scope: Scope, principal: Any) -> _SseSession:
        keys = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(KEY, [""])
        session = self._sessions.get(keys[0])
        if session is None or session.principal != principal:
            raise Refused(404, f"{KEY}: no such session; open a new stream")
        session.check_room()
        return session

    async def drain(self, seconds: float) -> None:
        """Stop taking messages, and wait up to `seconds` for running requests to finish."""
        await asyncio.gather(*(session.stream_session.close(seconds) for session in self._sessions.values()))

    async def close(self) -> None:
        """End every session and its stream."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.stream_session.close()
            session.end()


def _check_method(scope: Scope, method: str) -> None:
    if scope["method"] != method:
        raise Refused(405, f"method not allowed; use {method}", headers=((b"allow", method.encode()),), plain=True)
