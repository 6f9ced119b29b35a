"""The provider while its database does not work: known tools go on working, writes fail, and it recovers."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.provider.faulty_store import FAULTS, Fault, FaultyStore
from tests.provider.kit import SmallSource, value_of
from tests.provider.test_store_faults import lock_held_elsewhere
from tests.unit.kit import eventually
from toolcrib.errors import StoreError
from toolcrib.provider.provider import Provider
from toolcrib.provider.store import open_store

OPERATIONS = {
    "register": lambda provider, small: provider.add_source("other", small.server()),
    "update": lambda provider, small: provider.update_source("small", small.server(env={"LEVEL": "2"})),
    "remove": lambda provider, small: provider.remove_source("small"),
    "disable": lambda provider, small: provider.disable("small"),
    "refresh": lambda provider, small: provider.refresh("small"),
    "approve": lambda provider, small: provider.approve("small", "waiting"),
    "block": lambda provider, small: provider.block("small", "echo"),
    "disable a tool": lambda provider, small: provider.disable_tool("small", "echo"),
    "tag": lambda provider, small: provider.tag("small", "echo", ["x"]),
    "set a credential": lambda provider, small: provider.credentials.set("own", "TOKEN", "y", principal="alice"),
    "remove a credential": lambda provider, small: provider.credentials.remove("own", principal="alice"),
    "create a group": lambda provider, small: provider.groups.create("new", include=["*/*"]),
    "update a group": lambda provider, small: provider.groups.update("all", include=[]),
    "remove a group": lambda provider, small: provider.groups.remove("all"),
}
"""Every write. After a failure, everything is as before."""
TABLE = re.compile(r"(?:^UPDATE|INTO|FROM) (\w+)")
WRITE_FAULTS = [fault for fault in FAULTS if fault != "slow"]


@asynccontextmanager
async def opened(folder: Path, small: SmallSource) -> AsyncIterator[tuple[Provider, FaultyStore]]:
    store = FaultyStore(await open_store(folder / "tools.db"))
    async with Provider(store, key_file=folder / "key") as provider:
        await provider.add_source("small", small.server(env={"LEVEL": "1"}), review="review_changes")
        await provider.add_source("own", small.server(), personal=["TOKEN"])
        await provider.credentials.set("own", "TOKEN", "x", principal="alice")
        await provider.groups.create("all", include=["small/*"])
        small.change(tools=["echo", "see", "waiting"])
        await provider.refresh("small")
        small.change(tools=["echo", "see", "waiting", "more"])  # a refresh has something to write
        yield provider, store


async def describe(provider: Provider) -> Any:
    return (
        [(source.row, source.tools) for source in provider.list_sources()],
        [tool.raw for tool in await provider.view("alice").list_tools()],
        [tool.raw for tool in await provider.view("bob", "all").list_tools()],
        provider.groups.list(),
        provider.credentials.list(),
        provider.review(),
    )


@pytest.mark.parametrize("fault", WRITE_FAULTS)
async def test_known_tools_go_on_working_and_all_writes_fail_and_recover(tmp_path: Path, fault: Fault) -> None:
    small = SmallSource(tmp_path, tools=["echo", "see"])
    async with opened(tmp_path, small) as (provider, store):
        assert value_of(await provider.execute("small", "see", {"names": ["LEVEL"]}))["env"] == {"LEVEL": "1"}
        before = await describe(provider)
        store.inject(fault)
        for name, write in OPERATIONS.items():
            with pytest.raises(StoreError) as caught:
                await write(provider, small)
            assert fault in str(caught.value), name
            assert await describe(provider) == before, name
        for number in range(20):
            assert value_of(await provider.execute("small", "echo", {"text": number}, principal="bob")) == number
        assert value_of(await provider.execute("own", "see", {"names": ["TOKEN"]}, principal="alice"))["env"] == {
            "TOKEN": "x"
        }
        assert value_of(await provider.execute("small", "see", {"names": ["LEVEL"]}))["env"] == {"LEVEL": "1"}
        assert (await provider.view("alice", "all").call_tool("mcp__small__echo", {"text": "x"})).text == '"x"'
        if fault == "gone":
            with pytest.raises(StoreError):
                await provider.executions()
        store.heal()
        for name, write in OPERATIONS.items():
            if name not in ("remove", "disable"):
                await write(provider, small)
        assert value_of(await provider.execute("small", "see", {"names": ["LEVEL"]}))["env"] == {"LEVEL": "2"}
    async with Provider(tmp_path / "tools.db", key_file=tmp_path / "key") as provider:
        rows = await provider.executions(limit=1000)
        assert sum(row.principal == "bob" and row.outcome == "ok" for row in rows) == 20  # the audit waited in memory
        assert {source.name for source in provider.list_sources()} == {"small", "own", "other"}


async def test_a_slow_database_delays_no_call(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, tools=["echo", "see"])
    async with opened(tmp_path, small) as (provider, store):
        await provider.execute("small", "echo", {"text": "x"})
        store.inject("slow", delay=2.0)
        results = [await provider.execute("small", "echo", {"text": number}) for number in range(100)]
        assert [value_of(each) for each in results] == list(range(100))
        assert max(each.execution_time_ms for each in results) < 2000
        store.heal()


async def test_a_provider_on_a_store_that_cannot_be_read_does_not_open(tmp_path: Path) -> None:
    store = FaultyStore(await open_store(tmp_path / "tools.db"))
    store.inject("gone", times=1)
    with pytest.raises(StoreError):
        async with Provider(store, key_file=tmp_path / "key"):
            pass


async def test_a_lock_of_another_process_delays_writes_and_no_calls(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, tools=["echo", "see"])
    file = tmp_path / "tools.db"
    async with Provider(await open_store(file, busy_timeout=0.1), key_file=tmp_path / "key") as provider:
        await provider.add_source("small", small.server())
        with lock_held_elsewhere(file) as release:
            assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"
            with pytest.raises(StoreError, match="locked"):
                await provider.tag("small", "echo", ["x"])
            assert provider.get_tool("small", "echo").tags == ()
            release()
        assert (await provider.tag("small", "echo", ["x"])).tags == ("x",)


async def test_calls_and_views_send_no_statement_to_the_database(tmp_path: Path, statements: list[str]) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server())
        await provider.groups.create("g", include=["small/*"])
        view, group = provider.view("alice"), provider.view("bob", "g")
        await provider.execute("small", "echo", {"text": "x"})
        # The first batch is followed by the deletion of old rows, which happens once an hour.
        await eventually(
            lambda: any(each.startswith("SELECT EXISTS") and "tool_version" in each for each in statements)
        )
        statements.clear()
        for number in range(100):
            assert value_of(await provider.execute("small", "echo", {"text": number})) == number
            await view.call_tool("mcp__small__echo", {"text": "x"})
            await view.list_tools()
            await group.list_prompts()
            await group.list_resources()
            await view.search_tools("echo")
            provider.list_tools()
            provider.status("small")
            provider.history("small")
            view.explain("mcp__small__echo")
        written = {word for each in statements for word in TABLE.findall(each)}
        assert written <= {"execution", "event", "stat_bucket", "change_counter"}, written
        assert not [each for each in statements if each.startswith("SELECT")]
        # 200 calls make a few batches, each of the counter, the calls, the events and the counts.
        assert len(statements) < 40, statements
    connection = sqlite3.connect(tmp_path / "tools.db")
    try:
        assert connection.execute("SELECT count(*) FROM execution").fetchone() == (201,)
    finally:
        connection.close()
