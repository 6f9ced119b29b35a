"""The Streamable HTTP endpoint: one URL for both eras. It rejects bad requests before any handler runs."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ..._util.tasks import TaskSet
from ...errors import ProtocolError, RemoteError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Message, RequestId
from ...protocol.metadata import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from ...protocol.param_headers import NAMED_BY, contradiction, plain_value
from ...protocol.sanitize import one_line
from ...protocol.versions import HEADER_MISMATCH, LEGACY_VERSIONS, MAY_ASK_FOR_INPUT, MODERN_ERRORS, MODERN_VERSIONS
from ...types import Wire
from .. import eras
from ..handler import NO_BACK_CHANNEL, Peer, RequestContext, RequestHandler
from ..quota import MAX_LISTENS, SubscriptionLimit, SubscriptionQuota
from ..subscriptions import ACKNOWLEDGED, Listening, Notifications
from ..suspended_calls import TTL, SuspendedCalls, may_suspend
from .asgi import (
    BODY_TIMEOUT,
    MAX_BODY,
    AsgiApp,
    BodyReader,
    Headers,
    Receive,
    Refused,
    Scope,
    Send,
    check_duplicates,
    parts,
    path_of,
    reply,
    text_headers,
    wait_for_disconnect,
    wait_for_end,
)
from .legacy_http import LegacyHttp
from .responses import DisconnectMonitor, Reply
from .security import RequestGuard, ends_with_credentials
from .sessions import IDLE_TTL, MAX_SESSIONS
from .sse_stream import SseStream

VERSION: Final = b"mcp-protocol-version"
METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"
LEGACY: Final = frozenset(version.encode() for version in LEGACY_VERSIONS)
MODERN: Final = frozenset(version.encode() for version in MODERN_VERSIONS)
STATUSES: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    METHOD_NOT_FOUND: 404,
    **dict.fromkeys(MODERN_ERRORS, 400),
}
"""HTTP status by error code in the modern era; 200 for all other codes, which request handlers define."""


class HttpApp(AsgiApp):
    """An ASGI app that serves MCP in both eras at one path."""

    def __init__(
        self,
        handler: RequestHandler,
        *,
        path: str = "/mcp",
        guard: RequestGuard,
        max_body: int = MAX_BODY,
        body_timeout: float = BODY_TIMEOUT,
        suspended_ttl: float = TTL,
        session_ttl: float = IDLE_TTL,
        max_sessions: int = MAX_SESSIONS,
        max_listens: int = MAX_LISTENS,
    ) -> None:
        self._handler = handler
        self._path = "/" + path.strip("/") if path.strip("/") else ""
        self._guard = guard
        self._bodies = BodyReader(max_body, body_timeout)
        self._suspended_calls = SuspendedCalls(suspended_ttl)
        self._monitor = DisconnectMonitor()
        self._quota = SubscriptionQuota(max_listens)
        self._legacy = LegacyHttp(handler, self._monitor, session_ttl, max_sessions, self._quota)
        self._framer = eras.ResultFramer(handler)
        self._listening: dict[SseStream, bytes] = {}
        self._watchers = TaskSet()

    async def drain(self, seconds: float) -> None:
        """End subscriptions, and wait up to `seconds` for running requests to finish."""
        for stream, last_answer in list(self._listening.items()):
            stream.finish(last_answer)
        self._legacy.stop_listening()
        await self._monitor.idle(seconds)

    async def close(self) -> None:
        """Cancel running requests, and end all sessions, suspended calls and subscriptions."""
        await self.drain(0)
        self._suspended_calls.close()
        await self._legacy.close()
        await self._monitor.close()
        await wait_for_end({*self._suspended_calls.tasks, *self._legacy.tasks, *self._watchers})

    # ---- routing -------------------------------------------------------------------------------------------------

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
        if path != self._path and path.rstrip("/") != self._path:
            raise Refused(404, f"not found; the MCP endpoint is {self._path or '/'}", plain=True)
        verb = scope["method"]
        if verb == "POST":
            await self._post(headers, principal, receive, send)
        elif verb in ("GET", "DELETE") and headers.get(VERSION) not in MODERN:
            if VERSION in headers and headers[VERSION] not in LEGACY:
                raise Refused(400, "MCP-Protocol-Version: not supported")
            if verb == "GET":
                await self._legacy.get(headers, principal, receive, send)
            else:
                await self._legacy.delete(headers, principal, send)
        else:
            allow = (b"allow", b"POST, GET, DELETE")
            raise Refused(405, f"method {one_line(verb)} not allowed; use POST", headers=(allow,), plain=True)

    async def _post(self, headers: Headers, principal: Any, receive: Receive, send: Send) -> None:
        kind = headers.get(b"content-type", b"")
        if kind != b"application/json" and kind.partition(b";")[0].strip().lower() != b"application/json":
            raise Refused(415, "Content-Type: must be application/json")
        if b"content-encoding" in headers:
            raise Refused(415, "Content-Encoding: compressed bodies are not supported")
        body = await self._bodies.read(receive, headers)
        try:
            message = jsonrpc.decode(body)
        except ProtocolError as exc:
            raise Refused(400, f"Parse error: {exc.message}", code=PARSE_ERROR) from None
        self._guard.check_calls(message, principal)
        size = len(body)
        del body  # otherwise it would stay in memory until the request or subscription ends
        version = headers.get(VERSION)
        if type(message) is list:
            await self._legacy.batch(message, headers, principal, send)
            return
        id, method, params = parts(message)
        if (version is not None and version not in LEGACY) or eras.is_modern(params):
            if method is None:
                raise Refused(400, "unexpected response: modern servers send no requests", id=id)
            if id is None:
                await reply(send, 202)
            else:
                await self._modern(id, method, params, headers, principal, receive, send)
        elif method is None:
            await self._legacy.answer(message, headers, principal, send)
        elif id is None:
            await self._legacy.notification(method, params, headers, principal, send)
        else:
            await self._legacy.request(id, method, params, headers, principal, receive, send, size)

    # ---- the modern era --------------------------------------------------------------------------------------------

    async def _modern(
        self,
        id: RequestId,
        method: str,
        params: Wire,
        headers: Headers,
        principal: Any,
        receive: Receive,
        send: Send,
    ) -> None:
        out = Reply(send, headers)
        out.begin()
        status = 200
        self._monitor.enter(out, receive, out.stop)
        try:
            eras.check_not_removed(method)
            self._check_headers(method, params, headers)
            peer = eras.peer_of_request(params, principal)
            if method == "subscriptions/listen":
                self._monitor.leave(out)
                await self._listen(id, params, peer, receive, send)
                return
            result = await self._result(id, method, params, peer, headers, out)
            answer = jsonrpc.result(id, self._framer.frame(peer, method, result))
        except asyncio.CancelledError as exc:
            if out.take_cancellation(exc):
                await out.dismiss()
                return
            answer, status = _failed(id, method, RuntimeError(repr(exc)))
        except Exception as exc:  # noqa: BLE001  # whatever it is, the client gets an answer
            answer, status = _failed(id, method, exc)
        finally:
            out.end()
            self._monitor.leave(out)
        await out.finish(eras.encoded(answer, method), status)

    async def _result(self, id: RequestId, method: str, params: Wire, peer: Peer, headers: Headers, out: Reply) -> Wire:
        own = eras.answer_at_once(self._handler, peer, method, params)
        if own is not None:
            return own
        suspends = may_suspend(self._handler, method, params)
        # Functions without a context cannot read the headers, and decoding them takes time.
        texts = text_headers(headers) if suspends or method not in MAY_ASK_FOR_INPUT else NO_HEADERS
        context = RequestContext(peer, NO_BACK_CHANNEL, id, params["_meta"], texts)
        if suspends:
            return await self._suspended_calls.answer(self._handler, method, params, context, out.notify)
        return await self._handler.answer(method, params, context)

    def _check_headers(self, method: str, params: Wire, headers: Headers) -> None:
        """Raise `RemoteError` if headers contradict the body: a proxy may have decided by the headers."""
        meta = params.get("_meta", {})
        version = meta.get(PROTOCOL_VERSION)
        if version is None and VERSION in headers and headers[VERSION] not in MODERN:
            raise eras.unsupported_version(one_line(headers[VERSION]))
        if not isinstance(version, str) or not isinstance(meta.get(CLIENT_CAPABILITIES), dict):
            return  # `peer_of_request` rejects it
        _check_header(VERSION, headers, version)
        _check_header(METHOD, headers, method)
        key = NAMED_BY.get(method)
        if key is None:
            return
        name = params.get(key)
        if not isinstance(name, str):
            raise RemoteError(INVALID_PARAMS, f"{key}: must be a string")
        if NAME not in headers or plain_value(headers[NAME].decode("latin-1")) != name:
            raise RemoteError(HEADER_MISMATCH, "Mcp-Name: missing, or differs from the body")
        if method == "tools/call" and (declared := self._handler.mirrored(name)):
            arguments = params.get("arguments")
            wrong = contradiction(declared, arguments if isinstance(arguments, dict) else {}, text_headers(headers))
            if wrong is not None:
                raise RemoteError(HEADER_MISMATCH, wrong)

    async def _listen(self, id: RequestId, params: Wire, peer: Peer, receive: Receive, send: Send) -> None:
        stream = SseStream()
        notifications = Notifications(stream.offer)
        opened = Listening.open(self._handler, params, peer, id, notifications, self._quota)
        async with opened as (listening, acknowledgement):
            watcher = self._watchers.create(wait_for_disconnect(receive))
            watcher.add_done_callback(lambda _: stream.detach())
            ended = self._framer.frame(peer, "subscriptions/listen", {"_meta": listening.mark})
            self._listening[stream] = jsonrpc.encode(jsonrpc.result(id, ended))
            try:
                stream.push(jsonrpc.notification(ACKNOWLEDGED, acknowledgement))
                listening.start_delivery()
                with ends_with_credentials(peer.principal, lambda: stream.finish(self._listening[stream])):
                    await stream.pump(send, stream.attach())
            finally:
                del self._listening[stream]
                watcher.cancel()


NO_HEADERS: Final[dict[str, str]] = {}


def _failed(id: RequestId, method: str, exc: Exception) -> tuple[Message, int]:
    """Return the answer to a modern request that failed, and its HTTP status."""
    answer = eras.error_answer(id, method, exc, modern=True)
    return answer, 503 if isinstance(exc, SubscriptionLimit) else STATUSES.get(answer["error"]["code"], 200)


def _check_header(name: bytes, headers: Headers, value: str) -> None:
    sent = headers.get(name)
    if sent != value.encode() and (sent is None or sent.strip() != value.encode()):
        raise RemoteError(HEADER_MISMATCH, f"{name.decode()}: {'missing' if sent is None else 'differs from the body'}")
