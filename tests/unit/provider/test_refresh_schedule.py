from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.kit import Clock, turns
from toolcrib.provider.refresh_schedule import MAX_PAUSE_SECONDS, MIN_PAUSE_SECONDS, RefreshSchedule
from toolcrib.provider.source_config import SourceConfig


class Work:
    """Counts its calls, which wait at a gate."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = asyncio.Event()

    async def __call__(self, source_id: str) -> None:
        self.calls += 1
        await self.gate.wait()


@pytest.fixture
async def refresh() -> Work:
    return Work()


@pytest.fixture
async def schedule(refresh: Work) -> AsyncIterator[RefreshSchedule]:
    made = RefreshSchedule(refresh, Work())
    yield made
    await made.close()


async def test_a_refresh_that_hangs_is_not_begun_again_at_each_interval(
    schedule: RefreshSchedule, refresh: Work
) -> None:
    clock = Clock()
    schedule.add("hanging", SourceConfig(refresh_interval=1.0))
    for _ in range(20):
        await clock.advance(1.2)
    assert refresh.calls == 1
    schedule.add("other", SourceConfig(refresh_interval=1.0))
    await clock.advance(1.2)
    assert refresh.calls == 2  # the hanging one has one slot only
    refresh.gate.set()
    await turns()
    for _ in range(3):
        await clock.advance(1.2)
    assert refresh.calls > 4


async def test_a_change_that_is_announced_during_a_refresh_is_fetched_afterwards(
    schedule: RefreshSchedule, refresh: Work
) -> None:
    clock = Clock()
    schedule.add("s", SourceConfig(refresh_interval=None))
    schedule.request("s")
    await clock.advance(MIN_PAUSE_SECONDS)
    assert refresh.calls == 1
    schedule.request("s")
    await clock.advance(MAX_PAUSE_SECONDS)
    assert refresh.calls == 1
    refresh.gate.set()
    await turns()
    await clock.advance(MAX_PAUSE_SECONDS)
    assert refresh.calls == 2
