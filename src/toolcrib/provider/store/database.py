"""The interface to a database: runs transactions. `sqlite.py` and `postgres.py` implement it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import orjson
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]
"""What one transaction does. The transaction is committed if it returns, and rolled back if it raises."""


class Database(Protocol):
    """Runs transactions. Both methods raise `StoreError`; `operation` is its attribute of that name."""

    async def read(self, operation: str, work: Work[T]) -> T:
        """Run a transaction that only reads; all its statements see the same state."""
        ...

    async def write(self, operation: str, work: Work[T]) -> T:
        """Run a transaction that writes."""
        ...

    def upsert(self, table: sa.Table, added: tuple[str, ...] = (), largest: tuple[str, ...] = ()) -> sa.Insert:
        """Return the statement that inserts a row, or replaces the values of the row with the same primary key.

        Values of the columns `added` are added to the present ones; of `largest`, the larger value is kept.
        """
        ...

    async def close(self) -> None:
        """Finish the writes that were accepted, and close all connections."""
        ...


def dump_json(value: Any) -> str:
    """Return a JSON value as text."""
    return orjson.dumps(value, default=_to_plain).decode()


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"expected a JSON value, got {type(value).__name__}")


def replacements(
    table: sa.Table, excluded: Any, added: tuple[str, ...], largest: tuple[str, ...]
) -> dict[str, sa.ColumnElement[Any]]:
    """Return the assignments of an upsert for a row that exists; `excluded` has the new values."""
    assignments: dict[str, sa.ColumnElement[Any]] = {}
    for column in table.columns:
        new = excluded[column.name]
        if column.primary_key:
            continue
        if column.name in added:
            new = column + new
        elif column.name in largest:
            new = sa.case((column > new, column), else_=new)
        assignments[column.name] = new
    return assignments
