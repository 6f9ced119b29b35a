"""The store in an SQLite file or in memory: one connection for writes, owned by one task, and one for reads."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import stat
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from ..._util.futures import retrieve
from ..._util.tasks import TaskSet
from ...errors import StoreError
from .database import Work, dump_json, replacements
from .failures import STORE_FAILURES, is_duplicate, make_closed_error, make_store_error, map_failures
from .migration import MIGRATION_WAIT_SECONDS, Migrations, is_current, upgrade_schema

T = TypeVar("T")

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
BACKUP_SUFFIX: Final = ".backup"
"""Appended to the name of the database's file: the copy from before the last migration."""


class _Write(NamedTuple):
    operation: str
    work: Work[Any]
    outcome: asyncio.Future[Any]


class SqliteDatabase:
    """Runs transactions on SQLite. Made by `open`."""

    def __init__(self, path: Path | None, *, busy_timeout: float, max_queued_writes: int) -> None:
        self._writer = _Connection(path, "BEGIN IMMEDIATE", busy_timeout)
        self._reader = None if path is None else _Connection(path, "BEGIN", busy_timeout)
        self._reads = TaskSet()
        self._writes: asyncio.Queue[_Write | None] = asyncio.Queue()
        self._max_queued_writes = max_queued_writes
        self._closing = False
        self._writer_task = asyncio.create_task(self._run_writes(), name="toolcrib:store")

    @classmethod
    async def open(
        cls, path: Path | None, *, busy_timeout: float, max_queued_writes: int, migrations: Migrations
    ) -> SqliteDatabase:
        """Create the file if there is none, and bring its tables up to date. `None` means in memory."""
        if path is None:
            database = cls(None, busy_timeout=busy_timeout, max_queued_writes=max_queued_writes)
            await _close_on_failure(
                database.write("open", lambda connection: upgrade_schema(connection, migrations)), database.close
            )
            return database
        with map_failures("open"):
            await asyncio.to_thread(_prepare_file, path)
        await _migrate_file(path, busy_timeout, migrations)
        return cls(path, busy_timeout=busy_timeout, max_queued_writes=max_queued_writes)

    async def read(self, operation: str, work: Work[T]) -> T:
        """Run a transaction that only reads."""
        self._check_open(operation)
        if self._reader is None:  # the task that owns the only connection reads too
            return await self._enqueue(operation, work)
        # In a task of its own: SQLAlchemy does not close the connection of a task that is cancelled.
        reading = self._reads.create(self._reader.run(operation, work))
        reading.add_done_callback(retrieve)
        return await asyncio.shield(reading)

    async def write(self, operation: str, work: Work[T]) -> T:
        """Run a transaction that writes, after those that wait already.

        If the caller is cancelled before the transaction begins, it is not run; afterwards it runs to its end.
        """
        self._check_open(operation)
        return await self._enqueue(operation, work)

    def upsert(self, table: sa.Table, added: tuple[str, ...] = (), largest: tuple[str, ...] = ()) -> sa.Insert:
        """Return the statement that inserts or replaces a row."""
        statement = insert(table)
        return statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_=replacements(table, statement.excluded, added, largest),
        )

    async def close(self) -> None:
        """Finish the writes that were accepted, and close the connections."""
        if not self._closing:
            self._closing = True
            self._writes.put_nowait(None)
        # A cancelled caller does not cancel the writes; a second one waits for the same end.
        await asyncio.shield(self._writer_task)
        if self._reader is not None:
            await self._reader.close()
        await self._reads.wait()

    def _check_open(self, operation: str) -> None:
        if self._closing:
            raise make_closed_error(operation)

    async def _enqueue(self, operation: str, work: Work[T]) -> T:
        if self._writes.qsize() >= self._max_queued_writes:
            raise StoreError(
                f"store: {operation} failed: expected at most {self._max_queued_writes} waiting writes. "
                "Retry later; the database is too slow or locked.",
                operation=operation,
            )
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(retrieve)
        self._writes.put_nowait(_Write(operation, work, outcome))
        return await outcome

    async def _run_writes(self) -> None:
        """Run the transactions one after the other. After `close`, the first failure ends those that wait."""
        failure = ""
        try:
            while (write := await self._writes.get()) is not None:
                if write.outcome.cancelled():
                    continue
                if self._closing and failure:
                    write.outcome.set_exception(StoreError(failure, operation=write.operation))
                    continue
                failure = await self._run_write(write)
        finally:
            await self._writer.close()

    async def _run_write(self, write: _Write) -> str:
        """Run a transaction and set its outcome. Returns the message of a failure of the database, else nothing."""
        if self._reader is not None and not self._writer.is_open:
            # Connections of one process share the -shm file: if the reader opened it read-only, it would stay so.
            await self._reader.discard()
        try:
            result = await self._writer.run(write.operation, write.work)
        except asyncio.CancelledError:
            write.outcome.cancel()
            raise
        except Exception as exc:  # noqa: BLE001  # raised where the outcome is awaited
            if not write.outcome.done():
                write.outcome.set_exception(exc)
            return exc.message if isinstance(exc, StoreError) else ""
        if not write.outcome.done():
            write.outcome.set_result(result)
        return ""


class _Connection:
    """One connection to the file, opened when it is needed and again after a failure; one transaction at a time."""

    def __init__(self, path: Path | None, begin: str, busy_timeout: float) -> None:
        self._path = path
        self._engine = _make_engine(path, begin, busy_timeout)
        self._lock = asyncio.Lock()
        self._closed = False
        self._file: tuple[int, int] | None = None
        """Device and inode of the open file."""

    @property
    def is_open(self) -> bool:
        return self._file is not None

    async def run(self, operation: str, work: Work[T]) -> T:
        async with self._lock:
            if self._closed:
                raise make_closed_error(operation)
            await self._check_file(operation)
            try:
                async with self._engine.begin() as connection:
                    return await work(connection)
            except STORE_FAILURES as exc:
                if self._path is not None and not is_duplicate(exc):
                    _release_cursors(exc)
                    await self._discard()
                raise make_store_error(operation, exc) from exc

    async def discard(self) -> None:
        """Close the connection. The next transaction opens it again."""
        async with self._lock:
            await self._discard()

    async def close(self) -> None:
        """Close the connection for good, after the transaction that runs."""
        self._closed = True
        await self.discard()

    async def _check_file(self, operation: str) -> None:
        """Notice that the file was removed or replaced: SQLite would go on with the old one, which has no name."""
        if self._path is None:
            return
        try:
            seen = self._path.stat()
        except OSError as exc:
            await self._discard()
            raise StoreError(
                f"store: {operation} failed: expected the file {self._path}, got {type(exc).__name__}. "
                f"Restore the file, for example from {self._path.name}{BACKUP_SUFFIX}.",
                operation=operation,
            ) from exc
        found = (seen.st_dev, seen.st_ino)
        if self._file is not None and self._file != found:
            await self._discard()
        if self._file is None:
            _repair_modes(self._path, seen.st_mode)
        self._file = found

    async def _discard(self) -> None:
        self._file = None
        with contextlib.suppress(*STORE_FAILURES):
            await self._engine.dispose()


def _release_cursors(exc: BaseException | None) -> None:
    """Clear the frames of a failed transaction: its cursor would keep the file open as long as the exception lives."""
    while exc is not None:
        traceback.clear_frames(exc.__traceback__)
        exc = exc.__cause__ or exc.__context__


def _make_engine(path: Path | None, begin: str, busy_timeout: float) -> AsyncEngine:
    if path is None:
        url = sa.URL.create("sqlite+aiosqlite", database=":memory:")
    else:
        # Never created here: that would hide that the file is gone.
        query = {"mode": "rw", "uri": "true"}
        url = sa.URL.create("sqlite+aiosqlite", database=f"file:{quote(str(path))}", query=query)
    engine = create_async_engine(
        url,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=1,
        max_overflow=0,
        pool_reset_on_return=None,  # `begin()` ends every transaction
        hide_parameters=True,
        json_serializer=dump_json,
        json_deserializer=orjson.loads,
        connect_args={"isolation_level": None, "timeout": busy_timeout},  # None: the driver begins no transactions
    )

    @sa.event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        try:
            cursor = connection.cursor()
            cursor.execute("PRAGMA journal_mode = WAL" if begin == "BEGIN IMMEDIATE" else "PRAGMA query_only = ON")
            cursor.close()
        except BaseException:
            connection.close()  # the pool does not know it yet
            raise

    @sa.event.listens_for(engine.sync_engine, "begin")
    def begin_transaction(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


async def _migrate_file(path: Path, busy_timeout: float, migrations: Migrations) -> None:
    reader = _Connection(path, "BEGIN", busy_timeout)
    try:
        if await reader.run("open", lambda connection: is_current(connection, migrations)):
            return
    finally:
        await reader.close()

    async def back_up() -> None:
        await asyncio.to_thread(_copy_database, path)

    # Another process may migrate at the same time: its transaction is the lock, and the tables are as new afterwards.
    writer = _Connection(path, "BEGIN IMMEDIATE", MIGRATION_WAIT_SECONDS)
    try:
        await writer.run("migrate", lambda connection: upgrade_schema(connection, migrations, back_up=back_up))
    finally:
        await writer.close()


def _prepare_file(path: Path) -> None:
    """Create the file and its folders if there are none; only the user may read and write the file."""
    for folder in reversed([path.parent, *path.parent.parents]):
        if not folder.exists():
            with contextlib.suppress(FileExistsError):  # another process was faster
                folder.mkdir(FOLDER_MODE)
    # An existing file is not opened: closing it would release the locks of other connections in this process.
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE))
    elif path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    elif path.stat().st_mode & 0o077 and os.access(path, os.W_OK):
        path.chmod(FILE_MODE)


def _repair_modes(path: Path, mode: int) -> None:
    """Make the -wal and -shm files writable if the database is: SQLite creates them with the mode that it has then."""
    if not mode & stat.S_IWUSR:
        return
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        with contextlib.suppress(OSError):  # usually there is none yet
            if not beside.stat().st_mode & stat.S_IWUSR:
                beside.chmod(FILE_MODE)


def _copy_database(path: Path) -> None:
    """Copy the database, including what is only in its WAL file, over the last copy."""
    copy = path.with_name(path.name + BACKUP_SUFFIX)
    unfinished = path.with_name(copy.name + ".new")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE))
    with (
        contextlib.closing(sqlite3.connect(path)) as source,
        contextlib.closing(sqlite3.connect(unfinished)) as target,
    ):
        source.backup(target)
    unfinished.replace(copy)


async def _close_on_failure(work: Awaitable[object], close: Callable[[], Awaitable[None]]) -> None:
    try:
        await work
    except BaseException:
        await close()
        raise
