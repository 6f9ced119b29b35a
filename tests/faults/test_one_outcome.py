"""Exactly one outcome per call: calls reported as unsent never ran, and no call ran twice.

The server reads stdin late (it stops reading until a gate file is there) and records the nonce of each call before it
answers. It handles its input in order, so the answer to one last call proves that all before it were read: what has
not run by then never will.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

import toolcrib as tc
from tests.faults.kit import (
    BIG,
    FAST,
    FaultyServer,
    Ledger,
    cancelled,
    either_era,
    eventually,
    lucky,
    matrix,
    perhaps_sent,
    succeeded,
    surely_unsent,
)
from toolcrib.errors import CallTimeout, OutcomeUnknown, UnansweredTimeout


async def drain(client: tc.Client, ledger: Ledger) -> None:
    """Wait until the server has read everything sent on this connection, and check that the client still works."""
    outcome = await ledger.call(client, timeout=20)
    assert succeeded(outcome), f"the client is not usable after the faults: {outcome!r}"


@either_era
async def test_a_call_that_timed_out_before_it_was_written_never_runs_later(faulty: FaultyServer, era: str) -> None:
    ledger, gate = Ledger(), faulty.path("gate")
    async with faulty.client(era=era) as client:
        await client.call_tool("hold", {"until": str(gate)})
        outcomes = await asyncio.gather(*(ledger.call(client, timeout=0.3, pad=BIG) for _ in range(10)))
        assert all(isinstance(outcome, CallTimeout) for outcome in outcomes)
        assert faulty.record.executed == Counter()
        gate.touch()
        await drain(client, ledger)
    ledger.check(faulty.record.executed)
    # The pipe took a part of the first call only: its rest had to follow, the others were withdrawn.
    assert ledger.count(surely_unsent) >= 8
    assert faulty.record.lives == 1, "a slow reader does not cause a restart"


@either_era
async def test_a_call_cancelled_before_it_was_written_never_runs_later(faulty: FaultyServer, era: str) -> None:
    ledger, gate = Ledger(), faulty.path("gate")
    async with faulty.client(era=era) as client:
        await client.call_tool("hold", {"until": str(gate)})
        tasks = [asyncio.create_task(ledger.call(client, pad=BIG)) for _ in range(10)]
        await asyncio.sleep(0)  # they go first
        timed_out = await ledger.call(client, timeout=0.2)
        assert surely_unsent(timed_out), f"the pipe is full, so it waited its turn: {timed_out!r}"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=5)
        gate.touch()
        await drain(client, ledger)
    ledger.check(faulty.record.executed)
    assert ledger.count(cancelled) == 10
    assert sum(faulty.record.executed[nonce] for nonce in list(ledger.outcomes)[:10]) <= 1


@either_era
async def test_small_calls_that_the_pipe_took_are_reported_as_perhaps_sent(faulty: FaultyServer, era: str) -> None:
    ledger, gate = Ledger(), faulty.path("gate")
    async with faulty.client(era=era) as client:
        await client.call_tool("hold", {"until": str(gate)})
        outcomes = await asyncio.gather(*(ledger.call(client, timeout=0.3) for _ in range(20)))
        assert all(isinstance(outcome, UnansweredTimeout) and outcome.sent for outcome in outcomes)
        gate.touch()
        await drain(client, ledger)
    ledger.check(faulty.record.executed)
    assert sum(faulty.record.executed.values()) == 21, "what was handed over was read in the end"


async def test_a_kill_during_load_leaves_each_call_one_outcome(
    faulty: FaultyServer, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    ledger, gate = Ledger(), faulty.path("gate")
    async with faulty.client(era=era) as client:
        await client.call_tool("hold", {"until": str(gate)})
        mix = [{}, {"pad": BIG}, {}, {"pad": BIG}]
        tasks = [asyncio.create_task(ledger.call(client, timeout=20, **mix[n % 4])) for n in range(40)]
        await asyncio.sleep(0)  # they go first
        blocked = await ledger.call(client, timeout=0.2)
        assert surely_unsent(blocked), f"the pipe is full: {blocked!r}"
        gate.touch()  # the next life reads at once
        faulty.kill()
        await asyncio.wait(tasks, timeout=30)
        await drain(client, ledger)
    ledger.check(faulty.record.executed)
    assert ledger.count(lambda outcome: isinstance(outcome, OutcomeUnknown)) >= 1, "the pipe held some of them"
    assert ledger.count(succeeded) >= 20, "what was surely unsent was sent to the next life"


class Storm:
    """Waves of small and large calls with random deadlines, cancellations, stalls and kills."""

    def __init__(self, faulty: FaultyServer, client: tc.Client, seed: int) -> None:
        self.faulty, self.client, self.ledger = faulty, client, Ledger()
        self.random = random.Random(seed)
        self.kills = 0

    async def wave(self, number: int) -> None:
        loop, chance = asyncio.get_running_loop(), self.random
        gate = self.faulty.path(f"gate-{number}")
        if chance.random() < 0.7:
            await self.client.call_tool("hold", {"until": str(gate)}, timeout=20)
        tasks = [asyncio.create_task(self.one()) for _ in range(40)]
        for task in chance.sample(tasks, 10):
            loop.call_later(chance.uniform(0, 0.3), task.cancel)
        loop.call_later(chance.uniform(0, 0.4), gate.touch)
        kills = self.kills + (chance.random() < 0.4)
        if kills > self.kills:
            loop.call_later(chance.uniform(0, 0.3), self.kill)
        _, pending = await asyncio.wait(tasks, timeout=30)
        assert not pending, f"{len(pending)} calls have no outcome"
        await eventually(lambda: gate.exists() and self.kills == kills)
        await eventually(lambda: self.faulty.record.lives == 1 + kills, what="the next life, unasked")
        await drain(self.client, self.ledger)

    async def one(self) -> None:
        pad = {"pad": BIG} if self.random.random() < 0.3 else {}
        tool = self.random.choice(["echo", "echo", "echo", "fail"])
        await self.ledger.call(self.client, tool, timeout=self.random.choice([0.02, 0.1, 0.3, 10]), **pad)

    def kill(self) -> None:
        self.kills += 1
        self.faulty.kill()


@pytest.mark.slow
@either_era
@pytest.mark.parametrize("seed", matrix([1], [2, 3, 4]))
async def test_under_time_outs_cancels_and_kills_every_call_has_one_honest_outcome(
    faulty: FaultyServer, era: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    async with tc.Client(faulty.server(era=era, gulp=16384, pause=0.0005), reconnect=FAST) as client:
        storm = Storm(faulty, client, seed)
        for number in range(12):
            await storm.wave(number)
    ledger = storm.ledger
    ledger.check(faulty.record.executed)
    assert len(ledger.outcomes) == 12 * 41
    # The storm was one: each kind of outcome came up.
    for kind in (succeeded, cancelled, surely_unsent, perhaps_sent):
        assert ledger.count(kind) >= 5, kind.__name__
    assert storm.kills >= 1
    assert faulty.record.lives == 1 + storm.kills
