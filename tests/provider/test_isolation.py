"""Sources that misbehave do not slow down the others, and their status says what is wrong."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from pathlib import Path

import pytest

from tests.provider.kit import SmallSource, value_of
from tests.unit.kit import eventually
from toolcrib.provider.health import IDLE_REASON
from toolcrib.provider.provider import Provider

CALLS = 150
BIG = 5_000
WIDE_MARGIN = 8.0
"""How many times slower the median may be: a call that waits for another source takes hundreds of times as long."""


async def measure(provider: Provider) -> float:
    """Return the median of the seconds that a call takes, one after the other."""
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        assert value_of(await provider.execute("good", "echo", {"text": "x"})) == "x"
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


async def test_bad_sources_do_not_slow_down_the_good_one(tmp_path: Path) -> None:
    good = SmallSource(tmp_path, "good")
    hanging, crashing = SmallSource(tmp_path, "hanging"), SmallSource(tmp_path, "crashing")
    big = SmallSource(tmp_path, "big", tools=BIG)
    changing = SmallSource(tmp_path, "changing", era="legacy", announce=0.02)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("good", good.server())
        alone = await measure(provider)
        lists_alone = await provider.view("alice").list_tools()
        await provider.add_source("hanging", hanging.server(), idle_seconds=0.05)
        await provider.add_source("crashing", crashing.server(), idle_seconds=0.05)
        await eventually(lambda: not provider.connections("hanging") and not provider.connections("crashing"))
        hanging.change(start="hang")
        crashing.change(start="crash")
        troubled = True

        async def call(source: str, tool: str) -> None:
            while troubled:
                await provider.execute(source, tool, {"text": "x"}, timeout=5)
                await asyncio.sleep(0.02)

        async def refresh() -> None:
            while troubled:
                await provider.refresh("big")
                await asyncio.sleep(0.3)

        await provider.add_source("big", big.server())
        await provider.add_source("changing", changing.server())
        trouble = [
            *(asyncio.create_task(call("hanging", "echo")) for _ in range(3)),
            *(asyncio.create_task(call("crashing", "echo")) for _ in range(2)),
            asyncio.create_task(call("changing", "echo")),
            asyncio.create_task(refresh()),
        ]
        await eventually(hanging.processes)
        beside = await measure(provider)
        lists = await provider.view("alice").list_tools()
        assert {tool.name for tool in lists_alone} <= {tool.name for tool in lists}
        assert len(lists) > BIG
        assert beside < alone * WIDE_MARGIN, (alone, beside)
        for started in trouble:
            started.cancel()
        troubled = False
        await asyncio.gather(*trouble, return_exceptions=True)
        # The status and the history say what is wrong.
        assert provider.status("good").state == "connected"
        failed = provider.status("crashing")
        assert failed.state == "failed" and "cannot start" in failed.reason
        failures = [entry for entry in provider.history("crashing") if entry.kind == "failure"]
        assert failures[-1].data["exit_code"] == 3 and "cannot start" in failures[-1].data["stderr"]
        assert len(provider.history("crashing")) <= 200
        changes = [entry for entry in provider.history("changing") if entry.kind == "inventory"]
        assert changes[-1].data["added"][0].startswith("passing_")
    assert not hanging.processes() and not crashing.processes() and not changing.processes()


async def test_a_source_that_hangs_at_its_registration_fails_alone(tmp_path: Path) -> None:
    good, hanging = SmallSource(tmp_path, "good"), SmallSource(tmp_path, "hanging", start="hang")
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("good", good.server())
        registering = asyncio.create_task(provider.add_source("hanging", hanging.server(), connect_timeout=1.0))
        await eventually(hanging.processes)
        assert value_of(await provider.execute("good", "echo", {"text": "x"})) == "x"
        await provider.refresh("good")
        await provider.tag("good", "echo", ["harmless"])
        assert not registering.done()
        await registering
        status = provider.status("hanging")
        assert status.state == "failed" and "connect_timeout" in status.reason
        (failure,) = [entry for entry in provider.history("hanging") if entry.kind == "failure"]
        assert failure.data["reason"] == status.reason
        await eventually(lambda: not hanging.processes())
        hanging.change(start=None)
        await provider.refresh("hanging")
        status = provider.status("hanging")  # its first list is fetched over a connection that is not kept
        assert (status.state, status.reason) == ("disconnected", IDLE_REASON)
        assert not any(each.connected for each in provider.connections("hanging"))
        assert value_of(await provider.execute("hanging", "echo", {"text": "x"})) == "x"
        assert provider.status("hanging").state == "connected"


async def test_a_source_that_changes_all_the_time_is_refreshed_ever_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.provider.refresh_schedule.MIN_PAUSE_SECONDS", 0.1)
    changing = SmallSource(tmp_path, "changing", era="legacy", announce=0.005)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("changing", changing.server())

        def changes() -> list[float]:
            return [entry.at for entry in provider.history("changing") if entry.kind == "inventory"]

        await eventually(lambda: len(changes()) == 5)
        pauses = [later - earlier for earlier, later in itertools.pairwise(changes()[1:])]
        assert pauses == sorted(pauses) and pauses[-1] > 2 * pauses[0]


async def test_the_lists_of_a_principal_wait_for_a_hanging_source_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.provider.personal_lists.LIST_SECONDS", 0.3)
    good, hanging = SmallSource(tmp_path, "good"), SmallSource(tmp_path, "hanging", start="hang")
    async with Provider(tmp_path / "tools.db") as provider:
        for small in (good, hanging):
            await provider.add_source(small.name, small.server(), personal=["TOKEN"])
            await provider.credentials.set(small.name, "TOKEN", "x", principal="alice")
        view = provider.view("alice")
        assert {tool.name.split("__")[1] for tool in await view.list_tools()} == {"good"}
        began = time.perf_counter()
        for _ in range(20):
            assert await view.list_tools()
            assert (await view.call_tool("mcp__good__echo", {"text": "x"})).text == '"x"'
        assert time.perf_counter() - began < 20 * 0.3  # each would have waited


async def test_a_disabled_source_is_neither_refreshed_nor_checked(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), refresh_interval=0.05, health_interval=0.05)
        small.change(tools=["echo", "new"])
        await eventually(lambda: "new" in {tool.name for tool in provider.list_tools()})
        await provider.disable("small")
        small.change(tools=["echo", "newer"])
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert not small.processes() and not provider.connections()
        assert provider.status("small").state == "disabled"
        await provider.enable("small")
        await eventually(lambda: "newer" in {tool.name for tool in provider.list_tools()})
