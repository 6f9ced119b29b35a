"""Changes of lists: those that sources announce are followed, also after a crash, and views receive them."""

from __future__ import annotations

import asyncio
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


async def test_a_view_receives_that_its_source_was_disabled_enabled_renamed_or_removed(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, tools=["a", "b"])
    events: list[InventoryChanged] = []
    async with Provider(tmp_path / "tools.db") as provider:
        source = await provider.add_source("s", small.server())
        await provider.add_source("other", SmallSource(tmp_path, "other").server())
        provider.on(InventoryChanged, events.append)
        async with provider.view().listen("s") as changes, asyncio.timeout(10):
            for act in (
                lambda: provider.disable("s"),
                lambda: provider.enable("s"),
                lambda: provider.update_source("s", {**small.form(), "name": "new"}),
                lambda: provider.remove_source("new"),
            ):
                await act()
                assert [(await anext(changes)).kind for _ in range(3)] == ["tools", "prompts", "resources"]
            await provider.remove_source("other")
            changes.end()
            assert [change async for change in changes] == []
    seen = [(event.server, event.source_id == source.id, event.added, event.removed, event.changed) for event in events]
    assert seen[:4] == [
        ("s", True, (), ("a", "b"), ()),
        ("s", True, ("a", "b"), (), ()),
        ("new", True, (), (), ("a", "b")),
        ("new", True, (), ("a", "b"), ()),
    ]
    assert [(event.server, event.source_id == source.id) for event in events[4:]] == [("other", False)]


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
