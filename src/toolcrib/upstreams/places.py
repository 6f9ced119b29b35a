"""The places of a pool: the caps on its connections, and the fair queue of the leases that wait for a place."""

from __future__ import annotations

import asyncio
import bisect
import enum
from collections import Counter
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")
G = TypeVar("G")


@dataclass(frozen=True)
class PoolLimits:
    """The most connections at a time; None means no limit."""

    total: int | None = 64
    per_source: int | None = 16
    per_principal: int | None = 4
    """Of one principal to one source. Connections that all principals share do not count."""


class Cap(enum.Enum):
    """A limit of `PoolLimits`, by the name of its field. Each cap includes the connections of those before it."""

    PER_PRINCIPAL = "per_principal"
    PER_SOURCE = "per_source"
    TOTAL = "total"


class PlaceCounts:
    """The number of places that are taken, for each cap.

    The owner of a place is the principal that it counts for, or None for a connection that all principals share.
    """

    def __init__(self, limits: PoolLimits) -> None:
        self.limits = limits
        self._total = 0
        self._sources: Counter[str] = Counter()
        self._principals: Counter[tuple[str, str]] = Counter()

    def add(self, source: str, owner: str | None) -> None:
        """Take a place."""
        self._total += 1
        self._sources[source] += 1
        if owner is not None:
            self._principals[source, owner] += 1

    def remove(self, source: str, owner: str | None) -> None:
        """Free a place."""
        self._total -= 1
        _decrease(self._sources, source)
        if owner is not None:
            _decrease(self._principals, (source, owner))

    def find_full(self, source: str, owner: str | None) -> Cap | None:
        """Return the narrowest cap that leaves no place; None if a place is free.

        The caps are nested: a place that is freed within the narrowest one is free for the others, too.
        """
        limits = self.limits
        if owner is not None and _is_full(self._principals[source, owner], limits.per_principal):
            return Cap.PER_PRINCIPAL
        if _is_full(self._sources[source], limits.per_source):
            return Cap.PER_SOURCE
        return Cap.TOTAL if _is_full(self._total, limits.total) else None

    def copy(self) -> PlaceCounts:
        """Return an independent copy."""
        copied = PlaceCounts(self.limits)
        copied._total = self._total
        copied._sources.update(self._sources)
        copied._principals.update(self._principals)
        return copied

    def __len__(self) -> int:
        return self._total


def _is_full(taken: int, limit: int | None) -> bool:
    return limit is not None and taken >= limit


def _decrease(counter: Counter[G], key: G) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


class Waiter(Generic[R, G]):
    """A request in the queue; `granted` is resolved with what it waits for."""

    __slots__ = ("granted", "order", "principal", "request")

    def __init__(self, request: R, principal: str, order: tuple[int, int]) -> None:
        self.request = request
        self.principal = principal
        self.order = order
        self.granted: asyncio.Future[G] = asyncio.get_running_loop().create_future()


class FairQueue(Generic[R, G]):
    """Requests that wait, ordered round robin by principal; those of one principal in the order of their arrival.

    Each request gets the number of a round when it arrives: the round after the last one of its principal, or after
    the current one. So its rank among the others cannot get worse, even if it is skipped because a cap blocks it:
    from the round of the last removal on, all newcomers are behind it.
    """

    def __init__(self) -> None:
        self._waiters: list[Waiter[R, G]] = []
        self._round = 0
        self._number = 0
        self._last_rounds: dict[str, int] = {}
        self._counts: Counter[str] = Counter()

    def add(self, request: R, principal: str) -> Waiter[R, G]:
        """Append a request."""
        turn = self._last_rounds[principal] = max(self._last_rounds.get(principal, 0), self._round) + 1
        self._counts[principal] += 1
        self._number += 1
        waiter: Waiter[R, G] = Waiter(request, principal, (turn, self._number))
        bisect.insort(self._waiters, waiter, key=_order_of)
        return waiter

    def grant(self, waiter: Waiter[R, G]) -> None:
        """Remove a waiter whose turn it is: newcomers begin after its round."""
        self._round = max(self._round, waiter.order[0])
        self.remove(waiter)

    def remove(self, waiter: Waiter[R, G]) -> None:
        """Remove a waiter."""
        del self._waiters[bisect.bisect_left(self._waiters, waiter.order, key=_order_of)]
        _decrease(self._counts, waiter.principal)
        if waiter.principal not in self._counts:
            del self._last_rounds[waiter.principal]

    def in_order(self) -> tuple[Waiter[R, G], ...]:
        """Return the waiters in the order of their turns."""
        return tuple(self._waiters)

    def __len__(self) -> int:
        return len(self._waiters)


def _order_of(waiter: Waiter[R, G]) -> tuple[int, int]:
    return waiter.order
