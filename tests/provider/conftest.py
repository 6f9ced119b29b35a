"""For the tests of the provider: a store on each database."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.provider.postgres_server import INSTALLED, PostgresServer
from toolcrib.provider.store import open_store
from toolcrib.provider.store.sql_store import SqlStore

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """A running PostgreSQL. Without one the quick tests skip, and scripts/test says so; all others fail."""
    if not (INSTALLED / "postgres.txt").exists():
        missing = "PostgreSQL is not in .peers/postgres; scripts/test installs it"
        if pytestconfig.getoption("tier") == "quick":
            pytest.skip(missing)
        pytest.fail(missing)
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> str:
    """The URL of an empty database in PostgreSQL."""
    name = f"store_{next(_numbers)}"
    connection = await asyncpg.connect(postgres.url())
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return postgres.url(name)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that does not exist yet, on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/folder/tools.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """All statements that are sent to a database from now on, by any store; executemany counts once."""
    sent: list[str] = []

    def record(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", record)
    yield sent
    sa.event.remove(sa.Engine, "before_cursor_execute", record)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """An empty store, on each database."""
    async with await open_store(store_url) as opened:
        yield opened
