"""The store when its database fails, with real faults: writes fail with a typed error, and it recovers by itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from tests.provider.postgres_server import PostgresServer
from tests.provider.store_child import ROWS_PER_REGISTRATION
from tests.provider.store_rows import make_source, make_tool
from tests.provider.test_store import driver_url
from toolcrib.errors import StoreError
from toolcrib.provider.store import open_store
from toolcrib.provider.store.interface import Put
from toolcrib.provider.store.rows import SourceRow, ToolRow
from toolcrib.provider.store.sql_store import SqlStore
from toolcrib.provider.store.tables import TABLES, change_counter

CHILD = Path(__file__).with_name("store_child.py")
BUSY_TIMEOUT = 0.2
HOLD_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
connection.close()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder/tools.db"


@pytest.fixture
async def sqlite(file: Path) -> AsyncIterator[SqlStore]:
    async with await open_store(file, busy_timeout=BUSY_TIMEOUT, max_queued_writes=3) as store:
        await store.commit([Put(make_source("s1"))])
        yield store


@contextlib.contextmanager
def lock_held_elsewhere(file: Path) -> Iterator[Callable[[], None]]:
    """Let another process hold the write lock, until the function is called or the context ends."""
    command = [sys.executable, "-c", HOLD_LOCK, file]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == "locked\n"
        yield child.stdin.close


async def fails(work: Awaitable[Any], words: str, operation: str) -> StoreError:
    with pytest.raises(StoreError, match=words) as caught:
        await work
    assert caught.value.operation == operation and caught.value.sent is False
    return caught.value


async def sources(store: SqlStore) -> list[str]:
    return [row.id for row in (await store.load()).sources]


# ---- SQLite --------------------------------------------------------------------------------------------------------


async def test_while_another_process_holds_the_lock_writes_fail_reads_work_and_both_recover(
    sqlite: SqlStore, file: Path
) -> None:
    with lock_held_elsewhere(file):
        began = time.monotonic()
        await fails(sqlite.commit([Put(make_source("s2"))]), "the database is locked", "commit")
        assert time.monotonic() - began >= BUSY_TIMEOUT
        assert await sources(sqlite) == ["s1"]
    assert await sqlite.commit([Put(make_source("s2"))]) == 2
    assert await sources(sqlite) == ["s1", "s2"]


async def test_a_write_that_waits_for_a_lock_goes_on_when_it_is_released(file: Path) -> None:
    async with await open_store(file) as store:
        with lock_held_elsewhere(file) as release:
            writing = asyncio.create_task(store.commit([Put(make_source("s1"))]))
            await store.load()
            assert not writing.done()
            release()
            assert await writing == 1


async def test_too_many_waiting_writes_are_refused_at_once(sqlite: SqlStore, file: Path) -> None:
    with lock_held_elsewhere(file):
        waiting = [asyncio.create_task(sqlite.commit([Put(make_source(f"w{number}"))])) for number in range(4)]
        await asyncio.sleep(0)
        await fails(sqlite.commit([Put(make_source("s2"))]), "expected at most 3 waiting writes", "commit")
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in outcomes] == [StoreError] * 4
    await sqlite.commit([Put(make_source("s2"))])
    assert await sources(sqlite) == ["s1", "s2"]


async def test_closing_while_the_lock_is_held_ends_all_waiting_writes_after_one_failure(file: Path) -> None:
    store = await open_store(file, busy_timeout=BUSY_TIMEOUT)
    with lock_held_elsewhere(file):
        waiting = [asyncio.create_task(store.commit([Put(make_source(f"w{number}"))])) for number in range(100)]
        await asyncio.sleep(0)
        async with asyncio.timeout(BUSY_TIMEOUT * 20):
            await store.close()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in outcomes] == [StoreError] * 100


async def test_a_file_that_is_gone_is_not_created_again_and_works_when_it_is_back(sqlite: SqlStore, file: Path) -> None:
    copy = file.with_name("copy.db")
    with contextlib.closing(sqlite3.connect(file)) as source, contextlib.closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    for each in file.parent.glob("tools.db*"):
        each.unlink()
    for _ in range(2):
        error = await fails(sqlite.commit([Put(make_source("s2"))]), "expected the file .*tools.db", "commit")
        assert "Restore the file" in str(error)
        await fails(sqlite.load(), "expected the file .*tools.db", "load")
    assert not file.exists()
    shutil.copyfile(copy, file)
    assert await sqlite.commit([Put(make_source("s2"))]) == 2
    assert await sources(sqlite) == ["s1", "s2"]


async def test_a_file_that_is_replaced_by_a_copy_is_opened_again(sqlite: SqlStore, file: Path) -> None:
    copy = file.with_name("copy.db")
    with contextlib.closing(sqlite3.connect(file)) as source, contextlib.closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    await sqlite.commit([Put(make_source("s2"))])
    for each in file.parent.glob("tools.db-*"):
        each.unlink()
    copy.replace(file)
    assert await sources(sqlite) == ["s1"]
    await sqlite.commit([Put(make_source("s3"))])
    assert await sources(sqlite) == ["s1", "s3"]


@pytest.mark.parametrize(
    "content", [b"This is a text, and no database.\n" * 100, b"SQLite format 3\0" + b"\xff" * 8192]
)
async def test_a_damaged_file_is_refused_and_not_changed(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"not a database|damaged") as caught:
        await open_store(file)
    assert caught.value.operation == "open"
    assert file.read_bytes() == content


async def test_paths_that_cannot_be_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="a file is needed where a folder is"):
        await open_store(tmp_path)
    with pytest.raises(StoreError, match="a folder is needed where a file is"):
        await open_store(tmp_path / "file/tools.db")


async def test_only_the_user_may_read_the_files(sqlite: SqlStore, file: Path) -> None:
    modes = {each.name: oct(each.stat().st_mode & 0o777) for each in file.parent.iterdir()}
    assert modes == dict.fromkeys(("tools.db", "tools.db-wal", "tools.db-shm"), "0o600")
    assert file.parent.stat().st_mode & 0o777 == 0o700
    file.chmod(0o644)
    async with await open_store(file):
        assert file.stat().st_mode & 0o777 == 0o600


async def test_opening_a_new_store_waits_for_another_process_that_migrates(file: Path) -> None:
    file.parent.mkdir()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with lock_held_elsewhere(file) as release:
        opening = asyncio.create_task(open_store(file, busy_timeout=0.01))
        await asyncio.wait([opening], timeout=0.5)  # much longer than `busy_timeout`
        assert not opening.done()
        release()
        await (await opening).close()


def run_child(command: str, file: Path) -> str:
    done = subprocess.run([sys.executable, CHILD, command, file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_file_made_read_only_fails_writes_until_it_is_writable() -> None:
    folder = Path(tempfile.mkdtemp(prefix="tc-store-"))  # one that another user can reach
    try:
        assert "commit failed: the database is read-only" in run_child("read-only", folder / "tools.db")
    finally:
        shutil.rmtree(folder)


def test_a_full_disk_fails_writes_until_there_is_room(tmp_path: Path) -> None:
    assert "commit failed" in run_child("full", tmp_path / "tools.db")


# ---- PostgreSQL ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def on_postgres(postgres_url: str) -> AsyncIterator[SqlStore]:
    async with await open_store(postgres_url, busy_timeout=BUSY_TIMEOUT) as store:
        await store.commit([Put(make_source("s1"))])
        yield store


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def test_a_stopped_server_fails_everything_and_the_next_transaction_after_its_start_works(
    on_postgres: SqlStore, postgres: PostgresServer
) -> None:
    await asyncio.gather(*(on_postgres.load() for _ in range(5)))  # so that the pool has several connections
    postgres.stop()
    try:
        await fails(on_postgres.commit([Put(make_source("s2"))]), "cannot be reached", "commit")
        await fails(on_postgres.load(), "cannot be reached", "load")
    finally:
        postgres.start()
    assert await on_postgres.commit([Put(make_source("s2"))]) == 2
    assert await sources(on_postgres) == ["s1", "s2"]


async def test_connections_that_the_server_ended_are_replaced_without_a_failure(
    on_postgres: SqlStore, postgres_url: str
) -> None:
    await asyncio.gather(*(on_postgres.load() for _ in range(5)))
    await execute(postgres_url, END_SESSIONS)
    assert await on_postgres.commit([Put(make_source("s2"))]) == 2
    assert await sources(on_postgres) == ["s1", "s2"]


async def test_a_row_that_another_session_locks_fails_writes_in_time(on_postgres: SqlStore, postgres_url: str) -> None:
    other = await asyncpg.connect(postgres_url)
    try:
        async with other.transaction():
            await other.execute("SELECT * FROM change_counter FOR UPDATE")
            await fails(on_postgres.commit([Put(make_source("s2"))]), "the database is locked", "commit")
            assert await sources(on_postgres) == ["s1"]
    finally:
        await other.close()
    assert await on_postgres.commit([Put(make_source("s2"))]) == 2


async def test_a_read_only_server_fails_writes_only(on_postgres: SqlStore, postgres_url: str) -> None:
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    await execute(postgres_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on", END_SESSIONS)
    await fails(on_postgres.commit([Put(make_source("s2"))]), "read-only", "commit")
    assert await sources(on_postgres) == ["s1"]
    setting = f"ALTER DATABASE {name} RESET default_transaction_read_only"
    await execute(postgres_url, "SET default_transaction_read_only = off", setting, END_SESSIONS)
    assert await on_postgres.commit([Put(make_source("s2"))]) == 2


@pytest.mark.parametrize(
    "change, words",
    [
        (("/store", "/nowhere"), "does not exist"),
        (("tester:", "stranger:"), "refused the login"),
        (("host=", "host=/nonexistent"), "cannot be reached"),
    ],
)
async def test_a_database_that_cannot_be_opened_is_an_error_without_the_password(
    postgres_url: str, change: tuple[str, str], words: str
) -> None:
    assert "Canary" in postgres_url
    with pytest.raises(StoreError, match=words) as caught:
        await open_store(postgres_url.replace(*change))
    seen: BaseException | None = caught.value
    while seen is not None:
        assert "Canary" not in f"{seen} {seen!r}"
        seen = seen.__cause__ or seen.__context__


# ---- kill -9 -------------------------------------------------------------------------------------------------------


async def count_tools(url: str) -> tuple[int, dict[str, int]]:
    """Return the change counter, and the number of tools of each source."""
    source, tool = TABLES[SourceRow], TABLES[ToolRow]
    query = sa.select(source.c.id, sa.func.count(tool.c.id)).outerjoin(tool, tool.c.source_id == source.c.id)
    engine = create_async_engine(driver_url(url), isolation_level="SERIALIZABLE")
    try:
        async with engine.begin() as connection:
            change = await connection.scalar(sa.select(change_counter.c.value))
            counts = dict(map(tuple, await connection.execute(query.group_by(source.c.id))))
            orphans = await connection.scalar(sa.select(sa.func.count()).where(tool.c.source_id.notin_(counts)))
            assert not orphans
            if url.startswith("sqlite"):
                assert await connection.scalar(sa.text("PRAGMA integrity_check")) == "ok"
            return int(change or 0), counts
    finally:
        await engine.dispose()


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.nightly)])
async def test_a_process_that_is_killed_in_the_middle_of_writes_leaves_only_whole_transactions(
    store_url: str, times: int
) -> None:
    await (await open_store(store_url)).close()
    chance = random.Random(times)
    committed: set[str] = set()
    child = subprocess.Popen(
        [sys.executable, CHILD, "fork", store_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None and child.stdin is not None
        for _ in range(times):
            print(file=child.stdin, flush=True)
            pid = int(child.stdout.readline().removeprefix("started "))
            began = [child.stdout.readline().split() for _ in range(chance.randint(1, 3))]
            await asyncio.sleep(chance.random() * 0.03)  # not a wait for something: any moment is right
            os.kill(pid, signal.SIGKILL)
            while (line := child.stdout.readline()) != "ended\n":
                assert line, "the forking process has ended"
                began.append(line.split())
            committed |= {f"s{name}" for word, name in began if word == "committed"}
            change, counts = await count_tools(store_url)
            assert set(counts.values()) <= {ROWS_PER_REGISTRATION}
            assert committed <= set(counts) and change == len(counts)
        child.stdin.close()
    async with await open_store(store_url) as store:
        await store.commit([Put(make_tool("new"))])
