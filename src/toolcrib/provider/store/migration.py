"""Brings the tables of a store up to date with Alembic, inside one transaction that its caller holds."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from ..._util.locks import wait_for_lock
from ...errors import StoreError
from .tables import SCHEMA_REVISION

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

MIGRATION_WAIT_SECONDS: Final = 50.0
"""Seconds to wait for the migration of another process."""

# Alembic keeps the connection of a running migration in its modules: one at a time, also in other threads' event loops.
_alembic_lock: Final = threading.Lock()
PACKAGED_MIGRATIONS: Final = Path(__file__).with_name("migrations")
_revision_table: Final = sa.table("alembic_version", sa.column("version_num"))


@dataclass(frozen=True, slots=True)
class Migrations:
    """A folder of migrations, and its newest revision."""

    folder: Path = PACKAGED_MIGRATIONS
    revision: str = SCHEMA_REVISION


async def is_current(connection: AsyncConnection, migrations: Migrations) -> bool:
    """Return whether the tables have the newest revision. Alembic is not loaded if they have."""
    return await _read_revision(connection) == migrations.revision


async def upgrade_schema(
    connection: AsyncConnection, migrations: Migrations, *, back_up: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run the migrations that the store does not have yet, within the transaction of `connection`.

    `back_up` is called before the first change of a store that has tables. A store whose revision is unknown here is
    refused with `StoreError`: a newer version of this package wrote it.
    """
    present = await _read_revision(connection)
    if present == migrations.revision:
        return
    alembic = await asyncio.to_thread(_Alembic, migrations)
    if present is not None:
        if not alembic.has_revision(present):
            raise StoreError(
                f"store: expected revision {migrations.revision} or older, got {present}: a newer version of "
                'Toolcrib wrote this store. Run: pip install --upgrade "toolcrib[provider]"; or open another store.',
                operation="migrate",
            )
        if back_up is not None:
            await back_up()
    await wait_for_lock(lambda: _alembic_lock.acquire(blocking=False))  # another event loop may hold it
    try:
        await connection.run_sync(alembic.upgrade)
    finally:
        _alembic_lock.release()


async def _read_revision(connection: AsyncConnection) -> str | None:
    def read(sync: sa.Connection) -> str | None:
        if not sa.inspect(sync).has_table(_revision_table.name):
            return None
        return sync.scalar(sa.select(_revision_table.c.version_num))

    return await connection.run_sync(read)


class _Alembic:
    """Alembic for one folder of migrations. It is slow to load, and needed only for a store that is not up to date."""

    def __init__(self, migrations: Migrations) -> None:
        self._command: Any = importlib.import_module("alembic.command")
        self._config: Any = importlib.import_module("alembic.config").Config()
        self._config.set_main_option("script_location", str(migrations.folder).replace("%", "%%"))
        scripts: Any = importlib.import_module("alembic.script").ScriptDirectory.from_config(self._config)
        self._known = {script.revision for script in scripts.walk_revisions()}

    def has_revision(self, revision: str) -> bool:
        return revision in self._known

    def upgrade(self, connection: sa.Connection) -> None:
        self._config.attributes["connection"] = connection
        self._command.upgrade(self._config, "head")
