"""Sources that announce changes of their lists are followed, also after their process crashed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.provider.kit import SmallSource
from tests.unit.kit import eventually
from toolcrib.errors import ToolcribError
from toolcrib.events import InventoryChanged
from toolcrib.provider import refresh_schedule
from toolcrib.provider.provider import Provider


async def test_announced_changes_are_followed_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh_schedule, "MIN_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(refresh_schedule, "MAX_PAUSE_SECONDS", 0.05)
    small = SmallSource(tmp_path, era="legacy", tools=["echo", "crash"], announce=0.02)
    changes: list[InventoryChanged] = []
    async with Provider(tmp_path / "tools.db") as provider:
        provider.on(InventoryChanged, changes.append)
        await provider.add_source("s", small.server())
        for _ in range(2):
            seen = len(changes)
            await eventually(lambda seen=seen: len(changes) > seen + 5)
            (before,) = small.processes()
            crashed = await provider.execute("s", "crash")
            assert isinstance(crashed.exception, ToolcribError)
            # A refresh may have been due already, and the new connection causes one: only later ones are announced.
            assert (await provider.execute("s", "echo", {"text": "x"})).success
            assert small.processes() != [before]
        seen = len(changes)
        await eventually(lambda: len(changes) > seen + 5)


async def test_a_source_whose_subscription_failed_is_followed_after_its_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_schedule, "MIN_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(refresh_schedule, "MAX_PAUSE_SECONDS", 0.05)
    small = SmallSource(tmp_path, era="modern", listens=True, tools=["echo", "crash"])
    changes: list[InventoryChanged] = []
    async with Provider(tmp_path / "tools.db") as provider:
        provider.on(InventoryChanged, changes.append)
        await provider.add_source("s", small.server())
        assert (await provider.execute("s", "echo", {"text": "x"})).success
        small.change(era="legacy", announce=0.02)
        await provider.execute("s", "crash")
        assert (await provider.execute("s", "echo", {"text": "x"})).success
        await eventually(lambda: len(changes) > 5)
