"""Run by Alembic for each command. The transaction belongs to the caller, which passes its connection."""

from __future__ import annotations

from alembic import context

from toolcrib.provider.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes a column by copying the table
    transactional_ddl=True,  # true of SQLite too: its driver begins no transactions here
)
context.run_migrations()
