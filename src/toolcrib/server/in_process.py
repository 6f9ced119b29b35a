"""A client and a tool server in one process: a call is a call, without JSON, without a session, without a task.

The tool runs in its caller's own task, so a caller that is cancelled cancels the tool, and one whose deadline passes
stops it. A tool that does not let itself be cancelled keeps its caller waiting; over a wire it would not.
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
from .json_copy import copied, taken
from .quota import SubscriptionQuota
from .subscriptions import ACKNOWLEDGED, Listening, Notifications, SessionSubscriptions, answer_in_session


class InProcessCall(PendingRequest):
    """A request while it is answered, in its caller's task; also the `BackChannel` to the client."""

    __slots__ = ("_inbound", "cancellation", "failure", "id")

    def __init__(
        self, id: int, method: str, options: RequestOptions, inbound: Inbound, loop: asyncio.AbstractEventLoop
    ) -> None:
        PendingRequest.__init__(self, method, options)  # `super()` is slow before Python 3.12
        self.id = id
        self.failure: Exception | None = None
        self._inbound = inbound
        self.cancellation = OwnCancellation(loop)

    # ---- its end, from elsewhere -----------------------------------------------------------------------------

    def stop(self, failure: Exception) -> None:
        """Cancel the tool; the caller gets `failure`."""
        if not self.cancellation.requested:
            self.failure = failure
            self.cancellation.cancel()

    def judge(self, exc: asyncio.CancelledError) -> NoReturn:
        """Raise what a cancellation means: the caller's own, the failure given to `stop`, or an error of the tool."""
        if self.cancellation.cancelled_by_others():
            raise exc
        if self.failure is not None:
            raise self.failure from None
        # The tool itself raised it: to the caller that is an error of the tool.
        raise RemoteError(INTERNAL_ERROR, "the call was cancelled from within") from None

    # ---- the way back ----------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Wire) -> None:
        """Pass a notification that belongs to this request to the client."""
        params = copied(params)
        if method == "notifications/progress":
            self.on_progress(params, asyncio.get_running_loop().time())
        self._inbound.on_notification(method, params)

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:  # noqa: ARG002  # not needed here
        """The answer of the client's handlers. Both eras are one here: nothing has to be suspended."""
        return copied(await self._inbound.on_request(method, copied(params)))

    async def pause(self) -> None:
        """Do nothing: no response can end before its request."""


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
        """Note where messages of the server go to. Nothing has to be connected."""
        self._inbound = inbound

    # ---- requests --------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Wire | None, *, options: RequestOptions = PLAIN) -> Wire:
        """Answer it here and now."""
        calls = self._calls
        id = calls.begin(options)
        mine, meta = _own(params) if params else ({}, NOTHING)
        modern = PROTOCOL_VERSION in meta
        call = InProcessCall(id, method, options, self._inbound, calls.loop)
        calls.add(id, call)
        try:
            if modern:
                result = await self._answer_modern(method, mine, meta, call)
            else:
                result = await self._answer_legacy(method, mine, meta, call)
        except RemoteError as exc:
            result = _refused(exc, method, modern)
        except asyncio.CancelledError as exc:
            call.judge(exc)
        except Exception as exc:  # noqa: BLE001  # our own fault, which must not look like the caller's
            raise internal_error(exc, method) from None
        finally:
            call.cancellation.take_back()
            del calls[id]
        if call.failure is not None:  # the tool caught the cancellation; the call had ended all the same
            raise call.failure
        if call.progress is not None:
            await call.deliver_progress()
        return result

    async def _answer_modern(self, method: str, params: Wire, meta: Mapping[str, Any], call: InProcessCall) -> Wire:
        if meta is not self._stamp:  # a client puts the same one on nearly every request
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
        if method == "tools/call":  # first: it is the one that is hot
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

    # ---- what is the endpoint's own --------------------------------------------------------------------------

    async def _listen(self, params: Wire, peer: Peer, call: InProcessCall) -> Wire:
        """Answer the modern `subscriptions/listen`: deliver changes until the call ends."""
        notifications = Notifications(self._deliver_message)
        opened = Listening.open(self._handler, params, peer, call.id, notifications, self._quota)
        async with opened as (listening, acknowledgement):
            self._deliver(ACKNOWLEDGED, acknowledgement)
            listening.acknowledged()
            await self._calls.loop.create_future()
        raise AssertionError("the future is never resolved")

    def _deliver(self, method: str, params: Wire) -> None:
        self._inbound.on_notification(method, params)

    def _deliver_message(self, message: Message | list[Message]) -> None:
        if isinstance(message, dict):
            self._deliver(message["method"], message.get("params", {}))

    async def notify(self, method: str, params: Wire | None = None) -> None:  # noqa: ARG002  # no notification has params of use here
        """Take a notification of the client. From `initialized` on, a legacy session gets changes of every list."""
        if method == "notifications/initialized" and self._calls.ended is None:
            await self._subscriptions.begin(self._peer)

    # ---- time and the end ------------------------------------------------------------------------------------

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Return a context in which no deadline passes."""
        with self._inbound.held(), self._calls.hold():
            yield

    async def close(self, *, force: bool = False) -> None:  # noqa: ARG002  # there is nobody to wait for
        """End the calls that wait."""
        self._calls.refuse(ConnectionLost("the connection was closed"))
        self._calls.stop()
        for call in list(self._calls.values()):
            call.stop(OutcomeUnknown("the connection was closed; the call was stopped, and may have had its effects"))
        await self._subscriptions.close()


def _own(params: Wire) -> tuple[Wire, Mapping[str, Any]]:
    """What the tool gets: values of its own, for the caller may go on to change his; and the request's `_meta`."""
    mine = params.copy()
    for name, value in params.items():
        if name != "_meta":
            mine[name] = copied(value) if type(value) is dict else taken(value)
    meta = params.get("_meta")
    if type(meta) is dict:
        return mine, meta
    mine.pop("_meta", None)
    return mine, NOTHING


def _too_late(_: int, call: InProcessCall) -> None:
    call.stop(UnansweredTimeout("no answer within the deadline; the call was stopped, and may have had its effects"))


def _refused(exc: RemoteError, method: str, modern: bool) -> Wire:
    """Return the result, or raise the error, that `exc` is in the client's era; always a new object."""
    framed = frame_error(exc, method, modern=modern)
    if not isinstance(framed, RemoteError):
        return framed
    try:
        raise RemoteError(framed.code, framed.message, taken(framed.data)) from None
    except UsageError as unsayable:
        raise internal_error(unsayable, method) from None
