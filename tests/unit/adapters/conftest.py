"""A server with a tool for each kind of outcome, and hubs of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import toolcrib as tc
from toolcrib.sync import Hub as SyncHub


class Yard:
    """A server in this process, and what its tools saw."""

    def __init__(self) -> None:
        self.started = 0
        self.cancelled = 0
        self.seen: list[object] = []
        self.server = server = tc.ToolServer("yard")

        @server.tool
        async def add(a: int, b: int = 1) -> int:
            """Add two numbers."""
            return a + b

        @server.tool
        async def fail() -> str:
            raise tc.ToolFailed("as it should")

        @server.tool
        async def hang() -> str:
            self.started += 1
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return "late"

        @server.tool
        async def count(context: tc.Context) -> str:
            for step in (1, 2, 3):
                await context.progress(step, 3, f"step {step}")
            return "counted"


@pytest.fixture
def yard() -> Yard:
    return Yard()


@pytest.fixture
def sync_hub(yard: Yard) -> Iterator[SyncHub]:
    with SyncHub({"yard": yard.server}) as hub:
        yield hub
