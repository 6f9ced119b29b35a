"""Helpers of the fault tests: the bad server as a config, its log, bounded polling, a ledger of outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest import mock

import psutil
import pytest

import toolcrib as tc
from toolcrib.errors import ToolcribError, TransportError
from toolcrib.transports.stdio import process

BAD_SERVER = str(Path(__file__).with_name("bad_server.py"))
FAST = tc.ReconnectPolicy(base_delay=0.01, max_delay=0.2, max_retries=3, jitter_factor=0.0)
BIG = "b" * 300_000  # more than any pipe holds
ERAS = ("legacy", "modern")

either_era = pytest.mark.parametrize("era", ["modern", pytest.param("legacy", marks=pytest.mark.nightly)])
"""For a test of what does not depend on the era of the protocol: with the legacy one it runs nightly."""


def matrix(common: Iterable[Any], rest: Iterable[Any]) -> list[Any]:
    """Return parameters for `parametrize`: the common ones run for every change, the rest nightly."""
    return [*common, *(pytest.param(each, marks=pytest.mark.nightly) for each in rest)]


def by_era(names: Iterable[str], both: Iterable[str] = ()) -> list[Any]:
    """Return parameters "name, era": each name in the modern era, those of `both` also in the legacy."""
    both = {*both}
    return [
        pytest.param(name, era, marks=[] if era == "modern" or name in both else pytest.mark.nightly)
        for name in names
        for era in ERAS
    ]


def own_tasks() -> list[asyncio.Task[Any]]:
    """Return the running tasks of Toolcrib: not those of the tests, whatever the folder of the project is called."""
    package = f"{Path(tc.__file__).parent}/"
    return [task for task in asyncio.all_tasks() if package in repr(task)]


async def eventually(condition: Callable[[], Any], within: float = 5.0, what: str = "") -> Any:
    """Wait until the condition is true, and return its value."""
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {within} s: {what or condition}"
        await asyncio.sleep(0.005)
    return value


async def succeeds(call: Callable[[], Awaitable[tc.ToolResult]], within: float = 20.0) -> tc.ToolResult:
    """Repeat a call until there is a result."""
    end = time.monotonic() + within
    while not isinstance(outcome := await outcome_of(call()), tc.ToolResult):
        assert time.monotonic() < end, f"no result within {within} s: {outcome!r}"
        await asyncio.sleep(0.005)
    return outcome


NOISE = ("Traceback", "Exception ignored", "never retrieved", "was destroyed", "never awaited", "Warning")


def noise_in(stderr: str) -> list[str]:
    """Return the warnings about unfinished work in a program's output."""
    return [sign for sign in NOISE if sign in stderr]


def until(condition: Callable[[], Any], within: float = 5.0, what: str = "") -> Any:
    """Wait until the condition is true, without an event loop."""
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {within} s: {what or condition}"
        time.sleep(0.005)
    return value


def impatient(patch: pytest.MonkeyPatch) -> None:
    """Shorten the time that servers get to end, so that the test is fast."""
    patch.setattr(process, "SHUTDOWN_GRACE_SECONDS", 0.2)


def lucky(patch: pytest.MonkeyPatch) -> None:
    """Make random numbers 0, so that the wait before the next attempt at a call takes no time."""
    patch.setattr(random, "random", lambda: 0.0)


def alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def alive_with(mark: str) -> list[int]:
    """Return every running process, child or orphan, with this text in its command line."""
    found = []
    for each in psutil.process_iter(["pid", "cmdline", "status"]):
        words = each.info["cmdline"] or []
        if each.info["status"] != psutil.STATUS_ZOMBIE and any(mark in word for word in words):
            found.append(each.info["pid"])
    return found


class Children:
    """The processes that a test starts, found by a text in their command lines; for the check after every test.

    A server that a client started leads its own process group, with its descendants: if that group is empty, nothing is
    left. All processes of the machine are checked, which takes a hundred times as long, only if a group is not empty or
    if a program of the test could have started servers.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self._groups: list[int] = []
        self._has_programs = False

    @contextlib.contextmanager
    def recorded(self) -> Iterator[Self]:
        start = subprocess.Popen.__init__

        def start_and_record(popen: subprocess.Popen[Any], args: Any, *rest: Any, **options: Any) -> None:
            start(popen, args, *rest, **options)
            if self.mark in " ".join(map(str, args)):
                if options.get("start_new_session"):
                    self._groups.append(popen.pid)
                else:
                    self._has_programs = True

        with mock.patch.object(subprocess.Popen, "__init__", start_and_record):
            yield self

    def living(self) -> list[int]:
        self._groups = [*filter(has_members, self._groups)]
        return alive_with(self.mark) if self._groups or self._has_programs else []


def has_members(group: int) -> bool:
    """Return whether a process group has a process, including zombies."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def assert_nothing_undone(caplog: pytest.LogCaptureFixture) -> None:
    """Fail if asyncio logged an error, such as an exception that was never retrieved."""
    gc.collect()  # asyncio logs it when the task is collected
    complaints = [record for record in (*caplog.get_records("call"), *caplog.records) if record.name == "asyncio"]
    assert [record.getMessage() for record in complaints if record.levelno >= logging.ERROR] == []


@contextlib.contextmanager
def frozen_garbage() -> Iterator[None]:
    """Exclude loaded objects from garbage collection, so that a collection after every test is fast."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def run_python(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Run a separate Python with warnings as errors, for tests of a whole process."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@dataclass
class Record:
    """The log of a bad server over all its lives."""

    path: Path

    def entries(self, kind: str) -> list[str]:
        if not self.path.exists():
            return []
        lines = self.path.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == kind]

    @property
    def lives(self) -> int:
        return len(self.entries("start"))

    @property
    def pid(self) -> int:
        """The process id of the latest life."""
        return int(self.entries("start")[-1])

    @property
    def children(self) -> list[int]:
        return [int(pid) for pid in self.entries("child")]

    @property
    def executed(self) -> Counter[str]:
        return Counter(self.entries("call"))


@dataclass
class FaultyServer:
    """One test's bad server: `server()` configures it, `record` has its actions in `directory`."""

    directory: Path
    record: Record = field(init=False)

    def __post_init__(self) -> None:
        self.record = Record(self.directory / "log.txt")

    def command(self, **script: Any) -> list[str]:
        script = {"log": str(self.record.path), **script}
        return [sys.executable, "-S", "-E", BAD_SERVER, json.dumps(script)]

    def server(self, *, env: dict[str, str] | None = None, **script: Any) -> tc.StdioServer:
        command, *arguments = self.command(**script)
        return tc.StdioServer(command, arguments, env=env or {})

    def wrapped_server(self, **script: Any) -> tc.StdioServer:
        """Return the config of the server behind a shell that keeps running: the server is a grandchild."""
        command = self.command(**script)
        return tc.StdioServer("sh", ["-c", '"$@"; exit $?', "sh", *command])

    def client(self, *, options: dict[str, Any] | None = None, **script: Any) -> tc.Client:
        return tc.Client(self.server(**script), **{"reconnect": FAST, **(options or {})})

    def path(self, name: str) -> Path:
        return self.directory / name

    def kill(self) -> None:
        os.kill(self.record.pid, signal.SIGKILL)

    def living(self) -> list[int]:
        return alive_with(str(self.record.path))


Outcome = tc.ToolResult | BaseException


async def outcome_of(call: Awaitable[tc.ToolResult]) -> Outcome:
    """Return the outcome of a call; any other exception is a bug and propagates."""
    try:
        return await call
    except (ToolcribError, asyncio.CancelledError) as exc:
        return exc


@dataclass
class Ledger:
    """Every call by its nonce with its outcomes, to be compared with the calls that the server executed."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)

    def open(self) -> str:
        nonce = f"n{len(self.outcomes)}"
        self.outcomes[nonce] = []
        return nonce

    async def call(
        self, client: tc.Client, tool: str = "echo", *, timeout: float | None = 10, **arguments: Any
    ) -> Outcome:
        nonce = self.open()
        outcome = await outcome_of(client.call_tool(tool, {"nonce": nonce, **arguments}, timeout=timeout))
        self.outcomes[nonce].append(outcome)
        return outcome

    def count(self, judge: Callable[[Outcome], bool]) -> int:
        return sum(judge(outcome) for outcomes in self.outcomes.values() for outcome in outcomes)

    def check(self, executed: Counter[str]) -> None:
        for nonce, outcomes in self.outcomes.items():
            times = executed[nonce]
            assert len(outcomes) == 1, f"{nonce} had {len(outcomes)} outcomes: {outcomes}"
            outcome = outcomes[0]
            assert times <= 1, f"{nonce} ran {times} times: {outcome!r}"
            if isinstance(outcome, tc.ToolResult):
                assert times == 1, f"{nonce} has a result and never ran"
                assert outcome.text == nonce, f"{nonce} got the answer of {outcome.text}"
            elif surely_unsent(outcome):
                assert times == 0, f"{nonce} was reported as unsent and ran: {outcome!r}"


def surely_unsent(outcome: Outcome) -> bool:
    return isinstance(outcome, ToolcribError) and outcome.sent is False


def perhaps_sent(outcome: Outcome) -> bool:
    return isinstance(outcome, TransportError) and outcome.sent is True


def succeeded(outcome: Outcome) -> bool:
    return isinstance(outcome, tc.ToolResult) and not outcome.is_error


def cancelled(outcome: Outcome) -> bool:
    return isinstance(outcome, asyncio.CancelledError)
