"""Locks and semaphores of the running event loop."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from toolcrib._util.locks import PerLoop, PerLoopLock, running_loop
from toolcrib.errors import UsageError


def test_each_event_loop_has_its_own() -> None:
    slots = PerLoop(partial(asyncio.Semaphore, 1))

    async def contend() -> asyncio.Semaphore:
        async def hold() -> None:
            async with slots():
                await asyncio.sleep(0)

        # Two tasks contend, which binds an asyncio primitive to its loop.
        await asyncio.gather(hold(), hold())
        assert slots() is slots()
        return slots()

    assert asyncio.run(contend()) is not asyncio.run(contend())


def test_a_lock_is_held_by_one_task_at_a_time() -> None:
    lock, inside, most = PerLoopLock(), 0, 0

    async def enter() -> None:
        nonlocal inside, most
        async with lock():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async def both() -> None:
        await asyncio.gather(enter(), enter())

    asyncio.run(both())
    asyncio.run(both())
    assert most == 1


def test_without_an_event_loop_it_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no asyncio event loop"):
        running_loop()
    with pytest.raises(UsageError, match="no asyncio event loop"):
        PerLoopLock()()
