"""Connections to the servers behind a bridge."""
