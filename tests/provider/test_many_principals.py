"""Many principals on one source with a personal slot: the caps hold, each call has one outcome, idle processes end."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from tests.provider.kit import SmallSource, count_running, value_of
from tests.unit.kit import eventually
from toolcrib.provider.provider import Provider
from toolcrib.upstreams.places import PoolLimits

PRINCIPALS = [f"user-{number}" for number in range(100)]
MOST = 8


async def test_a_hundred_principals_share_a_few_places_for_processes(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    most_running = 0

    async def count(done: asyncio.Event) -> None:
        nonlocal most_running
        while not done.is_set():
            most_running = max(most_running, count_running(str(small.file)))
            await asyncio.sleep(0.01)

    async with Provider(tmp_path / "tools.db", limits=PoolLimits(total=MOST + 4, per_source=MOST)) as provider:
        await provider.add_source("small", small.server(), personal=["TOKEN"], idle_seconds=0.5)
        await provider.credentials.set("small", "TOKEN", "of the operator", principal="admin", discovery=True)
        await provider.refresh("small")
        for name in PRINCIPALS:
            await provider.credentials.set("small", "TOKEN", f"token of {name}", principal=name)
        done = asyncio.Event()
        counting = asyncio.create_task(count(done))
        calls = [name for name in PRINCIPALS for _ in range(2)]
        outcomes = await asyncio.gather(
            *(provider.execute("small", "see", {"names": ["TOKEN"]}, principal=name, timeout=60) for name in calls)
        )
        done.set()
        await counting
        saw = [value_of(each) for each in outcomes]
        assert [each["env"]["TOKEN"] for each in saw] == [f"token of {name}" for name in calls]
        owners: dict[int, set[str]] = {}
        for name, each in zip(calls, saw, strict=True):
            owners.setdefault(each["pid"], set()).add(name)
        assert all(len(names) == 1 for names in owners.values())
        assert 0 < most_running <= MOST
        assert len(provider.connections("small")) <= MOST
        await eventually(lambda: not provider.connections("small") and not small.processes())
    async with Provider(tmp_path / "tools.db") as provider:
        rows = await provider.executions(limit=1000)
        assert Counter(row.principal for row in rows) == dict.fromkeys(PRINCIPALS, 2)
        assert {row.outcome for row in rows} == {"ok"} and len({row.id for row in rows}) == len(calls)


async def test_the_places_of_one_principal_are_limited_and_no_other_waits_for_it(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    limits = PoolLimits(total=6, per_source=6, per_principal=2)
    async with Provider(tmp_path / "tools.db", limits=limits) as provider:
        await provider.add_source("small", small.server(), mcp_lifecycle_mode="transient")
        greedy = [
            asyncio.create_task(provider.execute("small", "sleep", {"seconds": 0.3}, principal="greedy"))
            for _ in range(6)
        ]
        await eventually(lambda: len(provider.connections("small")) == 2)
        other = await provider.execute("small", "echo", {"text": "hello"}, principal="modest")
        assert value_of(other) == "hello" and not any(each.done() for each in greedy)
        late = await provider.execute("small", "echo", {"text": "x"}, principal="greedy", timeout=0.05)
        assert late.metadata is not None
        assert (late.metadata["outcome"], late.metadata["sent"], late.metadata["attempts"]) == (
            "rate_limited",
            False,
            0,
        )
        assert [value_of(each) for each in await asyncio.gather(*greedy)] == ["awake"] * 6
