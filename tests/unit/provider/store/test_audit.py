"""The audit: rows are taken at once, stored in batches, kept while the store fails, and dropped only with a record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from tests.provider.faulty_store import FaultyStore
from tests.provider.store_rows import make_execution
from tests.unit.kit import eventually, turns
from toolcrib.provider.store import open_store
from toolcrib.provider.store.audit import AUDIT_GAP, FLUSH_ROWS, MAX_BATCH_ATTEMPTS, AuditWriter, count_calls
from toolcrib.provider.store.rows import ExecutionRow
from toolcrib.provider.store.sql_store import SqlStore

NEVER = 1e6
"""A `flush_seconds` that does not pass in a test."""


@pytest.fixture
async def sql_store() -> AsyncIterator[SqlStore]:
    async with await open_store("sqlite://") as store:
        yield store


@pytest.fixture
def store(sql_store: SqlStore) -> FaultyStore:
    return FaultyStore(sql_store)


async def stored(store: FaultyStore) -> list[str]:
    return [row.id for row in await store.executions(limit=100_000)][::-1]


def names(*numbers: int) -> list[str]:
    return [make_execution(number).id for number in numbers]


async def test_rows_are_stored_after_a_short_time_in_one_transaction(store: FaultyStore) -> None:
    audit = AuditWriter(store, flush_seconds=0.01, max_age=1e12)
    for number in range(10):
        audit.record(make_execution(number))
    assert audit.pending == 10 and not store.operations
    await eventually(lambda: audit.pending == 0)
    assert store.operations.count("commit") == 1
    assert await stored(store) == names(*range(10))
    await audit.close()


async def test_a_full_batch_does_not_wait(store: FaultyStore) -> None:
    audit = AuditWriter(store, flush_seconds=NEVER, max_age=1e12)
    for number in range(FLUSH_ROWS - 1):
        audit.record(make_execution(number))
    await turns(20)
    assert not store.operations
    audit.record(make_execution(FLUSH_ROWS - 1))
    await eventually(lambda: audit.pending == 0)
    assert store.operations.count("commit") == 1
    audit.record(make_execution(FLUSH_ROWS))  # the next one waits again
    await turns(20)
    assert audit.pending == 1
    await audit.close()
    assert len(await stored(store)) == FLUSH_ROWS + 1


async def test_rows_stay_while_the_store_fails_and_are_stored_once_it_works(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditWriter(store, flush_seconds=0.005, max_age=1e12)
    store.inject("locked")
    for number in range(FLUSH_ROWS * 2 + 10):
        audit.record(make_execution(number))
    await eventually(lambda: store.operations.count("commit") >= 3)
    assert audit.pending == FLUSH_ROWS * 2 + 10
    store.heal()
    await eventually(lambda: audit.pending == 0)
    assert await stored(store) == names(*range(FLUSH_ROWS * 2 + 10))
    assert audit.dropped == 0 and [row for row in (await store.load()).events if row.kind == AUDIT_GAP] == []
    assert [record.levelno for record in caplog.records if "rows wait in memory" in record.message] == [logging.WARNING]
    await audit.close()


async def test_beyond_the_limit_the_oldest_rows_are_dropped_and_one_event_says_how_many(store: FaultyStore) -> None:
    audit = AuditWriter(store, flush_seconds=0.005, max_buffered_rows=1000, max_age=1e12)
    store.inject("disk full")
    for number in range(600):
        audit.record(make_execution(number))
    await eventually(lambda: store.operations.count("commit") >= 1)
    for number in range(600, 1300):
        audit.record(make_execution(number))
    await eventually(lambda: store.operations.count("commit") >= 3)
    store.heal()
    await eventually(lambda: audit.pending == 0)
    assert audit.dropped == 300
    assert await stored(store) == names(*range(300, 1300))
    gaps = [row for row in (await store.load()).events if row.kind == AUDIT_GAP]
    assert [row.data for row in gaps] == [{"dropped": 300}]
    audit.record(make_execution(5000))
    await audit.close()
    assert len((await store.load()).events) == 1


async def test_a_batch_that_a_defect_rejects_is_dropped_after_three_attempts_and_later_rows_are_kept(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditWriter(store, flush_seconds=0.005, max_age=1e12)
    store.inject("defect", times=MAX_BATCH_ATTEMPTS)
    for number in range(3):
        audit.record(make_execution(number))
    await eventually(lambda: store.operations.count("commit") == 1)
    for number in range(3, 10):
        audit.record(make_execution(number))
    await eventually(lambda: audit.pending == 0)
    await audit.close()
    assert audit.dropped == 3
    assert await stored(store) == names(*range(3, 10))
    gaps = [row for row in (await store.load()).events if row.kind == AUDIT_GAP]
    assert [row.data for row in gaps] == [{"dropped": 3}]
    assert "3 rows are dropped" in caplog.text and "injected by a test" in caplog.text


async def test_rows_are_kept_if_a_defect_passes_before_the_third_attempt(store: FaultyStore) -> None:
    audit = AuditWriter(store, flush_seconds=0.005, max_age=1e12)
    store.inject("defect", times=MAX_BATCH_ATTEMPTS - 1)
    audit.record(make_execution(1))
    await eventually(lambda: audit.pending == 0)
    store.inject("defect", at=1, times=1)  # attempts are counted anew for the next batch
    audit.record(make_execution(2))
    await eventually(lambda: audit.pending == 0)
    await audit.close()
    assert audit.dropped == 0 and await stored(store) == names(1, 2)


async def test_a_call_of_which_no_row_can_be_made_costs_no_other_row(store: FaultyStore) -> None:
    class Broken:
        def make_row(self, id: str) -> ExecutionRow:
            raise ValueError("no row can be made of this")

    audit = AuditWriter(store, flush_seconds=0.005, max_age=1e12)
    for number in range(3):
        audit.record(make_execution(number))
        audit.record(Broken())
    await audit.close()
    assert audit.dropped == 3 and await stored(store) == names(0, 1, 2)


async def test_rows_that_are_recorded_during_a_transaction_wait_for_the_next_batch(store: FaultyStore) -> None:
    audit = AuditWriter(store, flush_seconds=NEVER, max_age=1e12)
    store.inject("slow", delay=0.02)
    for number in range(FLUSH_ROWS):
        audit.record(make_execution(number))
    await eventually(lambda: "commit" in store.operations)
    audit.record(make_execution(FLUSH_ROWS))
    await eventually(lambda: audit.pending == 1)
    await turns(20)
    assert store.operations.count("commit") == 1
    assert audit.pending == 1
    await audit.close()
    assert len(await stored(store)) == FLUSH_ROWS + 1


async def test_a_slow_store_loses_nothing_that_is_recorded_in_the_meantime(store: FaultyStore) -> None:
    audit = AuditWriter(store, flush_seconds=0.001, max_age=1e12)
    store.inject("slow", delay=0.02)
    for number in range(200):
        audit.record(make_execution(number))
        await asyncio.sleep(0)
    await audit.close()
    assert await stored(store) == names(*range(200))


async def test_close_stores_what_is_left_without_waiting(store: FaultyStore) -> None:
    audit = AuditWriter(store, flush_seconds=NEVER)
    audit.record(make_execution(1))
    async with asyncio.timeout(5):
        await audit.close()
    await audit.close()
    assert await stored(store) == names(1)


async def test_close_gives_up_after_its_time_and_says_how_many_rows_are_lost(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditWriter(store, flush_seconds=0.01)
    store.inject("gone")
    for number in range(3):
        audit.record(make_execution(number))
    async with asyncio.timeout(5):
        await audit.close(timeout=0.05)
    assert audit.pending == 3
    assert "3 rows could not be stored" in caplog.text


async def test_calls_are_counted_by_period_source_and_tool(store: FaultyStore, sql_store: SqlStore) -> None:
    rows = [
        make_execution(1, duration_ms=5.0),
        make_execution(2, duration_ms=7.0, outcome="tool_error"),
        make_execution(299, duration_ms=1.0),
        make_execution(300, duration_ms=1.0),
        make_execution(3, tool="write"),
    ]
    assert sorted(
        (row.start, row.tool, row.calls, row.errors, row.total_ms, row.max_ms) for row in count_calls(rows)
    ) == [
        (0.0, "read", 3, 1, 13.0, 7.0),
        (0.0, "write", 1, 0, 2.0, 2.0),
        (300.0, "read", 1, 0, 1.0, 1.0),
    ]
    for row in rows:  # each in a transaction of its own, by a writer of its own
        audit = AuditWriter(store, max_age=1e12)
        audit.record(row)
        await audit.close()
    assert await sql_store.stat_buckets() == sorted(count_calls(rows), key=lambda row: (row.start, row.tool))


async def test_old_rows_are_pruned_now_and_then(store: FaultyStore) -> None:
    audit = AuditWriter(store, flush_seconds=0.001, max_executions=5, max_age=1e12)
    for number in range(10):
        audit.record(make_execution(number))
    await eventually(lambda: "prune" in store.operations)
    await audit.close()
    assert await stored(store) == names(*range(5, 10))
    assert store.operations.count("prune") == 1
