"""A channel from a client to a tool server in the same process: no JSON, no session, no additional task.

The tool runs in the caller's own task, so the caller's cancellation or deadline cancels the tool. A tool that ignores
its cancellation keeps the caller waiting, unlike a tool in another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from .._util.cancellation import OwnCancellation
from ..errors import ConnectionLost, OutcomeUnknown, RemoteError, UnansweredTimeout, UsageError
from ..protocol.jsonrpc import INTERNAL_ERROR, Message
from ..protocol.limits import MAX_INBOUND
from ..protocol.metadata import PROGRESS_TOKEN, PROTOCOL_VERSION
from ..protocol.versions import LEGACY_VERSIONS
from ..transports.channel import PLAIN, UNOPENED, Inbound, RequestOptions
from ..transports.pending import PendingRequest, PendingRequests
from ..types import Wire
from .eras import (
    answer_at_once,
    begin_session,
    frame_error,
    internal_error,
    legacy_result,
    modern_result,
    peer_of_request,
)
from .handler import NOTHING, Peer, RequestContext, RequestHandler
from .json_copy import copied, copied_value
from .quota import SubscriptionQuota
from .subscriptions import ACKNOWLEDGED, Listening, Notifications, SessionSubscriptions, answer_in_session


class InProcessCall(PendingRequest):
    """A request while it is being answered in its caller's task; also the `BackChannel` to the client."""

    __slots__ = ("_inbound", "cancellation", "failure", "id")

    def __init__(
        self, id: int, method: str, options: RequestOptions, inbound: Inbound, loop: asyncio.AbstractEventLoop
    ) -> None:
        PendingRequest.__init__(self, method, options)  # `super()` is slow before Python 3.12
        self.id = id
        self.failure: Exception | None = None
        self._inbound = inbound
        self.cancellation = OwnCancellation(loop)

    # ---- cancellation ----------------------------------------------------------------------------------------

    def stop(self, failure: Exception) -> None:
        """Cancel the tool; the caller gets `failure`."""
        if not self.cancellation.requested:
            self.failure = failure
            self.cancellation.cancel()

    def judge(self, exc: asyncio.CancelledError) -> NoReturn:
        """Raise the outcome of a cancellation: `exc` if the caller was cancelled, the failure passed to `stop`, or
        else an error of the tool."""
        if self.cancellation.cancelled_by_others():
            raise exc
        if self.failure is not None:
            raise self.failure from None
        # The tool itself raised it, so the caller gets an error of the tool.
        raise RemoteError(
            INTERNAL_ERROR, "the tool raised CancelledError although the call was not cancelled"
        ) from None

    # ---- the back channel ------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Wire) -> None:
        """Pass a notification that belongs to this request to the client."""
        params = copied(params)
        if method == "notifications/progress":
            self.on_progress(params, asyncio.get_running_loop().time())
        self._inbound.on_notification(method, params)

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:  # noqa: ARG002  # not needed here
        """Return the result of the client's handlers. In both eras the call just waits for it."""
        return copied(await self._inbound.on_request(method, copied(params)))

    async def pause(self) -> None:
        """Do nothing: without HTTP, no response can end before the request."""


class InProcessChannel:
    """A `Channel` to a request handler in this process."""

    over_http = False

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._inbound: Inbound = UNOPENED
        self._calls: PendingRequests[InProcessCall] = PendingRequests(_too_late)
        self._peer = Peer(LEGACY_VERSIONS[0], modern=False)
        self._stamp: Any = None
        self._stamped = self._peer
        self._quota = SubscriptionQuota(MAX_INBOUND)
        self._subscriptions = SessionSubscriptions(handler, self._deliver, self._quota)

    async def open(self, inbound: Inbound) -> None:
        """Set the receiver of the server's messages. There is nothing to connect."""
        self._inbound = inbound

    # ---- requests --------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Wire | None, *, options: RequestOptions = PLAIN) -> Wire:
        """Answer a request in the caller's task."""
        calls = self._calls
        id = calls.begin(options)
        copy, meta = _copy_params(params) if params else ({}, NOTHING)
        modern = PROTOCOL_VERSION in meta
        call = InProcessCall(id, method, options, self._inbound, calls.loop)
        calls.add(id, call)
        try:
            if modern:
                result = await self._answer_modern(method, copy, meta, call)
            else:
                result = await self._answer_legacy(method, copy, meta, call)
        except RemoteError as exc:
            result = _refused(exc, method, modern)
        except asyncio.CancelledError as exc:
            call.judge(exc)
        except Exception as exc:  # noqa: BLE001  # a bug of the server must not look like one of the caller
            raise internal_error(exc, method) from None
        finally:
            call.cancellation.take_back()
            del calls[id]
        if call.failure is not None:  # the tool suppressed the cancellation, but the call has failed anyway
            raise call.failure
        if call.progress is not None:
            await call.deliver_progress()
        return result

    async def _answer_modern(self, method: str, params: Wire, meta: Mapping[str, Any], call: InProcessCall) -> Wire:
        if meta is not self._stamp:  # a client sends the same object with nearly every request
            self._stamped, self._stamp = peer_of_request(params), meta
        peer = self._stamped
        if method == "tools/call":
            return await self._handler.answer(method, params, self._context(peer, call, meta))
        own = answer_at_once(self._handler, peer, method, params)
        if own is not None:
            return copied(modern_result(method, own, self._handler.describe(peer)["serverInfo"]))
        if method == "subscriptions/listen":
            return await self._listen(params, peer, call)
        return copied(await self._handler.answer(method, params, self._context(peer, call, meta)))

    async def _answer_legacy(self, method: str, params: Wire, meta: Mapping[str, Any], call: InProcessCall) -> Wire:
        if method == "tools/call":  # first, because it is by far the most frequent
            return legacy_result(await self._handler.answer(method, params, self._context(self._peer, call, meta)))
        if method == "initialize":
            self._peer, result = begin_session(self._handler, params)
            return copied(result)
        context = self._context(self._peer, call, meta)
        return copied(await answer_in_session(self._handler, self._subscriptions, method, params, context))

    def _context(self, peer: Peer, call: InProcessCall, meta: Mapping[str, Any]) -> RequestContext:
        if call.progress is not None or call.idle_timeout is not None:
            meta = {**meta, PROGRESS_TOKEN: call.id}
        return RequestContext(peer, call, call.id, meta)

    # ---- subscriptions and notifications ---------------------------------------------------------------------

    async def _listen(self, params: Wire, peer: Peer, call: InProcessCall) -> Wire:
        """Answer the modern `subscriptions/listen`: deliver changes until the call ends."""
        notifications = Notifications(self._deliver_message)
        opened = Listening.open(self._handler, params, peer, call.id, notifications, self._quota)
        async with opened as (listening, acknowledgement):
            self._deliver(ACKNOWLEDGED, acknowledgement)
            listening.start_delivery()
            await self._calls.loop.create_future()
        raise AssertionError("the future is never resolved")

    def _deliver(self, method: str, params: Wire) -> None:
        self._inbound.on_notification(method, params)

    def _deliver_message(self, message: Message | list[Message]) -> None:
        if isinstance(message, dict):
            self._deliver(message["method"], message.get("params", {}))

    async def notify(self, method: str, params: Wire | None = None) -> None:  # noqa: ARG002  # no notification with params matters here
        """Take a notification of the client. After `initialized`, a legacy session is notified of changed lists."""
        if method == "notifications/initialized" and self._calls.ended is None:
            await self._subscriptions.begin(self._peer)

    # ---- time and the end ------------------------------------------------------------------------------------

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Return a context in which deadlines are suspended."""
        with self._inbound.held(), self._calls.hold():
            yield

    async def close(self, *, force: bool = False) -> None:  # noqa: ARG002  # closing waits for nothing
        """Stop the running calls, and end the subscriptions."""
        self._calls.refuse(ConnectionLost("the connection was closed"))
        self._calls.stop()
        for call in list(self._calls.values()):
            call.stop(OutcomeUnknown("the connection was closed; the call was stopped, and may have had its effects"))
        await self._subscriptions.close()


def _copy_params(params: Wire) -> tuple[Wire, Mapping[str, Any]]:
    """Return a copy of the params for the tool, so that it shares no mutable value with the caller, and the `_meta`."""
    copy = params.copy()
    for name, value in params.items():
        if name != "_meta":
            copy[name] = copied(value) if type(value) is dict else copied_value(value)
    meta = params.get("_meta")
    if type(meta) is dict:
        return copy, meta
    copy.pop("_meta", None)
    return copy, NOTHING


def _too_late(_: int, call: InProcessCall) -> None:
    call.stop(UnansweredTimeout("no answer within the deadline; the call was stopped, and may have had its effects"))


def _refused(exc: RemoteError, method: str, modern: bool) -> Wire:
    """Return the result, or raise the error, for `exc` in the client's era; always a new object."""
    framed = frame_error(exc, method, modern=modern)
    if not isinstance(framed, RemoteError):
        return framed
    try:
        raise RemoteError(framed.code, framed.message, copied_value(framed.data)) from None
    except UsageError as not_json:
        raise internal_error(not_json, method) from None
