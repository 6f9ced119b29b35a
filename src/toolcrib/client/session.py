"""One generation of a connection: its channel, the negotiated agreement, and the messages of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from .._util.tasks import TaskSet
from ..transports.channel import Channel
from ..types import Wire
from .handlers import ASKS_A_PERSON, Handlers
from .negotiation import Agreement


class Observer(Protocol):
    """Receives the notifications of a server, and learns when a connection to it begins and ends."""

    def on_notification(self, method: str, params: Wire) -> None:
        """Handle a notification, in the order of arrival. Must not raise."""
        ...

    async def on_connected(self, session: Session) -> None:
        """Restore the server's state after a reconnect. Runs in a task of the session, concurrently with calls."""
        ...

    def on_disconnected(self) -> None:
        """Discard the state that belonged to the connection."""
        ...


class Session:
    """A channel and the negotiated agreement. `ended` is resolved with the reason when the connection ends."""

    def __init__(
        self, channel: Channel, generation: int, agreement: Agreement, ended: asyncio.Future[Exception]
    ) -> None:
        self.channel = channel
        self.generation = generation
        self.agreement = agreement
        self.ended = ended
        self.mirrors = agreement.stamp is not None and channel.over_http
        """Whether tools may require arguments in HTTP headers."""
        self.began = asyncio.get_running_loop().time()
        self._tasks = TaskSet()

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` in the background until it ends or the session does."""
        return self._tasks.create(work)

    def end(self, reason: Exception) -> None:
        """Resolve `ended`, unless it is resolved already, and cancel the tasks of the session."""
        if not self.ended.done():
            self.ended.set_result(reason)
        self._tasks.cancel()


class InboundHandler:
    """Handles the requests and notifications that the server sends on one channel, from the handshake on.

    `hold_limit` pauses the time limit for connecting while a person authorises. `on_lost` is called with the session
    when its channel ends by itself.
    """

    def __init__(
        self,
        channel: Channel,
        handlers: Handlers,
        observers: Sequence[Observer],
        *,
        hold_limit: Callable[[], AbstractContextManager[None]],
        on_lost: Callable[[Session, Exception], None],
    ) -> None:
        self.takes_requests = True
        self._channel = channel
        self._handlers = handlers
        self._observers = observers
        self._hold_limit = hold_limit
        self._on_lost = on_lost
        self._ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._session: Session | None = None

    def begin_session(self, generation: int, agreement: Agreement) -> Session:
        """Return the session on this channel, now that the handshake is complete."""
        session = self._session = Session(self._channel, generation, agreement, self._ended)
        self._hold_limit = nullcontext
        self.takes_requests = agreement.era.server_asks
        return session

    async def on_request(self, method: str, params: Wire) -> Wire:
        """Answer a request of the server. Deadlines of calls pause while a person or a model is asked.

        The time limit for connecting is not extended: a server that sends requests before it has answered the handshake
        cannot keep the attempt open.
        """
        if method in ASKS_A_PERSON and self._session is not None:
            with self._channel.hold():
                return await self._handlers.answer(method, params)
        return await self._handlers.answer(method, params)

    def on_notification(self, method: str, params: Wire) -> None:
        """Pass the notification to the observers."""
        for observer in self._observers:
            observer.on_notification(method, params)

    def held(self) -> AbstractContextManager[None]:
        """Return a context that pauses the time limit for connecting; no effect after the handshake."""
        return self._hold_limit()

    def on_closed(self, error: Exception) -> None:
        """End the session, because the channel ended by itself. Before there is one, the handshake's request fails."""
        if self._session is not None:
            self._on_lost(self._session, error)
        elif not self._ended.done():
            self._ended.set_result(error)
