"""The guard: it ends our servers when we are killed, and nobody else's."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.unit.kit import eventually
from tests.unit.transports.children import alive, run_program
from toolyard.transports.guard import Guard

# A program with two servers: one whose work is done by a grandchild behind a shell, and one that was let go.
PROGRAM = """
import asyncio, sys
from toolyard.transports.process import ServerProcess

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
    print(server.pid, grandchild.decode().strip(), flush=True)
    if sys.argv[1] == "stop":
        await server.stop(hurry=True)
        server.release()
        print("stopped", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

Start = Callable[[str], Any]


@pytest.fixture
def start() -> Iterator[Start]:
    programs: list[subprocess.Popen[str]] = []

    def run(what: str) -> tuple[subprocess.Popen[str], list[int]]:
        program = run_program(PROGRAM, what)
        programs.append(program)
        assert program.stdout is not None
        return program, [int(pid) for pid in program.stdout.readline().split()]

    yield run
    for program in programs:
        program.kill()
        program.communicate(timeout=10)


async def test_when_we_are_killed_the_whole_group_ends_however_stubborn(start: Start) -> None:
    """`kill -9` of the program: the shell ignores SIGTERM, the grandchild is nobody's direct child of ours."""
    program, servers = await asyncio.to_thread(start, "stay")
    assert all(map(alive, servers))
    program.kill()
    program.wait(timeout=10)
    await eventually(lambda: not any(map(alive, servers)), within=10)


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_to_the_whole_terminal_does_not_end_the_guard_before_its_work(
    start: Start, signal_: int
) -> None:
    program, servers = await asyncio.to_thread(start, "stay")
    for process in guards_of(servers[0]):
        process.send_signal(signal_)
    program.kill()
    program.wait(timeout=10)
    await eventually(lambda: not any(map(alive, servers)), within=10)


def guards_of(*servers: int) -> list[psutil.Process]:
    """Guards are nobody's children; they are found by their script."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        words = process.info["cmdline"] or []
        if len(words) > 2 and "while read -r verb group" in words[2] and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    assert found
    return found


async def test_the_guard_goes_when_the_program_does(start: Start) -> None:
    others = {process.pid for process in psutil.process_iter() if is_guard(process)}
    program, _ = await asyncio.to_thread(start, "stop")
    assert program.stdout is not None
    assert await asyncio.to_thread(program.stdout.readline) == "stopped\n"
    ours = {process.pid for process in psutil.process_iter() if is_guard(process)} - others
    assert ours
    program.kill()
    program.wait(timeout=10)
    await eventually(lambda: not any(map(alive, ours)), within=10)


def is_guard(process: psutil.Process) -> bool:
    try:
        return any("while read -r verb group" in word for word in process.cmdline())
    except psutil.Error:
        return False


class Bystander:
    """A group of its own that a guard may be told of."""

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


async def test_a_group_that_was_forgotten_is_left_alone(bystanders: list[Bystander]) -> None:
    watched, forgotten = bystanders
    guard = Guard()
    guard.watch(watched.pid)
    guard.watch(forgotten.pid)
    guard.forget(forgotten.pid)
    guard.forget(forgotten.pid)
    os.close(guard._pipe)  # type: ignore[arg-type]  # as the kernel does when we die
    await eventually(watched.gone)
    assert not forgotten.gone()


async def test_a_guard_that_somebody_ended_is_replaced_and_knows_all(bystanders: list[Bystander]) -> None:
    first, second = bystanders
    before = {process.pid for process in psutil.process_iter() if is_guard(process)}
    guard = Guard()
    guard.watch(first.pid)
    (made,) = [process for process in psutil.process_iter() if is_guard(process) and process.pid not in before]
    made.kill()
    await eventually(lambda: not alive(made.pid))
    guard.watch(second.pid)
    os.close(guard._pipe)  # type: ignore[arg-type]
    await eventually(lambda: first.gone() and second.gone())


async def test_in_a_forked_child_the_guard_is_the_parents(bystanders: list[Bystander]) -> None:
    guard = Guard()
    guard.watch(bystanders[0].pid)
    ours = os.dup(guard._pipe)  # type: ignore[arg-type]  # the parent's end
    guard.forsake()
    guard.forget(bystanders[0].pid)
    assert guard._pipe is None
    assert not bystanders[0].gone()
    os.close(ours)
    await eventually(bystanders[0].gone)
