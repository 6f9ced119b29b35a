"""A task's own cancellation and its caller's, in every order, are distinguished and leave no count behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib._util.cancellation import OwnCancellation, is_current_task_cancelled

Work = Callable[[], Awaitable[object]]


async def for_ever() -> None:
    await asyncio.Event().wait()


async def turn() -> None:
    """Let every ready task run."""
    for _ in range(5):
        await asyncio.sleep(0)


@dataclass
class Job:
    """Work that can be ended by its own cancellation; `outcome` names what ended it."""

    work: Work = for_ever
    cancellation: OwnCancellation | None = None

    def cancel(self) -> None:
        assert self.cancellation is not None
        self.cancellation.cancel()

    async def outcome(self) -> str:
        self.cancellation = cancellation = OwnCancellation()
        try:
            await self.work()
        except asyncio.CancelledError:
            if cancellation.cancelled_by_others():
                raise
            return "own" if cancellation.requested else "work"
        finally:
            cancellation.take_back()
        return "done, but cancelled" if cancellation.requested else "done"


async def observed(work: Callable[[], Awaitable[str]]) -> tuple[str, int]:
    """Return the outcome of `work`, and the number of cancellations that its task still counts."""
    task = asyncio.current_task()
    assert task is not None
    try:
        outcome = await work()
    except asyncio.CancelledError:
        outcome = "caller"
    return outcome, task.cancelling()


async def started(job: Job) -> asyncio.Task[tuple[str, int]]:
    task = asyncio.create_task(observed(job.outcome))
    await turn()
    return task


async def test_work_that_is_not_cancelled_ends_as_usual() -> None:
    task = await started(Job(lambda: asyncio.sleep(0)))
    assert await task == ("done", 0)


@pytest.mark.parametrize("times", [1, 3])
async def test_the_own_cancellation_ends_the_work_and_not_its_task(times: int) -> None:
    job = Job()
    task = await started(job)
    for _ in range(times):
        job.cancel()
    assert await task == ("own", 0)


@pytest.mark.parametrize("times", [1, 3])
async def test_the_callers_cancellation_reaches_the_caller(times: int) -> None:
    task = await started(Job())
    for _ in range(times):
        task.cancel()
    assert await task == ("caller", times)


@pytest.mark.parametrize("first", ["own", "caller"])
@pytest.mark.parametrize("turns_between", [0, 1])
async def test_both_at_once_is_the_callers_cancellation(first: str, turns_between: int) -> None:
    released = asyncio.Event()

    async def clean_up_slowly() -> None:
        try:
            await for_ever()
        finally:
            await released.wait()

    job = Job(clean_up_slowly)
    task = await started(job)
    order = [job.cancel, task.cancel]
    for act in order if first == "own" else reversed(order):
        act()
        for _ in range(turns_between):
            await turn()
    released.set()
    assert await task == ("caller", 1)


async def test_a_cancellation_that_the_work_raises_itself_is_neither() -> None:
    async def raise_it() -> None:
        raise asyncio.CancelledError

    assert await (await started(Job(raise_it))) == ("work", 0)


async def test_work_that_catches_the_own_cancellation_leaves_no_count_behind() -> None:
    async def catch() -> None:
        with pytest.raises(asyncio.CancelledError):
            await for_ever()
        await asyncio.sleep(0)

    job = Job(catch)
    task = await started(job)
    job.cancel()
    assert await task == ("done, but cancelled", 0)


async def test_work_that_catches_the_callers_cancellation_does_not_hide_it_from_a_later_own_one() -> None:
    async def catch() -> None:
        with pytest.raises(asyncio.CancelledError):
            await for_ever()
        await for_ever()

    job = Job(catch)
    task = await started(job)
    task.cancel()
    await turn()
    job.cancel()
    assert await task == ("caller", 1)


async def test_work_that_cancels_itself_and_ends_at_once_interrupts_nothing_after_it() -> None:
    async def cancel_and_end() -> None:
        job.cancel()

    async def outcome() -> str:
        result = await job.outcome()
        await turn()
        return result

    job = Job(cancel_and_end)
    assert await asyncio.create_task(observed(outcome)) == ("done, but cancelled", 0)


async def test_work_that_cancels_itself_and_waits_is_interrupted() -> None:
    async def cancel_and_wait() -> None:
        job.cancel()
        await for_ever()

    job = Job(cancel_and_wait)
    assert await asyncio.create_task(observed(job.outcome)) == ("own", 0)


async def test_after_the_end_it_cancels_nothing() -> None:
    async def outcome() -> str:
        result = await job.outcome()
        job.cancel()
        assert job.cancellation is not None
        assert not job.cancellation.cancelled_by_others()
        job.cancellation.take_back()
        await turn()
        return result

    job = Job(turn)
    assert await asyncio.create_task(observed(outcome)) == ("done", 0)


async def test_a_task_that_is_cleaning_up_can_be_distinguished_too() -> None:
    async def clean_up() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return await job.outcome()
        raise AssertionError

    job = Job()
    for act, expected in ((job.cancel, ("own", 1)), (None, ("caller", 2))):
        task = asyncio.create_task(observed(clean_up))
        await turn()
        task.cancel()
        await turn()
        (act or task.cancel)()
        assert await task == expected


async def test_a_task_that_is_cancelled_before_it_starts_runs_nothing() -> None:
    job = Job()
    task = asyncio.create_task(job.outcome())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert job.cancellation is None


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("cleans_up", [False, True], ids=["first", "cleaning-up"])
async def test_a_cancellation_that_was_requested_before_and_not_yet_delivered_reaches_the_caller(
    times: int, cleans_up: bool
) -> None:
    """As by a signal handler, which runs in the middle of a task, such as that of asyncio.run for Ctrl-C."""

    async def outcome() -> str:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(times):
            task.cancel()
        return await Job().outcome()

    async def clean_up() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return await outcome()
        raise AssertionError

    task = asyncio.create_task(observed(clean_up if cleans_up else outcome))
    await turn()
    if cleans_up:
        task.cancel()
    assert await task == ("caller", times + cleans_up)


# ---- together with asyncio's own constructs ------------------------------------------------------------------


async def test_an_outer_timeout_stays_a_timeout() -> None:
    async def outcome() -> str:
        try:
            async with asyncio.timeout(0.001):
                return await job.outcome()
        except TimeoutError:
            return "timeout"

    job = Job()
    assert await asyncio.create_task(observed(outcome)) == ("timeout", 0)


async def test_an_inner_timeout_is_the_works_own_affair() -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await for_ever()
        await for_ever()

    job = Job(work)
    task = asyncio.create_task(observed(job.outcome))
    await asyncio.sleep(0.01)
    job.cancel()
    assert await task == ("own", 0)


async def test_the_own_cancellation_passes_through_an_inner_timeout_and_task_group() -> None:
    async def work() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(for_ever())
            await for_ever()

    job = Job(work)
    task = await started(job)
    job.cancel()
    assert await task == ("own", 0)


@pytest.mark.parametrize("own_too", [False, True])
async def test_the_failure_of_an_outer_task_group_reaches_it(own_too: bool) -> None:
    failing = asyncio.Event()

    async def fail() -> None:
        await failing.wait()
        raise ValueError

    async def outcome() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await job.outcome()
        except* ValueError:
            pass
        return "group"

    job = Job()
    task = asyncio.create_task(observed(outcome))
    await turn()
    failing.set()
    await asyncio.sleep(0)  # `fail` runs now, and the group cancels in its callback, in the next turn
    if own_too:
        job.cancel()
    assert await task == ("group", 0)


# ---- every interleaving --------------------------------------------------------------------------------------


class Nested:
    """Two cancellations, one within the other, and a timeout between them."""

    def __init__(self, cleans_up: bool) -> None:
        self.finish = asyncio.Event()
        self.timeout = asyncio.timeout(None)
        self.inner = Job(self._work)
        self.outer = Job(self._middle)
        self.requested: set[str] = set()
        self.callers = 0
        self._cleans_up = cleans_up
        self._innermost = ""

    async def outcome(self) -> str:
        outcome = await self.outer.outcome()
        return outcome if outcome == "own" else self._innermost

    async def _middle(self) -> None:
        try:
            async with self.timeout:
                self._innermost = await self.inner.outcome()
        except TimeoutError:
            self._innermost = "timeout"

    async def _work(self) -> None:
        try:
            await self.finish.wait()
        finally:
            if self._cleans_up:
                await asyncio.sleep(0)

    async def act(self, action: str, task: asyncio.Task[tuple[str, int]]) -> None:
        match action:
            case "inner":
                self.inner.cancel()
            case "outer":
                self.outer.cancel()
            case "timeout":
                with contextlib.suppress(RuntimeError):  # it has expired, or was left before
                    self.timeout.reschedule(asyncio.get_running_loop().time())
            case "caller":
                self.callers += task.cancel()
            case "finish":
                self.finish.set()
            case "step":
                await asyncio.sleep(0)
            case _:
                await turn()
        self.requested.add(action)

    def check(self, outcome: str, count: int) -> None:
        assert count == self.callers
        if self.callers:
            assert outcome == "caller"
        elif not self.requested & {"inner", "outer", "timeout"}:
            assert outcome == "done"
        elif outcome == "own":
            assert self.requested & {"inner", "outer"}
        elif outcome == "timeout":
            assert "timeout" in self.requested
        else:
            assert outcome.startswith("done") and "finish" in self.requested


@given(
    st.lists(st.sampled_from(["inner", "outer", "timeout", "caller", "finish", "step", "turn"]), max_size=8),
    st.booleans(),
)
@example(["outer", "inner", "caller"], False)
@example(["caller", "outer", "step", "inner"], True)
@example(["inner", "step", "outer", "step", "finish", "caller"], True)
@example(["finish", "inner"], False)
@example(["timeout", "step", "step", "outer"], True)
def test_in_any_order_the_callers_cancellation_wins_and_no_extra_cancel_count_is_left(
    actions: list[str], cleans_up: bool
) -> None:
    async def run() -> None:
        nested = Nested(cleans_up)
        task = asyncio.create_task(observed(nested.outcome))
        await turn()
        for action in actions:
            if not task.done():
                await nested.act(action, task)
        if not task.done():
            await nested.act("finish", task)
        nested.check(*await task)

    asyncio.run(run())


# ---- a task of one's own -------------------------------------------------------------------------------------


async def test_whether_the_current_task_itself_was_cancelled() -> None:
    async def wait_for(future: asyncio.Future[None]) -> bool:
        try:
            await future
        except asyncio.CancelledError:
            return is_current_task_cancelled()
        raise AssertionError

    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    waiting, cancelled = asyncio.create_task(wait_for(first)), asyncio.create_task(wait_for(second))
    await turn()
    first.cancel()
    cancelled.cancel()
    assert (await waiting, await cancelled) == (False, True)
