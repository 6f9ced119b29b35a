"""Streamable HTTP, and the HTTP+SSE of 2024-11-05."""
