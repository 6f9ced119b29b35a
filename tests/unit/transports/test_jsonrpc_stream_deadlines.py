"""Deadlines, idle time-outs, holds and cancelled callers, with a clock that the test advances."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kit import Clock, turns
from tests.unit.transports.links import Bench
from toolcrib.errors import CallTimeout, ConnectionLost, UnansweredTimeout
from toolcrib.protocol.limits import MAX_ROUNDS
from toolcrib.transports.jsonrpc_stream import COURTESY_TIMEOUT


@pytest.fixture
async def clock() -> Clock:
    return Clock()


def cancelled(bench: Bench) -> list[int]:
    return [m["params"]["requestId"] for m in bench.link.handed_over if m.get("method") == "notifications/cancelled"]


# ---- deadlines -----------------------------------------------------------------------------------------------


async def test_a_call_that_was_sent_and_not_answered_in_time_may_have_run(bench: Bench, clock: Clock) -> None:
    task = await bench.ask(deadline=clock.now() + 10)
    await clock.advance(9.9)
    assert not task.done()
    await clock.advance(0.2)
    with pytest.raises(UnansweredTimeout) as caught:
        await task
    assert caught.value.sent
    assert cancelled(bench) == [1]


async def test_a_call_that_could_not_be_sent_in_time_is_taken_back_and_never_runs(bench: Bench, clock: Clock) -> None:
    bench.link.open_pipe = False
    task = await bench.ask(deadline=clock.now() + 10)
    await clock.advance(11)
    with pytest.raises(CallTimeout) as caught:
        await task
    assert type(caught.value) is CallTimeout
    assert not caught.value.sent
    bench.link.flush()
    assert bench.link.handed_over == []


async def test_each_call_has_its_own_deadline_and_all_share_one_timer(bench: Bench, clock: Clock) -> None:
    tasks = {s: await bench.ask(deadline=clock.now() + s) for s in (30, 10, 20, 10.0001, 40)}
    handles = [h for h in asyncio.get_running_loop()._scheduled if not h.cancelled()]  # type: ignore[attr-defined]
    assert len(handles) == 1
    for passed, over in [(9, 0), (1.1, 2), (10, 3), (10, 4), (10, 5)]:
        await clock.advance(passed)
        assert sum(task.done() for task in tasks.values()) == over
    for task in tasks.values():
        with pytest.raises(UnansweredTimeout):
            await task


async def test_a_call_without_a_deadline_waits_for_ever(bench: Bench, clock: Clock) -> None:
    task = await bench.ask()
    await clock.advance(1e9)
    assert not task.done()
    bench.answer(1)
    await task


async def test_the_deadline_of_an_answered_call_does_no_harm(bench: Bench, clock: Clock) -> None:
    task = await bench.ask(deadline=clock.now() + 10)
    other = await bench.ask(deadline=clock.now() + 100)
    bench.answer(1, {"ok": 1})
    assert await task == {"ok": 1}
    await clock.advance(50)
    assert not other.done()
    assert cancelled(bench) == []
    bench.answer(2)
    await other


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_for_these_no_cancellation_is_sent(bench: Bench, clock: Clock, method: str) -> None:
    for task in (await bench.ask(method, deadline=clock.now() + 10), await bench.ask(method)):
        if task.done() or bench.last_id == 1:
            await clock.advance(11)
        task.cancel()
        await asyncio.wait([task])
    await turns()
    assert cancelled(bench) == []


# ---- silence and progress ------------------------------------------------------------------------------------


async def test_each_progress_begins_the_idle_time_anew(bench: Bench, clock: Clock) -> None:
    task = await bench.ask(idle_timeout=10)
    for step in range(5):
        await clock.advance(9)
        bench.progress(1, step)
    await clock.advance(9)
    assert not task.done()
    await clock.advance(2)
    with pytest.raises(UnansweredTimeout):
        await task


async def test_an_idle_time_out_lets_the_peer_report_progress(bench: Bench) -> None:
    task = await bench.ask(idle_timeout=10)
    assert bench.link.handed_over[0]["params"] == {"_meta": {"progressToken": 1}}
    bench.answer(1)
    await task


async def test_progress_does_not_move_the_deadline(bench: Bench, clock: Clock) -> None:
    task = await bench.ask(idle_timeout=10, deadline=clock.now() + 15)
    await clock.advance(9)
    bench.progress(1, 1)
    await clock.advance(7)
    with pytest.raises(UnansweredTimeout):
        await task


@pytest.mark.parametrize("token, progress", [(2, 1), ("x", 1), (True, 1), (1, True), (1, "1"), (1, None)])
async def test_progress_of_others_and_invalid_progress_extend_no_deadline(
    bench: Bench, clock: Clock, token: object, progress: object
) -> None:
    task = await bench.ask(idle_timeout=10)
    await clock.advance(9)
    bench.progress(token, progress)
    await clock.advance(2)
    with pytest.raises(UnansweredTimeout):
        await task


async def test_a_progress_handler_that_hangs_does_not_keep_the_answer_beyond_the_deadline(
    bench: Bench, clock: Clock
) -> None:
    async def hang(*said: object) -> None:
        await asyncio.Event().wait()

    task = await bench.ask(on_progress=hang, deadline=clock.now() + 10)
    bench.progress(1, 1)
    bench.answer(1, {"ok": 1})
    await turns()
    assert not task.done()
    await clock.advance(11)
    assert await task == {"ok": 1}


# ---- while a person is asked ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["deadline", "idle"])
async def test_while_it_is_held_no_deadline_passes_and_afterwards_the_rest_of_it_is_left(
    bench: Bench, clock: Clock, limit: str
) -> None:
    task = await (bench.ask(deadline=clock.now() + 10) if limit == "deadline" else bench.ask(idle_timeout=10))
    await clock.advance(6)
    with bench.channel.hold():
        await clock.advance(1000)
        assert not task.done()
        with bench.channel.hold():
            await clock.advance(1000)
        await clock.advance(1000)
        assert not task.done()
    await clock.advance(3)
    assert not task.done()
    await clock.advance(2)
    with pytest.raises(UnansweredTimeout):
        await task


async def test_a_call_that_begins_while_it_is_held_has_its_whole_time_afterwards(bench: Bench, clock: Clock) -> None:
    with bench.channel.hold():
        await clock.advance(100)
        task = await bench.ask(deadline=clock.now() + 10)
        await clock.advance(1000)
    await clock.advance(9)
    assert not task.done()
    await clock.advance(2)
    with pytest.raises(UnansweredTimeout):
        await task


async def test_progress_while_it_is_held_does_not_lengthen_the_silence_allowed_afterwards(
    bench: Bench, clock: Clock
) -> None:
    task = await bench.ask(idle_timeout=10)
    with bench.channel.hold():
        await clock.advance(1000)
        bench.progress(1, 1)
    await clock.advance(9)
    assert not task.done()
    await clock.advance(2)
    assert task.done()
    with pytest.raises(UnansweredTimeout):
        await task


async def test_a_hold_that_outlives_the_channel_is_nothing(bench: Bench, clock: Clock) -> None:
    task = await bench.ask(deadline=clock.now() + 10)
    with bench.channel.hold():
        bench.link.open_pipe = False
        await bench.channel.close()
    await clock.advance(100)
    with pytest.raises(Exception, match="closed"):
        await task


async def test_each_call_has_its_share_of_questions_that_stop_the_clock(bench: Bench, clock: Clock) -> None:
    """Quick questions of other calls leave enough time for a slow one."""
    tasks = [await bench.ask(deadline=clock.now() + 10) for _ in range(3)]
    for _ in range(3 * MAX_ROUNDS):
        with bench.channel.hold():
            await clock.advance(100)
    assert not any(task.done() for task in tasks)
    with bench.channel.hold():  # one too many: now time passes
        await clock.advance(100)
    assert all(task.done() for task in tasks)
    await asyncio.gather(*tasks, return_exceptions=True)


# ---- cancelled callers ---------------------------------------------------------------------------------------


async def test_a_cancelled_caller_notifies_the_peer_and_a_late_answer_is_counted(bench: Bench) -> None:
    task = await bench.ask()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.link.handed_over[-1] == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "the caller was cancelled"},
    }
    bench.answer(1)
    assert bench.channel.counters.unmatched == 1


async def test_a_cancelled_caller_whose_request_was_never_sent_takes_it_back_in_silence(bench: Bench) -> None:
    bench.link.open_pipe = False
    task = await bench.ask()
    task.cancel()
    await asyncio.wait([task])
    assert bench.link.queue == []
    bench.link.open_pipe = True
    bench.link.flush()
    assert bench.link.handed_over == []


async def test_an_answer_in_the_very_turn_of_the_cancelling_is_not_a_lost_exception(bench: Bench) -> None:
    for answer in ({"result": {}}, {"error": {"code": 1, "message": "x"}}):
        task = await bench.ask()
        bench.receive({"jsonrpc": "2.0", "id": bench.last_id, **answer})
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert cancelled(bench) == []


async def test_the_courtesy_to_a_peer_that_does_not_read_is_taken_back_after_a_while(
    bench: Bench, clock: Clock
) -> None:
    task = await bench.ask()
    bench.link.open_pipe = False
    task.cancel()
    await asyncio.wait([task])
    assert [letter.message["method"] for letter in bench.link.queue] == ["notifications/cancelled"]
    await clock.advance(COURTESY_TIMEOUT + 0.1)
    assert bench.link.queue == []


async def test_a_cancelled_caller_affects_no_other(bench: Bench) -> None:
    tasks = [await bench.ask() for _ in range(10)]
    for task in tasks[::2]:
        task.cancel()
    await asyncio.wait(tasks[::2])
    for id in range(1, 11):
        bench.answer(id)
    await asyncio.gather(*tasks[1::2])
    assert cancelled(bench) == [1, 3, 5, 7, 9]


async def test_a_call_cancelled_when_the_channel_has_ended_sends_nothing(bench: Bench) -> None:
    task = await bench.ask()
    bench.link.receiver.on_lost(OSError("gone"))
    task.cancel()
    await asyncio.wait([task])
    assert cancelled(bench) == []
    with pytest.raises(ConnectionLost):
        await bench.channel.request("ping", None)
