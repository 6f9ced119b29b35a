"""Event streams at their limits: which senders wait, which events are kept, which are dropped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.asgi_kit import Out
from tests.unit.server.serving.streams_kit import bring, brought, numbers, say
from toolcrib.server.serving.sse_stream import BACKLOG, KEPT_BYTES, KEPT_EVENTS, SseStream


@pytest.fixture(autouse=True)
async def _nobody_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def waits(stream: SseStream) -> asyncio.Task[None] | None:
    """Return a task that waits for room in the stream; None if there is room."""
    task = asyncio.create_task(stream.room())
    await turns()
    return None if task.done() else task


async def test_a_sender_of_too_many_events_waits_for_a_slow_reader() -> None:
    stream, out = SseStream(1), Out()
    reading = bring(stream, out)
    await eventually(lambda: out.chunks)
    out.flows.clear()
    say(stream, *range(BACKLOG))
    assert await waits(stream) is None
    say(stream, BACKLOG)
    waiting = await waits(stream)
    assert waiting is not None
    out.flows.set()
    await asyncio.wait_for(waiting, 10)
    stream.finish()
    await reading
    assert numbers(out) == list(range(BACKLOG + 1))


async def test_a_sender_of_too_many_bytes_waits_for_a_slow_reader() -> None:
    stream, out = SseStream(), Out()
    reading = bring(stream, out)
    await eventually(lambda: out.chunks)
    out.flows.clear()
    say(stream, "x" * (KEPT_BYTES // 2))
    assert await waits(stream) is None
    say(stream, "y" * (KEPT_BYTES // 2))
    waiting = await waits(stream)
    assert waiting is not None
    out.flows.set()
    await asyncio.wait_for(waiting, 10)
    say(stream, "z")
    stream.finish()
    await reading
    assert [said[0] for said in numbers(out)] == ["x", "y", "z"]
    assert (stream.size, stream._unsent) == (0, 0)


@pytest.mark.parametrize("end", ["detach", "finish"])
async def test_a_sender_does_not_wait_for_a_reader_that_has_gone_nor_after_the_end(end: str) -> None:
    stream, out = SseStream(1), Out()
    reading = bring(stream, out)
    await eventually(lambda: out.chunks)
    out.flows.clear()
    say(stream, *range(BACKLOG + 5))
    waiting = await waits(stream)
    assert waiting is not None
    getattr(stream, end)()
    await asyncio.wait_for(waiting, 10)
    assert await waits(stream) is None
    out.flows.set()
    await reading


async def test_unread_events_are_kept_up_to_a_number_of_events() -> None:
    stream = SseStream(1)
    say(stream, *range(KEPT_EVENTS + 10))
    assert await waits(stream) is None
    stream.finish()
    assert numbers(await brought(stream)) == list(range(10, KEPT_EVENTS + 10))


async def test_unread_events_are_kept_up_to_a_number_of_bytes() -> None:
    stream = SseStream(1)
    for number in range(5):
        stream.push({"n": number, "text": "x" * (KEPT_BYTES // 4)})
    assert stream.size <= KEPT_BYTES
    stream.finish(json.dumps({"n": "answer", "text": "x" * 2 * KEPT_BYTES}).encode())
    out = await brought(stream)
    assert numbers(out) == ["answer"], "the last is kept, whatever its size"
    assert stream._unsent == 0


async def test_sent_events_are_dropped_before_unsent_ones() -> None:
    stream, out = SseStream(1), Out()
    reading = bring(stream, out)
    say(stream, *range(BACKLOG))
    await eventually(lambda: len(out.messages) == BACKLOG)
    out.flows.clear()
    say(stream, *range(BACKLOG, KEPT_EVENTS + BACKLOG + 10))  # by a sender that does not wait for room
    assert stream.has_more_after(BACKLOG)
    out.flows.set()
    stream.finish()
    await reading
    assert numbers(out) == list(range(KEPT_EVENTS + BACKLOG + 10))


async def test_a_question_is_never_dropped_and_what_comes_after_it_is() -> None:
    stream = SseStream(1)
    stream.push({"id": 1, "n": "question"})
    say(stream, *range(2 * KEPT_EVENTS))
    assert len(stream._events) <= KEPT_EVENTS + 1
    stream.finish(b'{"n":"answer"}')
    said = numbers(await brought(stream))
    assert (said[0], said[-2:]) == ("question", [2 * KEPT_EVENTS - 1, "answer"])


async def test_what_may_wait_is_offered_and_waits_for_a_slow_reader() -> None:
    stream, out = SseStream(0), Out()
    rooms = [stream.offer({"n": number}) for number in range(BACKLOG + 2)]
    assert rooms[:BACKLOG] == [None] * BACKLOG
    assert rooms[-2] is rooms[-1] and rooms[-1] is not None, "all senders wait for the same future"
    assert not rooms[-1].done()
    reading = bring(stream, out)
    await asyncio.wait_for(rooms[-1], 10)
    stream.finish()
    assert stream.offer({"n": "late"}) is None
    await reading
    assert numbers(out) == list(range(BACKLOG + 2))


async def test_a_reader_that_never_reads_costs_at_most_twice_the_limit() -> None:
    stream, out = SseStream(0), Out()
    reading = bring(stream, out)
    await eventually(lambda: out.chunks)
    out.flows.clear()
    say(stream, *range(5 * KEPT_EVENTS))
    assert len(stream._events) == 2 * KEPT_EVENTS
    assert stream._unsent == stream.size
    out.flows.set()
    stream.finish()
    await reading
    assert numbers(out)[-1] == 5 * KEPT_EVENTS - 1
