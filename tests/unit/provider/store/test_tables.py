"""The tables are those of the rows, and the migrations know the newest revision."""

from __future__ import annotations

from dataclasses import fields

from alembic.config import Config
from alembic.script import ScriptDirectory

from toolcrib.provider.store import rows
from toolcrib.provider.store.migration import PACKAGED_MIGRATIONS
from toolcrib.provider.store.rows import Row
from toolcrib.provider.store.tables import SCHEMA_REVISION, TABLES, metadata


def test_every_class_of_rows_has_a_table_with_its_fields_as_columns() -> None:
    classes = [each for each in vars(rows).values() if isinstance(each, type) and issubclass(each, Row)]
    with_table = {each for each in classes if hasattr(each, "TABLE")}
    assert with_table == set(TABLES) and len(with_table) == 16
    for row_type, table in TABLES.items():
        assert table.name == row_type.TABLE
        assert {column.name for column in table.columns} == {field.name for field in fields(row_type)}
        assert tuple(column.name for column in table.primary_key.columns) == row_type.KEY


def test_optional_fields_are_the_nullable_columns() -> None:
    nullable = {
        f"{row.TABLE}.{column.name}" for row, table in TABLES.items() for column in table.columns if column.nullable
    }
    assert nullable == {
        "source.sealed",
        "source.key_id",
        "source_state.listed_at",
        "source_state.package",
        "tool.pending",
        "tool.pending_hash",
        "tool.pending_kind",
        "tool.decided_by",
        "tool.decided_at",
        "tool.state_before_removal",
        "execution.sent",
    }


def test_the_tables_for_keys_and_nodes_exist_already() -> None:
    others = set(metadata.tables) - {table.name for table in TABLES.values()}
    assert others == {"key", "node", "placement", "lease", "change_counter"}


def test_the_revision_in_the_code_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(PACKAGED_MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == SCHEMA_REVISION
