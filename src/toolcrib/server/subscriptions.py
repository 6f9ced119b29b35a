"""Subscriptions of one client: the changes of a legacy session, and modern `subscriptions/listen` requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from ..errors import RemoteError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Message, RequestId
from ..protocol.metadata import SUBSCRIPTION_ID, with_meta
from ..types import Wire
from .changes import LISTS
from .components.resources import not_found
from .eras import AT_ONCE, answer_at_once, legacy_result
from .handler import Deliver, Peer, RequestContext, RequestHandler, Watch
from .quota import (
    MAX_SUBSCRIBED_URIS,
    MAX_SUBSCRIBER_BYTES,
    SubscriptionQuota,
    check_listen,
    check_uri,
    memory_of,
)
from .requests import Request, Send

log = logging.getLogger("toolcrib.server")

ENDPOINT_METHODS: Final = frozenset({*AT_ONCE[False], "resources/subscribe", "resources/unsubscribe"})
"""Requests of a legacy session that the endpoint answers itself."""
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
EVERY_LIST: Final = dict.fromkeys(LISTS, True)
"""The changes of which every legacy session is notified."""


class Notifications:
    """Sends the notifications that belong to no running call. While the client does not read, each change is queued
    only once, however often it happens."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[Any, Message] = {}
        self._room: asyncio.Future[None] | None = None
        self._closed = False

    def notify(self, method: str, params: Wire, subscription: Any = None) -> None:
        """Send a notification, now or as soon as there is room."""
        if self._closed:
            return
        if subscription is not None:
            params = with_meta(params, {SUBSCRIPTION_ID: subscription})
        key = (type(subscription), subscription, method, params.get("uri"))
        self._waiting[key] = jsonrpc.notification(method, params)
        if self._room is None:
            self._send_waiting()

    def _send_waiting(self, _: object = None) -> None:
        self._room = None
        while self._waiting and self._room is None:
            self._room = self._send(self._waiting.pop(next(iter(self._waiting))))
        if self._room is not None:
            self._room.add_done_callback(self._send_waiting)

    def forget(self, subscription: Any) -> None:
        """Drop the queued notifications of a subscription that has ended."""
        ended = (type(subscription), subscription)
        self._waiting = {key: message for key, message in self._waiting.items() if key[:2] != ended}

    def close(self) -> None:
        """Drop the queued notifications and all later ones."""
        self._closed = True
        self._waiting.clear()


class SessionSubscriptions:
    """The subscriptions of a legacy session: to all lists automatically, and to resources by URI."""

    def __init__(self, handler: RequestHandler, deliver: Deliver, quota: SubscriptionQuota) -> None:
        self._handler = handler
        self._deliver = deliver
        self._quota = quota
        self._principal: Any = None
        self._size = 0
        self._watches: dict[str | None, Watch] = {}  # by URI; the key of the lists is None
        self._turn = asyncio.Lock()  # requests are processed in their order
        self._closed = False

    async def begin(self, peer: Peer) -> None:
        """Watch the lists. If that fails, the error is logged, and the session works without."""
        async with self._turn:
            if None not in self._watches and not self._closed:
                try:
                    self._watches[None] = await self._handler.watch(dict(EVERY_LIST), peer, self._deliver)
                except Exception:
                    log.exception("cannot watch the lists; the client will not be notified of changes")

    async def subscribe(self, params: Wire, peer: Peer) -> Wire:
        """Answer `resources/subscribe`."""
        uri = check_uri(params.get("uri"))
        offered = self._handler.describe(peer).get("capabilities", {}).get("resources")
        if not isinstance(offered, dict) or not offered.get("subscribe"):
            raise RemoteError(METHOD_NOT_FOUND, "Method not found: resources/subscribe")
        async with self._turn:
            if uri in self._watches or self._closed:
                return {}
            size = memory_of(uri)
            if len(self._watches) > MAX_SUBSCRIBED_URIS or self._size + size > MAX_SUBSCRIBER_BYTES:
                raise RemoteError(
                    INVALID_PARAMS,
                    f"uri: more than {MAX_SUBSCRIBED_URIS} subscriptions, or {MAX_SUBSCRIBER_BYTES:,} bytes of them, "
                    "in one session",
                )
            self._count(peer.principal, size)
            try:
                watch = await self._handler.watch({"resourceSubscriptions": [uri]}, peer, self._deliver)
                if uri not in watch.accepted.get("resourceSubscriptions", ()):
                    await watch.close()
                    raise not_found(uri)
            except BaseException:
                self._uncount(size)
                raise
            self._watches[uri] = watch
        return {}

    def _count(self, principal: Any, size: int) -> None:
        self._quota.add(principal, size=size)
        self._principal = principal  # the same for the whole session
        self._size += size

    def _uncount(self, size: int) -> None:
        self._quota.remove(self._principal, size=size)
        self._size -= size

    async def unsubscribe(self, params: Wire) -> Wire:
        """Answer `resources/unsubscribe`. Does nothing if the session is not subscribed to the URI."""
        uri = check_uri(params.get("uri"))
        async with self._turn:
            watch = self._watches.pop(uri, None)
            if watch is not None:
                self._uncount(memory_of(uri))
                await watch.close()
        return {}

    async def close(self) -> None:
        """End all subscriptions."""
        self._closed = True
        async with self._turn:
            watches, self._watches = list(self._watches.values()), {}
            self._uncount(self._size)
            for watch in watches:
                await watch.close()


class Listening:
    """One open `subscriptions/listen`. Changes that happen before the acknowledgement are delivered after it."""

    def __init__(self, notifications: Notifications, id: RequestId, is_over: Callable[[], bool]) -> None:
        self.mark: Wire = {SUBSCRIPTION_ID: id}
        """The `_meta` of all its messages."""
        self._is_over = is_over
        self._notifications = notifications
        self._id = id
        self._early: dict[tuple[str, Any], Wire] | None = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        handler: RequestHandler,
        params: Wire,
        peer: Peer,
        id: RequestId,
        notifications: Notifications,
        quota: SubscriptionQuota,
        is_over: Callable[[], bool] = lambda: False,
    ) -> AsyncIterator[tuple[Listening, Wire]]:
        """Watch for changes until the context exits. Yields the params of the acknowledgement (`ACKNOWLEDGED`) too."""
        size = check_listen(params)
        quota.add(peer.principal, listens=1, size=size)
        try:
            listening = cls(notifications, id, is_over)
            watch = await handler.watch(params["notifications"], peer, listening._deliver)
            try:
                yield listening, {"_meta": listening.mark, "notifications": watch.accepted}
            finally:
                notifications.forget(id)
                await watch.close()
        finally:
            quota.remove(peer.principal, listens=1, size=size)

    def start_delivery(self) -> None:
        """Deliver changes from now on, because the acknowledgement has been sent."""
        early, self._early = self._early, None
        for (method, _), params in (early or {}).items():
            self._deliver(method, params)

    def _deliver(self, method: str, params: Wire) -> None:
        if self._early is not None:  # keeps each change once, because sending the acknowledgement may take long
            self._early[method, params.get("uri")] = params
        elif not self._is_over():
            self._notifications.notify(method, params, self._id)


async def answer_in_session(
    handler: RequestHandler, subscriptions: SessionSubscriptions, method: str, params: Wire, context: RequestContext
) -> Wire:
    """Return the framed result of a request in a legacy session, from the endpoint itself or the request handler."""
    if method not in ENDPOINT_METHODS:  # first, because nearly all requests take this path
        return legacy_result(await handler.answer(method, params, context))
    if method == "resources/subscribe":
        return await subscriptions.subscribe(params, context.peer)
    if method == "resources/unsubscribe":
        return await subscriptions.unsubscribe(params)
    return answer_at_once(handler, context.peer, method, params) or {}


async def listen(
    handler: RequestHandler, request: Request, notifications: Notifications, quota: SubscriptionQuota
) -> Wire:
    """Answer `subscriptions/listen` on a stream: deliver changes until the request is stopped or cancelled."""
    stopped = request.stopped = asyncio.get_running_loop().create_future()
    opened = Listening.open(
        handler, request.params, request.peer, request.id, notifications, quota, lambda: request.over
    )
    async with opened as (listening, acknowledgement):
        await request.notify(ACKNOWLEDGED, acknowledgement)
        listening.start_delivery()
        await stopped
    return {"_meta": listening.mark}
