"""Opens a store by URL. The database libraries, which are extras, are imported only here and when it is called."""

from __future__ import annotations

import asyncio
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...errors import ConfigError

if TYPE_CHECKING:
    from .database import Database
    from .migration import Migrations
    from .sql_store import SqlStore

BUSY_TIMEOUT_SECONDS: Final = 5.0
"""Seconds to wait for a lock that another process holds."""
MAX_QUEUED_WRITES: Final = 1_000
"""Transactions that may wait for SQLite's one writer."""
_EXPECTED: Final = "sqlite:///FILE, sqlite:// (in memory), postgresql://USER@HOST/DATABASE, or the path of a file"


async def open_store(
    url: str | Path,
    *,
    busy_timeout: float = BUSY_TIMEOUT_SECONDS,
    max_queued_writes: int = MAX_QUEUED_WRITES,
    migrations: Migrations | None = None,
) -> SqlStore:
    """Open the store at `url`, create it if there is none, and bring its tables up to date.

    `url` is `sqlite:///tools.db`, `sqlite://` (in memory), `postgresql://user:password@host/database`, or a path.
    Raises `ConfigError` for an invalid URL or a missing extra, and `StoreError` if the database cannot be opened.
    `migrations` replaces the migrations of this package, for tests of an upgrade.
    """
    location = parse_store_url(url)
    await asyncio.to_thread(_load_libraries, isinstance(location, str))
    from .migration import Migrations  # noqa: PLC0415  # all of these need the extra
    from .sql_store import SqlStore  # noqa: PLC0415

    chosen = migrations or Migrations()
    database: Database
    if isinstance(location, str):
        from .postgres import PostgresDatabase  # noqa: PLC0415

        database = await PostgresDatabase.open(location, busy_timeout=busy_timeout, migrations=chosen)
    else:
        from .sqlite import SqliteDatabase  # noqa: PLC0415

        database = await SqliteDatabase.open(
            location, busy_timeout=busy_timeout, max_queued_writes=max_queued_writes, migrations=chosen
        )
    return SqlStore(database)


def parse_store_url(url: str | Path) -> Path | str | None:
    """Return the path of an SQLite file, `None` for SQLite in memory, or the URL of a PostgreSQL database."""
    if isinstance(url, Path):
        return _absolute(url)
    scheme, found, rest = url.partition("://")
    if not found:
        if not url:
            raise _invalid("an empty string", "Give the path of a file.")
        return None if url == ":memory:" else _absolute(Path(url))
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*", scheme):
        raise _invalid("a URL without a scheme", "Begin it with sqlite:/// or postgresql://.")
    if scheme.lower() in ("postgresql", "postgres", "postgresql+asyncpg"):
        return f"postgresql://{rest}"
    if scheme.lower() not in ("sqlite", "sqlite+aiosqlite"):
        raise _invalid(f"the scheme {scheme!r}", "Use one of these databases.")
    if rest in ("", "/", "/:memory:"):
        return None
    if not rest.startswith("/"):
        raise _invalid("sqlite:// with a host", "Write three slashes before a relative path, four before an absolute.")
    if "?" in rest:
        raise _invalid("sqlite:/// with options", "Remove them, or give the plain path of a file with ? in its name.")
    return _absolute(Path(rest[1:]))


def _absolute(path: Path) -> Path:
    # Not resolved: a link may point to another file later. Relative to the folder of now, not of a later call.
    return Path.cwd() / path.expanduser()


def _invalid(got: str, advice: str) -> ConfigError:
    return ConfigError(f"store: expected {_EXPECTED}, got {got}. {advice}", key="store", expected=_EXPECTED)


def _load_libraries(with_postgres: bool) -> None:
    """Import the libraries, which is slow; raise `ConfigError` if one is not installed."""
    extras = "provider,postgres" if with_postgres else "provider"
    try:
        for name in ("sqlalchemy.ext.asyncio", "alembic", "asyncpg" if with_postgres else "aiosqlite"):
            importlib.import_module(name)
    except ImportError as exc:
        raise ConfigError(
            f'store: {exc.name} is not installed. Run: pip install "toolcrib[{extras}]"', key="store", expected=exc.name
        ) from exc
