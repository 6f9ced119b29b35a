"""Changes on their way to one client: what a session of the legacy era hears of, and what a listener asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from ..errors import RemoteError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Message, RequestId
from ..protocol.metadata import SUBSCRIPTION_ID, with_meta
from ..types import Wire
from .changes import LISTS
from .components.resources import not_found
from .handler import Deliver, Peer, RequestHandler, Watch
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

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
EVERY_LIST: Final = dict.fromkeys(LISTS, True)
"""The changes that a session of the legacy era hears of without asking."""


class Notifications:
    """What is told in no request's name. While the client does not read, a change waits once, however often it
    happens."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[Any, Message] = {}
        self._room: asyncio.Future[None] | None = None
        self._closed = False

    def tell(self, method: str, params: Wire, subscription: Any = None) -> None:
        """Tell a change, now or as soon as there is room."""
        if self._closed:
            return
        if subscription is not None:
            params = with_meta(params, {SUBSCRIPTION_ID: subscription})
        key = (type(subscription), subscription, method, params.get("uri"))
        self._waiting[key] = jsonrpc.notification(method, params)
        if self._room is None:
            self._tell_all()

    def _tell_all(self, _: object = None) -> None:
        self._room = None
        while self._waiting and self._room is None:
            self._room = self._send(self._waiting.pop(next(iter(self._waiting))))
        if self._room is not None:
            self._room.add_done_callback(self._tell_all)

    def forget(self, subscription: Any) -> None:
        """What waits for this listener is for nobody any more."""
        mine = (type(subscription), subscription)
        self._waiting = {key: message for key, message in self._waiting.items() if key[:2] != mine}

    def close(self) -> None:
        """Tell nothing any more."""
        self._closed = True
        self._waiting.clear()


class SessionSubscriptions:
    """What a session of the legacy era hears of: the lists by themselves, resources by their URI."""

    def __init__(self, handler: RequestHandler, deliver: Deliver, quota: SubscriptionQuota) -> None:
        self._handler = handler
        self._deliver = deliver
        self._quota = quota
        self._principal: Any = None
        self._size = 0
        self._watches: dict[str | None, Watch] = {}  # under None that of the lists
        self._turn = asyncio.Lock()  # what was asked for first is done first
        self._closed = False

    async def begin(self, peer: Peer) -> None:
        """Hear of changed lists. Where that fails, everything else still works."""
        async with self._turn:
            if None not in self._watches and not self._closed:
                try:
                    self._watches[None] = await self._handler.watch(dict(EVERY_LIST), peer, self._deliver)
                except Exception:
                    log.exception("changed lists cannot be told")

    async def answer(self, method: str, params: Wire, peer: Peer) -> Wire | None:
        """The answer to a request of the client about what it hears of; None: it is about something else."""
        if method == "resources/subscribe":
            return await self.subscribe(params, peer)
        return await self.unsubscribe(params) if method == "resources/unsubscribe" else None

    async def subscribe(self, params: Wire, peer: Peer) -> Wire:
        """`resources/subscribe`."""
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
        """`resources/unsubscribe`; a URI that nobody subscribed to is no error."""
        uri = check_uri(params.get("uri"))
        async with self._turn:
            watch = self._watches.pop(uri, None)
            if watch is not None:
                self._uncount(memory_of(uri))
                await watch.close()
        return {}

    async def close(self) -> None:
        """Hear no more."""
        self._closed = True
        async with self._turn:
            watches, self._watches = list(self._watches.values()), {}
            self._uncount(self._size)
            for watch in watches:
                await watch.close()


class Listening:
    """One `subscriptions/listen`. What changes before it is acknowledged is told after that."""

    def __init__(
        self,
        notifications: Notifications,
        id: RequestId,
        quota: SubscriptionQuota,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.mark: Wire = {SUBSCRIPTION_ID: id}
        self._is_over = is_over
        self._notifications = notifications
        self._id = id
        self._quota = quota
        self._principal: Any = None
        self._size = 0
        self._early: dict[tuple[str, Any], Wire] | None = {}
        self._watch: Watch | None = None

    async def open(self, handler: RequestHandler, params: Wire, peer: Peer) -> Wire:
        """Begin; gives the params of the acknowledgement (`ACKNOWLEDGED`)."""
        size = check_listen(params)
        self._quota.add(peer.principal, listens=1, size=size)
        self._principal, self._size = peer.principal, size
        try:
            self._watch = watch = await handler.watch(params["notifications"], peer, self._deliver)
        except BaseException:
            self._quota.remove(peer.principal, listens=1, size=size)
            raise
        return {"_meta": self.mark, "notifications": watch.accepted}

    def acknowledged(self) -> None:
        """The client knows: from now on changes are told."""
        early, self._early = self._early, None
        for (method, _), params in (early or {}).items():
            self._deliver(method, params)

    def _deliver(self, method: str, params: Wire) -> None:
        if self._early is not None:  # each change once: the acknowledgement waits while the client does not read
            self._early[method, params.get("uri")] = params
        elif not self._is_over():
            self._notifications.tell(method, params, self._id)

    async def close(self) -> None:
        """End the subscription. Called once, after `open`."""
        self._notifications.forget(self._id)
        self._quota.remove(self._principal, listens=1, size=self._size)
        if self._watch is not None:
            await self._watch.close()


async def listen(
    handler: RequestHandler, request: Request, notifications: Notifications, quota: SubscriptionQuota
) -> Wire:
    """Listen until it is stopped or cancelled."""
    request.stopped = asyncio.get_running_loop().create_future()
    listening = Listening(notifications, request.id, quota, lambda: request.over)
    acknowledgement = await listening.open(handler, request.params, request.peer)
    try:
        await request.notify(ACKNOWLEDGED, acknowledgement)
        listening.acknowledged()
        await request.stopped
    finally:
        await listening.close()
    return {"_meta": listening.mark}
