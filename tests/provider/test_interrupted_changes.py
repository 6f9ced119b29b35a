"""Changes of a source whose caller is cancelled, or that meet another change: they happen completely or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.provider.kit import SmallSource, value_of
from tests.unit.kit import eventually
from toolcrib.errors import AccessDenied, ConfigError, MissingCredential, ServerNotFound
from toolcrib.provider import source_registry
from toolcrib.provider.inventory import InventoryChange, diff
from toolcrib.provider.provider import Provider
from toolcrib.provider.store import open_store
from toolcrib.provider.store.interface import Operation
from toolcrib.provider.store.sql_store import SqlStore
from toolcrib.types import ConnectionState


class GatedStore:
    """A store whose commits wait at a gate while it is closed."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    async def commit(self, operations: Sequence[Operation]) -> int:
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return await self._store.commit(operations)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def open_gated() -> GatedStore:
    return GatedStore(await open_store("sqlite://"))


async def cancel_in_commit(store: GatedStore, change: Awaitable[object]) -> None:
    """Cancel a change while its rows are being committed."""
    store.gate.clear()
    task = asyncio.ensure_future(change)
    await eventually(lambda: store.waiting)
    task.cancel()
    store.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_credential_is_not_used_after_its_removal_was_cancelled(tmp_path: Path) -> None:
    small, store = SmallSource(tmp_path), await open_gated()
    async with Provider(store, key_file=tmp_path / "key") as provider:  # type: ignore[arg-type]
        await provider.add_source("s", small.server(), personal=["TOKEN"])
        await provider.credentials.set("s", "TOKEN", "of alice", principal="alice")
        seen = value_of(await provider.execute("s", "see", {"names": ["TOKEN"]}, principal="alice"))
        assert seen["env"] == {"TOKEN": "of alice"}
        await cancel_in_commit(store, provider.credentials.remove("s", principal="alice"))
        assert not small.processes()
        result = await provider.execute("s", "see", principal="alice")
        assert isinstance(result.exception, MissingCredential)


async def test_credentials_that_are_set_and_removed_at_once_are_changed_one_after_the_other(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("s", small.server(), personal=["TOKEN"])
        values = [f"value {number}" for number in range(4)]
        credentials = provider.credentials
        await asyncio.gather(*(credentials.set("s", "TOKEN", value, principal="alice") for value in values))
        seen = value_of(await provider.execute("s", "see", {"names": ["TOKEN"]}, principal="alice"))
        assert seen["env"] == {"TOKEN": values[-1]}
        await asyncio.gather(
            credentials.set("s", "TOKEN", "of bob", principal="bob"), credentials.remove("s", principal="bob")
        )
        assert [each.principal for each in credentials.list()] == ["alice"]
    async with Provider(tmp_path / "tools.db") as provider:
        assert [each.principal for each in provider.credentials.list()] == ["alice"]


async def test_changes_of_a_group_that_are_made_at_once_are_all_in_force(tmp_path: Path) -> None:
    async with Provider(tmp_path / "tools.db") as provider:
        groups = provider.groups
        made = await asyncio.gather(
            groups.create("g", include=["a/*"]), groups.create("g", include=["b/*"]), return_exceptions=True
        )
        assert [type(each) for each in made[1:]] == [ConfigError]
        await asyncio.gather(groups.update("g", description="new"), groups.update("g", exclude=["a/x"]))
        group = groups.get("g")
        assert (group.include, group.exclude, group.description) == (("a/*",), ("a/x",), "new")
        removed, changed = await asyncio.gather(
            groups.remove("g"), groups.update("g", description="newer"), return_exceptions=True
        )
        assert removed is None and isinstance(changed, ConfigError)
        assert groups.list() == []
    async with Provider(tmp_path / "tools.db") as provider:
        assert provider.groups.list() == []


async def test_a_cancelled_disabling_ends_the_processes_and_a_disabled_source_stays_disabled(tmp_path: Path) -> None:
    small, store = SmallSource(tmp_path), await open_gated()
    async with Provider(store) as provider:  # type: ignore[arg-type]
        await provider.add_source("s", small.server())
        await cancel_in_commit(store, provider.disable("s"))
        assert not small.processes()
        assert provider.status("s").state is ConnectionState.DISABLED
        await provider.update_source("s", small.server(), stateless=True)  # lists it
        assert provider.status("s").state is ConnectionState.DISABLED
        await provider.enable("s")
        assert provider.status("s").state is ConnectionState.DISCONNECTED


async def test_a_cancelled_removal_is_complete(tmp_path: Path) -> None:
    small, store = SmallSource(tmp_path), await open_gated()
    async with Provider(store) as provider:  # type: ignore[arg-type]
        await provider.add_source("s", small.server())
        await cancel_in_commit(store, provider.remove_source("s"))
        assert not provider.list_sources()
        assert not small.processes()


async def test_an_update_does_not_restore_a_source_that_was_removed_meanwhile(tmp_path: Path) -> None:
    small, store = SmallSource(tmp_path), await open_gated()
    async with Provider(store) as provider:  # type: ignore[arg-type]
        await provider.add_source("s", small.server())
        small.change(start="hang")
        hanging = asyncio.create_task(provider.update_source("s", small.server(connect_timeout=60), stateless=True))
        await eventually(lambda: len(small.processes()) == 2)
        await provider.remove_source("s")
        with pytest.raises(ServerNotFound):
            await asyncio.wait_for(hanging, 10)
        assert not provider.list_sources()
        assert not (await store.load()).sources


async def test_two_removals_at_once_are_one(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider("sqlite://") as provider:
        await provider.add_source("s", small.server())
        ended = await asyncio.gather(provider.remove_source("s"), provider.remove_source("s"), return_exceptions=True)
        assert [type(each) for each in ended] == [type(None), ServerNotFound]
        actions = [each.action for each in await provider.admin_actions()]
        assert actions.count("remove_source") == 1


async def test_a_cancelled_close_leaves_no_process(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    provider = Provider("sqlite://")
    await provider.__aenter__()
    await provider.add_source("s", small.server())
    closing = asyncio.create_task(provider.__aexit__(None, None, None))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not small.processes()


async def test_a_refresh_does_not_start_a_disabled_source(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider("sqlite://") as provider:
        await provider.add_source("s", small.server())
        await provider.disable("s")
        with pytest.raises(AccessDenied, match="disabled"):
            await provider.refresh("s")
        assert not small.processes()


async def test_a_long_list_is_compared_outside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def watched(*args: Any, **options: Any) -> InventoryChange:
        threads.append(threading.current_thread() is threading.main_thread())
        return diff(*args, **options)

    monkeypatch.setattr(source_registry, "diff", watched)
    short, long = SmallSource(tmp_path, "short", tools=2), SmallSource(tmp_path, "long", tools=500)
    async with Provider("sqlite://") as provider:
        await provider.add_source("short", short.server())
        await provider.add_source("long", long.server())
        assert [len(source.tools) for source in provider.list_sources()] == [2, 500]
    assert threads == [True, False]
