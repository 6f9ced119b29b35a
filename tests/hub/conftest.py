from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.kit import Children, assert_nothing_undone, eventually, frozen_garbage


@pytest.fixture(scope="session", autouse=True)
def _cheap_collections() -> Iterator[None]:
    with frozen_garbage():
        yield


@pytest.fixture(autouse=True)
async def _nothing_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """After every test: no task is left, no process, and nothing that asyncio would complain about."""
    before = asyncio.all_tasks()
    # The folder of the test is in the command line of every child of it.
    with Children(str(tmp_path)).recorded() as children:
        yield
        await eventually(lambda: not children.living(), within=6, what="no process is left")
    await eventually(lambda: not _tasks(before), what=f"no task is left: {_tasks(before)}")
    assert_nothing_undone(caplog)


def _tasks(before: set[asyncio.Task[object]]) -> list[asyncio.Task[object]]:
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    return [task for task in left if not task.done()]
