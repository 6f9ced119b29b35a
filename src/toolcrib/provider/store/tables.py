"""The tables of the store, as SQLAlchemy Core tables: those of `rows.py`, derived from it, and those without rows yet.

A change here needs a revision in `migrations/versions`; a test compares the two.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import sqlalchemy as sa

from ...errors import StoreError
from .database import dump_json
from .rows import (
    AdminActionRow,
    ApprovalRow,
    CredentialRow,
    EventRow,
    ExecutionRow,
    GroupRow,
    GroupRuleRow,
    PrincipalRow,
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

SCHEMA_REVISION: Final = "0001"
"""The newest revision in `migrations/versions`."""
COUNTER_ID: Final = 1
"""The primary key of the only row of `change_counter`."""

# Names for all constraints: a migration in batch mode can change only what has a name.
metadata: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class CleanText(sa.types.TypeDecorator[str]):
    """Text, in which the characters that a database refuses (NUL, lone surrogates) are replaced."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002  # its interface
        """Return the text to store."""
        return _clean_text(value)


def _clean_text(value: str | None) -> str | None:
    if value is None or (value.isascii() and "\0" not in value):
        return value
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _dump_optional(value: Any) -> str | None:
    try:
        return None if value is None else dump_json(value)
    except TypeError as exc:
        message = f"store: commit failed: expected a JSON value, got another one ({exc}). Convert it first."
        raise StoreError(message, operation="commit") from exc


_COLUMN_TYPES: Final[Mapping[Any, sa.types.TypeEngine[Any]]] = {
    str: CleanText(),
    bytes: sa.LargeBinary(),
    bool: sa.Boolean(),
    int: sa.BigInteger(),
    float: sa.Double(),
    Mapping: sa.JSON(none_as_null=True),
    tuple: sa.JSON(none_as_null=True),
}


def _make_table(row_type: type[Row], *constraints: sa.schema.SchemaItem) -> sa.Table:
    hints = get_type_hints(row_type)
    columns = [_make_column(field.name, hints[field.name], field.name in row_type.KEY) for field in fields(row_type)]
    columns.sort(key=lambda column: column.name == "change")  # inherited, so it would be the first
    return sa.Table(row_type.TABLE, metadata, *columns, *constraints)


def _make_column(name: str, hint: Any, in_key: bool) -> sa.Column[Any]:
    is_union = get_origin(hint) in (Union, types.UnionType)
    options = [each for each in get_args(hint) if each is not types.NoneType] if is_union else [hint]
    (kept,) = options
    return sa.Column(name, _COLUMN_TYPES[_origin(kept)], primary_key=in_key, nullable=is_union)


def _origin(hint: Any) -> Any:
    return get_origin(hint) or hint


TABLES: Final[Mapping[type[Row], sa.Table]] = {
    PrincipalRow: _make_table(PrincipalRow, sa.UniqueConstraint("name")),
    SourceRow: _make_table(SourceRow, sa.UniqueConstraint("name"), sa.UniqueConstraint("slug")),
    SourceStateRow: _make_table(SourceStateRow),
    ToolRow: _make_table(ToolRow, sa.UniqueConstraint("source_id", "name")),
    ToolVersionRow: _make_table(ToolVersionRow, sa.Index(None, "tool_id")),
    PromptRow: _make_table(PromptRow, sa.UniqueConstraint("source_id", "name")),
    ResourceRow: _make_table(ResourceRow, sa.UniqueConstraint("source_id", "name")),
    TemplateRow: _make_table(TemplateRow, sa.UniqueConstraint("source_id", "name")),
    GroupRow: _make_table(GroupRow, sa.UniqueConstraint("name")),
    GroupRuleRow: _make_table(GroupRuleRow, sa.Index(None, "group_id")),
    CredentialRow: _make_table(CredentialRow, sa.UniqueConstraint("source_id", "principal", "slot", "kind")),
    ApprovalRow: _make_table(ApprovalRow, sa.Index(None, "source_id", "tool")),
    ExecutionRow: _make_table(
        ExecutionRow, sa.Index(None, "at"), sa.Index(None, "source_id", "at"), sa.Index(None, "principal", "at")
    ),
    AdminActionRow: _make_table(AdminActionRow, sa.Index(None, "at")),
    EventRow: _make_table(EventRow, sa.Index(None, "at"), sa.Index(None, "source_id", "at")),
    StatBucketRow: _make_table(StatBucketRow),
}
"""The table of each class of rows."""

change_counter: Final = sa.Table(
    "change_counter",
    metadata,
    sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("value", sa.BigInteger(), nullable=False),
)

# The tables below are not used yet: keys belong to the gateway, the others to a provider on several nodes.
sa.Table(
    "key",
    metadata,
    sa.Column("id", CleanText(), primary_key=True),
    sa.Column("name", CleanText(), nullable=False),
    sa.Column("principal", CleanText(), nullable=False),
    sa.Column("hash", CleanText(), nullable=False),
    sa.Column("role", CleanText(), nullable=False),
    sa.Column("rules", sa.JSON(none_as_null=True), nullable=False),
    sa.Column("rate", sa.Double()),
    sa.Column("concurrency", sa.BigInteger()),
    sa.Column("created_at", sa.Double(), nullable=False),
    sa.Column("expires_at", sa.Double()),
    sa.Column("last_used_at", sa.Double()),
    sa.Column("revoked_at", sa.Double()),
    sa.Column("change", sa.BigInteger(), nullable=False),
    sa.UniqueConstraint("name"),
    sa.UniqueConstraint("hash"),
)
sa.Table(
    "node",
    metadata,
    sa.Column("id", CleanText(), primary_key=True),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("address", CleanText(), nullable=False),
    sa.Column("started_at", sa.Double(), nullable=False),
    sa.Column("seen_at", sa.Double(), nullable=False),
    sa.Column("change", sa.BigInteger(), nullable=False),
)
sa.Table(
    "placement",
    metadata,
    sa.Column("pool_key", CleanText(), primary_key=True),
    sa.Column("node_id", CleanText(), nullable=False),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("since", sa.Double(), nullable=False),
    sa.Column("change", sa.BigInteger(), nullable=False),
    sa.Index(None, "node_id"),
)
sa.Table(
    "lease",
    metadata,
    sa.Column("name", CleanText(), primary_key=True),
    sa.Column("node_id", CleanText(), nullable=False),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("expires_at", sa.Double(), nullable=False),
    sa.Column("change", sa.BigInteger(), nullable=False),
)


_CONVERSIONS: Final[Mapping[type, Callable[[Any], Any]]] = {CleanText: _clean_text, sa.JSON: _dump_optional}
"""What makes a value of a column one that the drivers of all databases take, for the types that need it."""


class RowMapper:
    """Converts the rows of one class to the parameters of statements and back.

    The parameters are as the drivers take them: converting each value by its SQLAlchemy type takes longer than storing
    it does.
    """

    def __init__(self, row_type: type[Row]) -> None:
        self.row_type = row_type
        self.table = TABLES[row_type]
        hints = get_type_hints(row_type)
        self._names = tuple(column.name for column in self.table.columns)
        self._tuples = tuple(name for name in self._names if _origin(hints[name]) is tuple)
        self._read = attrgetter(*(name for name in self._names if name != "change"))
        self._conversions = tuple(
            (position, _CONVERSIONS[type(column.type)])
            for position, column in enumerate(self.table.columns)
            if type(column.type) in _CONVERSIONS
        )

    def make_sql(self, statement: sa.Insert, dialect: sa.Dialect) -> str:
        """Return an insert statement as text, whose parameters are those of `to_parameters`."""
        compiled = statement.compile(dialect=dialect, column_keys=list(self._names))
        assert tuple(compiled.positiontup or ()) == self._names
        return str(compiled)

    def to_parameters(self, row: Row, change: int) -> tuple[Any, ...]:
        """Return the values of the columns, in their order, with the value of the change counter as the last one."""
        values = [*self._read(row), change]
        for position, convert in self._conversions:
            values[position] = convert(values[position])
        return tuple(values)

    def to_row(self, record: Iterable[Any]) -> Any:
        """Return the row of a record that has all columns, in their order."""
        values = dict(zip(self._names, record, strict=True))
        for name in self._tuples:
            values[name] = tuple(values[name])
        return self.row_type(**values)


MAPPERS: Final[Mapping[type[Row], RowMapper]] = {row_type: RowMapper(row_type) for row_type in TABLES}
