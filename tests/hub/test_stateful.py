"""One hub, any order of add, remove, call, kill, cancel, refresh, reload and close, on real children: the laws hold."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import toolcrib as tc
from tests.faults.kit import (
    FAST,
    FaultyServer,
    Ledger,
    alive,
    alive_with,
    cancelled,
    eventually,
    impatient,
    outcome_of,
    succeeded,
)
from tests.hub.kit import Hub, bad
from toolcrib.types import ConnectionState

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "c")
HAND = ("x", "y")
WAYS: list[dict[str, Any]] = [{}, {"lifecycle": "transient"}, {"disconnect_idle_after": 0.02}, {"start": "lazy"}]


class OneHub(RuleBasedStateMachine):
    """Servers a, b, c come and go by the settings file, x and y by hand. Each has its own ledger."""

    @initialize(names=st.sets(st.sampled_from(NAMES)))
    def begin(self, names: set[str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="toolcrib-hub-"))
        self.faulty_servers: dict[str, FaultyServer] = {name: bad(self.directory, name) for name in (*NAMES, *HAND)}
        self.ledgers = {name: Ledger() for name in self.faulty_servers}
        self.loop = asyncio.new_event_loop()
        self.complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda loop, context: self.complaints.append(context))
        self.tasks: list[asyncio.Task[Any]] = []
        self.rounds = 0
        self.file = self.directory / ".mcp.json"
        self.write(names, None)
        self.hub = self.made()
        self.run(self.hub.start())

    def made(self) -> Hub:
        return Hub.from_config(self.file, reconnect=FAST)

    def write(self, names: set[str], changed: str | None) -> None:
        self.rounds += 1
        servers = {}
        for name in sorted(names):
            command, *arguments = self.faulty_servers[name].command()
            servers[name] = {"command": command, "args": arguments}
            if name == changed:
                servers[name]["env"] = {"ROUND": str(self.rounds)}
        self.file.write_text(json.dumps({"mcpServers": servers}))

    def run(self, coroutine: Coroutine[Any, Any, Any], bound: float = 30) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, bound))

    def background(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.tasks.append(self.loop.create_task(coroutine))
        self.run(asyncio.sleep(0))

    # --- what a user does

    async def nonced(self, name: str, tool: str, timeout: float) -> Any:
        ledger = self.ledgers[name]
        nonce = ledger.open()
        outcome = await outcome_of(self.hub.call_tool(f"mcp__{name}__{tool}", {"nonce": nonce}, timeout=timeout))
        ledger.outcomes[nonce].append(outcome)
        return outcome

    @rule(
        name=st.sampled_from((*NAMES, *HAND)),
        tool=st.sampled_from(["echo", "echo", "fail", "silent", "die"]),
        timeout=st.sampled_from([0.02, 0.3, 2.0]),
        count=st.integers(1, 5),
    )
    def call(self, name: str, tool: str, timeout: float, count: int) -> None:
        """Calls are begun and go on while other rules run."""
        for _ in range(count):
            self.background(self.nonced(name, tool, timeout))

    @rule(name=st.sampled_from(HAND), options=st.sampled_from(WAYS))
    def add(self, name: str, options: dict[str, Any]) -> None:
        self.background(outcome_of(self.hub.add_server(name, self.faulty_servers[name].server(), **options)))  # type: ignore[arg-type]

    @rule(name=st.sampled_from((*NAMES, *HAND)))
    def remove(self, name: str) -> None:
        self.background(outcome_of(self.hub.remove_server(name)))  # type: ignore[arg-type]

    @rule(names=st.sets(st.sampled_from(NAMES)), changed=st.none() | st.sampled_from(NAMES))
    def reload(self, names: set[str], changed: str | None) -> None:
        self.write(names, changed)
        self.background(self.hub.reload())

    @rule()
    def refresh(self) -> None:
        self.background(self.hub.refresh())

    @precondition(lambda self: self.tasks)
    @rule(which=st.integers(0, 99))
    def cancel(self, which: int) -> None:
        task = self.tasks[which % len(self.tasks)]
        task.cancel()
        self.run(asyncio.wait([task], timeout=5))
        assert task.done(), "who is cancelled is free at once"

    @rule(seconds=st.sampled_from([0.0, 0.02, 0.2]))
    def let_it_run(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule()
    def settle(self) -> None:
        """When all is quiet, every server that is there can be listed and called."""
        self.finish()
        for state in self.hub.list_servers():
            end = time.monotonic() + 20
            while not succeeded(outcome := self.run(self.nonced(state.name, "echo", 20))):
                assert time.monotonic() < end, outcome
                self.run(asyncio.sleep(0.01))
        here = {state.name for state in self.hub.list_servers()}
        assert {tool.server for tool in self.run(self.hub.list_tools())} == here
        self.run(eventually(lambda: self.at_home(here), what="one process a server, and none of those that went"))

    @rule()
    def close_and_begin_anew(self) -> None:
        self.run(self.hub.close())
        self.finish()
        self.run(eventually(lambda: not self.living(), what="no child after close"))
        self.hub = self.made()
        self.run(self.hub.start())

    # --- what happens to servers

    @rule(name=st.sampled_from((*NAMES, *HAND)))
    def kill(self, name: str) -> None:
        faulty = self.faulty_servers[name]
        if faulty.record.lives and alive(faulty.record.pid):
            faulty.kill()

    # --- the laws

    @invariant()
    def states_and_lists_are_one_truth(self) -> None:
        if hasattr(self, "hub"):
            states = self.hub.list_servers()
            assert len({state.name for state in states}) == len(states)
            for state in states:
                assert all(tool.server == state.name for tool in state.tools)
                assert state.status.state is not ConnectionState.DISABLED

    def living(self) -> list[int]:
        return alive_with(str(self.directory))

    def at_home(self, here: set[str]) -> bool:
        if len(self.living()) > len(here):
            return False
        return all(len(faulty.living()) <= (name in here) for name, faulty in self.faulty_servers.items())

    def finish(self) -> None:
        tasks, self.tasks = self.tasks, []
        if tasks:
            _, pending = self.run(asyncio.wait(tasks, timeout=25))
            assert not pending, f"{len(pending)} have no outcome: {pending}"
        for task in tasks:
            error = None if task.cancelled() else task.exception()
            assert error is None or isinstance(error, tc.ToolcribError | tc.UsageError) or cancelled(error), error

    def teardown(self) -> None:
        if not hasattr(self, "hub"):
            return
        try:
            self.finish()
            self.run(self.hub.close())
            self.run(eventually(lambda: not self.living(), what="no child left"))
            assert asyncio.all_tasks(self.loop) == set(), "closing has ended every task of the hub"
            assert self.complaints == [], "nothing was left undone"
            for name, ledger in self.ledgers.items():
                ledger.check(self.faulty_servers[name].record.executed)
        finally:
            for pid in self.living():  # only after a failure: the next example starts with a clean table
                os.kill(pid, signal.SIGKILL)
            self.loop.close()
            shutil.rmtree(self.directory)


quick = settings(
    max_examples=12,
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
class TestOneHub(OneHub.TestCase):  # type: ignore[misc]
    settings = quick


@pytest.mark.nightly
@pytest.mark.timeout(1500)
class TestOneHubForLong(OneHub.TestCase):  # type: ignore[misc]
    settings = long
