"""The migrations of the store, in the layout of Alembic."""
