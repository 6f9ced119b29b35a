"""How suspended calls end: timeouts, and cancelled requests."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.unit.kit import Clock, eventually, turns
from tests.unit.server.suspended_calls_kit import (
    YES,
    Desk,
    Working,
    cancelled,
    one_question,
    others,
    questions,
    timers,
    waiting,
)
from toolcrib.errors import RemoteError
from toolcrib.server.handler import BackChannel
from toolcrib.server.suspended_calls import OUTCOME_TTL


@pytest.fixture(autouse=True)
async def _nothing_is_left() -> AsyncIterator[None]:
    yield
    assert (others(), timers()) == (set(), [])


async def soon(condition: Callable[[], Any]) -> None:
    """Wait turn by turn until the condition is true."""
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


# ---- time ----------------------------------------------------------------------------------------------------


async def test_a_call_whose_client_never_comes_is_cancelled_at_its_time() -> None:
    clock, desk = Clock(), Desk(one_question, ttl=60)
    state = (await desk.call())["requestState"]
    await clock.advance(59)
    assert (desk.cancelled, len(timers())) == (0, 1)
    await clock.advance(1.1)
    assert (desk.cancelled, desk.places) == (1, (0, 0, {}))
    assert "expired" in await desk.refused(state, {"go": YES})


async def test_each_round_has_its_own_time() -> None:
    async def tool(back: BackChannel) -> Any:
        return [await one_question(back), await one_question(back)]

    clock, desk = Clock(), Desk(tool, ttl=60)
    first = (await desk.call())["requestState"]
    await clock.advance(50)
    second = (await desk.call(first, {"go": YES}))["requestState"]
    await clock.advance(50)
    assert len(timers()) == 1
    assert await desk.call(second, {"go": YES}) == {"said": [YES, YES]}
    await clock.advance(OUTCOME_TTL)


async def test_the_expiry_is_paused_while_a_request_waits() -> None:
    clock, tool = Clock(), Working()
    desk = Desk(tool, ttl=60)
    state = (await desk.call())["requestState"]
    waits = await waiting(desk, state)
    assert timers() == []
    await clock.advance(1_000)
    tool.free.set()
    assert await waits == {"said": YES}
    await clock.advance(OUTCOME_TTL)


async def test_an_outcome_is_kept_for_a_while_and_then_forgotten() -> None:
    clock, desk = Clock(), Desk(one_question, ttl=600)
    state = (await desk.call())["requestState"]
    await desk.call(state, {"go": YES})
    await clock.advance(OUTCOME_TTL - 1)
    assert await desk.call(state, {"go": YES}) == {"said": YES}
    await clock.advance(OUTCOME_TTL - 1)  # it was asked for, and is kept anew
    assert await desk.call(state) == {"said": YES}
    await clock.advance(OUTCOME_TTL + 0.1)
    assert desk.places == (0, 0, {})
    assert "expired" in await desk.refused(state, {"go": YES})
    assert desk.cancelled == 0


async def test_a_failure_without_a_waiting_request_is_not_a_lost_exception() -> None:
    clock, tool = Clock(), Working()

    async def fails(back: BackChannel) -> Any:
        await tool(back)
        raise RemoteError(-5, "no")

    desk = Desk(fails)
    state = (await desk.call())["requestState"]
    waits, other = await waiting(desk, state), await waiting(desk, state)
    tool.free.set()
    assert [type(each) for each in await asyncio.gather(waits, other, return_exceptions=True)] == [RemoteError] * 2
    await clock.advance(OUTCOME_TTL + 0.1)
    assert desk.places == (0, 0, {})


async def test_a_question_of_another_task_than_the_call_s_ends_with_it() -> None:
    failures: list[BaseException] = []

    async def asks(back: BackChannel) -> None:
        try:
            await one_question(back)
        except RemoteError as exc:
            failures.append(exc)

    async def tool(back: BackChannel) -> Any:
        asking = asyncio.create_task(asks(back))
        await asyncio.shield(asking)

    clock, desk = Clock(), Desk(tool, ttl=60)
    questions(await desk.call())
    await clock.advance(61)
    await eventually(lambda: not others())
    assert [str(each) for each in failures] == ["the client did not answer in time [-32603]"]


async def test_nothing_can_be_asked_when_the_call_has_ended() -> None:
    backs: list[BackChannel] = []

    async def quick(back: BackChannel) -> Any:
        backs.append(back)
        return 1

    desk = Desk(quick)
    await desk.call()
    with pytest.raises(RemoteError) as caught:
        async with asyncio.timeout(1):
            await one_question(backs[0])
    assert caught.value.code == -32603


async def test_a_question_that_outlives_its_call_is_ended() -> None:
    left: list[asyncio.Task[Any]] = []

    async def forgets(back: BackChannel) -> Any:
        left.append(asyncio.create_task(one_question(back)))
        return 1

    desk = Desk(forgets)
    assert await desk.call() == {"said": 1}
    await asyncio.wait(left, timeout=1)
    over = left[0].done()
    left[0].cancel()
    assert over, "it waits for an answer that cannot come"
    assert isinstance(left[0].exception(), RemoteError)


async def swallow_the_end() -> None:
    async def stubborn(back: BackChannel) -> Any:
        try:
            return await one_question(back)
        except asyncio.CancelledError:
            return await one_question(back)

    clock, desk = Clock(), Desk(stubborn, ttl=60)
    await desk.call()
    await clock.advance(61)
    left = others()
    for task in left:
        task.cancel()
    assert left == set(), "it waits, and no handle leads to it"


async def test_a_call_that_swallows_its_end_cannot_ask_again(caplog: pytest.LogCaptureFixture) -> None:
    await swallow_the_end()
    gc.collect()  # asyncio logs an unretrieved exception when the task is collected
    assert caplog.messages == []


# ---- disconnected clients ------------------------------------------------------------------------------------


async def test_the_last_client_that_leaves_cancels_the_call() -> None:
    async def tool(back: BackChannel) -> Any:
        await asyncio.Event().wait()

    desk = Desk(tool)
    task = asyncio.create_task(desk.call())
    await eventually(lambda: desk.began)
    assert await cancelled(task)
    await turns()
    assert (desk.cancelled, desk.places) == (1, (0, 0, {}))


async def test_the_first_of_two_may_leave_the_last_takes_the_call_with_it() -> None:
    tool = Working()
    desk = Desk(tool)
    state = (await desk.call())["requestState"]
    one, other = await waiting(desk, state), await waiting(desk, state)
    assert await cancelled(one)
    await turns()
    assert desk.cancelled == 0
    assert await cancelled(other)
    await turns()
    assert (desk.cancelled, desk.places) == (1, (0, 0, {}))
    assert "requestState" in await desk.refused(state, {"go": YES})


async def test_a_client_that_leaves_with_pending_questions_may_return_for_them() -> None:
    async def tool(back: BackChannel) -> Any:
        return [await one_question(back), await back.ask("roots/list", {}, "next")]

    desk = Desk(tool)
    state = (await desk.call())["requestState"]
    task = asyncio.create_task(desk.call(state, {"go": YES}))
    call, _ = desk.parking._handles[state]
    await soon(lambda: "next" in call._questions)
    assert await cancelled(task)
    result = await desk.call(state, {"go": YES})
    assert list(questions(result)) == ["next"]
    assert await desk.call(result["requestState"], {"next": {}}) == {"said": [YES, {}]}
    desk.parking.close()


async def test_a_client_that_leaves_before_there_is_a_handle_leaves_nothing_behind() -> None:
    backs: list[Any] = []

    async def tool(back: BackChannel) -> Any:
        backs.append(back)
        await one_question(back)

    desk = Desk(tool)
    task = asyncio.create_task(desk.call())
    await soon(lambda: backs and backs[0]._questions)
    assert await cancelled(task)
    await turns()
    left = others()
    for one in left:
        one.cancel()
    assert (left, timers()) == (set(), []), "no client has a handle of it, and it was not counted"


async def test_a_call_that_cancels_itself_raises_for_the_waiting_request() -> None:
    async def tool(back: BackChannel) -> Any:
        raise asyncio.CancelledError

    desk = Desk(tool)
    with pytest.raises(RemoteError) as caught:
        await desk.call()
    assert caught.value.code == -32603


async def leave_in_the_moment_of_a_failure() -> None:
    fails: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def tool(back: BackChannel) -> Any:
        await fails

    desk = Desk(tool)
    task = asyncio.create_task(desk.call())
    await eventually(lambda: desk.began)
    call: Any = desk.exchanges[0].back_channel
    call._task.add_done_callback(lambda _: task.cancel())
    fails.set_exception(RemoteError(-5, "no"))
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_client_that_leaves_during_a_failure_loses_no_exception(caplog: pytest.LogCaptureFixture) -> None:
    await leave_in_the_moment_of_a_failure()
    gc.collect()
    assert caplog.messages == []


# ---- the end of all ------------------------------------------------------------------------------------------


async def test_closing_ends_every_parked_call_and_the_requests_that_wait() -> None:
    tool = Working()
    desk = Desk(tool)
    states = [(await desk.call())["requestState"] for _ in range(3)]
    waits = await waiting(desk, states[0])
    desk.parking.close()
    with pytest.raises(RemoteError, match="the call was ended"):
        await asyncio.wait_for(waits, 10)
    await turns()
    assert (desk.cancelled, desk.places) == (3, (0, 0, {}))
    for state in states:
        assert "requestState" in await desk.refused(state, {"go": YES})
    desk.parking.close()
