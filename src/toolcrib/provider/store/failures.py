"""Maps the errors of SQLAlchemy and of the database drivers to `StoreError`, in one place."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from ...errors import StoreError

_MAX_DETAIL: Final = 200
_LOCKED: Final = ("the database is locked", "Retry, or end the process that holds the lock.")
_READ_ONLY: Final = ("the database is read-only", "Allow this process to write to it.")
_FULL: Final = ("the disk is full", "Free some space.")
_CORRUPT: Final = ("the database is damaged", "Restore a copy of it.")
_UNREACHABLE: Final = ("the database cannot be reached", "Check that it runs, and the URL.")
_REFUSED: Final = ("the database refused the login", "Check user, password and rights.")
_DUPLICATE: Final = ("a value that must be unique is in use", "Choose another name.")
_OTHER: Final = ("the database reported an error", "Read the cause of this error.")

_BY_SQLITE_CODE: Final = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CORRUPT: _CORRUPT,
    sqlite3.SQLITE_NOTADB: ("the file is not a database", "Choose another file, or restore a copy of it."),
    sqlite3.SQLITE_CANTOPEN: ("the file cannot be opened", "Check that it exists, and its permissions."),
    sqlite3.SQLITE_IOERR: ("the file cannot be read or written", "Check the disk and the file's permissions."),
    sqlite3.SQLITE_CONSTRAINT: _DUPLICATE,
}
"""The problem and what to do, by the primary result code of SQLite."""
_BY_SQLSTATE: Final = {
    "08": _UNREACHABLE,
    "23": _DUPLICATE,
    "25006": _READ_ONLY,
    "28": _REFUSED,
    "3D": ("the database does not exist", "Create it, or correct the URL."),
    "42501": _REFUSED,
    "53100": _FULL,
    "53300": ("the database has too many connections", "Close some, or raise its max_connections."),
    "55P03": _LOCKED,
    "57P": _UNREACHABLE,
    "XX001": _CORRUPT,
    "XX002": _CORRUPT,
}
"""The problem and what to do, by the beginning of the SQLSTATE of PostgreSQL."""

_BY_ERRNO: Final = {
    errno.ENOSPC: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EEXIST: ("a folder is needed where a file is", "Choose another path."),
    errno.ENOTDIR: ("a folder is needed where a file is", "Choose another path."),
    errno.EISDIR: ("a file is needed where a folder is", "Choose another path."),
}


def _find_driver_errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors that the drivers raise past SQLAlchemy, for example while they connect."""
    try:
        import asyncpg  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra
    except ImportError:
        return ()
    return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


STORE_FAILURES: Final[tuple[type[Exception], ...]] = (SQLAlchemyError, sqlite3.Error, OSError, *_find_driver_errors())


@contextlib.contextmanager
def map_failures(operation: str) -> Iterator[None]:
    """Raise `StoreError` for the errors of the database; `operation` says what was attempted."""
    try:
        yield
    except STORE_FAILURES as exc:
        raise make_store_error(operation, exc) from exc


def make_store_error(operation: str, exc: Exception) -> StoreError:
    """Return the error for a failure of the database. Its message has no values of rows and no URL."""
    cause = _find_cause(exc)
    problem, advice = _classify(cause)
    lines = str(cause).strip().splitlines()
    detail = f" ({type(cause).__name__}: {lines[0][:_MAX_DETAIL]})" if lines else f" ({type(cause).__name__})"
    return StoreError(f"store: {operation} failed: {problem}{detail}. {advice}", operation=operation)


def make_closed_error(operation: str) -> StoreError:
    """Return the error for an operation on a store that was closed."""
    return StoreError(f"store: {operation} failed: the store is closed. Open it again.", operation=operation)


def is_duplicate(exc: Exception) -> bool:
    """Return whether the database is well and refused a value because it must be unique."""
    return _classify(_find_cause(exc)) is _DUPLICATE


def _find_cause(exc: Exception) -> BaseException:
    """Return the error of the driver behind one of SQLAlchemy."""
    cause: BaseException = getattr(exc, "orig", None) or exc
    while not _has_code(cause) and cause.__cause__ is not None:
        cause = cause.__cause__
    return cause


def _has_code(exc: BaseException) -> bool:
    return hasattr(exc, "sqlite_errorcode") or getattr(exc, "sqlstate", None) is not None


def _classify(cause: Any) -> tuple[str, str]:
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return _BY_SQLITE_CODE.get(code & 0xFF, _OTHER)  # the rest of the code is a detail
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return next((known for prefix, known in _BY_SQLSTATE.items() if state.startswith(prefix)), _OTHER)
    if isinstance(cause, OSError):
        return _BY_ERRNO.get(cause.errno or 0, _UNREACHABLE)
    return _OTHER
