"""Records calls for the audit: in memory at once, in the store in batches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final, Protocol

from ...errors import StoreError
from .interface import Add, Operation, Put, Store
from .rows import EventRow, ExecutionRow, Row, StatBucketRow, make_id

log = logging.getLogger("toolcrib.provider")

FLUSH_SECONDS: Final = 0.5
"""Seconds that a row waits at most, while the store works."""
FLUSH_ROWS: Final = 500
"""Rows that are written in one transaction, and that do not wait for `FLUSH_SECONDS`."""
MAX_BUFFERED_ROWS: Final = 20_000
"""Rows that wait in memory while the store does not work; then the oldest are dropped."""
MAX_RETRY_SECONDS: Final = 2.0
"""Seconds between two attempts, while the store does not work."""
MAX_BATCH_ATTEMPTS: Final = 3
"""Attempts to store a batch that fails with something else than a `StoreError`; then it is dropped."""
CLOSE_TIMEOUT_SECONDS: Final = 5.0
PRUNE_SECONDS: Final = 3600.0
"""Seconds between two calls of `prune`."""
PRUNE_ROWS: Final = 50_000
"""Rows written since the last call of `prune` after which it does not wait for `PRUNE_SECONDS`."""
MAX_EXECUTIONS: Final = 1_000_000
"""Executions that the store keeps."""
MAX_AGE_SECONDS: Final = 90 * 86_400.0
"""Seconds that the store keeps executions, events and counts."""
BUCKET_SECONDS: Final = 300
"""The length of the periods of `StatBucketRow`."""
AUDIT_GAP: Final = "audit_gap"
"""The kind of the event that says how many rows were dropped."""


class EndedCall(Protocol):
    """A call of which there is no row yet."""

    def make_row(self, id: str) -> ExecutionRow:
        """Return its row."""
        ...


class AuditWriter:
    """Keeps the rows of calls and of events in memory, and writes them to the store every 500 ms or 500 rows.

    A crash loses what was not written yet. While the store does not work, rows wait; if there are too many, the oldest
    are dropped, and the next batch stores one event that says how many. Rows that cannot be stored although the store
    works are dropped and counted in the same way. It belongs to one event loop.
    """

    def __init__(
        self,
        store: Store,
        *,
        flush_seconds: float = FLUSH_SECONDS,
        max_buffered_rows: int = MAX_BUFFERED_ROWS,
        max_executions: int = MAX_EXECUTIONS,
        max_age: float = MAX_AGE_SECONDS,
    ) -> None:
        self.dropped = 0
        """Rows that were dropped since the start."""
        self._store = store
        self._flush_seconds = flush_seconds
        self._max_buffered_rows = max_buffered_rows
        self._max_executions = max_executions
        self._max_age = max_age
        self._rows: deque[ExecutionRow | EventRow | EndedCall] = deque()
        self._row_ids = (f"{prefix}{number:08x}" for prefix in (make_id(),) for number in count())
        self._in_flight = 0
        self._failed_attempts = 0
        """Attempts to store the oldest rows that failed, though not because the store does not work."""
        self._failed_rows = 0
        """How many of the oldest rows were in these attempts."""
        self._reported = 0
        """How many of `dropped` are in stored events."""
        self._has_rows = asyncio.Event()
        self._has_batch = asyncio.Event()
        self._closing = False
        self._pruned_at: float | None = None
        self._since_pruning = 0
        self._task = asyncio.create_task(self._run(), name="toolcrib:audit")

    @property
    def pending(self) -> int:
        """Rows that are not stored yet."""
        return len(self._rows) + self._in_flight

    def record(self, row: ExecutionRow | EventRow | EndedCall) -> None:
        """Take a call or the row of a call or of an event, to be stored soon. Does not wait and does not raise."""
        rows = self._rows
        rows.append(row)
        count = len(rows)
        if count == 1:
            self._has_rows.set()
        elif count > self._max_buffered_rows:
            rows.popleft()
            self.dropped += 1
            self._failed_rows = max(0, self._failed_rows - 1)
        elif count == FLUSH_ROWS:
            self._has_batch.set()

    def withdraw_events(self, source_id: str) -> list[EventRow]:
        """Take back the events of a source that are not stored yet, and return them. Its calls are kept."""
        withdrawn: list[EventRow] = []
        kept: list[ExecutionRow | EventRow | EndedCall] = []
        failed = self._failed_rows
        for position, row in enumerate(self._rows):
            if isinstance(row, EventRow) and row.source_id == source_id:
                withdrawn.append(row)
                self._failed_rows -= position < failed
            else:
                kept.append(row)
        self._rows.clear()
        self._rows.extend(kept)
        return withdrawn

    async def close(self, timeout: float = CLOSE_TIMEOUT_SECONDS) -> None:
        """Write what is left, within `timeout` seconds. The store stays open. Rows that are left then are logged."""
        self._closing = True
        self._has_rows.set()
        self._has_batch.set()
        if not self._task.done():
            await asyncio.wait([self._task], timeout=timeout)
            self._task.cancel()
            await asyncio.wait([self._task])
        lost = self.pending + self.dropped - self._reported
        if lost:
            log.error("audit: %d rows could not be stored", lost)

    async def _run(self) -> None:
        failures = 0
        while not self._closing or self._rows:
            await self._wait(failures)
            try:
                await self._flush()
                failures = 0
                if not self._closing:
                    await self._prune()
            except StoreError as exc:
                failures += 1
                if failures == 1:
                    log.warning("audit: rows wait in memory, because the store does not work: %s", exc)
            except Exception:  # a defect must not end the audit of all later calls
                failures += 1
                log.exception("audit: rows could not be stored or pruned")

    async def _wait(self, failures: int) -> None:
        """Wait until there are enough rows, or some for `flush_seconds`; after failures, until the next attempt."""
        if failures:
            pause = min(MAX_RETRY_SECONDS, self._flush_seconds * 2.0 ** min(failures - 1, 10))
            await asyncio.sleep(min(pause, 0.1) if self._closing else pause)
            return
        await self._has_rows.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._flush_seconds):
                await self._has_batch.wait()

    async def _flush(self) -> None:
        """Write the rows that wait now, in batches; later ones wait for the next time. A batch that fails goes back."""
        left = len(self._rows)
        while left and self._rows:
            count = min(self._failed_rows or FLUSH_ROWS, left, len(self._rows))
            left -= count
            batch = self._take_rows(count)
            self._in_flight = len(batch)
            dropped = self.dropped
            try:
                await self._store.commit([*_make_operations(batch), *self._make_gap(dropped)])
            except StoreError:
                self._return(batch)
                raise
            except Exception:
                self._failed_attempts += 1
                if self._failed_attempts >= MAX_BATCH_ATTEMPTS:
                    self.dropped += len(batch)
                    self._failed_attempts = self._failed_rows = 0
                    log.exception("audit: %d rows are dropped, because they cannot be stored", len(batch))
                    continue
                self._return(batch)
                raise
            except BaseException:
                self._return(batch)
                raise
            finally:
                self._in_flight = 0
            self._failed_attempts = self._failed_rows = 0
            self._reported = dropped
            self._since_pruning += len(batch)
        if not self._closing:
            if not self._rows:
                self._has_rows.clear()
            if len(self._rows) < FLUSH_ROWS:
                self._has_batch.clear()

    def _take_rows(self, count: int) -> list[ExecutionRow | EventRow]:
        """Take the oldest rows out of the buffer. Calls of which no row can be made are dropped."""
        taken: list[ExecutionRow | EventRow] = []
        for _ in range(count):
            row = self._rows.popleft()
            try:
                taken.append(row if isinstance(row, Row) else row.make_row(next(self._row_ids)))
            except Exception:
                self.dropped += 1
                log.exception("audit: a call is dropped, because no row can be made of it")
        return taken

    def _return(self, batch: list[ExecutionRow | EventRow]) -> None:
        """Put a batch back that was not stored, and drop what is beyond the limit."""
        self._rows.extendleft(reversed(batch))
        excess = max(0, len(self._rows) - self._max_buffered_rows)
        for _ in range(excess):
            self._rows.popleft()
        self.dropped += excess
        if self._failed_attempts:
            self._failed_rows = max(0, len(batch) - excess)
            self._failed_attempts = self._failed_attempts if self._failed_rows else 0

    def _make_gap(self, dropped: int) -> Iterable[Operation]:
        if dropped > self._reported:
            data = {"dropped": dropped - self._reported}
            yield Put(EventRow(id=make_id(), at=time.time(), source_id="", kind=AUDIT_GAP, data=data))

    async def _prune(self) -> None:
        now = asyncio.get_running_loop().time()
        due = self._pruned_at is None or now - self._pruned_at >= PRUNE_SECONDS or self._since_pruning >= PRUNE_ROWS
        if due:
            self._pruned_at, self._since_pruning = now, 0
            await self._store.prune(max_executions=self._max_executions, max_age=self._max_age)


def _make_operations(batch: Sequence[ExecutionRow | EventRow]) -> Iterable[Operation]:
    yield from map(Put, batch)
    yield from map(Add, count_calls(row for row in batch if isinstance(row, ExecutionRow)))


def count_calls(rows: Iterable[ExecutionRow]) -> list[StatBucketRow]:
    """Return the counts of calls by period, source and tool.

    Calls of tools or sources that were not found are counted under the empty name: callers can give any name.
    """
    by_key: dict[tuple[float, str, str], list[ExecutionRow]] = {}
    for row in rows:
        source_id, tool = row.source_id if row.generation else "", row.tool if row.tool_hash else ""
        by_key.setdefault((row.at // BUCKET_SECONDS * BUCKET_SECONDS, source_id, tool), []).append(row)
    return [
        StatBucketRow(
            start=start,
            source_id=source_id,
            tool=tool,
            calls=len(found),
            errors=sum(row.outcome != "ok" for row in found),
            total_ms=sum(row.duration_ms for row in found),
            max_ms=max(row.duration_ms for row in found),
        )
        for (start, source_id, tool), found in by_key.items()
    ]
