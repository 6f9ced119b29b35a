"""Any order of connect, call, cancel, kill, stall, disconnect and close on a real child keeps the invariants."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import toolcrib as tc
from tests.faults.kit import (
    BIG,
    FAST,
    FaultyServer,
    Ledger,
    alive,
    cancelled,
    eventually,
    impatient,
    outcome_of,
    succeeded,
    until,
)
from toolcrib import sync
from toolcrib.errors import ConnectError, OutcomeUnknown, ToolcribError, UsageError
from toolcrib.types import ConnectionState

pytestmark = pytest.mark.slow

CONNECTED = {ConnectionState.CONNECTED, ConnectionState.DEGRADED}
TOGETHER = ["connect", "connect", "call", "call", "disconnect", "disconnect", "cancel"]


class OneClient(RuleBasedStateMachine):
    """The model knows which calls are open, whether the server stalls, and whether the client was closed."""

    @initialize(era=st.sampled_from(["legacy", "modern", "both"]), max_retries=st.sampled_from([3, None]))
    def begin(self, era: str, max_retries: int | None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="toolcrib-stateful-"))
        self.faulty, self.ledger, self.era = FaultyServer(self.directory), Ledger(), era
        self.options = {"reconnect": dataclasses.replace(FAST, max_retries=max_retries)}
        self.loop = asyncio.new_event_loop()
        self.open_calls: list[asyncio.Task[Any]] = []
        self.gates: list[Path] = []
        self.closed = False
        self.client = self.faulty.client(era=self.era, options=self.options)

    def run(self, coroutine: Coroutine[Any, Any, Any], bound: float = 30) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, bound))

    # --- what a user does

    @rule()
    def connect(self) -> None:
        self.run(outcome_of(self.client.connect()))

    @rule(
        tool=st.sampled_from(["echo", "echo", "fail", "silent", "die"]),
        large=st.booleans(),
        timeout=st.sampled_from([0.01, 0.1, 0.5, 2.0]),
        count=st.integers(1, 8),
    )
    def call(self, tool: str, large: bool, timeout: float, count: int) -> None:
        """Start a call, which continues while other rules run."""
        arguments = {"pad": BIG} if large else {}
        for _ in range(count):
            call = self.ledger.call(self.client, tool, timeout=timeout, **arguments)
            self.open_calls.append(self.loop.create_task(call))
        self.run(asyncio.sleep(0))

    @precondition(lambda self: self.open_calls)
    @rule(which=st.integers(0, 99))
    def cancel(self, which: int) -> None:
        task = self.open_calls[which % len(self.open_calls)]
        task.cancel()
        self.run(asyncio.wait([task], timeout=5))
        assert task.done(), "a cancelled caller is free at once"

    @rule(seconds=st.sampled_from([0.0, 0.02, 0.2]))
    def let_it_run(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule()
    def settle(self) -> None:
        """Wait until all calls have ended by their deadlines; then a call without faults succeeds."""
        self.release()
        self.finish_calls()
        # A server killed a moment ago may take one call with it, and five deaths in a row open the breaker for 0.2 s.
        outcomes = [self.run(self.ledger.call(self.client, timeout=20))]
        end = time.monotonic() + 20
        while isinstance(outcomes[-1], OutcomeUnknown | ConnectError) and time.monotonic() < end:
            self.run(asyncio.sleep(0.01))
            outcomes.append(self.run(self.ledger.call(self.client, timeout=20)))
        assert succeeded(outcomes[-1]), outcomes
        assert self.client.connected
        assert self.client.status.state is ConnectionState.CONNECTED
        assert alive(self.faulty.record.pid)

    @rule()
    def disconnect(self) -> None:
        self.run(self.client.disconnect())

    @rule()
    def close_and_begin_anew(self) -> None:
        self.run(self.client.close())
        assert not self.client.connected
        assert self.client.status.state not in CONNECTED
        with pytest.raises((UsageError, ToolcribError)):
            self.run(self.client.call_tool("echo", {"nonce": "after-close"}, timeout=5))
        self.finish_calls()
        self.run(eventually(lambda: not self.faulty.living(), what="no child after close"))
        self.client = self.faulty.client(era=self.era, options=self.options)

    @rule(steps=st.lists(st.tuples(st.sampled_from(TOGETHER), st.integers(0, 3)), min_size=2, max_size=8))
    def several_tasks_at_once(self, steps: list[tuple[str, int]]) -> None:
        """Operations of several tasks in the same turn of the loop, or a few turns apart."""

        async def take(step: str) -> None:
            if step == "call":
                await self.ledger.call(self.client, timeout=5)
            else:
                await outcome_of(getattr(self.client, step)())

        async def together() -> None:
            tasks: list[asyncio.Task[Any]] = []
            for step, turns in steps:
                if step != "cancel":
                    tasks.append(asyncio.create_task(take(step)))
                elif tasks:
                    tasks[-1].cancel()
                for _ in range(turns):
                    await asyncio.sleep(0)
            _, pending = await asyncio.wait(tasks, timeout=20) if tasks else (None, None)
            assert not pending, f"stuck: {pending}"

        self.release()  # a stalled server would make every call wait for its deadline
        self.run(together())

    @rule(first=st.sampled_from(["connect", "call"]), turns=st.integers(0, 3))
    def close_while_connecting(self, first: str, turns: int) -> None:
        async def together() -> None:
            begin = self.client.connect if first == "connect" else self.client.call_tool
            arguments = () if first == "connect" else ("echo", {"nonce": "closing"})
            connecting = asyncio.create_task(outcome_of(begin(*arguments)))
            for _ in range(turns):
                await asyncio.sleep(0)
            await self.client.close()
            with contextlib.suppress(UsageError):  # it had not begun when the client was closed
                await asyncio.wait_for(connecting, 5)

        self.run(self.client.disconnect())
        self.run(together())
        self.close_and_begin_anew()

    # --- what happens to the server

    @rule()
    def kill(self) -> None:
        # Whether there is a process to kill depends on time, so it must not decide which rules are drawn.
        if self.faulty.record.lives and alive(self.faulty.record.pid):
            self.faulty.kill()

    @rule()
    def stall(self) -> None:
        """The server stops reading."""
        gate = self.faulty.path(f"gate-{len(self.gates)}")
        self.gates.append(gate)
        self.run(outcome_of(self.client.call_tool("hold", {"until": str(gate)}, timeout=0.3)))

    @rule(count=st.integers(2, 6), timeout=st.sampled_from([0.05, 0.3]))
    def stall_under_load(self, count: int, timeout: float) -> None:
        """Let deadlines pass while the pipe is full: withdrawn calls must not be read later."""
        self.stall()
        self.call("echo", large=True, timeout=timeout, count=count)
        self.call("echo", large=False, timeout=timeout, count=count)

    @rule()
    def release(self) -> None:
        for gate in self.gates:
            gate.touch()

    # --- the laws

    @invariant()
    def the_status_is_one_truth(self) -> None:
        if hasattr(self, "client"):
            assert self.client.connected == (self.client.status.state in CONNECTED)

    def finish_calls(self) -> None:
        tasks, self.open_calls = self.open_calls, []
        if tasks:
            _, pending = self.run(asyncio.wait(tasks, timeout=25))
            assert not pending, f"{len(pending)} calls have no outcome"
        for task in tasks:
            assert (
                task.cancelled() or isinstance(task.result(), tc.ToolResult | ToolcribError) or cancelled(task.result())
            )

    def teardown(self) -> None:
        if not hasattr(self, "client"):
            return
        try:
            self.finish_calls()  # by their deadlines, while a stalled server still does not read
            self.release()
            self.run(self.ledger.call(self.client, timeout=20))  # the server has read all that it was given
            self.run(self.client.close())
            self.run(eventually(lambda: not self.faulty.living(), what="no child left"))
            assert asyncio.all_tasks(self.loop) == set(), "close has ended every task of the client"
            executed = self.faulty.record.executed
            self.ledger.check(executed)
            assert executed["after-close"] == 0
        finally:
            for pid in self.faulty.living():  # only after a failure: the next example starts with a clean table
                os.kill(pid, signal.SIGKILL)
            self.loop.close()
            shutil.rmtree(self.directory)


quick = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
long = settings(quick, max_examples=60, stateful_step_count=30, derandomize=False, print_blob=True)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)


@pytest.mark.timeout(400)  # room to shrink a failure
class TestOneClient(OneClient.TestCase):  # type: ignore[misc]
    settings = quick


@pytest.mark.nightly
@pytest.mark.timeout(1500)
class TestOneClientForLong(OneClient.TestCase):  # type: ignore[misc]
    settings = long


@pytest.mark.timeout(60)
def test_threads_that_call_and_disconnect_one_sync_client_never_get_stuck(tmp_path: Path) -> None:
    faulty = FaultyServer(tmp_path)
    ended = threading.Event()
    outcomes: Counter[str] = Counter()

    def repeat(operation: Callable[[], object]) -> None:
        while not ended.is_set():
            try:
                operation()
            except ToolcribError as exc:
                outcomes[type(exc).__name__] += 1
            else:
                outcomes["done"] += 1

    with sync.Client(faulty.server(), reconnect=FAST) as client:
        calls = [lambda: client.call_tool("echo", {"nonce": "n"}, timeout=5)] * 3
        threads = [threading.Thread(target=repeat, args=[each], daemon=True) for each in (*calls, client.disconnect)]
        for thread in threads:
            thread.start()
        until(lambda: faulty.record.lives >= 8, within=30, what="eight connections")
        ended.set()
        for thread in threads:
            thread.join(15)
        assert [thread for thread in threads if thread.is_alive()] == [], f"stuck after {outcomes}"
        assert client.call_tool("echo", {"nonce": "last"}, timeout=10).text == "last"
    until(lambda: not faulty.living(), what="no child left")


assert FAST.jitter_factor == 0, "the machine's steps are to be repeatable"
