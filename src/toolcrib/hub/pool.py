"""The clients of one server: one that stays, one that goes when nobody uses it, or one for each call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final

from ..client.client import Client
from ..errors import CallTimeout, ConnectionLost

MOST: Final = 32
"""Processes of a transient server at a time, where `max_in_flight` says nothing."""


class Pool:
    """`client` is the standing one: lists come over it, and calls too, unless the server is transient.

    `direct` is set where a call needs nothing but this client; else it has a `lease` of one.
    """

    def __init__(
        self,
        make: Callable[[], Client],
        *,
        transient: bool,
        disconnect_idle_after: float | None,
        most: int | None = None,
    ) -> None:
        self.client = make()
        self.transient = transient
        self.direct = None if transient or disconnect_idle_after is not None else self.client
        self.resting = False
        """Disconnected because nobody used it."""
        self.closed = False
        self._make = make
        self._disconnect_idle_after = disconnect_idle_after
        self._uses = 0
        self._most = most or MOST
        self._places = asyncio.Semaphore(self._most)
        self._timer: asyncio.TimerHandle | None = None
        self._out: set[Client] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def lease(self, timeout: float | None = None) -> AsyncIterator[Client]:
        """Yield a client for one call. The client of a transient server is closed in the background afterwards.

        A transient server has a limited number of places. A call keeps its place until its process has ended, so that
        servers that are slow to end do not pile up. `timeout` bounds the wait for a place.
        """
        if not self.transient:
            with self._in_use():
                yield self.client
            return
        try:
            async with asyncio.timeout(timeout):
                await self._places.acquire()
        except TimeoutError:
            message = (
                f"the deadline passed while other calls, or processes that had not ended yet, had all {self._most} "
                "places of this server; nothing was sent"
            )
            raise CallTimeout(message, server=self.client.name) from None
        try:
            self._check()
            client = self._make()
        except BaseException:
            self._places.release()
            raise
        self._out.add(client)
        try:
            yield client
        finally:
            self._out.discard(client)
            self._behind(self._end(client))

    async def _end(self, client: Client) -> None:
        try:
            await client.close()
        finally:
            self._places.release()

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[Client]:
        """The standing client, for lists; that of a transient server is let go when they are there."""
        with self._in_use():
            try:
                yield self.client
            finally:
                if self.transient:
                    await self.client.disconnect()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        self._check()
        self._uses += 1
        self.resting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            self._uses -= 1
            if not self._uses and self._disconnect_idle_after is not None and not self.transient and not self.closed:
                self._timer = asyncio.get_running_loop().call_later(self._disconnect_idle_after, self._rest)

    def _rest(self) -> None:
        self._timer = None
        self._behind(self._let_go())

    async def _let_go(self) -> None:
        # Somebody may have come since the timer went off. Between this look and the parting nobody else can.
        if not self._uses and not self.closed:
            self.resting = True
            await self.client.disconnect()

    def _check(self) -> None:
        if self.closed:
            raise ConnectionLost("the server was removed", server=self.client.name)

    def _behind(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """End all clients; their calls fail. When this returns, none of their processes is left."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(self.client.close(), *(client.close() for client in self._out), return_exceptions=True)
        if self._leaving:
            await asyncio.wait(self._leaving)
