"""The store on a database, SQLite or PostgreSQL, with the same statements for both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import sqlalchemy as sa

from .database import Database, Work
from .interface import EVENTS_PER_SOURCE, VERSIONS_PER_TOOL, Delete, Operation, Put, StoredState
from .rows import (
    AdminActionRow,
    ApprovalRow,
    CredentialRow,
    EventRow,
    ExecutionRow,
    GroupRow,
    GroupRuleRow,
    PromptRow,
    ResourceRow,
    Row,
    SourceRow,
    SourceStateRow,
    StatBucketRow,
    TemplateRow,
    ToolRow,
    ToolVersionRow,
)
from .tables import COUNTER_ID, MAPPERS, TABLES, RowMapper, change_counter

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

R = TypeVar("R", bound=Row)

ROWS_PER_TURN: Final = 200
"""Rows that are converted at a time; then other tasks of the event loop run."""
ROWS_PER_PRUNING: Final = 5_000
"""Rows that one transaction of `prune` deletes, so that other writes wait for a short time only."""


class SqlStore:
    """Keeps the provider's rows in a database: the implementation of `Store`. Made by `open_store`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._puts = {row_type: database.upsert(table) for row_type, table in TABLES.items()}
        self._add = database.upsert(TABLES[StatBucketRow], added=("calls", "errors", "total_ms"), largest=("max_ms",))
        self._sql: dict[sa.Insert, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def load(self) -> StoredState:
        """Return the state that the provider keeps in memory."""
        return await self._database.read("load", _load)

    async def commit(self, operations: Sequence[Operation]) -> int:
        """Apply the operations in one transaction, in their order. Returns the value of the change counter."""
        batches = list(self._plan(operations))

        async def write(connection: AsyncConnection) -> int:
            change = await _advance(connection)
            for statement, rows in batches:
                if rows is None:
                    await connection.execute(statement)
                    continue
                mapper = MAPPERS[type(rows[0])]
                sql = self._make_sql(mapper, statement, connection.dialect)
                for turn in _split(rows):
                    await connection.exec_driver_sql(sql, [mapper.to_parameters(row, change) for row in turn])
            return change

        return await self._database.write("commit", write)

    async def executions(
        self, *, source_id: str | None = None, principal: str | None = None, limit: int = 100
    ) -> list[ExecutionRow]:
        """Return the newest executions, newest first."""
        columns = TABLES[ExecutionRow].c
        wanted = {"source_id": source_id, "principal": principal}
        conditions = [columns[name] == value for name, value in wanted.items() if value is not None]
        order = (columns.at.desc(), columns.id.desc())
        return await self._select("executions", ExecutionRow, *conditions, order=order, limit=limit)

    async def admin_actions(self, *, limit: int = 100) -> list[AdminActionRow]:
        """Return the newest administrative actions, newest first."""
        columns = TABLES[AdminActionRow].c
        order = (columns.at.desc(), columns.change.desc(), columns.id.desc())
        return await self._select("admin_actions", AdminActionRow, order=order, limit=limit)

    async def tool_versions(self, tool_id: str) -> list[ToolVersionRow]:
        """Return the definitions that a tool had, oldest first."""
        columns = TABLES[ToolVersionRow].c
        order = (columns.change, columns.seen_at, columns.id)
        return await self._select("tool_versions", ToolVersionRow, columns.tool_id == tool_id, order=order)

    async def approvals(self, source_id: str, tool: str | None = None) -> list[ApprovalRow]:
        """Return the decisions about the tools of a source, or about one tool, oldest first."""
        columns = TABLES[ApprovalRow].c
        conditions = [columns.source_id == source_id]
        if tool is not None:
            conditions.append(columns.tool == tool)
        order = (columns.change, columns.at, columns.id)
        return await self._select("approvals", ApprovalRow, *conditions, order=order)

    async def stat_buckets(
        self, *, since: float = 0.0, source_id: str | None = None, tool: str | None = None
    ) -> list[StatBucketRow]:
        """Return the counts of the periods that began at `since` or later, oldest first."""
        columns = TABLES[StatBucketRow].c
        wanted = {"source_id": source_id, "tool": tool}
        conditions = [columns[name] == value for name, value in wanted.items() if value is not None]
        order = (columns.start, columns.source_id, columns.tool)
        return await self._select("stat_buckets", StatBucketRow, columns.start >= since, *conditions, order=order)

    async def prune(self, *, max_executions: int, max_age: float) -> int:
        """Delete the oldest executions and events beyond the limits, and counts older than `max_age` seconds.

        Of each tool, the newest `VERSIONS_PER_TOOL` definitions are kept, and those in force or waiting for a review.
        Rows with equal times are deleted together. Returns how many rows were deleted.
        """
        oldest = time.time() - max_age  # rows have times of this clock
        deleted = 0
        for row_type, column in ((ExecutionRow, "at"), (EventRow, "at"), (StatBucketRow, "start")):
            table = TABLES[row_type]
            condition = table.c[column] < oldest
            if row_type is not StatBucketRow:
                beyond = sa.select(table.c.at).order_by(table.c.at.desc()).offset(max_executions).limit(1)
                # Found before the first write: it takes time, in which other writes need not wait.
                newest = await self._database.read("prune", _fetch_value(beyond))
                if newest is not None:
                    condition = sa.or_(condition, table.c.at <= newest)
            deleted += await self._delete_in_parts(table, condition)
        return deleted + await self._delete_in_parts(TABLES[ToolVersionRow], _is_old_version())

    async def close(self) -> None:
        """Finish the writes that were accepted, and close the database."""
        await self._database.close()

    def _plan(self, operations: Sequence[Operation]) -> Iterator[tuple[Any, list[Row] | None]]:
        """Yield statements with their rows; neighbouring operations with the same statement share one."""
        for (kind, row_type), group in groupby(operations, _statement_key):
            if kind is Delete:
                for each in group:
                    assert isinstance(each, Delete)
                    yield _make_delete(each), None
            else:
                statement = self._puts[row_type] if kind is Put else self._add
                yield statement, [each.row for each in group if not isinstance(each, Delete)]

    def _make_sql(self, mapper: RowMapper, statement: sa.Insert, dialect: sa.Dialect) -> str:
        sql = self._sql.get(statement)
        if sql is None:
            sql = self._sql[statement] = mapper.make_sql(statement, dialect)
        return sql

    async def _select(
        self,
        operation: str,
        row_type: type[R],
        *conditions: sa.ColumnElement[bool],
        order: Sequence[sa.ColumnElement[Any]],
        limit: int | None = None,
    ) -> list[R]:
        query = sa.select(TABLES[row_type]).where(*conditions).order_by(*order).limit(limit)
        return await self._database.read(operation, lambda connection: _fetch(connection, row_type, query))

    async def _delete_in_parts(self, table: sa.Table, condition: sa.ColumnElement[bool]) -> int:
        """Delete rows in transactions of a limited size; none is begun if there are no such rows."""
        key = sa.tuple_(*table.primary_key.columns)
        part = sa.delete(table).where(
            key.in_(sa.select(*table.primary_key.columns).where(condition).limit(ROWS_PER_PRUNING))
        )
        exists = sa.select(sa.exists().where(condition))

        async def delete(connection: AsyncConnection) -> int:
            await _advance(connection)
            return (await connection.execute(part)).rowcount

        deleted = 0
        while await self._database.read("prune", _fetch_value(exists)):
            deleted += await self._database.write("prune", delete)
        return deleted


def _statement_key(operation: Operation) -> tuple[type[Operation], type[Row]]:
    return type(operation), operation.table if isinstance(operation, Delete) else type(operation.row)


def _make_delete(operation: Delete) -> sa.Delete:
    table = TABLES[operation.table]
    if not operation.where:
        raise ValueError("where: expected at least one column, got none. Name the rows to delete.")
    unknown = [name for name, _ in operation.where if name not in table.c]
    if unknown:
        raise ValueError(f"where: expected columns of {table.name}, got {', '.join(unknown)}. Use fields of the row.")
    return sa.delete(table).where(*(table.c[name] == value for name, value in operation.where))


def _split(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), ROWS_PER_TURN):
        yield rows[start : start + ROWS_PER_TURN]


async def _advance(connection: AsyncConnection) -> int:
    """Increment the change counter. It comes first in every writing transaction, so changes commit in its order."""
    counter = sa.update(change_counter).where(change_counter.c.id == COUNTER_ID)
    advanced = await connection.execute(
        counter.values(value=change_counter.c.value + 1).returning(change_counter.c.value)
    )
    return int(advanced.scalar_one())


def _fetch_value(query: sa.Select[Any]) -> Work[Any]:
    return lambda connection: connection.scalar(query)


async def _fetch(connection: AsyncConnection, row_type: type[R], query: sa.Select[Any]) -> list[R]:
    mapper = MAPPERS[row_type]
    rows: list[R] = []
    result = await connection.execute(query)
    for part in result.partitions(ROWS_PER_TURN):
        rows.extend(map(mapper.to_row, part))
        await asyncio.sleep(0)
    return rows


async def _load(connection: AsyncConnection) -> StoredState:
    change = await connection.scalar(sa.select(change_counter.c.value).where(change_counter.c.id == COUNTER_ID))

    async def fetch(row_type: type[R], *order: str) -> list[R]:
        table = TABLES[row_type]
        return await _fetch(connection, row_type, sa.select(table).order_by(*(table.c[name] for name in order)))

    return StoredState(
        change=int(change or 0),
        sources=await fetch(SourceRow, "created_at", "id"),
        states=await fetch(SourceStateRow, "source_id"),
        tools=await fetch(ToolRow, "source_id", "name"),
        prompts=await fetch(PromptRow, "source_id", "name"),
        resources=await fetch(ResourceRow, "source_id", "name"),
        templates=await fetch(TemplateRow, "source_id", "name"),
        groups=await fetch(GroupRow, "created_at", "id"),
        group_rules=await fetch(GroupRuleRow, "group_id", "position", "id"),
        credentials=await fetch(CredentialRow, "id"),
        events=await _fetch(connection, EventRow, _select_last_events()),
    )


def _is_old_version() -> sa.ColumnElement[bool]:
    """Return the condition for definitions that are not among the newest of their tool, in force, or waiting."""
    table, tool = TABLES[ToolVersionRow], TABLES[ToolRow]
    newest_first = (table.c.change.desc(), table.c.seen_at.desc(), table.c.id.desc())
    by_tool = sa.func.row_number().over(partition_by=table.c.tool_id, order_by=newest_first)
    # A tool that alternates between two definitions has each many times.
    by_hash = sa.func.row_number().over(partition_by=(table.c.tool_id, table.c.hash), order_by=newest_first)
    many = sa.select(table.c.tool_id).group_by(table.c.tool_id).having(sa.func.count() > VERSIONS_PER_TOOL)
    placed = (
        sa.select(table.c.id, table.c.tool_id, table.c.hash, by_tool.label("place"), by_hash.label("place_of_hash"))
        .where(table.c.tool_id.in_(many))
        .subquery()
    )
    is_used = sa.exists().where(
        tool.c.id == placed.c.tool_id, sa.or_(tool.c.hash == placed.c.hash, tool.c.pending_hash == placed.c.hash)
    )
    old = sa.select(placed.c.id).where(
        placed.c.place > VERSIONS_PER_TOOL, sa.or_(placed.c.place_of_hash > 1, sa.not_(is_used))
    )
    return table.c.id.in_(old)


def _select_last_events() -> sa.Select[Any]:
    table = TABLES[EventRow]
    newest_first = (table.c.at.desc(), table.c.change.desc(), table.c.id.desc())
    place = sa.func.row_number().over(partition_by=table.c.source_id, order_by=newest_first).label("place")
    placed = sa.select(table, place).subquery()
    columns = [placed.c[column.name] for column in table.columns]
    return (
        sa.select(*columns)
        .where(placed.c.place <= EVENTS_PER_SOURCE)
        .order_by(placed.c.at, placed.c.change, placed.c.id)
    )
