"""Changes at the server: subscriptions, renewed after each reconnect, and the streams that deliver the changes.

Legacy era: `resources/subscribe` per URI; servers send list changes without a subscription. Modern era: one
`subscriptions/listen` for all subscriptions; when they change, a new one is acknowledged before the old one is
cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Awaitable
from typing import Any, Final, Literal, get_args

from .._util.futures import retrieve
from .._util.locks import PerLoopLock, running_loop
from ..errors import AuthError, ConnectionLost, RemoteError, ToolcribError, UsageError
from ..events import Listeners, ToolsChanged
from ..protocol import jsonrpc
from ..protocol.metadata import subscription_of, with_meta
from ..transports.channel import RequestOptions
from ..types import Change, Wire
from .listing import Lister
from .request_executor import RequestExecutor
from .session import Session
from .supervisor import Supervisor

log = logging.getLogger("toolcrib.client")

ListKind = Literal["tools", "prompts", "resources"]
KINDS: Final[tuple[ListKind, ...]] = get_args(ListKind)
BACKLOG: Final = 10_000
RELISTEN_SECONDS: Final = 1.0
"""Seconds before a stream that ended is opened again; doubled after each failure."""
MAX_RELISTEN_SECONDS: Final = 30.0


class Changes:
    """A stream of the changes of one `listen`.

    `async with client.listen(...) as changes: async for change in changes: ...`. It continues after a reconnect, with
    one change for each list and resource that may have changed meanwhile.
    """

    def __init__(self, subscriptions: Subscriptions, kinds: frozenset[str], uris: tuple[str, ...]) -> None:
        self._subscriptions = subscriptions
        self._kinds = kinds
        self._uris = uris
        self._waiting: deque[Change] = deque(maxlen=BACKLOG)
        self._arrived = asyncio.Event()
        self._open = False
        self._ended = False

    async def __aenter__(self) -> Changes:
        """Subscribe; when this returns, no later change is missed."""
        await self._subscriptions.enter(self, self._uris)
        self._open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Unsubscribe."""
        self.end()
        await self._subscriptions.leave(self, self._uris)

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change and return it."""
        if not self._open:
            raise UsageError("changes: not entered; use async with client.listen(...) as changes")
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def end(self) -> None:
        """End the iteration after the changes that have arrived."""
        self._ended = True
        self._arrived.set()

    def offer(self, change: Change) -> None:
        """Queue a change if this stream includes it."""
        if change.kind in self._kinds or (change.kind == "resource" and change.uri in self._uris):
            self._waiting.append(change)
            self._arrived.set()


class ChangeFeed:
    """Delivers each change: first to the cache of lists, then to the listeners, then to the open `listen` streams."""

    def __init__(self, lister: Lister, listeners: Listeners, server: str) -> None:
        self._lister = lister
        self._listeners = listeners
        self._server = server
        self._streams: list[Changes] = []

    def publish(self, change: Change) -> None:
        """Deliver one change; cached lists of its kind are stale."""
        if change.kind != "resource":
            self._lister.drop(change.kind)
        if change.kind == "tools":
            self._listeners.emit(ToolsChanged(self._server))
        for stream in self._streams:
            stream.offer(change)

    def add(self, stream: Changes) -> None:
        """Deliver changes to `stream` from now on."""
        self._streams.append(stream)

    def discard(self, stream: Changes) -> None:
        """Stop delivering changes to `stream`."""
        if stream in self._streams:
            self._streams.remove(stream)

    def end(self) -> None:
        """End all streams."""
        for stream in self._streams:
            stream.end()


class _Listening:
    """One `subscriptions/listen` request, which is pending as long as its stream of notifications is open."""

    def __init__(self, session: Session, wanted: Wire) -> None:
        self.wanted = wanted
        self.id: int | None = None
        self.acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.delay = RELISTEN_SECONDS
        params = with_meta({"notifications": wanted}, session.agreement.stamp)
        request = session.channel.request("subscriptions/listen", params, options=RequestOptions(on_id=self._set_id))
        self.task = asyncio.create_task(request)
        self.task.add_done_callback(retrieve)

    def _set_id(self, id: int) -> None:
        """Keep the id of the request, by which notifications name the stream."""
        self.id = id


class Subscriptions:
    """The subscriptions of one client, kept across connections."""

    def __init__(
        self, supervisor: Supervisor, executor: RequestExecutor, feed: ChangeFeed, timeout: float | None
    ) -> None:
        self._supervisor = supervisor
        self._executor = executor
        self._feed = feed
        self._timeout = timeout
        self._uris: Counter[str] = Counter()
        self._current: _Listening | None = None
        self._opening: _Listening | None = None
        self._listen_lock = PerLoopLock()
        self._subscribe_lock = PerLoopLock()

    # ---- subscribing -----------------------------------------------------------------------------------------

    async def enter(self, changes: Changes, uris: tuple[str, ...]) -> None:
        """Deliver changes to a stream from now on, and subscribe to its resources."""
        self._feed.add(changes)
        done: list[str] = []
        session = None
        try:
            session = await self._executor.reach(self._deadline())
            if session.agreement.era.subscribe_method is None:
                await self._listen(session)
            for uri in uris:
                await self.subscribe(uri)
                done.append(uri)
        except BaseException:
            self._feed.discard(changes)
            released = [uri for uri in done if self._release(uri)]
            if released and session is not None:
                # In the background: this task may be cancelled.
                session.start_task(self._send_unsubscribes(released))
            raise

    async def leave(self, changes: Changes, uris: tuple[str, ...]) -> None:
        """Remove a stream, and unsubscribe from its resources."""
        self._feed.discard(changes)
        await self._send_unsubscribes([uri for uri in uris if self._release(uri)])

    async def _send_unsubscribes(self, uris: list[str]) -> None:
        for uri in uris:
            with contextlib.suppress(ToolcribError):  # a failure does not affect the caller
                await self._send_unsubscribe(uri)

    async def subscribe(self, uri: str) -> None:
        """Subscribe to a resource. Subscriptions are counted: the server gets one request for each resource."""
        session = await self._executor.reach(self._deadline())
        async with self._subscribe_lock():  # a second caller must know whether the first request was rejected
            self._uris[uri] += 1
            if self._uris[uri] > 1:
                return
            try:
                await self._send(session, uri, session.agreement.era.subscribe_method)
            except BaseException:
                self._uris[uri] -= 1
                raise

    async def unsubscribe(self, uri: str) -> None:
        """Undo one `subscribe`."""
        if self._release(uri):
            await self._send_unsubscribe(uri)

    def _release(self, uri: str) -> bool:
        """Undo one `subscribe` locally; returns whether it was the last one, so that the server must be notified."""
        if self._uris[uri] <= 0:
            return False
        self._uris[uri] -= 1
        self._uris += Counter()  # drops the counts of 0
        return self._uris[uri] == 0

    async def _send_unsubscribe(self, uri: str) -> None:
        session = self._supervisor.session
        if session is not None and self._uris[uri] == 0:
            method = "resources/unsubscribe" if session.agreement.era.subscribe_method is not None else None
            await self._send(session, uri, method)

    async def _send(self, session: Session, uri: str, method: str | None) -> None:
        if method is None:
            await self._listen(session)
        else:
            await self._executor.request(method, {"uri": uri}, options=RequestOptions(self._deadline()))

    def _deadline(self) -> float | None:
        return None if self._timeout is None else running_loop().time() + self._timeout

    # ---- subscribing again -----------------------------------------------------------------------------------

    async def restore(self, session: Session) -> None:
        """Subscribe on a new connection, then publish what may have changed since the previous one."""
        method = session.agreement.era.subscribe_method
        if method is None:
            await self._restore(self._listen(session))
        else:
            for uri in self._subscribed():
                options = RequestOptions(self._deadline())
                await self._restore(session.channel.request(method, {"uri": uri}, options=options))
        if session.generation > 1:
            self._publish_all()

    async def _restore(self, request: Awaitable[object]) -> None:
        """Await one request; if it fails, the others are still sent."""
        try:
            await request
        except ToolcribError as exc:
            log.warning("%s: a subscription could not be restored: %s", self._executor.name, exc)

    def _publish_all(self) -> None:
        """Publish a change of everything, because notifications may have been missed."""
        for kind in KINDS:
            self._feed.publish(Change(kind))
        for uri in self._subscribed():
            self._feed.publish(Change("resource", uri))

    def _subscribed(self) -> list[str]:
        return sorted(uri for uri, count in self._uris.items() if count > 0)

    async def _listen(self, session: Session) -> None:
        """Open one stream for all subscriptions (modern era). A new one is open before the old one is cancelled."""
        async with self._listen_lock():
            before, wanted = self._current, self._wanted(session)
            if before is not None and before.wanted == wanted and not before.task.done():
                return
            self._current = await self._open(session, wanted) if wanted else None
            if before is not None:
                before.task.cancel()

    async def _keep(self, session: Session, listening: _Listening) -> None:
        """Open a stream again that ended while the session lives, and publish what may have been missed.

        A server may end a stream in good order; over HTTP it can break without the session.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        with contextlib.suppress(ToolcribError):
            await listening.task
        # A stream that ends soon after it was opened is opened again with growing delays.
        delay = RELISTEN_SECONDS if clock() - began > MAX_RELISTEN_SECONDS else listening.delay
        while True:
            await asyncio.sleep(delay)
            if self._current is not listening or session.ended.done():
                return
            try:
                await self._listen(session)
            except (AuthError, RemoteError) as exc:
                # It would be rejected again, and a background task must not prompt a person for credentials.
                log.warning("%s: the server now rejects subscriptions/listen: %s", self._executor.name, exc)
                return
            except ToolcribError as exc:
                log.debug("%s: subscriptions/listen: %s", self._executor.name, exc)
                delay = min(2 * delay, MAX_RELISTEN_SECONDS)
            else:
                if self._current is not None:
                    self._current.delay = min(2 * delay, MAX_RELISTEN_SECONDS)
                self._publish_all()
                return

    def _wanted(self, session: Session) -> Wire:
        """Return what to listen to: the lists whose changes the server announces, and the subscribed resources."""
        declared = session.agreement.server.capabilities
        wanted: Wire = {}
        for kind in KINDS:
            capability = declared.get(kind)
            if isinstance(capability, dict) and capability.get("listChanged") is True:
                wanted[f"{kind}ListChanged"] = True
        if uris := self._subscribed():
            wanted["resourceSubscriptions"] = uris
        return wanted

    async def _open(self, session: Session, wanted: Wire) -> _Listening:
        listening = self._opening = _Listening(session, wanted)
        try:
            either: list[asyncio.Future[Any]] = [listening.task, listening.acknowledged]
            await asyncio.wait(either, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED)
            if not listening.acknowledged.done():
                if listening.task.done():
                    listening.task.result()
                raise ConnectionLost("the server did not acknowledge subscriptions/listen")
        except (Exception, asyncio.CancelledError):
            listening.task.cancel()
            raise
        finally:
            self._opening = None
        session.start_task(self._keep(session, listening))
        return listening

    # ---- notifications ---------------------------------------------------------------------------------------

    def is_current(self, params: Wire) -> bool:
        """Return whether a notification belongs to an open stream, or to none."""
        stream = subscription_of(params)
        return stream is None or jsonrpc.correlate(stream) in {
            listening.id for listening in (self._current, self._opening) if listening is not None
        }

    def acknowledge(self) -> None:
        """Note that the server acknowledged the stream that is being opened."""
        if self._opening is not None and not self._opening.acknowledged.done():
            self._opening.acknowledged.set_result(None)

    def forget(self) -> None:
        """Forget the stream, which ended with its connection."""
        self._current = None
