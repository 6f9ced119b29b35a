"""The legacy era over HTTP: sessions, resumable streams, and the server's requests to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ..._util.tasks import TaskSet
from ...errors import RemoteError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Message, RequestId
from ...types import Wire
from .. import eras
from ..handler import Peer, RequestContext, RequestHandler
from ..quota import ByteBudget, SubscriptionQuota
from ..requests import BATCHES, MAX_BATCH
from ..subscriptions import answer_in_session
from .asgi import Headers, Receive, Refused, Send, parts, reply, takes_events, text_headers, wait_for_disconnect
from .responses import DisconnectMonitor, Reply
from .security import ends_with_credentials
from .sessions import MAX_RUNNING, STANDALONE, LegacySession, LegacySessions
from .sse_stream import parse_event_id

SESSION: Final = b"mcp-session-id"
RESUME: Final = b"last-event-id"
CANCELLED: Final = -32800
MAX_DETACHED_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the bodies of requests that run on when their connection is lost."""
RETRY_SOON: Final = (b"retry-after", b"1")
EMPTY: Final[Mapping[str, str]] = {}


class _Call:
    """The `BackChannel` of one request in a session."""

    __slots__ = ("_out", "_session")

    def __init__(self, session: LegacySession, out: Reply) -> None:
        self._session = session
        self._out = out

    async def notify(self, method: str, params: Wire) -> None:
        """Send a notification on the request's own stream."""
        await self._out.notify(method, params)

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:  # noqa: ARG002  # only modern clients see it
        """Send a request to the client on this request's own stream, and return the client's result."""
        if not self._out.may_stream:
            raise RemoteError(
                INTERNAL_ERROR, "the client does not accept event streams, so no request can be sent to it"
            )
        return await self._session.server_requests.ask(method, params, self._out.open().push)

    async def pause(self) -> None:
        """End the response; the client resumes the stream for the rest."""
        await self._out.pause()


class _BatchReply(Reply):
    """The reply to one request of a batch: only its answer is kept, and notifications are dropped."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        super().__init__(_discard, {b"accept": b"application/json"})
        self.answer: bytes | None = None

    async def finish(self, answer: bytes | None, status: int = 200) -> None:  # noqa: ARG002  # the batch has one status
        """Keep the answer for the batch."""
        self.answer = answer


class LegacyHttp:
    """The legacy part of an HTTP endpoint."""

    def __init__(
        self,
        handler: RequestHandler,
        monitor: DisconnectMonitor,
        session_ttl: float,
        max_sessions: int,
        quota: SubscriptionQuota,
    ) -> None:
        self._handler = handler
        self._monitor = monitor
        self._sessions = LegacySessions(session_ttl, max_sessions, quota)
        self._detached = ByteBudget(MAX_DETACHED_BYTES)
        self._sweeping: asyncio.Task[None] | None = None
        self.tasks = TaskSet()
        """The requests that run on without their connection, and the tasks that wait for readers to disconnect."""

    async def close(self) -> None:
        """End every session."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.gather(*(session.close() for session in self._sessions.clear()))

    def stop_listening(self) -> None:
        """End the standalone stream of every session."""
        for session in self._sessions.all():
            session.streams[STANDALONE].finish()

    async def _sweep(self) -> None:
        """Close idle sessions from time to time, for as long as any session is open."""
        while len(self._sessions):
            await asyncio.sleep(self._sessions.idle_ttl / 4)
            for old in self._sessions.expired():
                await old.close()

    def _session(self, headers: Headers, principal: Any, request: RequestId | None = None) -> LegacySession:
        id = headers.get(SESSION)
        if id is None:
            raise Refused(400, "Mcp-Session-Id: missing; open a session with initialize", id=request)
        session = self._sessions.find(id.decode("latin-1"), principal)
        if session is None:
            raise Refused(404, "Mcp-Session-Id: no such session; open a new one with initialize", id=request)
        return session

    # ---- POST ------------------------------------------------------------------------------------------------------

    async def request(
        self,
        id: RequestId,
        method: str,
        params: Wire,
        headers: Headers,
        principal: Any,
        receive: Receive,
        send: Send,
        size: int = 0,
    ) -> None:
        """Answer a request whose body has `size` bytes."""
        if method == "initialize":
            await self._initialize(id, params, principal, send)
            return
        session = self._session(headers, principal, id)
        peer = session.peer  # another request of the session may replace it
        if id in session.running:
            raise Refused(400, "id: already used by a running request", id=id)
        if len(session.running) >= MAX_RUNNING:
            raise Refused(503, "too many requests at once", code=INTERNAL_ERROR, id=id, headers=(RETRY_SOON,))
        detached = self._handler.may_ask(method, params)
        if detached and not self._detached.has_room_for(size):
            raise Refused(503, "the server is busy", code=INTERNAL_ERROR, id=id, headers=(RETRY_SOON,))
        out = session.running[id] = Reply(send, headers, session.new_stream)
        self._monitor.enter(out, receive, _ignore_disconnect)
        try:
            if detached:
                # The request runs on when its connection is lost; the client resumes the stream to get the answer.
                work = self._work(session, peer, id, method, params, text_headers(headers), out)
                self._detached.add(size)
                task = self.tasks.create(work)
                task.add_done_callback(lambda _: self._detached.remove(size))
                await out.until_out(task)
            else:
                await self._work(session, peer, id, method, params, EMPTY, out)
        finally:
            self._monitor.leave(out)

    async def _initialize(self, id: RequestId, params: Wire, principal: Any, send: Send) -> None:
        for name in ("clientInfo", "capabilities"):
            if not isinstance(params.get(name, {}), dict):
                raise Refused(400, f"{name}: must be an object", code=INVALID_PARAMS, id=id)
        try:
            peer, result = eras.begin_session(self._handler, params, principal)
        except RemoteError as exc:
            raise Refused(400, exc.message, code=exc.code, id=id) from None
        session, evicted = self._sessions.open(peer, self._handler)
        for old in evicted:
            await old.close()
        loop = asyncio.get_running_loop()
        if self._sweeping is None or self._sweeping.done() or self._sweeping.get_loop() is not loop:
            self._sweeping = loop.create_task(self._sweep())
        body = jsonrpc.encode(jsonrpc.result(id, result))
        await reply(send, 200, body, (SESSION, session.id.encode()))

    async def _work(
        self,
        session: LegacySession,
        peer: Peer,
        id: RequestId,
        method: str,
        params: Wire,
        headers: Mapping[str, str],
        out: Reply,
    ) -> None:
        answer: Message | None = None
        try:
            if out.begin():
                context = RequestContext(peer, _Call(session, out), id, params.get("_meta", EMPTY), headers)
                result = await answer_in_session(self._handler, session.subscriptions, method, params, context)
                answer = jsonrpc.result(id, result)
        except asyncio.CancelledError as exc:
            if not out.take_cancellation(exc):
                answer = eras.error_answer(id, method, RuntimeError(repr(exc)), modern=False)
            elif out.stream is not None:
                # The client has cancelled the request, but it would resume a stream without an answer again and again.
                answer = jsonrpc.error(id, CANCELLED, "cancelled")
        except Exception as exc:  # noqa: BLE001  # whatever it is, the client gets an answer
            answer = eras.error_answer(id, method, exc, modern=False)
        finally:
            out.end()
            del session.running[id]
        await out.finish(None if answer is None else eras.encoded(answer, method))
        if out.stream is not None:
            self._sessions.keep(session, out.stream)

    async def notification(self, method: str, params: Wire, headers: Headers, principal: Any, send: Send) -> None:
        """Handle a notification."""
        await self._take_notification(self._session(headers, principal), method, params)
        await reply(send, 202)

    async def _take_notification(self, session: LegacySession, method: str, params: Wire) -> None:
        if method == "notifications/initialized":
            await session.subscriptions.begin(session.peer)
        elif method == "notifications/cancelled":
            id = params.get("requestId")
            if id is not None and jsonrpc.is_id(id) and id in session.running:
                session.running[id].stop()

    async def answer(self, message: Message, headers: Headers, principal: Any, send: Send) -> None:
        """Take a response of the client to a request of the server."""
        self._session(headers, principal).server_requests.take(message)
        await reply(send, 202)

    async def batch(self, messages: list[Any], headers: Headers, principal: Any, send: Send) -> None:
        """Answer several messages in one body: the response is one array, without notifications before it."""
        session = self._session(headers, principal)
        if session.peer.version != BATCHES:
            raise Refused(400, "batches are not part of this protocol version")
        if not messages or len(messages) > MAX_BATCH:
            raise Refused(400, f"batch: expected 1 to {MAX_BATCH} messages, got {len(messages):,}")
        peer = session.peer
        answers = await asyncio.gather(*(self._one_of_batch(session, peer, message) for message in messages))
        body = b",".join(answer for answer in answers if answer is not None)
        await reply(send, 200 if body else 202, b"[%s]" % body if body else b"")

    async def _one_of_batch(self, session: LegacySession, peer: Peer, message: Any) -> bytes | None:
        try:
            id, method, params = parts(message)
        except Refused as exc:
            return jsonrpc.encode(jsonrpc.error(exc.id, exc.code, str(exc)))
        if method is None:
            session.server_requests.take(message)
            return None
        if id is None:
            await self._take_notification(session, method, params)
            return None
        if id in session.running:
            return jsonrpc.encode(jsonrpc.error(id, INVALID_REQUEST, "id: already used by a running request"))
        if len(session.running) >= MAX_RUNNING:
            return jsonrpc.encode(jsonrpc.error(id, INTERNAL_ERROR, "too many requests at once"))
        member = session.running[id] = _BatchReply()
        await self._work(session, peer, id, method, params, EMPTY, member)
        return member.answer

    # ---- GET and DELETE ------------------------------------------------------------------------------------------

    async def get(self, headers: Headers, principal: Any, receive: Receive, send: Send) -> None:
        """Send the standalone stream of a session, or, with `Last-Event-ID`, the rest of an interrupted stream."""
        if not takes_events(headers):
            raise Refused(406, "Accept: must include text/event-stream")
        session = self._session(headers, principal)
        number, after = STANDALONE, None
        if RESUME in headers:
            place = parse_event_id(headers[RESUME].decode("latin-1"))
            if (
                place is None
                or place[0] not in session.streams
                or not session.streams[place[0]].has_more_after(place[1])
            ):
                raise Refused(400, "Last-Event-ID: unknown in this session, too old, or the last event of its stream")
            number, after = place
        stream = session.streams[number]
        reader = stream.attach()
        watcher = self.tasks.create(wait_for_disconnect(receive))
        watcher.add_done_callback(lambda _: stream.detach(reader))
        try:
            with ends_with_credentials(principal, lambda: stream.detach(reader)):
                await stream.pump(send, reader, after)
        finally:
            watcher.cancel()
            self._sessions.touch(session)

    async def delete(self, headers: Headers, principal: Any, send: Send) -> None:
        """Close the session at the client's request."""
        session = self._session(headers, principal)
        self._sessions.drop(session)
        await session.close()
        await reply(send, 204)


async def _discard(_: object) -> None:
    """Send nothing: the requests of a batch share one response."""


def _ignore_disconnect() -> None:
    """Do nothing: in the legacy era, a lost connection does not cancel the request."""
