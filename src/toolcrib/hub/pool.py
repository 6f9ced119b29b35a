"""The clients of one server of a hub: one that stays connected, one that disconnects if idle, or one for each call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from .._util.tasks import TaskSet
from ..client.client import Client
from ..errors import CallTimeout, ConnectionLost

MAX_TRANSIENT_CLIENTS: Final = 32
"""Clients of a transient server at a time, unless `max_in_flight` is given."""


class Pool:
    """Hands out clients. `client` fetches the lists; calls use it too, unless the server is transient.

    A server is transient if `make_transient` is given: it creates the client of one call.
    """

    def __init__(
        self,
        client: Client,
        *,
        make_transient: Callable[[], Client] | None = None,
        max_transient: int | None = None,
        disconnect_idle_after: float | None = None,
    ) -> None:
        self.client = client
        self.transient = make_transient is not None
        self.needs_lease = self.transient or disconnect_idle_after is not None
        """Whether a call has to `lease` its client; if not, it may use `client` at any time."""
        self._make_transient = make_transient
        self._disconnect_idle_after = None if self.transient else disconnect_idle_after
        self._closed = False
        self._idle = False
        self._uses = 0
        self._max_transient = max_transient or MAX_TRANSIENT_CLIENTS
        self._slots = asyncio.Semaphore(self._max_transient)
        self._timer: asyncio.TimerHandle | None = None
        self._leased: set[Client] = set()
        self._closing = TaskSet()

    @property
    def idle(self) -> bool:
        """Whether `client` was disconnected because no call used it."""
        return self._idle

    @contextlib.asynccontextmanager
    async def lease(self, timeout: float | None = None) -> AsyncIterator[Client]:
        """Yield a client for one call. The client of a transient server is closed in the background afterwards.

        A transient server has a limited number of slots. A call keeps its slot until its process has ended, so that
        servers that are slow to end do not pile up. `timeout` bounds the wait for a slot.
        """
        if self._make_transient is None:
            with self._use():
                yield self.client
            return
        try:
            async with asyncio.timeout(timeout):
                await self._slots.acquire()
        except TimeoutError:
            message = (
                f"the deadline passed while other calls, or processes that had not ended yet, occupied "
                f"all {self._max_transient} slots of this server; nothing was sent"
            )
            raise CallTimeout(message, server=self.client.name) from None
        try:
            self._check_open()
            client = self._make_transient()
        except BaseException:
            self._slots.release()
            raise
        self._leased.add(client)
        try:
            yield client
        finally:
            self._leased.discard(client)
            self._closing.create(self._close_leased(client))

    async def _close_leased(self, client: Client) -> None:
        try:
            await client.close()
        finally:
            self._slots.release()

    @contextlib.asynccontextmanager
    async def hold_client(self) -> AsyncIterator[Client]:
        """Yield `client` to fetch lists. That of a transient server is disconnected afterwards.

        If it is not connected then, it goes on trying: the lists are still to be fetched.
        """
        with self._use():
            try:
                yield self.client
            finally:
                if self.transient and self.client.connected:
                    await self.client.disconnect()

    @contextlib.contextmanager
    def _use(self) -> Iterator[None]:
        self._check_open()
        self._uses += 1
        self._idle = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            self._uses -= 1
            if not self._uses and self._disconnect_idle_after is not None and not self._closed:
                self._timer = asyncio.get_running_loop().call_later(self._disconnect_idle_after, self._on_idle)

    def _on_idle(self) -> None:
        self._timer = None
        self._closing.create(self._disconnect_if_idle())

    async def _disconnect_if_idle(self) -> None:
        # A call may have begun since the timer fired. None can between this check and the disconnect. A client that is
        # not connected goes on trying: its server may never have been listed.
        if not self._uses and not self._closed and self.client.connected:
            self._idle = True
            await self.client.disconnect()

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionLost("the server was removed", server=self.client.name)

    async def close(self) -> None:
        """Close all clients; their calls fail. When this returns, none of their processes is left."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(self.client.close(), *(client.close() for client in self._leased), return_exceptions=True)
        await self._closing.wait()
