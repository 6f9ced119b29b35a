"""The store: one suite, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.ext.asyncio import create_async_engine

from tests.provider.store_rows import (
    make_action,
    make_approval,
    make_bucket,
    make_event,
    make_execution,
    make_source,
    make_state,
    make_tool,
    make_version,
)
from toolcrib.errors import StoreError
from toolcrib.provider.store import open_store
from toolcrib.provider.store.interface import EVENTS_PER_SOURCE, VERSIONS_PER_TOOL, Add, Delete, Put, StoredState
from toolcrib.provider.store.migration import PACKAGED_MIGRATIONS, Migrations
from toolcrib.provider.store.rows import EventRow, ExecutionRow, Row, SourceRow, ToolRow
from toolcrib.provider.store.sql_store import SqlStore
from toolcrib.provider.store.tables import TABLES, metadata

CHILD = Path(__file__).with_name("store_child.py")


def rows_of(state: StoredState) -> list[Row]:
    return [row for field in fields(state) if field.name != "change" for row in getattr(state, field.name)]


def driver_url(url: str) -> str:
    return url.replace("sqlite://", "sqlite+aiosqlite://").replace("postgresql://", "postgresql+asyncpg://")


async def test_every_row_comes_back_as_it_was(store: SqlStore, store_url: str) -> None:
    rows = make_state()
    assert {type(row) for row in rows} == set(TABLES)
    change = await store.commit([Put(row) for row in rows])
    kept = [row for row in rows if row.TABLE not in ("principal", "tool_version", "approval", "execution")]
    kept = [row for row in kept if row.TABLE not in ("admin_action", "stat_bucket")]
    for opened in (store, await open_store(store_url)):
        state = await opened.load()
        assert state.change == change
        assert sorted(rows_of(state), key=repr) == sorted(kept, key=repr)
        assert {row.change for row in rows_of(state)} == {change}
        assert await opened.executions() == [make_execution(1, sent=None)]
        assert await opened.approvals("s1") == [make_approval(1)]
        assert await opened.tool_versions("s1-read") == [make_version(1)]
        assert await opened.admin_actions() == [make_action(1)]
        assert await opened.stat_buckets() == [make_bucket()]
        if opened is not store:
            await opened.close()


async def test_a_put_replaces_the_row_with_the_same_key_and_a_delete_removes_those_that_match(store: SqlStore) -> None:
    await store.commit([Put(make_source("s1")), Put(make_tool("s1", "a")), Put(make_tool("s1", "b"))])
    await store.commit([Put(make_tool("s1", "a", state="blocked", pending=None)), Put(make_tool("s2", "a"))])
    assert [(tool.id, tool.state) for tool in (await store.load()).tools] == [
        ("s1-a", "blocked"),
        ("s1-b", "approved"),
        ("s2-a", "approved"),
    ]
    await store.commit([Delete(ToolRow, (("source_id", "s1"), ("name", "b"))), Delete(SourceRow, (("id", "s1"),))])
    state = await store.load()
    assert [tool.id for tool in state.tools] == ["s1-a", "s2-a"] and not state.sources


async def test_operations_are_applied_in_their_order(store: SqlStore) -> None:
    first, second = make_source("s1", slug="same", name="same"), make_source("s2", slug="same", name="same")
    await store.commit(
        [Put(first), Delete(SourceRow, (("id", "s1"),)), Put(second), Put(replace(second, generation=9))]
    )
    assert [(row.id, row.generation) for row in (await store.load()).sources] == [("s2", 9)]


async def test_the_change_counter_rises_by_one_per_transaction_also_with_concurrent_ones(store: SqlStore) -> None:
    changes = await asyncio.gather(*(store.commit([Put(make_source(f"s{number}"))]) for number in range(30)))
    assert sorted(changes) == list(range(1, 31))
    stamps = {row.id: row.change for row in (await store.load()).sources}
    assert stamps == {f"s{number}": change for number, change in enumerate(changes)}


@pytest.mark.parametrize("column", ["name", "slug"])
async def test_a_name_that_is_in_use_is_refused_and_nothing_of_the_transaction_is_kept(
    store: SqlStore, column: str
) -> None:
    await store.commit([Put(make_source("s1"))])
    taken = make_source("s2", **{column: getattr(make_source("s1"), column)})
    with pytest.raises(StoreError, match="must be unique") as caught:
        await store.commit([Put(make_tool("s2")), Put(taken)])
    assert caught.value.operation == "commit" and caught.value.sent is False
    state = await store.load()
    assert [row.id for row in state.sources] == ["s1"] and not state.tools and state.change == 1
    assert await store.commit([Put(make_source("s3"))]) == 2


async def test_a_value_that_is_not_json_is_refused_and_nothing_is_kept(store: SqlStore) -> None:
    with pytest.raises(StoreError, match="commit failed"):
        await store.commit([Put(make_source("s1")), Put(make_source("s2", config={"x": object()}))])
    assert (await store.load()) == StoredState(sources=[], **{name: [] for name in _lists()})


def _lists() -> list[str]:
    return [field.name for field in fields(StoredState) if field.name not in ("change", "sources")]


async def test_a_delete_without_columns_or_with_unknown_ones_is_refused(store: SqlStore) -> None:
    with pytest.raises(ValueError, match="where: expected at least one column"):
        await store.commit([Delete(ToolRow, ())])
    with pytest.raises(ValueError, match="where: expected columns of tool, got nmae"):
        await store.commit([Delete(ToolRow, (("nmae", "x"),))])


async def test_text_that_a_database_refuses_is_stored_with_replacements(store: SqlStore) -> None:
    await store.commit([Put(make_execution(1, error="a\0b\ud800c ä"))])
    assert (await store.executions())[0].error == "a\N{REPLACEMENT CHARACTER}b?c ä"


async def test_counts_are_added_to_those_of_the_same_period(store: SqlStore) -> None:
    await store.commit([Add(make_bucket()), Add(make_bucket(max_ms=2.0)), Add(make_bucket(tool="other"))])
    await store.commit([Add(make_bucket(errors=0, max_ms=50.0))])
    assert await store.stat_buckets(tool="read") == [make_bucket(calls=6, errors=2, total_ms=30.0, max_ms=50.0)]
    assert await store.stat_buckets(since=300.1) == []


async def test_queries_return_the_newest_or_oldest_first_and_filter(store: SqlStore) -> None:
    executions = [
        make_execution(number, source_id=f"s{number % 2}", principal=f"p{number % 3}") for number in range(12)
    ]
    await store.commit([*map(Put, executions), *(Put(make_action(number)) for number in range(5))])
    await store.commit([Put(make_version(2)), Put(make_approval(2)), Put(make_approval(3, tool="write"))])
    await store.commit([Put(make_version(1)), Put(make_approval(1)), Put(make_approval(4, source_id="s2"))])
    newest = executions[::-1]
    assert await store.executions() == newest
    assert await store.executions(limit=3) == newest[:3]
    assert await store.executions(source_id="s1", limit=2) == [row for row in newest if row.source_id == "s1"][:2]
    both = [row for row in newest if row.source_id == "s1" and row.principal == "p2"]
    assert await store.executions(source_id="s1", principal="p2") == both
    assert [row.id for row in await store.admin_actions(limit=2)] == ["ad4", "ad3"]
    assert [row.id for row in await store.tool_versions("s1-read")] == ["v2", "v1"]  # in the order of their commits
    assert [row.id for row in await store.approvals("s1")] == ["a2", "a3", "a1"]
    assert [row.id for row in await store.approvals("s1", "read")] == ["a2", "a1"]


async def test_the_state_has_the_last_events_of_each_source_oldest_first(store: SqlStore) -> None:
    many = [make_event(number, "s1") for number in range(EVENTS_PER_SOURCE + 5)]
    few = [make_event(number, "s2") for number in (1, 2)]
    await store.commit([*map(Put, many), *map(Put, few)])
    events = (await store.load()).events
    assert [row for row in events if row.source_id == "s1"] == many[5:]
    assert [row for row in events if row.source_id == "s2"] == few


async def test_pruning_deletes_the_oldest_rows_beyond_both_limits(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.provider.store.sql_store.ROWS_PER_PRUNING", 7)
    now = time.time()
    recent = [make_execution(number, at=now - 100 + number) for number in range(30)]
    old = [make_execution(100 + number, at=now - 5000) for number in range(20)]
    events = [replace(make_event(1), at=now - 5000), replace(make_event(2), at=now)]
    buckets = [make_bucket(), make_bucket(start=now)]
    await store.commit(list(map(Put, (*recent, *old, *events, *buckets))))
    assert await store.prune(max_executions=10, max_age=1000.0) == 20 + 20 + 1 + 1
    assert await store.executions(limit=1000) == recent[:19:-1]
    assert list((await store.load()).events) == events[1:]
    assert await store.stat_buckets() == buckets[1:]
    assert await store.prune(max_executions=10, max_age=1000.0) == 0


async def test_pruning_keeps_the_newest_definitions_of_each_tool_and_those_in_use(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.provider.store.sql_store.ROWS_PER_PRUNING", 7)
    a, b = make_tool(name="a", hash="v3", pending_hash="v5"), make_tool(name="b", hash="v0", pending_hash=None)
    alternating = make_tool(name="c", hash="v1", pending_hash="v0")
    total = VERSIONS_PER_TOOL + 15
    for number in range(total):
        versions = [(a.id, f"v{number}"), (alternating.id, f"v{number % 2}")]
        versions += [(b.id, f"v{number}")] if number < VERSIONS_PER_TOOL else []
        rows = [
            replace(make_version(number, tool_id), id=f"{tool_id}-{number}", hash=digest)
            for tool_id, digest in versions
        ]
        await store.commit(list(map(Put, rows)))
    await store.commit(list(map(Put, (a, b, alternating))))
    assert await store.prune(max_executions=10, max_age=1000.0) == 13 + 15
    kept = {tool.name: [row.seen_at for row in await store.tool_versions(tool.id)] for tool in (a, b, alternating)}
    newest = [float(number) for number in range(15, total)]
    assert kept == {"a": [3.0, 5.0, *newest], "b": [float(n) for n in range(VERSIONS_PER_TOOL)], "c": newest}
    assert await store.prune(max_executions=10, max_age=1000.0) == 0


async def test_each_transaction_begins_with_the_change_counter_and_puts_share_statements(
    store: SqlStore, statements: list[str]
) -> None:
    await store.commit([Put(row) for row in (make_source("s1"), make_tool("s1", "a"), make_tool("s1", "b"))])
    words = [statement.split()[:3] for statement in statements if not statement.startswith("BEGIN")]
    assert [(first, last.strip('"')) for first, _, last in words] == [
        ("UPDATE", "SET"),
        ("INSERT", "source"),
        ("INSERT", "tool"),
    ]


async def test_five_thousand_tools_are_written_and_read_without_blocking_the_event_loop(store: SqlStore) -> None:
    tools = [make_tool("s1", f"tool{number:04}") for number in range(5000)]
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    await store.commit([Put(tool) for tool in tools])
    written = turns
    state = await store.load()
    counting.cancel()
    assert list(state.tools) == tools
    assert written >= 25 and turns - written >= 25


async def test_a_cancelled_read_or_write_leaves_the_store_usable(store: SqlStore) -> None:
    await store.commit([Put(make_tool("s1", f"tool{number:04}")) for number in range(600)])
    for steps in range(0, 40, 3):
        for work in (store.load(), store.commit([Put(make_tool("s2", f"t{number}")) for number in range(300)])):
            task = asyncio.create_task(work)
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
    await store.commit([Put(make_source("s1"))])
    state = await store.load()
    assert len(state.sources) == 1
    assert len([tool for tool in state.tools if tool.source_id == "s2"]) in (0, 300)


async def test_a_closed_store_refuses_everything_and_can_be_closed_again(store_url: str) -> None:
    store = await open_store(store_url)
    accepted = asyncio.gather(*(store.commit([Put(make_source(f"s{number}"))]) for number in range(3)))
    await asyncio.sleep(0)
    reads = asyncio.gather(*(store.load() for _ in range(3)), return_exceptions=True)
    await asyncio.sleep(0)
    await store.close()  # finishes the writes that it accepted
    await accepted
    assert {type(each) for each in await reads} <= {StoredState, StoreError}
    await store.close()
    for work in (store.load(), store.commit([]), store.executions()):
        with pytest.raises(StoreError, match="the store is closed"):
            await work
    async with await open_store(store_url) as again:
        assert len((await again.load()).sources) == 3


# ---- migrations ----------------------------------------------------------------------------------------------------

REVISION_TWO = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    with op.batch_alter_table("tool") as table:
        table.add_column(sa.Column("colour", sa.Text(), nullable=False, server_default="none"))
        table.alter_column("tokens", existing_type=sa.BigInteger(), nullable=True)
    with op.batch_alter_table("approval") as table:
        table.create_index("ix_approval_at", ["at"])
    op.create_table("extra", sa.Column("id", sa.Text(), primary_key=True))
    if FAILS:
        op.execute("INSERT INTO nowhere VALUES (1)")
"""


def make_next_migrations(folder: Path, *, fails: bool = False) -> Migrations:
    copy = folder / "next %20 migrations"
    shutil.copytree(PACKAGED_MIGRATIONS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "versions/revision_0002.py").write_text(REVISION_TWO.replace("FAILS", str(fails)))
    return Migrations(copy, "0002")


async def fill_and_dump(store_url: str) -> dict[str, Any]:
    async with await open_store(store_url) as store:
        await store.commit([Put(row) for row in make_state()])
    return await dump(store_url)


def as_stored(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    return sa.cast(column, sa.Text) if isinstance(column.type, sa.JSON) else column


async def dump(store_url: str) -> dict[str, Any]:
    """Return the raw records of the tables of revision one."""
    engine = create_async_engine(driver_url(store_url))
    try:
        async with engine.connect() as connection:
            texts = {table.name: sa.select(*map(as_stored, table.columns)) for table in metadata.sorted_tables}
            return {name: sorted(map(tuple, await connection.execute(text)), key=repr) for name, text in texts.items()}
    finally:
        await engine.dispose()


async def test_the_migrations_make_exactly_the_tables(store: SqlStore, store_url: str) -> None:
    def compare(connection: sa.Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, metadata))

    engine = create_async_engine(driver_url(store_url))
    try:
        async with engine.connect() as connection:
            assert await connection.run_sync(compare) == []
    finally:
        await engine.dispose()


async def test_an_upgrade_changes_no_row_and_keeps_a_copy_of_the_file(store_url: str, tmp_path: Path) -> None:
    before = await fill_and_dump(store_url)
    assert before["approval"] and before["tool"]
    async with await open_store(store_url, migrations=make_next_migrations(tmp_path)) as store:
        assert await store.commit([]) == 2
    after = await dump(store_url)
    assert after.pop("change_counter") != before.pop("change_counter")
    assert after == before
    if store_url.startswith("sqlite"):
        copy = tmp_path / "folder/tools.db.backup"
        assert copy.stat().st_mode & 0o777 == 0o600
        copied = await dump(f"sqlite:///{copy}")
        copied.pop("change_counter")
        assert copied == before


async def test_a_migration_that_fails_changes_nothing(store_url: str, tmp_path: Path) -> None:
    before = await fill_and_dump(store_url)
    with pytest.raises(StoreError, match="migrate failed") as caught:
        await open_store(store_url, migrations=make_next_migrations(tmp_path, fails=True))
    assert caught.value.operation == "migrate"
    assert await dump(store_url) == before
    async with await open_store(store_url) as store:  # is still of revision one
        assert (await store.load()).tools


async def test_a_store_of_a_newer_version_is_refused_and_not_changed(store_url: str, tmp_path: Path) -> None:
    await (await open_store(store_url, migrations=make_next_migrations(tmp_path))).close()
    before = await dump(store_url)
    with pytest.raises(StoreError, match=r"expected revision 0001 or older, got 0002.*pip install --upgrade") as caught:
        await open_store(store_url)
    assert caught.value.operation == "migrate"
    assert await dump(store_url) == before


async def test_processes_that_open_a_new_store_at_once_wait_for_one_migration(store_url: str) -> None:
    children = [
        await asyncio.create_subprocess_exec(
            sys.executable, CHILD, "open", store_url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    outputs = await asyncio.gather(*(child.communicate() for child in children))
    assert sorted(out.decode().strip() for out, _ in outputs) == ["1", "2"], [err.decode() for _, err in outputs]


async def test_several_stores_of_one_process_are_opened_at_once(store_url: str, tmp_path: Path) -> None:
    urls = [store_url, "sqlite://", f"{tmp_path}/other.db", store_url, "sqlite://"]
    stores = await asyncio.gather(*map(open_store, urls))
    assert [await store.commit([]) for store in stores] == [1, 1, 1, 2, 1]
    for store in stores:
        await store.close()


async def test_the_order_of_changes_is_the_order_of_commits_also_between_processes(
    store: SqlStore, store_url: str
) -> None:
    """A second process that polls for higher numbers misses nothing."""
    async with await open_store(store_url) as other:
        seen: set[str] = set()
        last = 0

        async def write(opened: SqlStore, name: str) -> None:
            for number in range(20):
                await opened.commit([Put(make_event(number, name))])

        writing = asyncio.gather(write(store, "a"), write(store, "b"), write(other, "c"))
        for _ in itertools.count():
            done = writing.done()
            events: list[EventRow] = list((await other.load()).events)
            seen |= {row.id for row in events if row.change > last}
            last = max([last, *(row.change for row in events)])
            if done:
                break
        await writing
        assert len(seen) == 60 and last == 60


async def test_audit_rows_of_several_writers_are_all_kept(store: SqlStore) -> None:
    rows: list[ExecutionRow] = [make_execution(number) for number in range(500)]
    await asyncio.gather(*(store.commit([Put(row) for row in rows[start : start + 50]]) for start in range(0, 500, 50)))
    assert await store.executions(limit=1000) == rows[::-1]
