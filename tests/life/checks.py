"""The checks of the life test: deadlines, outcomes, executions, CPU use, and leaks."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

MARGIN = 5.0
"""Seconds that an operation may take longer than its own deadline."""
SETTLING = 5.0
"""Seconds that what a phase used has to go away after it was closed."""
IDLE = 0.2
MAX_IDLE_CPU = 0.5
"""Share of a core that an idle process may use."""
KEPT_OPERATIONS = 50


class Broken(Exception):
    """A promise of the library does not hold."""


class Complaints(logging.Handler):
    """What Python itself reports: exceptions never retrieved, coroutines never awaited, sessions left open."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._found: list[str] = []
        logging.getLogger("asyncio").addHandler(self)
        warnings.simplefilter("always", ResourceWarning)
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = lambda message, *_, **__: self._found.append(f"warning: {message}")
        sys.unraisablehook = lambda args: self._found.append(f"unraisable: {args.exc_value!r} in {args.object!r:.200}")
        threading.excepthook = lambda args: self._found.append(f"in {args.thread}: {args.exc_value!r}")

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(self.format(record))

    def check(self) -> None:
        gc.collect()
        if self._found:
            raise Broken(f"{len(self._found)} complaints of Python, the first one: {self._found[0]}")


class Journal:
    """The operations of a run: the last ones in words, all of them as counts."""

    def __init__(self) -> None:
        self.last: deque[str] = deque(maxlen=KEPT_OPERATIONS)
        self.operations: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def note(self, text: str) -> None:
        with self._lock:
            self.last.append(f"{time.monotonic() - self._began:9.3f} {text}")

    def count(self, kind: str, outcome: str) -> None:
        with self._lock:
            self.operations[kind] += 1
            self.outcomes[kind, outcome] += 1

    def table(self) -> str:
        lines = [f"{'operation':<28}{'count':>8}  outcomes"]
        for kind, count in sorted(self.operations.items()):
            outcomes = sorted(((n, name) for (of, name), n in self.outcomes.items() if of == kind), reverse=True)
            lines.append(f"{kind:<28}{count:>8}  {', '.join(f'{name} {n}' for n, name in outcomes)}")
        lines.append(f"{'all':<28}{sum(self.operations.values()):>8}")
        return "\n".join(lines)


class Watchdog:
    """A thread that ends the process, with all stacks printed, if an operation does not end in time."""

    def __init__(self, journal: Journal, on_hang: Any) -> None:
        self._journal = journal
        self._on_hang = on_hang
        self._running: dict[int, tuple[str, float]] = {}
        self._lock = threading.Lock()
        self._last = 0
        self.loops: list[asyncio.AbstractEventLoop] = []
        threading.Thread(target=self._watch, name="life-watchdog", daemon=True).start()

    @contextlib.contextmanager
    def watch(self, what: str, limit: float) -> Iterator[None]:
        """The body ends within `limit` seconds and the margin."""
        with self._lock:
            self._last += 1
            key = self._last
            self._running[key] = (what, time.monotonic() + limit + MARGIN)
        try:
            yield
        finally:
            with self._lock:
                del self._running[key]

    def _watch(self) -> None:
        while True:
            time.sleep(0.2)
            now = time.monotonic()
            with self._lock:
                late = [what for what, due in self._running.values() if now > due]
            if late:
                self._bark(late)

    def _bark(self, late: list[str]) -> None:
        before = time.process_time()
        time.sleep(0.5)
        used = (time.process_time() - before) / 0.5
        sys.stderr.write(f"\nHANG: {len(late)} operations are overdue: {'; '.join(late)}\n")
        sys.stderr.write(f"The process uses {used:.0%} of a core meanwhile.\n\n")
        sys.stderr.flush()
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        for loop in self.loops:
            with contextlib.suppress(RuntimeError):
                for task in asyncio.all_tasks(loop):
                    sys.stderr.write(f"\n{task!r:.300}\n")
                    task.print_stack(limit=6, file=sys.stderr)
        self._on_hang(f"{late[0]} did not end in time")


@dataclass
class Ledger:
    """Records every call with a unique nonce, for comparison with the executions of the server."""

    path: Path
    outcomes: dict[str, list[Any]] = field(default_factory=dict)
    repeatable: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, prefix: str, *, repeatable: bool = False) -> str:
        with self._lock:
            nonce = f"{prefix}-{len(self.outcomes)}"
            self.outcomes[nonce] = []
            if repeatable:
                self.repeatable.add(nonce)
            return nonce

    def close(self, nonce: str, outcome: Any) -> None:
        self.outcomes[nonce].append(outcome)

    def check(self) -> None:
        """Compare calls and executions, after all servers have ended."""
        text = self.path.read_text() if self.path.exists() else ""
        # A nonce alone on its line, or as the bad server writes it among other things.
        executed = Counter(line.removeprefix("call ") for line in text.splitlines())
        for nonce, outcomes in self.outcomes.items():
            times = executed[nonce]
            if len(outcomes) != 1:
                raise Broken(f"the call {nonce} had {len(outcomes)} outcomes: {outcomes!r}")
            outcome = outcomes[0]
            if times > 1 and nonce not in self.repeatable:
                raise Broken(f"the call {nonce} was executed {times} times; its outcome was {outcome!r}")
            if getattr(outcome, "sent", None) is False and times:
                raise Broken(f"the call {nonce} was executed, but its error says sent=False: {outcome!r}")
            if not isinstance(outcome, BaseException):
                if not times:
                    raise Broken(f"the call {nonce} has a result and was never executed")
                if not outcome.is_error and nonce not in outcome.text:
                    raise Broken(f"the call {nonce} got the answer of another one: {outcome.text!r:.100}")


@dataclass(frozen=True)
class Possessions:
    """What this process holds: threads, descriptors, children."""

    threads: frozenset[str]
    descriptors: int
    children: frozenset[int]

    @classmethod
    def now(cls) -> Possessions:
        me = psutil.Process()
        living = [each for each in me.children(recursive=True) if _lives(each)]
        return cls(
            frozenset(f"{each.name}-{each.ident}" for each in threading.enumerate()),
            len(os.listdir("/proc/self/fd")),
            frozenset(each.pid for each in living),
        )

    def beyond(self, before: Possessions) -> str:
        """What there is more than before; empty if nothing."""
        parts = []
        if more := self.threads - before.threads:
            parts.append(f"threads {', '.join(sorted(more))}")
        if self.descriptors > before.descriptors:
            parts.append(f"{self.descriptors - before.descriptors} descriptors ({_descriptors()})")
        if more_children := self.children - before.children:
            parts.append(f"processes {', '.join(map(_described, more_children))}")
        return "; ".join(parts)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _described(pid: int) -> str:
    try:
        return f"{pid} ({' '.join(psutil.Process(pid).cmdline())[:100]})"
    except psutil.NoSuchProcess:
        return str(pid)


def _descriptors() -> str:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(f"{name}:{os.readlink(f'/proc/self/fd/{name}')}")
    return ", ".join(found)


def settled(before: Possessions) -> None:
    """Wait until there is nothing more than before."""
    end = time.monotonic() + SETTLING
    while left := Possessions.now().beyond(before):
        if time.monotonic() > end:
            raise Broken(f"left behind: {left}")
        time.sleep(0.05)


async def no_tasks_left() -> None:
    """Wait until this task is the only one of its loop."""
    end = time.monotonic() + SETTLING
    me = asyncio.current_task()
    while left := {task for task in asyncio.all_tasks() if task is not me}:
        if time.monotonic() > end:
            raise Broken(f"{len(left)} tasks left: {[f'{task!r:.300}' for task in left]}")
        await asyncio.sleep(0.02)


async def idles() -> None:
    """Do nothing for a moment, and see that nothing else is done either."""
    before, began = time.process_time(), time.monotonic()
    await asyncio.sleep(IDLE)
    _judge(time.process_time() - before, time.monotonic() - began)


def idles_in_threads() -> None:
    """The same for code without an event loop."""
    before, began = time.process_time(), time.monotonic()
    time.sleep(IDLE)
    _judge(time.process_time() - before, time.monotonic() - began)


def _judge(cpu: float, wall: float) -> None:
    if cpu > wall * MAX_IDLE_CPU:
        raise Broken(f"{cpu:.2f} s of CPU in {wall:.2f} s of idleness")
