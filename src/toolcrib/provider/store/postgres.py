"""The store in PostgreSQL: a pool of connections; the database itself orders the writes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final, TypeVar

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from ...errors import ConfigError
from .database import Work, dump_json, replacements
from .failures import STORE_FAILURES, make_closed_error, map_failures
from .migration import MIGRATION_WAIT_SECONDS, Migrations, is_current, upgrade_schema

T = TypeVar("T")

POOL_SIZE: Final = 5
CONNECT_TIMEOUT_SECONDS: Final = 10.0
STATEMENT_TIMEOUT_SECONDS: Final = MIGRATION_WAIT_SECONDS + 10.0
"""Seconds for one statement; it ends the wait for a server that does not answer any more."""
MIGRATION_LOCK: Final = 0x746F6F6C63726962
"""The advisory lock that a migration holds: "toolcrib" in ASCII."""
_OPTIONS: Final = {"host": "host", "port": "port", "ssl": "ssl", "sslmode": "ssl"}
"""Options of the URL that are allowed, and their names in asyncpg."""


class PostgresDatabase:
    """Runs transactions on PostgreSQL. Made by `open`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._closed = False
        self._running = 0
        """Transactions that have begun and not ended."""
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    async def open(cls, url: str, *, busy_timeout: float, migrations: Migrations) -> PostgresDatabase:
        """Connect, and bring the tables up to date."""
        database = cls(_make_engine(url, busy_timeout))
        try:
            if not await database.read("open", lambda connection: is_current(connection, migrations)):
                await database.write("migrate", lambda connection: _migrate(connection, migrations))
        except BaseException:
            await database.close()
            raise
        return database

    async def read(self, operation: str, work: Work[T]) -> T:
        """Run a transaction that only reads."""
        return await self._run(operation, work, isolation_level="REPEATABLE READ", postgresql_readonly=True)

    async def write(self, operation: str, work: Work[T]) -> T:
        """Run a transaction that writes."""
        return await self._run(operation, work)

    def upsert(self, table: sa.Table, added: tuple[str, ...] = (), largest: tuple[str, ...] = ()) -> sa.Insert:
        """Return the statement that inserts or replaces a row."""
        statement = insert(table)
        return statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_=replacements(table, statement.excluded, added, largest),
        )

    async def close(self) -> None:
        """Wait for the transactions that have begun, and close the connections."""
        self._closed = True
        await self._idle.wait()
        with map_failures("close"):
            await self._engine.dispose()

    async def _run(self, operation: str, work: Work[T], **execution_options: Any) -> T:
        if self._closed:
            raise make_closed_error(operation)
        self._running += 1
        self._idle.clear()
        try:
            with map_failures(operation):
                connection = await self._connect()
                async with contextlib.aclosing(connection):
                    if execution_options:
                        await connection.execution_options(**execution_options)
                    async with connection.begin():
                        return await work(connection)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _connect(self) -> AsyncConnection:
        """Return a connection that works: after a restart of the server, those in the pool do not.

        SQLAlchemy's own `pool_pre_ping` does not replace all connections whose end asyncpg has not noticed yet.
        """
        for _ in range(POOL_SIZE):
            connection = await self._engine.connect()
            try:
                driver: Any = (await connection.get_raw_connection()).driver_connection
                await driver.execute("SELECT 1")
            except STORE_FAILURES:
                await connection.invalidate()
                await connection.close()
            except BaseException:
                await connection.close()
                raise
            else:
                return connection
        return await self._engine.connect()


async def _migrate(connection: AsyncConnection, migrations: Migrations) -> None:
    # Another process may migrate at the same time: wait for it longer than for other locks.
    wait = int(MIGRATION_WAIT_SECONDS * 1000)
    await connection.execute(sa.text(f"SET LOCAL lock_timeout = {wait}"))
    await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
    await upgrade_schema(connection, migrations)


def _make_engine(url: str, busy_timeout: float) -> AsyncEngine:
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        # Not chained: the cause may quote the password.
        raise ConfigError(
            "store: expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, got a URL that cannot be parsed. "
            "Escape special characters of the password with %XX.",
            key="store",
            expected="postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
        ) from None
    options: dict[str, Any] = {}
    for name, value in parsed.query.items():
        if name not in _OPTIONS:
            raise ConfigError(
                f"store: expected the options {', '.join(_OPTIONS)} in the URL, got {name!r}. Remove it.",
                key="store",
                expected=", ".join(_OPTIONS),
            )
        options[_OPTIONS[name]] = value
    return create_async_engine(
        parsed.set(drivername="postgresql+asyncpg", query={}),
        pool_size=POOL_SIZE,
        max_overflow=0,
        hide_parameters=True,
        json_serializer=dump_json,
        json_deserializer=orjson.loads,
        connect_args={
            "timeout": CONNECT_TIMEOUT_SECONDS,
            "command_timeout": STATEMENT_TIMEOUT_SECONDS,
            "server_settings": {"application_name": "toolcrib", "lock_timeout": str(int(busy_timeout * 1000))},
            **options,
        },
    )
