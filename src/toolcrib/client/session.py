"""One generation of a connection: a channel, what was agreed on it, and where its news go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from ..transports.channel import Channel
from ..types import Wire
from .handlers import ASKS_A_PERSON, Handlers
from .negotiation import Agreement


class Observer(Protocol):
    """Who is told what a server sends, and when there is a new connection to it."""

    def on_notification(self, method: str, params: Wire) -> None:
        """A notification, in the order in which it came. Must not raise."""
        ...

    async def on_connected(self, session: Session) -> None:
        """A connection was made: restore what the server does not remember. Runs beside the calls."""
        ...

    def on_disconnected(self) -> None:
        """The connection is gone, and what it told us may be stale."""
        ...


class Session:
    """One generation of the connection: a channel and what was agreed on it."""

    def __init__(
        self,
        channel: Channel,
        generation: int,
        *,
        handlers: Handlers,
        observer: Observer,
        on_loss: Callable[[Session, Exception], None],
        held: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.channel = channel
        self.generation = generation
        self.agreement: Agreement
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.takes_requests = True
        self.connected = False
        """Whether the handshake is complete."""
        self.mirrors = False
        self.began = asyncio.get_running_loop().time()
        self._handlers = handlers
        self._observer = observer
        self._on_loss = on_loss
        self._held = held
        self._beside: set[asyncio.Task[None]] = set()

    def begin(self, agreement: Agreement) -> None:
        """The server answered."""
        self.agreement = agreement
        self.connected = True
        self._held = nullcontext
        self.takes_requests = agreement.era.server_asks
        self.mirrors = agreement.stamp is not None and self.channel.over_http
        self.beside(self._observer.on_connected(self))

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background, while this session lives."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def end(self, reason: Exception) -> None:
        """It is over."""
        if not self.ended.done():
            self.ended.set_result(reason)
        for task in self._beside:
            task.cancel()

    async def on_request(self, method: str, params: Wire) -> Wire:
        """Answer the server; while a person or a model is asked, no deadline passes.

        The time limit for connecting is not extended: a server that asks before it has answered the handshake cannot
        keep the attempt open.
        """
        if method in ASKS_A_PERSON and self.connected:
            with self.channel.hold():
                return await self._handlers.answer(method, params)
        return await self._handlers.answer(method, params)

    def on_notification(self, method: str, params: Wire) -> None:
        """Pass it on."""
        self._observer.on_notification(method, params)

    def held(self) -> AbstractContextManager[None]:
        """A person is being asked: the time for connecting stands still."""
        return self._held()

    def on_closed(self, error: Exception) -> None:
        """The channel ended by itself."""
        self._on_loss(self, error)
