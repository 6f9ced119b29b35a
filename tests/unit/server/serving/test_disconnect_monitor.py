"""The monitor of slow requests: disconnected clients, idle streams, closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kit import Clock, eventually, turns
from tests.unit.server.serving.asgi_kit import In, Out
from toolcrib.server.serving.responses import SLOW_AFTER_SECONDS, DisconnectMonitor, Reply
from toolcrib.server.serving.sse_stream import KEEP_ALIVE

LATER = SLOW_AFTER_SECONDS + 0.01


def looks() -> list[asyncio.TimerHandle]:
    """Return the pending timers of the monitor."""
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return [each for each in scheduled if not each.cancelled() and DisconnectMonitor.__name__ in repr(each)]


@pytest.fixture(autouse=True)
async def _nobody_is_left() -> AsyncIterator[None]:
    yield
    await turns()
    assert (asyncio.all_tasks(), looks()) == ({asyncio.current_task()}, [])


class Slow:
    """A request that is being answered."""

    def __init__(self, caretaker: DisconnectMonitor, headers: Any = None) -> None:
        self.out, self.receive, self.gone = Out(), In(ends=False), 0
        self.reply = Reply(self.out, headers or {})
        caretaker.enter(self.reply, self.receive, self._on_gone)

    def _on_gone(self) -> None:
        self.gone += 1


async def test_a_quick_request_costs_nothing_but_its_place() -> None:
    clock, caretaker = Clock(), DisconnectMonitor()
    for _ in range(3):
        quick = Slow(caretaker)
        assert len(looks()) == 1
        caretaker.leave(quick.reply)
        assert quick.receive.asked == 0
    await clock.advance(LATER)
    assert looks() == [], "nothing to watch"


async def test_one_timer_looks_after_all_for_as_long_as_there_are_some() -> None:
    clock, caretaker = Clock(), DisconnectMonitor()
    some = [Slow(caretaker) for _ in range(5)]
    for _ in range(4):
        assert len(looks()) == 1
        await clock.advance(LATER)
    for one in some:
        caretaker.leave(one.reply)
    await clock.advance(LATER)
    assert looks() == []
    again = Slow(caretaker)
    assert len(looks()) == 1
    caretaker.leave(again.reply)
    await clock.advance(LATER)


async def test_the_client_of_a_slow_request_is_listened_to_from_the_second_look_on() -> None:
    clock, caretaker = Clock(), DisconnectMonitor()
    slow = Slow(caretaker)
    await clock.advance(LATER)
    assert slow.receive.asked == 0
    await clock.advance(LATER)
    assert slow.receive.asked == 1
    await clock.advance(LATER)
    assert slow.receive.asked == 1, "one listener is enough"
    assert slow.gone == 0
    slow.receive.left.set()
    await eventually(lambda: slow.gone == 1)
    await clock.advance(LATER)
    assert slow.gone == 1
    caretaker.leave(slow.reply)
    await clock.advance(LATER)


async def test_a_client_that_has_its_answer_is_no_longer_read() -> None:
    clock, caretaker = Clock(), DisconnectMonitor()
    slow = Slow(caretaker)
    await clock.advance(LATER)
    await clock.advance(LATER)
    caretaker.leave(slow.reply)
    await turns()
    slow.receive.left.set()
    await turns()
    assert slow.gone == 0
    caretaker.leave(slow.reply)  # it may leave again
    await clock.advance(LATER)


async def test_a_request_that_says_nothing_for_long_becomes_a_stream_that_is_kept_alive() -> None:
    clock, caretaker = Clock(), DisconnectMonitor()
    slow, json_only = Slow(caretaker), Slow(caretaker, {b"accept": b"application/json"})
    for _ in range(3):
        await clock.advance(LATER)
    assert slow.reply.stream is None
    await clock.advance(KEEP_ALIVE)
    assert slow.reply.stream is not None
    assert (slow.out.status, slow.out.body) == (200, b":\n\n")
    assert json_only.reply.stream is None
    for one in (slow, json_only):
        await one.reply.finish(b'{"result":1}')
        caretaker.leave(one.reply)
    assert (slow.out.messages, json_only.out.json) == ([{"result": 1}], {"result": 1})
    await clock.advance(LATER)


async def test_the_idle_are_waited_for_but_not_for_ever() -> None:
    clock, caretaker = Clock(), DisconnectMonitor()
    await asyncio.wait_for(caretaker.idle(60), 10)
    one, other = Slow(caretaker), Slow(caretaker)
    waiting = asyncio.create_task(caretaker.idle(60))
    await turns()
    caretaker.leave(one.reply)
    await turns()
    assert not waiting.done()
    caretaker.leave(other.reply)
    await asyncio.wait_for(waiting, 10)
    stuck = Slow(caretaker)
    waiting = asyncio.create_task(caretaker.idle(60))
    await turns()
    await clock.advance(61)
    await asyncio.wait_for(waiting, 10)
    caretaker.leave(stuck.reply)
    await clock.advance(LATER)


async def test_closing_stops_the_rest_and_the_monitoring() -> None:
    clock, caretaker = Clock(), DisconnectMonitor()
    slow = Slow(caretaker)

    async def work() -> bool:
        slow.reply.begin()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as exc:
            return slow.reply.take_cancellation(exc)
        finally:
            caretaker.leave(slow.reply)
        return False

    task = asyncio.create_task(work())
    await clock.advance(LATER)
    await clock.advance(LATER)
    assert slow.receive.asked == 1
    await caretaker.close()
    assert await asyncio.wait_for(task, 10) is True
    assert looks() == []
    await caretaker.close()


def test_an_app_may_serve_in_one_loop_after_the_other() -> None:
    caretaker = DisconnectMonitor()

    async def serve() -> None:
        slow = Slow(caretaker)
        await eventually(lambda: slow.receive.asked)
        slow.receive.left.set()
        await eventually(lambda: slow.gone)
        caretaker.leave(slow.reply)
        assert len(looks()) == 1  # it ends with the loop

    for _ in range(2):
        asyncio.run(serve())
