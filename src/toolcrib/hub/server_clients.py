"""The clients of one server of a hub: one that stays connected, one that disconnects if idle, or one for each call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from ..client.client import Client
from ..errors import CallTimeout, ConnectionLost, RateLimited
from ..upstreams.places import PoolLimits
from ..upstreams.pool import SHARED, ConnectionPool, Lease, PoolKey

MAX_TRANSIENT_CLIENTS: Final = 32
"""Clients of a transient server at a time, unless `max_in_flight` is given."""


class ServerClients:
    """Leases the clients of a server. `client` fetches the lists; calls use it too, unless the server is transient.

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
        self._key = PoolKey(client.name, 0, SHARED)
        self._kept = _KeptClient(client)
        self._made = None if make_transient is None else _MadeClients(make_transient)
        self._max_transient = max_transient or MAX_TRANSIENT_CLIENTS
        self._pool: ConnectionPool[Client] = ConnectionPool(
            PoolLimits(self._max_transient if self.transient else None, None, None),
            idle_seconds=disconnect_idle_after,
        )
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether `client` was disconnected because no call used it."""
        return self._kept.idle

    @contextlib.asynccontextmanager
    async def lease(self, timeout: float | None = None) -> AsyncIterator[Client]:
        """Yield a client for one call. The client of a transient server is closed in the background afterwards.

        A transient server has a limited number of slots. A call keeps its slot until its process has ended, so that
        servers that are slow to end do not pile up. `timeout` bounds the wait for a slot.
        """
        self._check_open()
        async with contextlib.AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(self._lease(timeout))
            except RateLimited:
                raise self._make_timeout() from None
            except ConnectionLost:
                raise self._make_removed_error() from None
            yield client

    def _lease(self, timeout: float | None = None) -> Lease[Client]:
        if self._made is None:
            return self._pool.lease(self._key, self._kept, timeout=timeout)
        return self._pool.lease(self._key, self._made, timeout=timeout, transient=True)

    @contextlib.asynccontextmanager
    async def hold_client(self) -> AsyncIterator[Client]:
        """Yield `client` to fetch lists. That of a transient server is disconnected afterwards.

        If it is not connected then, it goes on trying: the lists are still to be fetched.
        """
        if not self.transient:
            async with self.lease() as client:
                yield client
            return
        self._check_open()
        try:
            yield self.client
        finally:
            if self.client.connected:
                await self.client.disconnect()

    def _check_open(self) -> None:
        if self._closed:
            raise self._make_removed_error()

    def _make_timeout(self) -> CallTimeout:
        message = "the deadline passed while the last connection was being closed; nothing was sent"
        if self.transient:
            message = (
                f"the deadline passed while other calls, or processes that had not ended yet, occupied "
                f"all {self._max_transient} slots of this server; nothing was sent"
            )
        return CallTimeout(message, server=self.client.name)

    def _make_removed_error(self) -> ConnectionLost:
        return ConnectionLost("the server was removed", server=self.client.name)

    async def close(self) -> None:
        """Close all clients; their calls fail. When this returns, none of their processes is left."""
        self._closed = True
        await asyncio.gather(self.client.close(), self._pool.close(), return_exceptions=True)


class _KeptClient:
    """The client that is used again after it was disconnected, and so is never closed by the pool."""

    def __init__(self, client: Client) -> None:
        self.idle = False
        """Whether it was disconnected because it had no lease."""
        self._client = client

    def open(self) -> Client:
        self.idle = False
        return self._client

    async def close(self, client: Client) -> None:
        # A client that is not connected goes on trying: its server may never have been listed.
        if client.connected:
            self.idle = True
            await client.disconnect()


class _MadeClients:
    """The clients of a transient server, each for one call."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make

    def open(self) -> Client:
        return self._make()

    async def close(self, client: Client) -> None:
        await client.close()
