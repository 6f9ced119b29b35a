"""Changes at the server: what was asked for, asked for again after each reconnect, and given to who waits for it.

Legacy era: `resources/subscribe` per URI, list changes come by themselves. Modern era: one `subscriptions/listen`
with the union of all wishes; when they change, a new one is opened and acknowledged before the old one is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from .._util.locks import PerLoopLock, running_loop
from ..errors import AuthError, ConnectionLost, RemoteError, ToolcribError, UsageError
from ..protocol import jsonrpc
from ..protocol.metadata import subscription_of, with_meta
from ..transports.channel import RequestOptions
from ..types import Change, Wire
from .request_executor import RequestExecutor
from .session import Session

log = logging.getLogger("toolcrib.client")

ListKind = Literal["tools", "prompts", "resources"]
LISTS: Final[dict[str, ListKind]] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
BACKLOG: Final = 10_000
RELISTEN: Final = 1.0
"""Seconds before a stream that ended is opened again; doubled each time in vain."""
LONGEST_RELISTEN: Final = 30.0


class Changes:
    """The changes of one `listen`, as they come: `async with client.listen(...) as changes: async for change in
    changes`.

    It lives through reconnects: what may have been missed meanwhile is told as one change each.
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
        """The next change."""
        if not self._open:
            raise UsageError("enter it first: async with client.listen(...) as changes")
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._arrived.set()

    def offer(self, change: Change) -> None:
        """Take a change if it is one that was asked for."""
        if change.kind in self._kinds or (change.kind == "resource" and change.uri in self._uris):
            self._waiting.append(change)
            self._arrived.set()


class _Listening:
    """One `subscriptions/listen` under way."""

    def __init__(self, wishes: Wire) -> None:
        self.wishes = wishes
        self.id: int | None = None
        self.acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[Wire]
        self.delay = RELISTEN

    def note_id(self, id: int) -> None:
        """Notifications name the stream by the request's id."""
        self.id = id


class Subscriptions:
    """All that one client wants to be told."""

    def __init__(self, executor: RequestExecutor, timeout: float | None, on_change: Callable[[Change], None]) -> None:
        self._executor = executor
        self._timeout = timeout
        self._on_change = on_change
        self._uris: Counter[str] = Counter()
        self._streams: list[Changes] = []
        self._current: _Listening | None = None
        self._opening: _Listening | None = None
        self._lock = PerLoopLock()
        self._wishing = PerLoopLock()

    # ---- wishes ----------------------------------------------------------------------------------------------

    async def enter(self, changes: Changes, uris: tuple[str, ...]) -> None:
        """A new listener; it hears from now on."""
        self._streams.append(changes)
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
            self._streams.remove(changes)
            released = [uri for uri in done if self._release(uri)]
            if released and session is not None:
                # In the background: this task may be cancelled.
                session.beside(self._tell_unsubscribed(released))
            raise

    async def leave(self, changes: Changes, uris: tuple[str, ...]) -> None:
        """A listener has gone."""
        if changes in self._streams:
            self._streams.remove(changes)
        await self._tell_unsubscribed([uri for uri in uris if self._release(uri)])

    async def _tell_unsubscribed(self, uris: list[str]) -> None:
        for uri in uris:
            with contextlib.suppress(ToolcribError):  # the caller has left: a failure has no consequence for it
                await self._tell_one_unsubscribed(uri)

    async def subscribe(self, uri: str) -> None:
        """Be told when this resource changes; counted, so that two who want it are one to the server."""
        session = await self._executor.reach(self._deadline())
        async with self._wishing():  # who comes second must know whether the first was refused
            self._uris[uri] += 1
            if self._uris[uri] > 1:
                return
            try:
                await self._tell(session, uri, session.agreement.era.subscribe_method)
            except BaseException:
                self._uris[uri] -= 1
                raise

    async def unsubscribe(self, uri: str) -> None:
        """Undo one `subscribe`."""
        if self._release(uri):
            await self._tell_one_unsubscribed(uri)

    def _release(self, uri: str) -> bool:
        """Undo one `subscribe` here; True if it was the last one, so that the server must hear of it."""
        if self._uris[uri] <= 0:
            return False
        self._uris[uri] -= 1
        self._uris += Counter()  # drops the counts of 0
        return self._uris[uri] == 0

    async def _tell_one_unsubscribed(self, uri: str) -> None:
        session = self._executor.session
        if session is not None and self._uris[uri] == 0:
            method = "resources/unsubscribe" if session.agreement.era.subscribe_method is not None else None
            await self._tell(session, uri, method)

    async def _tell(self, session: Session, uri: str, method: str | None) -> None:
        if method is None:
            await self._listen(session)
        else:
            await self._executor.request(method, {"uri": uri}, options=RequestOptions(self._deadline()))

    def _deadline(self) -> float | None:
        return None if self._timeout is None else running_loop().time() + self._timeout

    # ---- what the server must be told again ------------------------------------------------------------------

    async def restore(self, session: Session) -> None:
        """On a new connection.

        Ask for everything again, then tell the listeners that they may have missed something.
        """
        method = session.agreement.era.subscribe_method
        if method is None:
            await self._restore(self._listen(session))
        else:
            for uri in self._wanted():
                options = RequestOptions(self._deadline())
                await self._restore(session.channel.request(method, {"uri": uri}, options=options))
        if session.generation > 1:
            self._tell_all()

    async def _restore(self, asking: Awaitable[object]) -> None:
        """One that is refused does not take the others with it."""
        try:
            await asking
        except ToolcribError as exc:
            log.warning("%s: a subscription could not be restored: %s", self._executor.name, exc)

    def _tell_all(self) -> None:
        """Nobody knows what was missed, so everything may have changed."""
        for kind in LISTS.values():
            self.tell(Change(kind))
        for uri in self._wanted():
            self.tell(Change("resource", uri))

    def _wanted(self) -> list[str]:
        return sorted(uri for uri, count in self._uris.items() if count > 0)

    async def _listen(self, session: Session) -> None:
        """Modern era: one stream for all wishes. When they change, the new one is there before the old one goes."""
        async with self._lock():
            before, wishes = self._current, self._wishes(session)
            if before is not None and before.wishes == wishes and not before.task.done():
                return
            self._current = await self._open(session, wishes) if wishes else None
            if before is not None:
                before.task.cancel()

    async def _keep(self, session: Session, listening: _Listening) -> None:
        """While the session lives, a stream that ended is opened again, and then it is told what may have been missed.

        A server may end one in good order; over HTTP it can break without the session.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        with contextlib.suppress(ToolcribError):
            await listening.task
        # One that ends as soon as it was opened is not opened each second.
        delay = RELISTEN if clock() - began > LONGEST_RELISTEN else listening.delay
        while True:
            await asyncio.sleep(delay)
            if self._current is not listening or session.ended.done():
                return
            try:
                await self._listen(session)
            except (AuthError, RemoteError) as exc:
                # Nor is a person asked again and again for what nobody waits for.
                log.warning("%s: the server refuses subscriptions/listen now: %s", self._executor.name, exc)
                return
            except ToolcribError as exc:
                log.debug("%s: subscriptions/listen: %s", self._executor.name, exc)
                delay = min(2 * delay, LONGEST_RELISTEN)
            else:
                if self._current is not None:
                    self._current.delay = min(2 * delay, LONGEST_RELISTEN)
                self._tell_all()
                return

    def _wishes(self, session: Session) -> Wire:
        declared = session.agreement.server.capabilities
        wishes: Wire = {}
        for kind in ("tools", "prompts", "resources"):
            capability = declared.get(kind)
            if isinstance(capability, dict) and capability.get("listChanged") is True:
                wishes[f"{kind}ListChanged"] = True
        if uris := self._wanted():
            wishes["resourceSubscriptions"] = uris
        return wishes

    async def _open(self, session: Session, wishes: Wire) -> _Listening:
        listening = self._opening = _Listening(wishes)
        params = with_meta({"notifications": wishes}, session.agreement.stamp)
        options = RequestOptions(on_id=listening.note_id)
        listening.task = asyncio.create_task(session.channel.request("subscriptions/listen", params, options=options))
        listening.task.add_done_callback(_look_at)
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
        session.beside(self._keep(session, listening))
        return listening

    # ---- what comes ------------------------------------------------------------------------------------------

    def on_notification(self, method: str, params: Wire) -> None:
        """Take a notification, if it is one of a change or of a listening."""
        stream = subscription_of(params)
        if stream is not None and jsonrpc.correlate(stream) not in self._streams_open():
            return  # of a stream that was replaced: its successor tells the same
        if method == "notifications/subscriptions/acknowledged" and self._opening is not None:
            if not self._opening.acknowledged.done():
                self._opening.acknowledged.set_result(None)
        elif method in LISTS:
            self.tell(Change(LISTS[method]))
        elif method == "notifications/resources/updated" and isinstance(params.get("uri"), str):
            self.tell(Change("resource", params["uri"]))

    def _streams_open(self) -> set[int | None]:
        return {listening.id for listening in (self._current, self._opening) if listening is not None}

    def tell(self, change: Change) -> None:
        """Tell a change to all who wait for it, caches first."""
        self._on_change(change)
        for stream in self._streams:
            stream.offer(change)

    def end(self) -> None:
        """The client is closed: who waits for changes waits in vain."""
        for stream in self._streams:
            stream.end()

    def forget(self) -> None:
        """The connection is gone, and the listening with it."""
        self._current = None


def _look_at(task: asyncio.Task[Wire]) -> None:
    """How a listening ends is told by the connection; nobody need wait for it."""
    if not task.cancelled():
        task.exception()
