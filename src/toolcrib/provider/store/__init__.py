"""The store of the provider: SQLite or PostgreSQL behind one interface."""

from __future__ import annotations

from .opening import open_store

__all__ = ["open_store"]
