from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.kit import alive_with, eventually


@pytest.fixture(autouse=True)
async def _nothing_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """After every test: no task is left, no process, and nothing that asyncio would complain about."""
    before = asyncio.all_tasks()
    yield
    # `alive_with` looks for the folder of the test, which is in the command line of every child of it.
    await eventually(lambda: not alive_with(str(tmp_path)), within=6, what="no process is left")
    await eventually(lambda: not _tasks(before), what=f"no task is left: {_tasks(before)}")
    gc.collect()
    complaints = [record for record in (*caplog.get_records("call"), *caplog.records) if record.name == "asyncio"]
    assert [record.getMessage() for record in complaints if record.levelno >= logging.ERROR] == []


def _tasks(before: set[asyncio.Task[object]]) -> list[asyncio.Task[object]]:
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    return [task for task in left if not task.done()]
