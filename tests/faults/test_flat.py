"""Descriptors, tasks, threads and memory stay flat over many calls and many reconnects."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import pytest

import toolcrib as tc
from tests.faults.kit import BIG, FAST, FaultyServer, eventually, matrix, outcome_of
from toolcrib import sync
from toolcrib.errors import UnansweredTimeout

pytestmark = pytest.mark.slow

KIB = 1024


@dataclass(frozen=True)
class Footprint:
    descriptors: int
    tasks: int
    threads: int
    memory: int

    @classmethod
    def now(cls) -> Footprint:
        gc.collect()
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        memory, _ = tracemalloc.get_traced_memory()
        return cls(descriptors, len(asyncio.all_tasks()), threading.active_count(), memory)


async def assert_flat(before: Footprint, allowance: int) -> None:
    """Fail if something keeps growing; objects that are being closed may take a moment."""

    def flat() -> bool:
        now = Footprint.now()
        return (
            now.descriptors <= before.descriptors
            and now.tasks <= before.tasks
            and now.threads <= before.threads
            and now.memory <= before.memory + allowance
        )

    await eventually(flat, within=5, what=f"flat: {before} -> {Footprint.now()}")


@pytest.fixture
def traced() -> object:
    tracemalloc.start()
    yield
    tracemalloc.stop()


async def calls(client: tc.Client, count: int) -> None:
    """Make a mix of calls: answers, tool errors, error replies, time-outs, cancellations, large ones."""
    for start in range(0, count, 100):
        async with asyncio.TaskGroup() as group:
            for n in range(start, start + 92):
                group.create_task(outcome_of(client.call_tool("echo", {"nonce": str(n)})))
            for _ in range(2):
                group.create_task(outcome_of(client.call_tool("fail", {})))
                group.create_task(outcome_of(client.call_tool("refuse", {})))
                group.create_task(outcome_of(client.call_tool("silent", {}, timeout=0.01)))
            group.create_task(outcome_of(client.call_tool("echo", {"pad": BIG})))
            stopped = group.create_task(outcome_of(client.call_tool("silent", {})))
            asyncio.get_running_loop().call_later(0.01, stopped.cancel)


@pytest.mark.parametrize("count", matrix([1_000], [10_000]))
async def test_everything_is_flat_over_many_calls_of_every_outcome(
    faulty: FaultyServer, era: str, traced: object, count: int
) -> None:
    async with faulty.client(era=era) as client:
        await calls(client, 500)
        before = Footprint.now()
        await calls(client, count)
        await assert_flat(before, allowance=200 * KIB)
    assert faulty.record.lives == 1


@pytest.mark.parametrize("count", matrix([20], [200]))
@pytest.mark.parametrize(
    "era, refused",
    [("legacy", []), ("modern", []), ("modern", ["subscriptions/listen"])],
    ids=["legacy", "modern", "modern, listen refused"],
)
async def test_everything_is_flat_over_many_reconnects(
    faulty: FaultyServer, era: str, traced: object, count: int, refused: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "toolcrib")  # captured records are memory too, but not the client's

    async def again() -> None:
        pending = asyncio.create_task(outcome_of(client.call_tool("silent", {})))
        life = faulty.record.lives
        assert (await client.call_tool("echo", {"nonce": "x"}, timeout=20)).text == "x"
        faulty.kill()
        await pending
        assert (await client.call_tool("echo", {"nonce": "x"}, timeout=20)).text == "x"
        assert faulty.record.lives == life + 1

    async with faulty.client(era=era, refused=refused) as client:
        for _ in range(5):
            await again()
        before = Footprint.now()
        for _ in range(count):
            await again()
        await assert_flat(before, allowance=200 * KIB)
    await eventually(lambda: not faulty.living())


@pytest.mark.parametrize("count", matrix([15], [100]))
async def test_everything_is_flat_over_many_clients(faulty: FaultyServer, traced: object, count: int) -> None:
    async def one() -> None:
        async with faulty.client() as client:
            await client.call_tool("echo", {})

    for _ in range(3):
        await one()
    before = Footprint.now()
    for _ in range(count):
        await one()
    await assert_flat(before, allowance=200 * KIB)


async def test_everything_is_flat_over_time_outs_of_a_server_that_does_not_read(
    faulty: FaultyServer, traced: object
) -> None:
    gate = faulty.path("gate")
    async with faulty.client() as client:
        await client.call_tool("hold", {"until": str(gate)})
        await outcome_of(client.call_tool("echo", {"pad": BIG}, timeout=0.1))
        before = Footprint.now()
        for _ in range(50):
            await outcome_of(client.call_tool("echo", {"pad": BIG}, timeout=0.005))
        gate.touch()
        assert (await client.call_tool("echo", {"nonce": "x"}, timeout=20)).text == "x"
        await assert_flat(before, allowance=200 * KIB)


def test_the_sync_client_leaves_no_descriptor_and_only_its_one_thread(faulty: FaultyServer) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def one() -> None:
        with sync.Client(faulty.server(), reconnect=FAST) as client:
            client.call_tool("echo", {})
            with pytest.raises(UnansweredTimeout):
                client.call_tool("silent", {}, timeout=0.02)

    one()
    before = descriptors(), threading.active_count()
    for _ in range(10):
        one()
    assert (descriptors(), threading.active_count()) <= before
