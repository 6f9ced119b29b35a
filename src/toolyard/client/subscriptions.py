"""Changes at the server: what was asked for, asked for again after each reconnect, and given to who waits for it.

Handshake era: `resources/subscribe` per URI, list changes come by themselves. Modern era: one `subscriptions/listen`
with the union of all wishes; when they change, a new one is opened and acknowledged before the old one is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from typing import Any, Final, Literal

from ..errors import ConnectionLost, ToolyardError, UsageError
from ..protocol.metadata import subscription_of, with_meta
from ..transports.channel import RequestOptions
from ..types import Change, Wire
from .connection import Connection
from .session import Session

log = logging.getLogger("toolyard.client")

ListKind = Literal["tools", "prompts", "resources"]
LISTS: Final[dict[str, ListKind]] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
BACKLOG: Final = 10_000


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

    async def __aenter__(self) -> Changes:
        """Subscribe; when this returns, no later change is missed."""
        await self._subscriptions.enter(self, self._uris)
        self._open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Unsubscribe."""
        self._open = False
        self._arrived.set()
        await self._subscriptions.leave(self, self._uris)

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Change:
        """The next change."""
        if not self._open:
            raise UsageError("enter it first: async with client.listen(...) as changes")
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
            if not self._open:
                raise StopAsyncIteration
        return self._waiting.popleft()

    def offer(self, change: Change) -> None:
        """Take a change if it is one that was asked for."""
        if change.kind in self._kinds or (change.kind == "resource" and change.uri in self._uris):
            self._waiting.append(change)
            self._arrived.set()


class _Listening:
    """One `subscriptions/listen` under way."""

    def __init__(self) -> None:
        self.id: int | None = None
        self.acknowledged = asyncio.Event()
        self.task: asyncio.Task[Wire]

    def note_id(self, id: int) -> None:
        """Notifications name the stream by the request's id."""
        self.id = id


class Subscriptions:
    """All that one client wants to be told."""

    def __init__(self, connection: Connection, timeout: float | None) -> None:
        self._connection = connection
        self._timeout = timeout
        self._uris: Counter[str] = Counter()
        self._streams: list[Changes] = []
        self._current: _Listening | None = None
        self._opening: _Listening | None = None
        self._turn = asyncio.Lock()

    # ---- wishes ----------------------------------------------------------------------------------------------

    async def enter(self, changes: Changes, uris: tuple[str, ...]) -> None:
        """A new listener; it hears from now on."""
        self._streams.append(changes)
        done: list[str] = []
        try:
            await self._connection.ready()
            for uri in uris:
                await self.subscribe(uri)
                done.append(uri)
        except BaseException:
            self._streams.remove(changes)
            for uri in done:
                self._uris[uri] -= 1
            raise

    async def leave(self, changes: Changes, uris: tuple[str, ...]) -> None:
        """A listener has gone."""
        if changes in self._streams:
            self._streams.remove(changes)
        for uri in uris:
            with contextlib.suppress(ToolyardError):  # whoever leaves does not care whether the server heard it
                await self.unsubscribe(uri)

    async def subscribe(self, uri: str) -> None:
        """Be told when this resource changes; counted, so that two who want it are one to the server."""
        session = await self._connection.ready(self._deadline())
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
        if self._uris[uri] <= 0:
            return
        self._uris[uri] -= 1
        session = self._connection.session
        if self._uris[uri] == 0 and session is not None:
            method = "resources/unsubscribe" if session.agreement.era.subscribe_method is not None else None
            await self._tell(session, uri, method)

    async def _tell(self, session: Session, uri: str, method: str | None) -> None:
        if method is None:
            await self._listen(session)
        else:
            await self._connection.request(method, {"uri": uri}, options=RequestOptions(self._deadline()))

    def _deadline(self) -> float | None:
        return None if self._timeout is None else asyncio.get_running_loop().time() + self._timeout

    # ---- what the server must be told again ------------------------------------------------------------------

    async def restore(self, session: Session) -> None:
        """On a new connection.

        Ask for everything again, then tell the listeners that they may have missed something.
        """
        method = session.agreement.era.subscribe_method
        wanted = [uri for uri, count in self._uris.items() if count > 0]
        try:
            if method is None:
                await self._listen(session)
            else:
                for uri in wanted:
                    await session.channel.request(method, {"uri": uri}, options=RequestOptions(self._deadline()))
        except ToolyardError as exc:
            log.warning("%s: subscriptions could not be restored: %s", self._connection.options.name, exc)
        if session.generation > 1:
            for kind in LISTS.values():
                self.offer(Change(kind))
            for uri in wanted:
                self.offer(Change("resource", uri))

    async def _listen(self, session: Session) -> None:
        """Modern era: one stream for all wishes."""
        async with self._turn:
            before = self._current
            wishes = self._wishes(session)
            self._current = await self._open(session, wishes) if wishes else None
            if before is not None:
                before.task.cancel()

    def _wishes(self, session: Session) -> Wire:
        declared = session.agreement.server.capabilities
        wishes: Wire = {}
        for kind in ("tools", "prompts", "resources"):
            capability = declared.get(kind)
            if isinstance(capability, dict) and capability.get("listChanged") is True:
                wishes[f"{kind}ListChanged"] = True
        uris = sorted(uri for uri, count in self._uris.items() if count > 0)
        if uris:
            wishes["resourceSubscriptions"] = uris
        return wishes

    async def _open(self, session: Session, wishes: Wire) -> _Listening:
        listening = self._opening = _Listening()
        params = with_meta({"notifications": wishes}, session.agreement.stamp)
        options = RequestOptions(on_id=listening.note_id)
        listening.task = asyncio.create_task(session.channel.request("subscriptions/listen", params, options=options))
        acknowledged = asyncio.create_task(listening.acknowledged.wait())
        try:
            await asyncio.wait(
                [listening.task, acknowledged], timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if listening.acknowledged.is_set():
                listening.task.add_done_callback(_ended)
                return listening
            if listening.task.done():
                listening.task.result()
            raise ConnectionLost("the server did not acknowledge subscriptions/listen")
        except BaseException:
            listening.task.cancel()
            raise
        finally:
            acknowledged.cancel()
            self._opening = None

    # ---- what comes ------------------------------------------------------------------------------------------

    def on_notification(self, method: str, params: Wire) -> Change | None:
        """The change that a notification tells of, given to all who wait for it."""
        change: Change | None = None
        if method == "notifications/subscriptions/acknowledged":
            self._acknowledge(params)
        elif method in LISTS:
            change = Change(LISTS[method])
        elif method == "notifications/resources/updated" and isinstance(params.get("uri"), str):
            change = Change("resource", params["uri"])
        if change is not None:
            self.offer(change)
        return change

    def _acknowledge(self, params: Any) -> None:
        if self._opening is not None and subscription_of(params) == self._opening.id:
            self._opening.acknowledged.set()

    def offer(self, change: Change) -> None:
        """Give a change to all who wait for it."""
        for stream in self._streams:
            stream.offer(change)

    def forget(self) -> None:
        """The connection is gone, and the listening with it."""
        self._current = None


def _ended(task: asyncio.Task[Wire]) -> None:
    if not task.cancelled() and (exc := task.exception()) is not None:
        log.debug("subscriptions/listen ended: %s", exc)
