"""Event streams: ids, resuming, readers that take over, leave, or read slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.asgi_kit import Out
from tests.unit.server.serving.streams_kit import bring, brought, numbers, received, say
from toolcrib.errors import UsageError
from toolcrib.server.serving import sse_stream
from toolcrib.server.serving.sse_stream import RETRY_MILLISECONDS, SseStream, parse_event_id


@pytest.fixture(autouse=True)
async def _nobody_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


# ---- output --------------------------------------------------------------------------------------------------


async def test_a_stream_brings_what_is_said_before_and_meanwhile_and_ends_with_the_answer() -> None:
    stream, out = SseStream(), Out()
    say(stream, 1)
    reading = bring(stream, out)
    await received(out, 1)
    say(stream, 2, 3)
    await received(out, 1, 2, 3)
    assert not reading.done()
    stream.finish(b'{"n":4}')
    await reading
    assert (numbers(out), out.ended, out.status) == ([1, 2, 3, 4], True, 200)
    assert out.header("content-type") == "text/event-stream"
    assert (out.header("cache-control"), out.header("x-accel-buffering")) == ("no-cache, no-transform", "no")
    assert not stream.has_reader


async def test_a_stream_without_a_number_has_no_ids_and_keeps_nothing() -> None:
    stream = SseStream()
    say(stream, 1, 2)
    stream.finish()
    out = await brought(stream)
    assert out.body == b':\n\ndata: {"n":1}\n\ndata: {"n":2}\n\n'
    assert stream.size == 0


@pytest.mark.parametrize("primes", [True, False])
async def test_a_stream_with_a_number_gives_every_event_an_id_and_may_prime_its_reader(primes: bool) -> None:
    stream = SseStream(7, primes=primes)
    say(stream, 1, 2)
    stream.finish(b'{"n":3}')
    out = await brought(stream)
    assert out.blocks[0] == ({"id": "7-0", "retry": str(RETRY_MILLISECONDS), "data": ""} if primes else {":": ""})
    assert out.pairs == [("7-1", {"n": 1}), ("7-2", {"n": 2}), ("7-3", {"n": 3})]
    assert stream.size == len(out.body) - len(out.chunks[0])


async def test_what_json_cannot_say_is_not_said_and_does_not_count() -> None:
    stream = SseStream(1)
    say(stream, 1)
    with pytest.raises(UsageError):
        say(stream, object())
    say(stream, 2)
    stream.finish()
    assert [id for id, _ in (await brought(stream)).pairs] == ["1-1", "1-2"]


async def test_after_the_end_nothing_is_said() -> None:
    stream = SseStream(1)
    stream.finish(b'{"n":1}')
    say(stream, 2)
    stream.finish(b'{"n":3}')
    assert (stream.done, numbers(await brought(stream))) == (True, [1])


async def test_a_stream_counts_as_opened_when_something_was_said_or_it_was_opened() -> None:
    said, opened, silent = SseStream(), SseStream(), SseStream()
    say(said, 1)
    opened.open()
    assert (said.opened, opened.opened, silent.opened) == (True, True, False)


async def test_a_silent_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_stream, "KEEP_ALIVE", 0.01)
    stream, out = SseStream(1), Out()
    reading = bring(stream, out)
    await eventually(lambda: out.chunks.count(b":\n\n") >= 3)
    say(stream, 1)
    await received(out, 1)
    stream.finish()
    await reading


# ---- coming again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(6))
async def test_a_stream_is_resumed_after_each_of_its_events(after: int) -> None:
    stream = SseStream(3, primes=True)
    say(stream, *range(1, 5))
    stream.finish(b'{"n":5}')
    assert numbers(await brought(stream)) == [1, 2, 3, 4, 5]
    assert stream.has_more_after(after) is (after < 5)
    again = await brought(stream, after)
    assert again.pairs == [(f"3-{n}", {"n": n}) for n in range(after + 1, 6)]
    assert again.blocks[0] == {":": ""}, "who comes again was primed before"


async def test_a_client_that_resumes_an_open_stream_gets_new_events_too() -> None:
    stream, first, second = SseStream(1), Out(), Out()
    say(stream, 1, 2)
    reading = bring(stream, first)
    await received(first, 1, 2)
    stream.detach()
    await reading
    assert [stream.has_more_after(n) for n in (0, 1, 2, 3)] == [True, True, True, False]
    say(stream, 3)
    reading = bring(stream, second, 1)
    await received(second, 2, 3)
    say(stream, 4)
    await received(second, 2, 3, 4)
    stream.finish()
    await reading
    assert not stream.has_more_after(4)


async def test_a_standing_stream_goes_on_where_the_last_reader_stopped() -> None:
    stream, first, second = SseStream(0, primes=True), Out(), Out()
    say(stream, 1, 2)
    reading = bring(stream, first)
    await received(first, 1, 2)
    stream.detach()
    await reading
    say(stream, 3)
    reading = bring(stream, second)
    await received(second, 3)
    assert second.blocks[0]["id"] == "0-2"
    stream.finish()
    await reading


async def test_a_position_that_was_never_reached_waits_and_does_not_spin() -> None:
    stream, out = SseStream(0), Out()
    reading = bring(stream, out, 5)
    await turns(20)
    say(stream, 1)
    stream.finish()
    await asyncio.wait_for(reading, 10)
    assert out.messages == []


@pytest.mark.parametrize(
    "id, place",
    [
        *(("0-0", (0, 0)), ("7-12", (7, 12)), ("007-1", (7, 1))),
        *(
            (wrong, None)
            for wrong in ("", "7", "-", "7-", "-7", "a-1", "1-a", "1-2-3", " 1-2", "1-+2", "\xb2-1", "1-\u0663")
        ),
        *(("1" * 30 + "-1", (int("1" * 30), 1)), ("1" * 5000 + "-1", None), ("1-" + "1" * 38, None)),
    ],
)
def test_an_event_id_says_a_stream_and_a_position(id: str, place: Any) -> None:
    assert parse_event_id(id) == place


# ---- readers -------------------------------------------------------------------------------------------------


async def test_the_latest_reader_takes_over_and_nothing_comes_twice() -> None:
    stream, first, second = SseStream(1), Out(), Out()
    one = bring(stream, first)
    say(stream, 1)
    await received(first, 1)
    two = bring(stream, second)
    await one
    assert first.ended
    say(stream, 2)
    await received(second, 2)
    stream.finish()
    await two
    assert numbers(first) == [1]


async def test_what_was_being_written_when_another_took_over_is_brought_by_the_other() -> None:
    stream, first, second = SseStream(1), Out(), Out()
    one = bring(stream, first)
    await eventually(lambda: first.chunks)
    first.flows.clear()
    say(stream, 1)
    await turns()
    two = bring(stream, second)
    await received(second, 1)
    first.flows.set()
    await one
    say(stream, 2)
    await received(second, 1, 2)
    assert stream.has_reader
    stream.finish()
    await two


async def test_a_client_that_leaves_ends_its_response_at_once_and_the_rest_waits_for_the_next() -> None:
    stream, out = SseStream(1), Out()
    reading = bring(stream, out)
    await eventually(lambda: out.chunks)
    assert stream.has_reader
    stream.detach()
    assert not stream.has_reader
    await reading
    assert out.ended
    say(stream, 1)
    stream.finish()
    assert numbers(await brought(stream)) == [1]


async def test_a_replaced_reader_cannot_end_the_response_of_its_successor() -> None:
    stream, out = SseStream(1), Out()
    old = stream.attach()
    new = stream.attach()
    reading = asyncio.create_task(stream.pump(out, new))
    await eventually(lambda: out.chunks)
    stream.detach(old)
    say(stream, 1)
    await received(out, 1)
    stream.detach(new)
    await reading
    assert out.ended


async def test_a_pause_is_for_the_response_that_reads_when_it_comes() -> None:
    stream, first, second = SseStream(1), Out(), Out()
    one = bring(stream, first)
    await eventually(lambda: first.chunks)
    first.flows.clear()
    say(stream, 1)
    await turns()
    two = bring(stream, second)
    second.flows.clear()
    stream.pause()
    first.flows.set()
    await one  # it ends, and takes the pause of the other not with it
    second.flows.set()
    await asyncio.wait_for(two, 10)
    assert numbers(second) == [1]


@pytest.mark.parametrize("kind", [OSError, BrokenPipeError, ConnectionResetError])
async def test_unsent_events_are_sent_to_a_client_that_reconnects(kind: type[OSError]) -> None:
    stream, out = SseStream(1), Out()
    reading = bring(stream, out)
    await eventually(lambda: out.chunks)
    out.broken = kind("gone")
    say(stream, 1)
    await reading
    assert not stream.has_reader
    say(stream, 2)
    stream.finish()
    assert numbers(await brought(stream)) == [1, 2]


async def test_a_cancelled_reader_reads_nothing_further() -> None:
    stream, out = SseStream(1), Out()
    reading = bring(stream, out)
    await eventually(lambda: out.chunks)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not stream.has_reader


async def test_a_pause_ends_the_response_after_what_was_said_and_the_stream_goes_on() -> None:
    stream, out = SseStream(1), Out()
    reading = bring(stream, out)
    say(stream, 1, 2)
    stream.pause()
    say(stream, 3)
    await reading
    assert (numbers(out), out.ended, stream.done) == ([1, 2, 3], True, False)
    say(stream, 4)
    again = Out()
    reading = bring(stream, again, 3)
    await received(again, 4)
    await turns()
    assert not reading.done(), "a pause ends one response"
    stream.finish()
    await reading
