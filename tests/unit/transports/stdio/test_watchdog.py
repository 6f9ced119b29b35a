"""The watchdog: it ends the servers of a killed process, and no other processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.unit.kit import eventually
from tests.unit.transports.children import alive, run_program
from toolcrib.transports.stdio import watchdog as guarding
from toolcrib.transports.stdio.watchdog import Watchdog

# A program with two servers: one that was released, and one that ignores SIGTERM and has a child.
PROGRAM = """
import asyncio, os, sys
from toolcrib.transports.stdio.watchdog import guard
from toolcrib.transports.stdio.process import ServerProcess

async def main():
    def spawn(*words):
        return ServerProcess.spawn("sh", ["-c", *words], env=None, cwd=None, on_exit=lambda: None)

    gone = spawn("cat")
    await gone.stop()
    gone.release()
    server = spawn("sleep 1000 & echo $!; trap '' TERM; while :; do sleep 1000; done")
    grandchild = b""
    while not grandchild.endswith(b"\\n"):
        grandchild += server.stdout.read() or b""
        await asyncio.sleep(0.001)
    print(os.fstat(guard._pipe).st_ino, server.pid, grandchild.decode().strip(), flush=True)
    if sys.argv[1] == "stop":
        await server.stop(force=True)
        server.release()
        print("stopped", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

Start = Callable[[str], Any]
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="the watchdog is found through /proc")


async def guard_at(pipe: int) -> int:
    """Wait for the process that reads from the pipe with this inode.

    The shell that starts the guard ends as soon as it has forked; the guard attaches its stdin a moment later.
    """

    def reads(pid: int) -> bool:
        try:
            return os.stat(f"/proc/{pid}/fd/0").st_ino == pipe
        except OSError:
            return False

    (found,) = await eventually(lambda: list(filter(reads, psutil.pids())))
    return int(found)


@pytest.fixture
def start() -> Iterator[Start]:
    programs: list[subprocess.Popen[str]] = []

    def run(what: str) -> tuple[subprocess.Popen[str], int, list[int]]:
        program = run_program(PROGRAM, what)
        programs.append(program)
        assert program.stdout is not None
        pipe, *servers = (int(word) for word in program.stdout.readline().split())
        return program, pipe, servers

    yield run
    for program in programs:
        program.kill()
        program.communicate(timeout=10)


async def test_when_we_are_killed_the_whole_group_ends_however_stubborn(start: Start) -> None:
    """`kill -9` of the program: the shell ignores SIGTERM, and the server is a grandchild."""
    program, _, servers = await asyncio.to_thread(start, "stay")
    assert all(map(alive, servers))
    program.kill()
    program.wait(timeout=10)
    await eventually(lambda: not any(map(alive, servers)))


@needs_proc
async def test_signals_to_the_process_group_do_not_end_the_guard_before_its_work(start: Start) -> None:
    program, pipe, servers = await asyncio.to_thread(start, "stay")
    guard = await guard_at(pipe)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(guard, each)
    program.kill()
    program.wait(timeout=10)
    await eventually(lambda: not any(map(alive, servers)))


@needs_proc
async def test_the_guard_goes_with_the_program_and_is_not_its_child(start: Start) -> None:
    program, pipe, _ = await asyncio.to_thread(start, "stop")
    assert program.stdout is not None
    assert await asyncio.to_thread(program.stdout.readline) == "stopped\n"
    guard = await guard_at(pipe)
    assert guard not in [child.pid for child in psutil.Process(program.pid).children(recursive=True)]
    assert os.getsid(guard) != os.getsid(program.pid)
    program.kill()
    program.wait(timeout=10)
    await eventually(lambda: not alive(guard))


# The first server of a program, which is killed in the moment in which the server's process exists.
KILLED_WHILE_STARTING = """
import asyncio, os, signal, subprocess, sys
from toolcrib.transports.stdio.process import ServerProcess

class Popen(subprocess.Popen):
    def __init__(self, command, **options):
        super().__init__(command, **options)
        if options.get("start_new_session") and command[0] == "sh":
            print(self.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

subprocess.Popen = Popen

async def main():
    stubborn = "trap '' TERM HUP; while :; do sleep 1000; done"
    ServerProcess.spawn("sh", ["-c", stubborn], env=None, cwd=None, on_exit=lambda: None)

asyncio.run(main())
"""


@needs_proc
async def test_when_we_are_killed_while_a_server_is_being_started_it_ends_too() -> None:
    """The server ignores SIGTERM and the end of its stdin, and its group is not registered yet."""
    program = run_program(KILLED_WHILE_STARTING)
    out, err = await asyncio.to_thread(program.communicate)
    assert program.returncode == -signal.SIGKILL, err
    server = int(out)
    try:
        await eventually(lambda: not alive(server))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server, signal.SIGKILL)


@needs_proc
async def test_a_server_that_could_not_be_started_is_no_longer_expected(bystanders: list[Bystander]) -> None:
    guard = Watchdog()
    theirs, ours = os.pipe()
    stranger = subprocess.Popen(["sleep", "1000"], stdin=theirs, start_new_session=True)
    try:
        guard.watch(bystanders[0].pid)
        guard.expect(os.fstat(theirs).st_ino)
        guard.forget_pipe(os.fstat(theirs).st_ino)
        os.close(pipe_of(guard))
        await eventually(bystanders[0].gone)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        os.close(theirs)
        os.close(ours)


class Bystander:
    """A separate process group that can be registered with a watchdog."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.pid = self.process.pid

    def gone(self) -> bool:
        return self.process.poll() is not None


@pytest.fixture
def bystanders() -> Iterator[list[Bystander]]:
    both = [Bystander(), Bystander()]
    yield both
    for each in both:
        each.process.kill()
        each.process.wait()


def pipe_of(guard: Watchdog) -> int:
    assert guard._pipe is not None
    return guard._pipe


async def test_a_group_that_was_forgotten_is_left_alone(bystanders: list[Bystander]) -> None:
    watched, forgotten = bystanders
    guard = Watchdog()
    guard.watch(watched.pid)
    guard.watch(forgotten.pid)
    guard.forget(forgotten.pid)
    guard.forget(forgotten.pid)
    os.close(pipe_of(guard))  # as the kernel does when we die
    await eventually(watched.gone)
    assert not forgotten.gone()


async def ended_guard(group: int) -> Watchdog:
    """Return a watchdog of this group whose process was killed."""
    guard = Watchdog()
    guard.watch(group)
    process = await guard_at(os.fstat(pipe_of(guard)).st_ino)
    os.kill(process, signal.SIGKILL)
    await eventually(lambda: not alive(process))
    return guard


@needs_proc
async def test_a_guard_that_was_killed_is_replaced_and_knows_all_processes(bystanders: list[Bystander]) -> None:
    first, second = bystanders
    guard = await ended_guard(first.pid)
    guard.watch(second.pid)
    os.close(pipe_of(guard))
    await eventually(lambda: first.gone() and second.gone())


@needs_proc
async def test_a_process_can_be_forgotten_after_the_guard_was_killed(bystanders: list[Bystander]) -> None:
    first, second = bystanders
    guard = await ended_guard(first.pid)
    guard.forget(first.pid)
    guard.watch(second.pid)
    os.close(pipe_of(guard))
    await eventually(second.gone)
    assert not first.gone(), "it was removed, and the next watchdog did not get it"


@contextlib.contextmanager
def no_more_descriptors() -> Iterator[None]:
    """Make every new descriptor fail; open ones stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def no_shell() -> Iterator[None]:
    """A shell that fails: the start is an error of `subprocess`, not of the system."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guarding, "_SCRIPT", "exit 3")
        yield


@pytest.mark.parametrize("without", [no_more_descriptors, no_shell])
async def test_a_guard_that_cannot_start_is_reported_costs_nothing_and_is_retried_with_the_next_server(
    without: Any, bystanders: list[Bystander], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = bystanders
    guard, descriptors = Watchdog(), len(os.listdir("/dev/fd"))
    with without():
        guard.watch(first.pid)
    assert "servers will be orphaned if this process is killed" in caplog.text
    assert len(os.listdir("/dev/fd")) == descriptors
    guard.watch(second.pid)
    os.close(pipe_of(guard))
    await eventually(lambda: first.gone() and second.gone())


async def test_a_process_that_no_guard_knows_can_be_forgotten(bystanders: list[Bystander]) -> None:
    first, second = bystanders
    guard = Watchdog()
    with no_shell():
        guard.watch(first.pid)
        guard.forget(first.pid)
    guard.watch(second.pid)
    os.close(pipe_of(guard))
    await eventually(second.gone)
    assert not first.gone()


async def test_in_a_forked_child_the_guard_is_the_parents(bystanders: list[Bystander]) -> None:
    guard = Watchdog()
    guard.watch(bystanders[0].pid)
    the_parents = os.dup(pipe_of(guard))
    guard.detach()
    guard.forget(bystanders[0].pid)
    assert guard._pipe is None
    assert not bystanders[0].gone()
    os.close(the_parents)
    await eventually(bystanders[0].gone)
