"""Streamable HTTP, legacy and modern: each request is a separate exchange, made by the task of its caller.

Legacy: a session id, a standalone GET stream for requests and notifications of the server, and broken streams are
resumed. Modern: only requests; one is cancelled by closing the stream of its response.

Longer than 400 lines: requests, replies to the server's requests and the end of a session share one state.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ..._util.tasks import TaskSet
from ...config import HttpServer, SecretMask, secrets_of_web
from ...errors import (
    ConnectionLost,
    OutcomeUnknown,
    ProtocolError,
    SessionExpired,
    ToolcribError,
    TransportError,
    UsageError,
)
from ...protocol import jsonrpc, limits
from ...protocol.jsonrpc import Message
from ...protocol.metadata import PROTOCOL_VERSION
from ...protocol.param_headers import NAMED_BY, header_value
from ...protocol.sanitize import one_line
from ...protocol.versions import MODERN_VERSIONS, NEVER_CANCELLED
from ...types import Wire
from ..backlog import DELIVERY_SECONDS, Backlog, encode_to_keep
from ..channel import PLAIN, Counters, Inbound, RequestOptions
from ..inbound import Inbox
from ..pending import COURTESY_TIMEOUT, PendingRequests, Slots, lost_error, timeout_error
from .client import ACCEPT, EVENTS, Body, HttpClient
from .errors import JSON
from .network import UNRESTRICTED, Egress
from .pending_request import HEADER_NAME, VISIBLE, PendingHttpRequest, read_on, session_id
from .sse_reader import SseReader
from .standalone_stream import MAX_REOPEN_FAILURES, StandaloneStream

if TYPE_CHECKING:
    from aiohttp import ClientResponse

log = logging.getLogger("toolcrib.transports")

STREAM_OPEN_TIMEOUT: Final = 1.0
"""Seconds to wait for the standalone stream to open before `initialized` is sent."""
CLOSE_SECONDS: Final = 2.0
"""Seconds for the DELETE that ends a session; a quarter of that with `force`."""

SESSION: Final = "Mcp-Session-Id"
VERSION: Final = "MCP-Protocol-Version"
UNCOUNTED: Final = frozenset({"subscriptions/listen", "ping", "server/discover"})

_SENDABLE: Final = frozenset({"tools/call", "tools/list", "resources/read", "prompts/get", "server/discover"})
"""Methods that need no check before they are sent in a header."""
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]*")

_name_value = lru_cache(maxsize=256)(header_value)


def _check_headers(headers: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an invalid header, which comes from the caller's method or options."""
    for name, value in headers.items():
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value) or not HEADER_NAME.fullmatch(name):
            raise UsageError(
                f"header {name!r}: expected text without line breaks and control characters, got {value!r:.100}"
            )


class HttpChannel:
    """A `Channel` over HTTP."""

    over_http = True

    def __init__(
        self,
        server: HttpServer,
        counters: Counters | None = None,
        auth: Any = None,
        *,
        secrets: SecretMask | None = None,
        egress: Egress = UNRESTRICTED,
    ) -> None:
        self.counters = counters or Counters()
        self._server = server
        self._auth = auth
        self._pending: PendingRequests[PendingHttpRequest] = PendingRequests(lambda _, call: call.cancellation.cancel())
        self._inbox = Inbox(self.counters, self._pending, self._reply)
        self._egress = egress
        self.secrets = secrets or secrets_of_web(server.url, server.headers, server.proxy)
        self._events = SseReader(self.counters, self._inbox, self._deliver, self.secrets)
        self._client: HttpClient | None = None
        self._slots = Slots(server.max_connections) if server.max_connections is not None else None
        self._session: str | None = None
        self._version: str | None = None
        self._lost = False
        self._closed = False
        self._idle = asyncio.Event()
        self._errands = TaskSet()
        self._backlog = Backlog(self._drop)
        self._turns = Slots(limits.MAX_POSTS)
        self._lingering = 0
        self._undelivered = False
        self._standalone: StandaloneStream | None = None

    async def open(self, inbound: Inbound) -> None:
        """Create the HTTP client; the first request connects."""
        self._inbox.inbound = inbound
        self._client = HttpClient(self._server, self._auth, self.hold, self.secrets, self._egress)

    @property
    def _http(self) -> HttpClient:
        if self._client is None:
            raise RuntimeError("the channel is not open")
        return self._client

    # ---- requests --------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Wire | None, *, options: RequestOptions = PLAIN) -> Wire:
        """Post a request and return its result."""
        id = self._pending.begin(options)
        params = options.with_progress_token(params, id)
        meta = (params or {}).get("_meta")
        version = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
        body = Body(jsonrpc.encode(jsonrpc.request(id, method, params)))
        call = PendingHttpRequest(id, method, options, body, version is not None, self._pending.loop)
        headers = self._modern_headers(version, method, params or {}, options) if version else self._headers(call)
        answer = await self._outcome(call, headers)
        if method == "initialize":
            agreed = answer.get("protocolVersion")
            self._version = agreed if isinstance(agreed, str) and VISIBLE.fullmatch(agreed) else None
        if call.progress is not None:
            await call.deliver_progress()
        return answer

    async def _outcome(self, call: PendingHttpRequest, headers: dict[str, str]) -> Wire:
        self._pending.add(call.id, call)
        try:
            call.outcome = jsonrpc.outcome(await self._exchange(call, headers), self.secrets)
        except ToolcribError as exc:
            if call.outcome is None:  # otherwise it arrived on another stream while this one broke
                call.outcome = exc
        except asyncio.CancelledError:
            # If the exchange itself raised it, it is passed on to the caller as the only outcome.
            if call.cancellation.cancelled_by_others() or not call.cancellation.requested:
                self._abandon(call, "the caller was cancelled")
                raise
            if call.outcome is None:
                self._abandon(call, "the deadline passed")
                call.outcome = timeout_error(sent=call.body.sent)
        finally:
            call.cancellation.take_back()
            del self._pending[call.id]
            if not self._pending:
                self._idle.set()
        if isinstance(call.outcome, Exception):
            raise call.outcome
        assert call.outcome is not None
        return call.outcome

    async def _exchange(self, call: PendingHttpRequest, headers: dict[str, str]) -> Message:
        # Some requests need no slot: `subscriptions/listen` would hold it forever, a ping is sent when calls are not
        # answered, and the requests of a handler must not wait for the call that waits for the handler.
        slots = None if call.method in UNCOUNTED or self._pending.holding else self._slots
        if slots is not None and (turn := slots.take()) is not None:
            await slots.wait(turn)
        try:
            response = await self._http.send("POST", headers, call.body)
            try:
                answer = await self._read(call, response)
            except BaseException:
                response.close()
                raise
            if not response.closed:  # otherwise the end of the body has released the connection
                if answer is None:
                    response.release()
                elif self._lingering < limits.MAX_LINGERING:
                    self._lingering += 1
                    self._errands.create(read_on(response)).add_done_callback(self._lingered)
                else:
                    response.close()
        finally:
            if slots is not None:
                slots.give()
        return answer if answer is not None else await self._resume(call)

    async def _read(self, call: PendingHttpRequest, response: ClientResponse) -> Message | None:
        """Return the answer; None if its stream ended before."""
        status, kind = response.status, response.content_type
        if status >= 400:
            raise await self._refused(response, call.session is not None)
        if status in (202, 204):
            raise ProtocolError(f"expected an answer to the request, got HTTP {status} without one", status=status)
        if call.method == "initialize":
            self._session = session_id(response.headers.get(SESSION))
        if kind == JSON:
            decoded = jsonrpc.decode(await self._http.read(response), self.secrets, repair=True)
            return self._own_answer(call, decoded, response)
        if kind == EVENTS:
            return await self._events.follow(self._http.chunks(response), call.place, call.id)
        text = one_line(await self._http.read(response), mask=self.secrets)
        kind = one_line(kind, mask=self.secrets)
        raise ProtocolError(
            f"expected JSON or an event stream, got {kind or 'no content type'} (HTTP {status}); "
            "check that the URL is that of an MCP server",
            status=status,
            content_type=kind,
            sample=text,
        )

    def _own_answer(self, call: PendingHttpRequest, body: Any, response: ClientResponse) -> Message:
        if type(body) is dict and body.get("id") == call.id and type(body["id"]) is int and "method" not in body:
            return self._events.received(body)  # the usual case
        answer: Message | None = None
        for message in body if type(body) is list else [body]:
            # An error without an id belongs to a request that the server could not read: this one.
            if type(message) is dict and "method" not in message and message.get("id") is None and "error" in message:
                answer = message
            else:
                answer = self._events.sort(message, call.id) or answer
        if answer is None:
            raise ProtocolError(
                "the JSON of the response does not answer the request",
                status=response.status,
                content_type=response.content_type,
                sample=one_line(repr(body), mask=self.secrets),
            )
        return answer

    async def _resume(self, call: PendingHttpRequest) -> Message:
        """Resume a broken stream of the legacy era with a GET, and return the answer."""
        lost = "the answer's stream ended without the answer; the call may have been executed"
        failures = 0
        if call.modern or call.place.id is None:
            raise OutcomeUnknown(lost) from call.place.broke
        while failures < MAX_REOPEN_FAILURES:
            await asyncio.sleep(call.place.wait)
            before = call.place.id
            try:
                response = await self._http.send("GET", {**self._headers(call, EVENTS), "Last-Event-ID": before})
            except ToolcribError as exc:
                log.debug("resuming a stream failed: %s", exc)
                if isinstance(exc, ProtocolError) or not isinstance(exc, TransportError):
                    raise OutcomeUnknown(f"{lost}; it could not be resumed: {exc.message}") from exc
                failures += 1
                continue
            try:
                if response.status >= 400:
                    refused = await self._refused(response, call.session is not None)
                    if isinstance(refused, SessionExpired):
                        raise OutcomeUnknown("the session expired while the call ran") from refused
                if response.status != 200 or response.content_type != EVENTS:
                    failures += 1
                    continue
                answer = await self._events.follow(self._http.chunks(response), call.place, call.id)
            finally:
                response.close()
            if answer is not None:
                return answer
            failures = 0 if call.place.id != before else failures + 1
        raise OutcomeUnknown(f"{lost}; it could not be resumed") from call.place.broke

    def _deliver(self, id: int, message: Message) -> bool:
        """Deliver an answer that arrived on another stream than its request's; False if the request is not pending."""
        call = self._pending.get(id)
        if call is None:
            return False
        call.end(jsonrpc.outcome(message, self.secrets))
        return True

    # ---- headers ---------------------------------------------------------------------------------------------

    def _headers(self, call: PendingHttpRequest | None = None, accept: str = ACCEPT) -> dict[str, str]:
        headers = {} if accept is ACCEPT else {"Accept": accept}
        if call is not None and call.method == "initialize":
            return headers
        if self._session is not None:
            headers[SESSION] = self._session
            if call is not None:
                call.session = self._session
        if self._version is not None:
            headers[VERSION] = self._version
        return headers

    def _modern_headers(self, version: str, method: str, params: Wire, options: RequestOptions) -> dict[str, str]:
        headers = {VERSION: version, "Mcp-Method": method}
        if options.headers or method not in _SENDABLE or version not in MODERN_VERSIONS:
            _check_headers(headers)
            _check_headers(options.headers or {})
        name = params.get(NAMED_BY.get(method, ""))
        if isinstance(name, str):
            headers["Mcp-Name"] = _name_value(name)
        if options.headers:
            headers.update(options.headers)
        return headers

    # ---- notifications and replies ---------------------------------------------------------------------------

    async def notify(self, method: str, params: Wire | None = None) -> None:
        """Post a notification. Raises only if `initialized` fails, without which the session does not work."""
        if self._pending.ended is not None:
            return
        first = method == "notifications/initialized"
        if first and self._server.streamable:
            self._standalone = StandaloneStream(
                self._http,
                self._events,
                headers=lambda: self._headers(accept=EVENTS),
                refused=lambda response, opened: self._refused(response, opened and self._session is not None),
                lose=self._lose,
            )
            await self._standalone.opened(STREAM_OPEN_TIMEOUT)
        try:
            async with asyncio.timeout(None if first else COURTESY_TIMEOUT):
                await self._post(jsonrpc.encode(jsonrpc.notification(method, params)))
        except (ToolcribError, TimeoutError) as exc:
            if first:
                raise
            log.debug("%s was not delivered: %s", method, exc)

    async def _post(self, data: bytes) -> None:
        response = await self._http.send("POST", self._headers(), Body(data))
        try:
            if response.status >= 400:
                raise await self._refused(response, self._session is not None)
            await self._http.read(response)
        finally:
            response.release()

    def _reply(self, message: Message) -> None:
        """Post a message that no caller waits for. The connection is dropped if too many of them are waiting."""
        if self._pending.ended is not None:
            return
        data = encode_to_keep(message)
        if self._backlog.add(message, len(data)):
            self._errands.create(self._post_in_turn(data)).add_done_callback(lambda _: self._backlog.remove(len(data)))

    async def _post_in_turn(self, data: bytes) -> None:
        """Post a few messages at a time, so that a server cannot use up the client's sockets."""
        try:
            async with asyncio.timeout(DELIVERY_SECONDS), self._turns:
                await self._post(data)
            self._undelivered = False
        except (ToolcribError, TimeoutError) as exc:
            # One warning for a series of failures: a server could cause any number of them.
            log.log(
                logging.DEBUG if self._undelivered else logging.WARNING,
                "a reply or notification was not delivered to the server: %s",
                exc if isinstance(exc, ToolcribError) else f"not within {DELIVERY_SECONDS:.0f} s",
            )
            self._undelivered = True

    def _abandon(self, call: PendingHttpRequest, reason: str) -> None:
        """Send a cancellation in the legacy era; in the modern era closing the stream cancels the request."""
        if not call.modern and call.body.sent and call.method not in NEVER_CANCELLED and self._pending.ended is None:
            self._reply(jsonrpc.notification("notifications/cancelled", {"requestId": call.id, "reason": reason}))

    def _lingered(self, _: asyncio.Task[None]) -> None:
        self._lingering -= 1

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Return a context in which no deadline passes."""
        with self._inbox.inbound.held(), self._pending.hold():
            yield

    # ---- the end ---------------------------------------------------------------------------------------------

    async def _refused(self, response: ClientResponse, in_session: bool) -> ToolcribError:
        """Return the error of a response; an expired session ends for all calls."""
        error = await self._http.refused(response, in_session=in_session)
        if isinstance(error, SessionExpired):
            self._lose(error)
        return error

    def _lose(self, error: Exception) -> None:
        if self._pending.refuse(error):
            self._lost = True
            self._inbox.close()
            self._inbox.inbound.on_closed(error)

    def on_lost(self, error: Exception) -> None:
        """End the connection and its calls: the server is gone. Its port must not get another request."""
        self._session = None
        self._drop(error)

    def _drop(self, error: Exception) -> None:
        """End the connection and its calls; an expired session does not end the calls."""
        if self._pending.refuse(error):
            self._inbox.close()
            if self._standalone is not None:
                self._standalone.stop()
            self._errands.cancel()
            # Not now: this may run inside the task of one of the calls.
            self._pending.loop.call_soon(self._end_calls, error)
            self._inbox.inbound.on_closed(error)

    async def close(self, *, force: bool = False) -> None:
        """End the pending calls, then the session, then the connections."""
        if self._closed:
            return
        self._closed = True
        reason = ConnectionLost("the connection was closed")
        self._pending.refuse(reason)
        self._inbox.close()
        if self._standalone is not None:
            self._standalone.stop()
        if self._client is None:
            return
        try:
            if self._lost and self._pending and not force:
                # The session has expired, but the requests that were sent still get their own outcomes.
                self._idle.clear()
                await self._idle.wait()
        finally:
            await self._clear(self._client, self._pending.ended or reason, force)

    async def _clear(self, client: HttpClient, reason: Exception, force: bool) -> None:
        try:
            self._end_calls(reason)
            if self._errands and not force:
                await asyncio.wait(self._errands, timeout=CLOSE_SECONDS / 4)
            await self._end_session(CLOSE_SECONDS / 4 if force else CLOSE_SECONDS)
        finally:
            self._pending.stop()
            self._errands.cancel()
            await client.close()

    def _end_calls(self, reason: Exception) -> None:
        for call in list(self._pending.values()):
            sent = call.body.sent
            call.body.withdrawn = not sent  # otherwise it could be written before its task ends
            call.end(lost_error(reason, sent=sent))

    async def _end_session(self, seconds: float) -> None:
        if self._session is None or self._lost:
            return
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.send("DELETE", self._headers(), renew=False)
                response.release()
        except (ToolcribError, TimeoutError) as exc:
            log.debug("the session could not be ended: %s", exc)
