"""The store of the provider: SQLite or PostgreSQL behind one interface."""
