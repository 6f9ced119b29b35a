"""One client over a duplex stream of whole messages, in either era.

The first request decides the era of the stream: `initialize` opens a legacy session, and a request that names its own
protocol version makes the stream modern. `server/discover` and `ping`, with which clients probe, decide nothing.
"""

from __future__ import annotations

import asyncio
import logging
import reprlib
from collections import deque
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any, Final

from ..._util.cancellation import is_current_task_cancelled
from ...errors import ProtocolError, RemoteError, UsageError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Message,
    RequestId,
)
from ...protocol.limits import MAX_INBOUND
from ...protocol.sanitize import one_line
from ...types import Wire
from .. import eras
from ..handler import NOTHING, Peer, RequestHandler
from ..quota import ByteBudget, SubscriptionQuota
from ..requests import BATCHES, MAX_BATCH, UNKNOWN_CLIENT, Batch, Request, Send, is_message, spot_request
from ..subscriptions import Notifications, SessionSubscriptions, answer_in_session, listen
from ..suspended_calls import SuspendedCalls, may_suspend
from .server_requests import ServerRequests

log = logging.getLogger("toolcrib.server")

MAX_WAITING: Final = 4 * MAX_INBOUND
"""Requests that may be queued until one of the running requests ends."""
MAX_BYTES_AT_WORK: Final = 64 * 1024 * 1024
"""Bytes of the running requests; the next request waits, unless none is running."""
MAX_HELD_BYTES: Final = 128 * 1024 * 1024
"""Bytes of the running and queued requests; further requests are rejected.

The session does not stop reading instead: the running requests may wait for responses or cancellations of this client.
"""
MAX_MALFORMED_WARNINGS: Final = 10
"""Malformed messages of one client that are logged as warnings; further ones are logged at the level debug."""
CLOSE_SECONDS: Final = 2.0
"""Seconds that cancelled requests have to end."""


class StreamSession:
    """Handles all messages from and to one client. `feed` and `malformed` neither raise nor wait.

    At most `MAX_INBOUND` requests run at a time; further requests are queued, and rejected when the queue is full.
    Messages that need no task (`ping`, responses, cancellations) are handled at once.
    """

    def __init__(
        self,
        handler: RequestHandler,
        send: Send,
        *,
        principal: Any = None,
        suspended_calls: SuspendedCalls | None = None,
        session: str | None = None,
        quota: SubscriptionQuota | None = None,
        held: ByteBudget | None = None,
    ) -> None:
        self._handler = handler
        self._framer = eras.ResultFramer(handler)
        self._send = send
        self._principal = principal
        self._suspended_calls = SuspendedCalls() if suspended_calls is None else suspended_calls
        self._owns_suspended_calls = suspended_calls is None
        self._session = session
        self._modern = False
        self._peer: Peer | None = None  # only in a legacy session
        self._live: dict[RequestId, Request] = {}
        self._waiting: deque[Request] = deque()
        self._at_work = self._bytes_at_work = 0
        self._held = (ByteBudget(MAX_HELD_BYTES), *((held,) if held is not None else ()))
        self._room: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._server_requests = ServerRequests(send, self._suspended_calls.ttl)
        self._notifications = Notifications(send)
        self._beginning: asyncio.Task[None] | None = None
        self._quota = SubscriptionQuota() if quota is None else quota
        self._subscriptions = SessionSubscriptions(handler, self._notifications.notify, self._quota)
        self._closing = False
        self._malformed = 0

    # ---- in --------------------------------------------------------------------------------------------------

    def use_principal(self, principal: Any) -> None:
        """Set the principal of the messages that follow; it must be equal to the session's, from newer credentials."""
        self._principal = principal
        if self._peer is not None:
            self._peer = self._peer.with_principal(principal)

    def feed(self, message: Any, headers: Mapping[str, str] = NOTHING, size: int = 0) -> None:
        """Handle what the client sent in `size` bytes: one message, or a batch if the session is of 2025-03-26."""
        if self._closing:
            return
        if type(message) is not list:
            self._take(message, None, headers, size)
        elif self._peer is None or self._peer.version != BATCHES:
            self._refuse(None, INVALID_REQUEST, "batches are not part of this protocol version")
        elif not 0 < len(message) <= MAX_BATCH:
            self._refuse(None, INVALID_REQUEST, f"batch: expected 1 to {MAX_BATCH} messages, got {len(message):,}")
        else:
            batch = Batch(self._send)
            for part in message:
                self._take(part, batch, headers, size // len(message))
            batch.add(None)

    def malformed(self, error: ProtocolError, head: bytes = b"") -> None:
        """Answer a malformed message with an error. `head` is its beginning, in which the id may be readable."""
        if self._closing:
            return
        self._malformed += 1
        level = logging.WARNING if self._malformed <= MAX_MALFORMED_WARNINGS else logging.DEBUG
        log.log(level, "malformed message from the client (%s): %r", one_line(error.message), error.sample)
        if not self._server_requests.fail_malformed(head, error):
            self._refuse(spot_request(head), PARSE_ERROR, error.message)

    def _take(self, message: Any, batch: Batch | None, headers: Mapping[str, str], size: int) -> None:
        if type(message) is not dict:
            self._refuse(None, INVALID_REQUEST, "a message must be an object", batch)
            return
        id: Any = message.get("id")
        params: Any = message.get("params", {})
        if "method" not in message and ("result" in message or "error" in message):
            self._server_requests.take(message)
        elif not is_message(message):
            valid_id = id if jsonrpc.is_id(id) else None
            self._refuse(valid_id, INVALID_REQUEST, "not a JSON-RPC 2.0 request or notification", batch)
        elif "id" not in message:
            self._take_notification(message["method"], params if type(params) is dict else {})
        elif not jsonrpc.is_id(id):
            self._refuse(None, INVALID_REQUEST, "id: must be a string or an integer", batch)
        elif id in self._live:
            self._refuse(id, INVALID_REQUEST, f"id: {reprlib.repr(id)} is already used by a running request", batch)
        elif type(params) is not dict:
            self._refuse(id, INVALID_PARAMS, "params: must be an object", batch)
        elif "_meta" in params and type(params["_meta"]) is not dict:
            self._refuse(id, INVALID_PARAMS, "_meta: must be an object", batch)
        else:
            self._take_request(
                Request(
                    id,
                    message["method"],
                    params,
                    peer=self._peer or UNKNOWN_CLIENT,
                    send=self._send_and_wait,
                    asker=self._server_requests,
                    batch=batch,
                    headers=headers,
                    size=size,
                )
            )

    def _refuse(self, id: RequestId | None, code: int, text: str, batch: Batch | None = None) -> None:
        if batch is None:
            self._send(jsonrpc.error(id, code, text))
        else:
            batch.expect()
            batch.add(jsonrpc.error(id, code, text))

    def _take_notification(self, method: str, params: Wire) -> None:
        if method == "notifications/cancelled":
            id: Any = params.get("requestId")
            request = self._live.pop(id, None) if jsonrpc.is_id(id) else None
            if request is not None:
                log.debug("the client cancelled %s: %s", one_line(request.method), reprlib.repr(params.get("reason")))
                self._drop(request)
        elif method == "notifications/initialized" and self._peer is not None and self._beginning is None:
            self._beginning = asyncio.get_running_loop().create_task(self._subscriptions.begin(self._peer))

    def _drop(self, request: Request) -> None:
        """Cancel a request, and send nothing more for it."""
        request.over = True
        if request.task is not None:
            request.task.cancel()
        else:
            self._waiting.remove(request)
            self._release(request)
        if request.batch is not None:
            request.batch.add(None)

    # ---- requests --------------------------------------------------------------------------------------------

    def _take_request(self, request: Request) -> None:
        if request.batch is not None:
            request.batch.expect()
        self._live[request.id] = request
        try:
            result = self._at_once(request)
        except Exception as exc:  # noqa: BLE001  # a bug of the request handler must not end the reading
            self._reply(request, exc)
        else:
            if result is not None:
                self._reply(request, result)
            elif request.listens:  # the quota of subscriptions limits its size
                self._start(request)
            elif len(self._waiting) >= MAX_WAITING or not all(held.has_room_for(request.size) for held in self._held):
                self._reply(request, RemoteError(INTERNAL_ERROR, "too many requests at once"))
            else:
                for held in self._held:
                    held.add(request.size)
                if not self._waiting and self._may_start(request):
                    self._start(request)
                else:
                    self._waiting.append(request)

    def _may_start(self, request: Request) -> bool:
        return self._at_work < MAX_INBOUND and (
            not self._at_work or self._bytes_at_work + request.size <= MAX_BYTES_AT_WORK
        )

    def _release(self, request: Request) -> None:
        """Subtract a request that has ended from the byte budgets."""
        if not request.listens:
            for held in self._held:
                held.remove(request.size)

    def _at_once(self, request: Request) -> Wire | None:
        """Return the framed result of a request that the endpoint answers without a task; None for any other."""
        method, params = request.method, request.params
        if self._peer is not None:
            return eras.answer_at_once(self._handler, self._peer, method, params)
        if not self._modern and method == "ping":
            return {}
        if not self._modern and method == "initialize" and not eras.is_modern(params):
            return self._initialize(params)
        eras.check_not_removed(method)
        request.peer = peer = eras.peer_of_request(params, self._principal)
        result = eras.answer_at_once(self._handler, peer, method, params)
        if result is not None:
            return self._framer.frame(peer, method, result)
        self._modern = True
        if request.listens and sum(each.listens for each in self._live.values()) > MAX_INBOUND:
            raise RemoteError(INTERNAL_ERROR, "too many subscriptions at once")
        return None

    def _initialize(self, params: Wire) -> Wire:
        self._peer, result = eras.begin_session(self._handler, params, self._principal)
        self._peer.session = self._session
        return result

    def _start(self, request: Request) -> None:
        if not request.listens:
            self._at_work += 1
            self._bytes_at_work += request.size
        request.task = asyncio.get_running_loop().create_task(self._work(request))
        self._tasks.add(request.task)
        request.task.add_done_callback(partial(self._ended, request))

    def _ended(self, request: Request, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not request.listens:
            self._at_work -= 1
            self._bytes_at_work -= request.size
        self._release(request)
        while self._waiting and self._may_start(self._waiting[0]):
            self._start(self._waiting.popleft())

    async def _work(self, request: Request) -> None:
        outcome: Wire | Exception
        try:
            outcome = await (self._answer_modern(request) if request.peer.modern else self._answer_legacy(request))
        except Exception as exc:  # noqa: BLE001  # whatever it is, the client gets an answer
            outcome = exc
        except BaseException as exc:
            if is_current_task_cancelled() or isinstance(exc, KeyboardInterrupt | SystemExit):
                raise
            # The request handler itself raised it, without a cancellation: the client still waits for an answer.
            self._reply(request, RuntimeError(repr(exc)))
            return
        room = None if request.over else self._reply(request, outcome)
        if room is not None and not self._closing:
            await asyncio.shield(room)  # while the client does not read, no further request starts in its place

    def _reply(self, request: Request, outcome: Wire | Exception) -> asyncio.Future[None] | None:
        """Send the answer to a request: the framed result, or the error for an exception in the client's era."""
        request.over = True
        self._live.pop(request.id, None)
        modern = self._peer is None
        if isinstance(outcome, Exception):
            reply = eras.error_answer(request.id, request.method, outcome, modern=modern)
        else:
            reply = jsonrpc.result(request.id, outcome)
        send = self._send if request.batch is None else request.batch.add
        try:
            if request.batch is not None:
                jsonrpc.encode(reply)
            return send(reply)
        except UsageError as exc:
            return send(eras.error_answer(request.id, request.method, exc, modern=modern))

    # ---- legacy era ---------------------------------------------------------------------------------------

    async def _send_and_wait(self, message: Message) -> None:
        """Send a message of a running request, and wait for room. While the client does not read, others wait here."""
        while self._room is not None and not self._room.done():
            await asyncio.shield(self._room)
        self._room = self._send(message)
        if self._room is not None:
            await asyncio.shield(self._room)

    def _answer_legacy(self, request: Request) -> Coroutine[Any, Any, Wire]:
        context = request.context()
        return answer_in_session(self._handler, self._subscriptions, request.method, request.params, context)

    # ---- modern era ------------------------------------------------------------------------------------------

    async def _answer_modern(self, request: Request) -> Wire:
        method, params = request.method, request.params
        if request.listens:
            result = await listen(self._handler, request, self._notifications, self._quota)
        elif may_suspend(self._handler, method, params):
            result = await self._suspended_calls.answer(
                self._handler, method, params, request.context(), request.notify
            )
        else:
            result = await self._handler.answer(method, params, request.context())
        return self._framer.frame(request.peer, method, result)

    # ---- the end ---------------------------------------------------------------------------------------------

    async def close(self, grace: float = 0.0) -> None:
        """Ignore new messages, wait up to `grace` seconds for running requests, then end all that are left.

        Subscriptions get their final answer; other requests get none. May be called again with less grace.
        """
        self._closing = True
        self._server_requests.close()
        try:
            await self._finish(grace)
        finally:
            self._end_requests()
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
            if stuck:
                log.warning("%d requests did not end after cancellation", len(stuck))
        if self._owns_suspended_calls and self._suspended_calls.tasks:
            await asyncio.wait(self._suspended_calls.tasks, timeout=CLOSE_SECONDS)
        if self._beginning is not None:
            await asyncio.wait([self._beginning], timeout=CLOSE_SECONDS)
        await self._subscriptions.close()

    def _end_requests(self) -> None:
        """End all requests: subscriptions get their final answer, other requests get none."""
        self._notifications.close()
        for request in self._waiting:
            self._release(request)
        self._waiting.clear()
        for request in self._live.values():
            if request.stopped is not None and not request.stopped.done():
                request.stopped.set_result(None)
            else:
                request.over = True
        for task in self._tasks - {request.task for request in self._live.values() if not request.over}:
            task.cancel()
        self._live.clear()
        if self._owns_suspended_calls:
            self._suspended_calls.close()

    async def _finish(self, grace: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while (left := end - loop.time()) > 0:
            work = [each.task for each in self._live.values() if each.task is not None and not each.listens]
            if not work:
                return
            await asyncio.wait(work, timeout=left)
