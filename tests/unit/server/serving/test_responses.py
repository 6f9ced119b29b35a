"""The response to one request: JSON or a stream, for clients that stay, read slowly, or have disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.asgi_kit import Out
from toolcrib.server.serving.responses import CLOSED, Reply
from toolcrib.server.serving.sse_stream import BACKLOG, SseStream

JSON_ONLY = {b"accept": b"application/json"}


@pytest.fixture(autouse=True)
async def _nobody_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


def numbered() -> SseStream:
    return SseStream(1, primes=True)


def received(out: Out) -> list[Any]:
    return [message.get("params", {}).get("n", message.get("result")) for message in out.messages]


# ---- json or a stream ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, JSON_ONLY])
@pytest.mark.parametrize("status", [200, 400])
async def test_an_answer_that_is_all_there_is_to_say_is_json(headers: dict[bytes, bytes], status: int) -> None:
    out = Out()
    reply = Reply(out, headers)
    await reply.finish(b'{"result":1}', status)
    assert (out.status, out.json, out.ended) == (status, {"result": 1}, True)
    assert out.header("content-type") == "application/json"
    assert reply.stream is None


async def test_what_comes_before_the_answer_makes_it_a_stream() -> None:
    out = Out()
    reply = Reply(out, {})
    await reply.notify("m", {"n": 1})
    await eventually(lambda: received(out) == [1])
    assert not out.ended
    await reply.notify("m", {"n": 2})
    await reply.finish(b'{"result":3}', 400)
    assert (out.status, received(out), out.ended) == (200, [1, 2, 3], True)
    assert out.header("content-type") == "text/event-stream"


async def test_a_client_that_accepts_only_json_receives_only_the_answer() -> None:
    out = Out()
    reply = Reply(out, JSON_ONLY)
    assert not reply.may_stream
    await reply.notify("m", {"n": 1})
    await reply.pause()
    assert reply.stream is None
    await reply.finish(b"{}")
    assert out.header("content-type") == "application/json"


async def test_a_stream_is_opened_once_and_of_the_kind_that_is_wanted() -> None:
    out, made = Out(), []

    def make() -> SseStream:
        made.append(SseStream(7))
        return made[-1]

    reply = Reply(out, {}, make)
    assert made == []
    stream = reply.open()
    assert stream.opened and stream.has_reader, "notifications from now on find a reader"
    assert reply.open() is reply.stream is stream
    await reply.finish(b'{"result":1}')
    assert (len(made), out.pairs) == (1, [("7-1", {"result": 1})])


async def test_a_request_that_was_cancelled_ends_without_an_answer() -> None:
    silent, spoken = Out(), Out()
    await Reply(silent, {}).finish(None)
    assert (silent.status, silent.body, silent.ended) == (200, b"", True)
    assert silent.header("content-type") == "text/event-stream"
    reply = Reply(spoken, {})
    await reply.notify("m", {"n": 1})
    await reply.finish(None)
    assert (received(spoken), spoken.ended) == ([1], True)


async def test_a_tool_that_sends_much_waits_for_a_client_that_reads_slowly() -> None:
    out = Out()
    reply = Reply(out, {})
    await reply.notify("m", {"n": 0})
    out.flows.clear()

    async def tell() -> None:
        for number in range(1, BACKLOG + 5):
            await reply.notify("m", {"n": number})

    telling = asyncio.create_task(tell())
    await turns(2 * BACKLOG)
    assert not telling.done()
    out.flows.set()
    await asyncio.wait_for(telling, 10)
    await reply.finish(b'{"result":"end"}')
    assert received(out) == [*range(BACKLOG + 5), "end"]


# ---- a pause -------------------------------------------------------------------------------------------------


async def test_a_pause_ends_the_response_and_the_rest_waits_in_the_stream() -> None:
    out, again = Out(), Out()
    reply = Reply(out, {}, numbered)
    await reply.notify("m", {"n": 1})
    await reply.pause()
    assert (received(out), out.ended) == ([1], True)
    await reply.notify("m", {"n": 2})
    await reply.finish(b'{"result":3}')
    assert reply.stream is not None
    await reply.stream.pump(again, reply.stream.attach(), 1)
    assert received(again) == [2, 3]


async def test_a_pause_may_be_the_first_thing_that_is_said() -> None:
    out = Out()
    reply = Reply(out, {}, numbered)
    await reply.pause()
    assert (out.messages, out.ended, out.blocks[0]["id"]) == ([], True, "1-0")
    await reply.finish(b"{}")


async def test_a_client_that_could_not_come_again_gets_no_pause() -> None:
    out = Out()
    reply = Reply(out, {}, lambda: SseStream(1))
    await reply.notify("m", {"n": 1})
    await reply.pause()
    assert not out.ended
    await reply.finish(b'{"result":2}')
    assert received(out) == [1, 2]


async def test_a_second_pause_ends_the_response_with_which_the_client_came_again() -> None:
    out, again = Out(), Out()
    reply = Reply(out, {}, numbered)
    await reply.notify("m", {"n": 1})
    await reply.pause()
    assert reply.stream is not None
    reading = asyncio.create_task(reply.stream.pump(again, reply.stream.attach(), 1))
    await reply.notify("m", {"n": 2})
    await reply.pause()
    await turns()
    ended = again.ended
    await reply.finish(b"{}")
    await reading
    assert ended, "a pause ends the response, also a later one"


async def test_the_response_is_out_when_it_was_paused_though_the_work_goes_on() -> None:
    out, works = Out(), asyncio.Event()
    reply = Reply(out, {}, numbered)

    async def work() -> None:
        await reply.pause()
        await works.wait()
        await reply.finish(b"{}")

    task = asyncio.create_task(work())
    await asyncio.wait_for(reply.until_out(task), 10)
    assert out.ended and not task.done()
    works.set()
    await task


async def test_the_response_is_out_when_the_work_is_done() -> None:
    out = Out()
    reply = Reply(out, {})
    task = asyncio.create_task(reply.finish(b"{}"))
    await asyncio.wait_for(reply.until_out(task), 10)
    assert out.ended and task.done()


# ---- disconnected clients ------------------------------------------------------------------------------------


async def test_a_tool_does_not_wait_for_a_client_that_has_gone_and_missed_messages_are_kept() -> None:
    out, again = Out(), Out()
    reply = Reply(out, {}, numbered)
    await reply.notify("m", {"n": 0})
    await eventually(lambda: received(out) == [0])
    out.broken = ConnectionResetError("gone")
    for number in range(1, 2 * BACKLOG):
        await asyncio.wait_for(reply.notify("m", {"n": number}), 10)
    await reply.finish(b'{"result":"end"}')
    assert reply.stream is not None
    await reply.stream.pump(again, reply.stream.attach(), 1)
    assert received(again) == [*range(1, 2 * BACKLOG), "end"]


@pytest.mark.parametrize("answer", [b"{}", None])
async def test_an_answer_to_a_client_that_has_gone_is_not_a_failure(answer: bytes | None) -> None:
    out = Out()
    out.broken = BrokenPipeError("gone")
    await Reply(out, {}).finish(answer)


async def test_a_client_that_left_gets_the_end_of_its_response() -> None:
    silent, spoken, broken = Out(), Out(), Out()
    await Reply(silent, {}).dismiss()
    assert (silent.status, silent.ended) == (CLOSED, True)
    reply = Reply(spoken, {})
    await reply.notify("m", {"n": 1})
    await reply.dismiss()
    await eventually(lambda: spoken.ended)
    broken.broken = BrokenPipeError("gone")
    await Reply(broken, {}).dismiss()


# ---- the task that answers -----------------------------------------------------------------------------------


async def worked(reply: Reply, during: Callable[[], Awaitable[Any]]) -> Any:
    """Return the outcome of the work: not begun, done, stopped, or an error of the handler."""
    if not reply.begin():
        return "not begun"
    try:
        await during()
    except asyncio.CancelledError as exc:
        return "not wanted" if reply.take_cancellation(exc) else "fault"
    return "done"


async def for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("times", [1, 3])
async def test_stopping_cancels_the_work_once(times: int) -> None:
    reply = Reply(Out(), {})
    task = asyncio.create_task(worked(reply, for_ever))
    await turns()
    for _ in range(times):
        reply.stop()
    assert await asyncio.wait_for(task, 10) == "not wanted"
    assert task.cancelling() == 0


async def test_work_that_catches_its_cancellation_leaves_no_count_behind_and_is_not_stopped_later() -> None:
    reply = Reply(Out(), {})

    async def catch() -> None:
        reply.begin()
        with pytest.raises(asyncio.CancelledError):
            await for_ever()
        reply.end()
        reply.stop()
        await turns()

    task = asyncio.create_task(catch())
    await turns()
    reply.stop()
    await asyncio.wait_for(task, 10)
    assert task.cancelling() == 0


async def test_what_was_stopped_before_it_began_does_not_begin() -> None:
    reply = Reply(Out(), {})
    reply.stop()
    task = asyncio.create_task(worked(reply, for_ever))
    assert await asyncio.wait_for(task, 10) == "not begun"
    assert task.cancelling() == 0


async def test_a_cancellation_from_outside_passes_on_and_leaves_the_client() -> None:
    out = Out()
    reply = Reply(out, {})
    await reply.notify("m", {"n": 1})
    task = asyncio.create_task(worked(reply, for_ever))
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: out.ended)


@pytest.mark.parametrize("first", ["stop", "cancel"])
async def test_a_cancellation_from_outside_passes_on_also_without_a_waiting_client(first: str) -> None:
    reply = Reply(Out(), {})
    task = asyncio.create_task(worked(reply, for_ever))
    await turns()
    ends = [reply.stop, task.cancel]
    for end in ends if first == "stop" else reversed(ends):
        end()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_error_raised_by_the_handler_is_a_fault() -> None:
    async def raises() -> None:
        raise asyncio.CancelledError

    reply = Reply(Out(), {})
    assert await asyncio.create_task(worked(reply, raises)) == "fault"


async def test_an_earlier_cancellation_does_not_affect_this_work() -> None:
    reply = Reply(Out(), {})

    async def begin_again() -> Any:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return await worked(reply, for_ever)

    task = asyncio.create_task(begin_again())
    await turns()
    task.cancel()
    await turns()
    reply.stop()
    assert await asyncio.wait_for(task, 10) == "not wanted"
