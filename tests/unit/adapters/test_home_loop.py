"""Work on the loop of a source, from other loops and threads, and the errors where that would never end."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.kit import eventually
from toolcrib.adapters.home_loop import HomeLoop
from toolcrib.errors import UsageError

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


class LoopThread:
    """An event loop that runs in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        assert self.thread.ident is not None
        self.ident = self.thread.ident

    def home(self, start_seconds: float = 5.0) -> HomeLoop:
        return HomeLoop(self.loop, self.thread, start_seconds)

    def stop(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(10)
            self.loop.close()


@contextmanager
def loop_thread() -> Iterator[LoopThread]:
    running = LoopThread()
    try:
        yield running
    finally:
        running.stop()


class Job:
    """A coroutine that waits, and notes what happens to it."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.cancelled = threading.Event()

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def where() -> tuple[int, str]:
    return threading.get_ident(), VARIABLE.get()


async def test_on_its_own_loop_work_runs_directly() -> None:
    home, task = HomeLoop.running(), asyncio.current_task()

    async def work() -> Any:
        return asyncio.current_task()

    assert home.is_running_here() and await home.run(work) is task
    assert home.do(threading.get_ident) == threading.get_ident()


async def test_from_another_loop_with_the_context_of_the_caller() -> None:
    with loop_thread() as other:
        VARIABLE.set("caller")
        home = other.home()
        assert not home.is_running_here()
        assert await home.run(where) == (other.ident, "caller")
        assert await asyncio.to_thread(home.wait, where) == (other.ident, "caller")
        assert await asyncio.to_thread(home.do, threading.get_ident) == other.ident


async def test_errors_arrive_as_they_are() -> None:
    async def fail() -> None:
        raise TimeoutError("of the work itself")

    with loop_thread() as other:
        home = other.home(0.02)
        for call in (lambda: home.run(fail), lambda: asyncio.to_thread(home.wait, fail)):
            with pytest.raises(TimeoutError, match="of the work itself"):
                await call()


async def test_work_that_began_may_take_longer_than_the_limit() -> None:
    async def slow() -> str:
        await asyncio.sleep(0.1)
        return "done"

    with loop_thread() as other:
        home = other.home(0.01)
        assert await home.run(slow) == "done"
        assert await asyncio.to_thread(home.wait, slow) == "done"


async def test_a_cancelled_caller_cancels_the_work() -> None:
    job = Job()
    with loop_thread() as other:
        task = asyncio.create_task(other.home().run(job.run))
        await eventually(job.began.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await eventually(job.cancelled.is_set)


async def test_a_caller_that_is_cancelled_before_the_work_begins_prevents_it() -> None:
    job, release = Job(), threading.Event()
    with loop_thread() as other:
        other.loop.call_soon_threadsafe(release.wait)
        task = asyncio.create_task(other.home().run(job.run))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        await other.home().run(where)
        assert not job.began.is_set()


def test_an_interrupted_wait_cancels_the_work() -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    job = Job()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with loop_thread() as other:
            main = threading.get_ident()

            def send() -> None:
                job.began.wait(10)
                signal.pthread_kill(main, signal.SIGUSR1)

            sender = threading.Thread(target=send)
            sender.start()
            with pytest.raises(Interrupted):
                other.home().wait(job.run)
            sender.join()
            assert job.cancelled.wait(10)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("way", ["run", "wait"])
async def test_a_loop_that_does_not_turn(way: str) -> None:
    job, release = Job(), threading.Event()
    with loop_thread() as other:
        other.loop.call_soon_threadsafe(release.wait)
        home = other.home(0.05)
        with pytest.raises(UsageError, match=r"is blocked or stopped.*nothing was sent.*toolcrib\.sync\.Hub"):
            await (home.run(job.run) if way == "run" else asyncio.to_thread(home.wait, job.run))
        release.set()
        await home.run(where)
        assert not job.began.is_set(), "abandoned work does not begin later"


async def test_a_sync_wait_on_the_own_loop() -> None:
    with pytest.raises(UsageError, match=r"wait for itself; use toolcrib\.sync\.Hub"):
        HomeLoop.running().wait(where)


def test_the_own_thread_while_the_loop_is_stopped() -> None:
    loop = asyncio.new_event_loop()

    async def make() -> HomeLoop:
        return HomeLoop.running()

    home = loop.run_until_complete(make())
    with pytest.raises(UsageError, match="blocked or stopped"):
        home.wait(where)
    with pytest.raises(UsageError, match="blocked or stopped"):
        asyncio.run(home.run(where))
    loop.close()
    for call in (lambda: home.wait(where), lambda: asyncio.run(home.run(where))):
        with pytest.raises(UsageError, match="has ended"):
            call()


@pytest.mark.parametrize("way", ["run", "wait"])
async def test_a_loop_that_ends_during_the_work(way: str) -> None:
    """`asyncio.run` cancels the tasks that are left."""
    job, homes, end = Job(), [], threading.Event()

    async def main() -> None:
        homes.append(HomeLoop.running())
        await asyncio.to_thread(end.wait)

    thread = threading.Thread(target=asyncio.run, args=[main()])
    thread.start()
    await eventually(lambda: homes)
    home = homes[0]
    waiting = asyncio.create_task(home.run(job.run) if way == "run" else asyncio.to_thread(home.wait, job.run))
    await eventually(job.began.is_set)
    end.set()
    with pytest.raises(
        UsageError, match=r"cancelled the call, as it does when it ends; the tool may have run"
    ) as caught:
        await waiting
    assert caught.value.sent is True
    await asyncio.to_thread(thread.join)


@pytest.mark.parametrize("way", ["run", "wait"])
async def test_a_loop_that_is_closed_without_cancelling_its_tasks(way: str) -> None:
    held: list[asyncio.Future[None]] = []
    began = threading.Event()

    async def stuck() -> None:
        held.append(asyncio.get_running_loop().create_future())
        began.set()
        await held[0]

    other = LoopThread()
    home = other.home(0.05)
    waiting = asyncio.create_task(home.run(stuck) if way == "run" else asyncio.to_thread(home.wait, stuck))
    await eventually(began.is_set)
    tasks = asyncio.all_tasks(other.loop)
    other.stop()
    with pytest.raises(UsageError, match="the tool may have run") as caught:
        await waiting
    assert caught.value.sent is True
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio logs it, as the test intends


@pytest.mark.parametrize("way", ["run", "wait"])
async def test_a_loop_that_is_closed_before_it_begins_the_work(way: str) -> None:
    other = LoopThread()
    home = other.home(1.0)  # long enough to close the loop before the first check
    other.loop.call_soon_threadsafe(other.loop.stop)
    await asyncio.to_thread(other.thread.join)
    waiting = asyncio.create_task(home.run(where) if way == "run" else asyncio.to_thread(home.wait, where))
    await asyncio.sleep(0)
    other.loop.close()
    with pytest.raises(UsageError, match="has ended") as caught:
        await waiting
    assert caught.value.sent is False


async def test_work_that_raises_a_cancellation_of_its_own() -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    with loop_thread() as other, pytest.raises(UsageError, match="cancelled the call"):
        await other.home().run(cancel)


def test_without_a_running_loop() -> None:
    with pytest.raises(UsageError, match=r"inside `async with hub`, or use toolcrib\.sync\.Hub"):
        HomeLoop.running()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child() -> None:
    with loop_thread() as other:
        home = other.home(0.5)
        assert run_in_child(lambda: _usage_error(lambda: home.wait(where)))
        assert home.wait(where)[0] == other.ident


def run_in_child(check: Callable[[], bool]) -> bool:
    """Return the outcome of a function in a forked child."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    end = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1]) == 0


def _usage_error(call: Callable[[], Any]) -> bool:
    try:
        call()
    except UsageError as exc:
        return "forked" in str(exc)
    return False
