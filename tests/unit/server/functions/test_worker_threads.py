"""Threads for blocking functions: how many, for which tools, and what happens to abandoned work."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.kit import eventually
from toolcrib.server.functions import worker_threads
from toolcrib.server.functions.worker_threads import Workers, in_thread

PATIENCE = 10
who = contextvars.ContextVar("who", default="nobody")


class Bench:
    """Work items that start, and end when the test releases them."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.threads: dict[str, threading.Thread] = {}
        self._gates: dict[str, threading.Event] = {}

    def piece(self, name: str) -> Callable[[], None]:
        self._gates[name] = threading.Event()

        def work() -> None:
            self.threads[name] = threading.current_thread()
            self.begun.append(name)
            assert self._gates[name].wait(PATIENCE)
            self.ended.append(name)

        return work

    def let_go(self, *names: str) -> None:
        for name in names or tuple(self._gates):
            self._gates[name].set()


@pytest.fixture
def bench() -> Any:
    bench = Bench()
    yield bench
    bench.let_go()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    """Two threads for all tools of the test."""
    workers = Workers(2)
    monkeypatch.setattr(worker_threads, "_workers", workers)
    return workers


# ---- how many ------------------------------------------------------------------------------------------------


async def test_work_that_arrives_while_all_threads_are_busy_waits_and_runs_in_order(bench: Bench) -> None:
    workers = Workers(2)
    for name in "abcd":
        workers.submit(bench.piece(name))
    await eventually(lambda: len(bench.begun) == 2)
    assert sorted(bench.begun) == ["a", "b"]
    bench.let_go("a")
    await eventually(lambda: "c" in bench.begun)
    assert "d" not in bench.begun
    bench.let_go()
    await eventually(lambda: sorted(bench.ended) == ["a", "b", "c", "d"])
    assert len(set(bench.threads.values())) == 2


async def test_a_free_thread_is_used_again_before_another_is_made(bench: Bench) -> None:
    workers = Workers(8)
    for name in "abcde":
        workers.submit(bench.piece(name))
        bench.let_go(name)
        await eventually(lambda: bench.ended[-1:] == [name] and workers._waiting == 1)  # noqa: B023
    assert len(set(bench.threads.values())) == 1


async def test_two_pieces_at_once_never_wait_for_the_same_free_thread(bench: Bench) -> None:
    workers = Workers(8)
    workers.submit(bench.piece("first"))
    bench.let_go("first")
    await eventually(lambda: workers._waiting == 1)
    workers.submit(bench.piece("a"))
    workers.submit(bench.piece("b"))
    await eventually(lambda: sorted(bench.begun[1:]) == ["a", "b"])


async def test_threads_do_not_keep_the_program_from_ending(bench: Bench) -> None:
    Workers(1).submit(bench.piece("a"))
    await eventually(lambda: bench.begun)
    assert bench.threads["a"].daemon
    assert bench.threads["a"].name.startswith("toolcrib-tool-")


async def test_nothing_of_a_piece_of_work_is_held_until_the_next_one_comes() -> None:
    workers, done = Workers(1), threading.Event()

    def piece() -> None:
        done.set()

    held = weakref.ref(piece)
    workers.submit(piece)
    assert await asyncio.to_thread(done.wait, PATIENCE)
    del piece
    await eventually(lambda: gc.collect() >= 0 and held() is None)


# ---- lent ----------------------------------------------------------------------------------------------------


async def test_while_a_thread_only_waits_another_works_in_its_place(bench: Bench) -> None:
    workers, inner = Workers(1), bench.piece("lends")

    def lends() -> None:
        with workers.lend():
            inner()

    workers.submit(lends)
    workers.submit(bench.piece("a"))  # whether it comes before the other has lent its place or after it
    await eventually(lambda: sorted(bench.begun) == ["a", "lends"])
    workers.submit(bench.piece("b"))
    bench.let_go("a")
    await eventually(lambda: "b" in bench.begun)
    assert "lends" not in bench.ended


async def test_what_waited_for_a_thread_goes_at_once_when_one_is_lent(bench: Bench) -> None:
    workers, lend = Workers(1), threading.Event()
    inner = bench.piece("lends")

    def lends() -> None:
        assert lend.wait(PATIENCE)
        with workers.lend():
            inner()

    workers.submit(lends)
    workers.submit(bench.piece("a"))
    await eventually(lambda: workers._count == 1 and len(workers._queue) == 1)
    lend.set()
    await eventually(lambda: "a" in bench.begun)
    assert "lends" not in bench.ended


async def test_an_extra_thread_ends_when_the_waiting_one_is_back(bench: Bench) -> None:
    workers, inner, outer = Workers(1), bench.piece("waits"), bench.piece("works on")

    def lends() -> None:
        with workers.lend():
            inner()
        outer()

    workers.submit(lends)
    workers.submit(bench.piece("a"))
    await eventually(lambda: sorted(bench.begun) == ["a", "waits"])
    bench.let_go("waits")
    await eventually(lambda: "works on" in bench.begun)
    bench.let_go("a")
    await eventually(lambda: not bench.threads["a"].is_alive())
    assert (workers._count, workers._limit) == (1, 1)
    bench.let_go("works on")
    workers.submit(bench.piece("b"))
    await eventually(lambda: "b" in bench.begun)
    assert bench.threads["b"] is bench.threads["waits"]


async def test_a_thread_too_many_ends_also_while_there_is_work(bench: Bench) -> None:
    workers, inner, outer = Workers(1), bench.piece("waits"), bench.piece("works on")

    def lends() -> None:
        with workers.lend():
            inner()
        outer()

    workers.submit(lends)
    workers.submit(bench.piece("a"))
    await eventually(lambda: sorted(bench.begun) == ["a", "waits"])
    workers.submit(bench.piece("b"))
    bench.let_go("waits")
    await eventually(lambda: "works on" in bench.begun)
    bench.let_go("a")
    await eventually(lambda: not bench.threads["a"].is_alive() or "b" in bench.begun)
    assert "b" not in bench.begun, "there is one thread, and it is busy"
    bench.let_go("works on")
    await eventually(lambda: "b" in bench.begun)


async def test_a_lent_thread_is_given_back_also_by_an_exception() -> None:
    workers = Workers(3)
    with pytest.raises(KeyError), workers.lend():
        raise KeyError
    assert workers._limit == 3


# ---- from a loop ---------------------------------------------------------------------------------------------


async def test_a_function_gets_its_arguments_and_gives_its_value_on_another_thread() -> None:
    def function(a: int, b: int) -> tuple[int, int]:
        return a - b, threading.get_ident()

    value, thread = await in_thread(function, 5, 3)
    assert value == 2
    assert thread != threading.get_ident()


async def test_a_function_sees_the_caller_s_context_variables_and_changes_only_its_own() -> None:
    def function() -> str:
        seen = who.get()
        who.set("the function")
        return seen

    token = who.set("the caller")
    try:
        assert await in_thread(function) == "the caller"
        assert who.get() == "the caller"
    finally:
        who.reset(token)
    assert await in_thread(function) == "nobody"


class Odd(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, StopIteration, StopAsyncIteration, SystemExit, KeyboardInterrupt, Odd])
async def test_whatever_a_function_raises_is_raised_where_it_is_awaited(kind: type[BaseException]) -> None:
    def function() -> None:
        raise kind("here")

    async def call() -> str:
        try:
            await in_thread(function)
        except BaseException as exc:  # noqa: BLE001  # a task of the loop must not end by KeyboardInterrupt
            return repr(exc)
        return "nothing"

    # Python itself turns a StopIteration that leaves a coroutine into a RuntimeError.
    expected = "RuntimeError(" if kind is StopIteration else f"{kind.__name__}('here')"
    async with asyncio.timeout(PATIENCE):
        assert (await call()).startswith(expected)
    assert await in_thread(str, 5) == "5", "the thread lives on"


async def test_a_cancelled_function_that_waited_for_a_thread_never_runs(workers: Workers, bench: Bench) -> None:
    busy = [asyncio.create_task(in_thread(bench.piece(name))) for name in "ab"]
    await eventually(lambda: len(bench.begun) == 2)
    late, later = (asyncio.create_task(in_thread(bench.piece(name))) for name in ("late", "later"))
    await eventually(lambda: len(workers._queue) == 2)
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    bench.let_go()
    await asyncio.gather(later, *busy)
    assert sorted(bench.begun) == ["a", "b", "later"]


async def test_a_cancelled_function_that_runs_is_not_waited_for(workers: Workers, bench: Bench) -> None:
    task = asyncio.create_task(in_thread(bench.piece("a")))
    await eventually(lambda: bench.begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.ended == []
    bench.let_go()
    await eventually(lambda: bench.ended == ["a"] and workers._waiting == 1)
    assert await in_thread(threading.current_thread) is bench.threads["a"]


def test_a_loop_that_has_ended_meanwhile_disturbs_no_thread(workers: Workers, bench: Bench) -> None:
    hooked: list[Any] = []
    before, threading.excepthook = threading.excepthook, hooked.append

    async def leave() -> None:
        work = asyncio.create_task(in_thread(bench.piece("a")))
        await eventually(lambda: bench.begun)
        work.cancel()

    async def come_again() -> threading.Thread:
        bench.let_go()
        await eventually(lambda: workers._waiting == 1)
        return await in_thread(threading.current_thread)

    try:
        asyncio.run(leave())
        assert asyncio.run(come_again()) is bench.threads["a"]
    finally:
        threading.excepthook = before
    assert hooked == []


async def test_waiting_lends_the_thread_of_a_tool(workers: Workers, bench: Bench) -> None:
    inner = [bench.piece(f"waits {number}") for number in range(2)]

    def tool(number: int) -> None:
        with worker_threads.waiting():
            inner[number]()

    waiting = [asyncio.create_task(in_thread(tool, number)) for number in range(2)]
    await eventually(lambda: len(bench.begun) == 2)
    async with asyncio.timeout(PATIENCE):
        assert await in_thread(str, 1) == "1"
    bench.let_go()
    await asyncio.gather(*waiting)


FORK = """
import asyncio, os, sys, threading
from toolcrib.server.functions import worker_threads

def where(): return threading.get_ident()

asyncio.run(worker_threads.in_thread(where))  # now there is a thread that waits for work, and the child has none of it
before = worker_threads._workers
pid = os.fork()
if pid == 0:
    assert worker_threads._workers is not before
    print(asyncio.run(asyncio.wait_for(worker_threads.in_thread(lambda: "child works"), 10)), flush=True)
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert worker_threads._workers is before
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_has_its_own_threads() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK]  # 3.12 warns of forking with threads
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert (done.returncode, done.stdout) == (0, "child works\n"), done.stderr
