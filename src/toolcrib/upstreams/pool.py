"""A pool of connections to upstream servers. Callers lease a connection for a call or a subscription.

A connection occupies a place from before it is opened until after it is closed, so the caps of the pool limit the
processes that exist, not only those that are in use. If no place is free, the least recently used connection without
a lease is closed; if there is none, the lease waits in a queue that is fair to all principals.

Longer than 400 lines: the connections, their leases and the leases that wait change together, in one step each.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from .._util.tasks import TaskSet
from ..errors import ConnectionLost, RateLimited, ToolcribError
from ..types import UNSET, Unset
from .features import Features
from .places import Cap, FairQueue, PlaceCounts, PoolLimits, Waiter

log = logging.getLogger("toolcrib.upstreams")

SHARED: Final = "shared"
"""The scope of connections that all principals share."""
IDLE_SECONDS: Final = 300.0
"""Seconds without a lease after which a connection is closed, unless the pool or the lease says otherwise."""
LOCAL: Final = "local"
"""The principal of callers without authentication, and of calls that name none."""
USUAL_LIMITS: Final = PoolLimits()


class PoolKey(NamedTuple):
    """The key of a connection: leases with the same key share it."""

    source: str
    generation: int
    """Rises when command, URL, environment or a credential of the source changes."""
    scope: str
    """`SHARED`, a principal, or a principal and a session."""
    features: Features = Features()


class Connection(Protocol):
    """What the pool reads of a connection."""

    @property
    def connected(self) -> bool:
        """Whether it is connected now."""
        ...


C = TypeVar("C", bound=Connection)


class Opener(Protocol[C]):
    """Opens and closes the connections of a key."""

    def open(self) -> C:
        """Return a connection; it connects at its first request."""
        ...

    async def close(self, connection: C) -> None:
        """Close a connection. When this returns, its process has ended."""
        ...


@dataclass(frozen=True)
class PooledConnection:
    """A connection of the pool as of now, for a status display. Times are seconds since the epoch."""

    key: PoolKey
    principal: str
    """The principal whose lease opened it."""
    leases: int
    since: float
    idle_since: float | None
    """The end of its last lease; None while it is leased or being closed."""
    connected: bool
    transient: bool
    closing: bool


class _Obstacle(enum.Enum):
    """What a lease can wait for apart from a place."""

    MAX_LEASES = "max_leases"
    CLOSING = "closing"


class _PooledEntry(Generic[C]):
    """A connection, from its place's reservation to its end."""

    __slots__ = (
        "closing",
        "connection",
        "idle_seconds",
        "idle_since",
        "idle_until",
        "key",
        "leases",
        "opener",
        "owner",
        "principal",
        "retired",
        "since",
        "transient",
    )

    def __init__(self, lease: Lease[C], connection: C) -> None:
        self.key = lease.key
        self.owner = lease.owner
        self.principal = lease.principal
        self.opener = lease.opener
        self.transient = lease.transient
        self.idle_seconds = lease.idle_seconds
        self.connection = connection
        self.leases = 0
        self.retired = False
        """Whether it is closed when its last lease ends."""
        self.closing: asyncio.Task[None] | None = None
        self.since = time.time()
        self.idle_since = 0.0
        """The end of the last lease, in the time of the epoch; valid while there is no lease."""
        self.idle_until = math.inf
        """The time of the event loop at which it is closed; valid while there is no lease."""


class Lease(Generic[C]):
    """The right to use a connection within `async with`. Made by `ConnectionPool.lease`; can be entered once."""

    __slots__ = (
        "_entry",
        "_pool",
        "idle_seconds",
        "key",
        "max_leases",
        "opener",
        "principal",
        "timeout",
        "transient",
    )

    def __init__(
        self,
        pool: ConnectionPool[C],
        key: PoolKey,
        opener: Opener[C],
        principal: str,
        timeout: float | None,
        transient: bool,
        idle_seconds: float | None,
        max_leases: int | None,
    ) -> None:
        self._pool = pool
        self._entry: _PooledEntry[C] | None = None
        self.key = key
        self.opener = opener
        self.principal = principal
        self.timeout = timeout
        self.transient = transient
        self.idle_seconds = idle_seconds
        self.max_leases = max_leases

    @property
    def owner(self) -> str | None:
        """The principal that its connection counts for; None if all principals share the connection."""
        return None if self.key.scope == SHARED and not self.transient else self.principal

    async def __aenter__(self) -> C:
        entry = self._entry = self._pool.take(self) or await self._pool.wait(self)
        return entry.connection

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entry, self._entry = self._entry, None
        if entry is not None:
            self._pool.release(entry)


class ConnectionPool(Generic[C]):
    """Opens connections when they are leased, shares them by key, and closes them when they are idle or in the way."""

    def __init__(self, limits: PoolLimits = USUAL_LIMITS, *, idle_seconds: float | None = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._closed = False
        self._entries: dict[_PooledEntry[C], None] = {}
        """All that occupy a place, those that are being closed too."""
        self._shared: dict[PoolKey, _PooledEntry[C]] = {}
        """Those that can be leased."""
        self._idle: dict[_PooledEntry[C], None] = {}
        """Those of `_shared` without a lease, the least recently used first."""
        self._places = PlaceCounts(limits)
        self._staying = PlaceCounts(limits)
        """The places that are occupied by connections that are not being closed."""
        self._closing_keys: Counter[PoolKey] = Counter()
        self._transients: Counter[PoolKey] = Counter()
        self._retired: dict[str, float] = {}
        """The generation of each source before which there are no new leases."""
        self._stopping: Counter[tuple[str, str | None]] = Counter()
        """The sources, or a scope of one, that are being closed by request."""
        self._queue: FairQueue[Lease[C], _PooledEntry[C]] = FairQueue()
        self._timer: asyncio.TimerHandle | None = None
        self._closings = TaskSet()

    def lease(
        self,
        key: PoolKey,
        opener: Opener[C],
        *,
        principal: str = LOCAL,
        timeout: float | None = None,
        transient: bool = False,
        idle_seconds: float | Unset | None = UNSET,
        max_leases: int | None = None,
    ) -> Lease[C]:
        """Return a context manager that yields a connection.

        `timeout` limits the wait for a place; then `RateLimited` is raised. A `transient` connection is not shared
        and is closed in the background after its lease. `idle_seconds` is for the connection that this lease opens.
        `max_leases` limits the leases of this key at a time; a transient one counts until its connection is closed.
        `ConnectionLost` is raised if the pool is closed, or the source is being closed or was retired.
        """
        idle = self._idle_seconds if idle_seconds is UNSET else idle_seconds
        return Lease(self, key, opener, principal, timeout, transient, idle, max_leases)

    def connections(self, source: str | None = None) -> list[PooledConnection]:
        """Return the connections of a source, or all, that occupy a place now; the oldest first."""
        return [
            PooledConnection(
                entry.key,
                entry.principal,
                entry.leases,
                entry.since,
                entry.idle_since if entry in self._idle else None,
                entry.connection.connected,
                entry.transient,
                entry.closing is not None,
            )
            for entry in self._entries
            if source is None or entry.key.source == source
        ]

    @property
    def waiting(self) -> int:
        """The number of leases that wait."""
        return len(self._queue)

    # ---- leases: called by `Lease` -----------------------------------------------------------------------------

    def take(self, lease: Lease[C]) -> _PooledEntry[C] | None:
        """Return the connection for a lease; None if the lease has to wait."""
        entry = self._shared.get(lease.key)
        if entry is not None and not lease.transient and lease.max_leases is None:
            return self._use(entry)
        self._check_usable(lease.key)
        if self._find_obstacle(lease, self._places) is not None:
            return None
        entry = self._grant(lease)
        if self._queue:  # leases of the same key by other principals may wait for a place of their own
            self._serve_queue()
        return entry

    async def wait(self, lease: Lease[C]) -> _PooledEntry[C]:
        """Wait for the connection for a lease."""
        waiter = self._queue.add(lease, lease.principal)
        self._make_places()
        try:
            await asyncio.wait([waiter.granted], timeout=lease.timeout)
            if not waiter.granted.done():
                raise self._make_full_error(lease)
        except BaseException:
            self._give_up(waiter)
            raise
        return waiter.granted.result()

    def release(self, entry: _PooledEntry[C]) -> None:
        """End a lease."""
        entry.leases -= 1
        if not entry.leases and entry.closing is None:
            if entry.transient or entry.retired:
                self._begin_closing(entry)
            else:
                self._idle[entry] = None
                entry.idle_since = time.time()
                if entry.idle_seconds is not None:
                    loop = asyncio.get_running_loop()
                    entry.idle_until = loop.time() + entry.idle_seconds
                    self._set_timer(entry.idle_until, loop)
        if self._queue:
            self._serve_queue()

    # ---- granting ----------------------------------------------------------------------------------------------

    def _check_usable(self, key: PoolKey) -> None:
        """Raise `ConnectionLost` if there are no new leases of this key."""
        if self._closed:
            raise ConnectionLost("the pool of connections is closed; nothing was sent", server=key.source)
        if key.generation < self._retired.get(key.source, -math.inf):
            message = "the source was removed or its settings changed; nothing was sent. Look it up again"
            raise ConnectionLost(message, server=key.source)
        if self._stopping and ((key.source, None) in self._stopping or (key.source, key.scope) in self._stopping):
            raise ConnectionLost("the source is being closed; nothing was sent. Try again later", server=key.source)

    def _find_obstacle(self, lease: Lease[C], places: PlaceCounts) -> Cap | _Obstacle | None:
        """Return what a lease has to wait for."""
        key, most = lease.key, lease.max_leases
        if lease.transient:
            if most is not None and self._transients[key] >= most:
                return _Obstacle.MAX_LEASES
        elif (entry := self._shared.get(key)) is not None:
            return _Obstacle.MAX_LEASES if most is not None and entry.leases >= most else None
        elif key in self._closing_keys:  # the server may hold an exclusive resource
            return _Obstacle.CLOSING
        return places.find_full(key.source, lease.owner)

    def _grant(self, lease: Lease[C]) -> _PooledEntry[C]:
        """Return the connection for a lease that nothing obstructs."""
        entry = None if lease.transient else self._shared.get(lease.key)
        return self._use(self._open(lease) if entry is None else entry)

    def _use(self, entry: _PooledEntry[C]) -> _PooledEntry[C]:
        if not entry.leases:
            self._idle.pop(entry, None)
        entry.leases += 1
        return entry

    def _open(self, lease: Lease[C]) -> _PooledEntry[C]:
        # `open` does not wait: the place that it needs cannot be taken in the meantime.
        key = lease.key
        entry = _PooledEntry(lease, lease.opener.open())
        self._entries[entry] = None
        self._places.add(key.source, entry.owner)
        self._staying.add(key.source, entry.owner)
        if entry.transient:
            self._transients[key] += 1
        else:
            self._shared[key] = entry
        return entry

    # ---- waiting -----------------------------------------------------------------------------------------------

    def _serve_queue(self) -> None:
        """Grant the leases that need not wait any longer, in the order of the queue, and make places for the others."""
        granted = True
        while granted:  # a connection that was opened is also for leases of the same key before it in the queue
            granted = False
            for waiter in self._queue.in_order():
                if self._find_obstacle(waiter.request, self._places) is None:
                    granted = True
                    self._queue.grant(waiter)
                    try:
                        waiter.granted.set_result(self._grant(waiter.request))
                    except Exception as exc:  # noqa: BLE001  # raised for the lease whose opener failed
                        waiter.granted.set_exception(exc)
        self._make_places()

    def _make_places(self) -> None:
        """Close idle connections, as many as the leases that wait need beyond the places that are being freed."""
        if not self._idle:
            return
        expected, planned = self._staying.copy(), set[PoolKey]()
        for waiter in self._queue.in_order():
            lease = waiter.request
            key, owner = lease.key, lease.owner
            if self._find_obstacle(lease, expected) is _Obstacle.MAX_LEASES or key in planned:
                continue
            cap = expected.find_full(key.source, owner)
            if cap is not None:
                entry = next((each for each in self._idle if _counts_in(each, cap, key.source, owner)), None)
                if entry is None:
                    continue
                self._begin_closing(entry)
                expected.remove(entry.key.source, entry.owner)
            expected.add(key.source, owner)
            if not lease.transient:
                planned.add(key)

    def _give_up(self, waiter: Waiter[Lease[C], _PooledEntry[C]]) -> None:
        """Remove a waiter, or give back what it was granted in the same turn of the event loop."""
        if not waiter.granted.done():
            self._queue.remove(waiter)
            waiter.granted.cancel()
        elif waiter.granted.exception() is None:
            self.release(waiter.granted.result())

    def _make_full_error(self, lease: Lease[C]) -> RateLimited:
        source, limits = lease.key.source, self._places.limits
        match self._find_obstacle(lease, self._places):
            case Cap.PER_PRINCIPAL:
                full = f"per_principal: all {limits.per_principal} connections of {lease.principal} to this source"
            case Cap.PER_SOURCE:
                full = f"per_source: all {limits.per_source} connections to this source"
            case Cap.TOTAL:
                full = f"total: all {limits.total} connections of the pool"
            case _Obstacle.MAX_LEASES:
                full = f"max_leases: all {lease.max_leases} leases of this connection"
            case _:
                message = "the previous connection to this source is still being closed; nothing was sent. Try again"
                return RateLimited(message, server=source, sent=False)
        message = f"{full} are in use; nothing was sent. Try again later, or raise this limit"
        return RateLimited(message, server=source, sent=False)

    def _fail_waiters(self, make_error: Callable[[PoolKey], ToolcribError | None]) -> None:
        for waiter in self._queue.in_order():
            error = make_error(waiter.request.key)
            if error is not None:
                self._queue.remove(waiter)
                waiter.granted.set_exception(error)

    def _find_refusal(self, key: PoolKey) -> ToolcribError | None:
        try:
            self._check_usable(key)
        except ConnectionLost as exc:
            return exc
        return None

    # ---- closing -----------------------------------------------------------------------------------------------

    def _begin_closing(self, entry: _PooledEntry[C]) -> None:
        """Close a connection in the background; its place is free when that is done."""
        self._withdraw(entry)
        if not entry.transient:
            self._closing_keys[entry.key] += 1
        self._staying.remove(entry.key.source, entry.owner)
        entry.closing = self._closings.create(self._close(entry))

    def _withdraw(self, entry: _PooledEntry[C]) -> None:
        """Grant no new leases of a connection."""
        self._idle.pop(entry, None)
        if self._shared.get(entry.key) is entry:
            del self._shared[entry.key]

    async def _close(self, entry: _PooledEntry[C]) -> None:
        try:
            await entry.opener.close(entry.connection)
        except Exception:
            log.exception("%s: closing a connection failed", entry.key.source)
        finally:
            counter = self._transients if entry.transient else self._closing_keys
            counter[entry.key] -= 1
            if not counter[entry.key]:
                del counter[entry.key]
            self._places.remove(entry.key.source, entry.owner)
            del self._entries[entry]
            if self._queue:
                self._serve_queue()

    def _set_timer(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        """Look for idle connections at `when`. The timer is not reset by a lease: it is set again when it has fired."""
        if self._timer is None or when < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(when, self._close_idle)

    def _close_idle(self) -> None:
        """Close what was idle for long enough, and set the timer for the rest."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for entry in list(self._idle):
            if entry.idle_until <= now:
                self._begin_closing(entry)
            elif entry.idle_until < math.inf:
                self._set_timer(entry.idle_until, loop)

    def retire(self, source: str, before: int | None = None) -> None:
        """Grant no new leases of the generations before `before` (None: of the source), and close the connections of
        these generations when their last lease ends. Leases that wait for one raise `ConnectionLost`.
        """
        limit = math.inf if before is None else before
        self._retired[source] = limit = max(limit, self._retired.get(source, limit))
        self._retire(lambda key: key.source == source and key.generation < limit)
        self._fail_waiters(self._find_refusal)

    def retire_scope(self, source: str, scope: str) -> None:
        """Close the connections of a scope when their last lease ends; leases from now on open new ones."""
        self._retire(lambda key: key.source == source and key.scope == scope)

    def _retire(self, chosen: Callable[[PoolKey], bool]) -> None:
        for entry in list(self._entries):
            if entry.closing is None and chosen(entry.key):
                entry.retired = True
                if entry.leases:
                    self._withdraw(entry)
                else:
                    self._begin_closing(entry)

    async def close_source(self, source: str) -> None:
        """Close all connections of a source now, leased or not; when this returns, none of their processes is left.

        Leases that wait, and those that are requested until this returns, raise `ConnectionLost`; later ones open a
        new connection, unless the source was retired.
        """
        await self._stop(source, None)

    async def close_scope(self, source: str, scope: str) -> None:
        """Do as `close_source` does for the connections of one scope."""
        await self._stop(source, scope)

    async def _stop(self, source: str, scope: str | None) -> None:
        self._stopping[source, scope] += 1
        try:
            self._fail_waiters(self._find_refusal)
            await self._close_all(lambda key: key.source == source and (scope is None or key.scope == scope))
        finally:
            self._stopping[source, scope] -= 1
            if not self._stopping[source, scope]:
                del self._stopping[source, scope]

    async def _close_all(self, chosen: Callable[[PoolKey], bool]) -> None:
        entries = [entry for entry in self._entries if chosen(entry.key)]
        for entry in entries:
            if entry.closing is None:
                self._begin_closing(entry)
        closings = [entry.closing for entry in entries if entry.closing is not None]
        if closings:
            await asyncio.wait(closings)

    async def close(self) -> None:
        """Close all connections for good; when this returns, none of their processes is left."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fail_waiters(self._find_refusal)
        await self._close_all(lambda _: True)


def _counts_in(entry: _PooledEntry[C], cap: Cap, source: str, owner: str | None) -> bool:
    """Return whether the end of a connection makes a place within `cap` for this source and owner."""
    match cap:
        case Cap.PER_PRINCIPAL:
            return entry.key.source == source and entry.owner == owner
        case Cap.PER_SOURCE:
            return entry.key.source == source
        case Cap.TOTAL:
            return True
