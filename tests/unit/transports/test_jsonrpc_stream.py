"""Requests and answers over a stream: every request gets its own answer, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.kit import turns
from tests.unit.transports.links import Bench
from toolcrib.errors import ConnectionLost, OutcomeUnknown, ProtocolError, RemoteError, UsageError
from toolcrib.protocol import limits

# ---- ids -----------------------------------------------------------------------------------------------------


async def test_ids_begin_at_one_and_are_never_used_again(bench: Bench) -> None:
    first = await bench.ask()
    bench.answer(1)
    await first
    second, third = await bench.ask(), await bench.ask()
    second.cancel()
    await turns()
    fourth = await bench.ask()
    assert [message["id"] for message in bench.link.handed_over if "id" in message] == [1, 2, 3, 4]
    bench.answer(3)
    bench.answer(4)
    await third
    await fourth


async def test_a_request_that_cannot_be_written_uses_up_its_id_and_leaves_nothing(bench: Bench) -> None:
    def refuse(message: Any) -> Any:
        raise UsageError("no JSON")

    send, bench.link.send = bench.link.send, refuse  # type: ignore[method-assign]
    with pytest.raises(UsageError):
        await bench.channel.request("tools/call", {"x": object()})
    bench.link.send = send  # type: ignore[method-assign]
    task = await bench.ask()
    assert bench.last_id == 2
    bench.answer(2)
    await task


async def test_the_caller_learns_the_id_before_it_is_sent(bench: Bench) -> None:
    ids: list[tuple[int, int]] = []
    task = await bench.ask(on_id=lambda id: ids.append((id, len(bench.link.handed_over))))
    assert ids == [(1, 0)]
    bench.answer(1)
    await task


@pytest.mark.parametrize("id", [1, "1", "01"])
async def test_a_number_and_its_text_answer_the_same_request(bench: Bench, id: Any) -> None:
    task = await bench.ask()
    bench.answer(id, {"ok": 1})
    assert await task == {"ok": 1}


@pytest.mark.parametrize("id", [True, 1.0, None, "", "x", [1], {"id": 1}, -1, 0, 2])
async def test_an_answer_without_a_request_is_counted_and_does_no_harm(bench: Bench, id: Any) -> None:
    task = await bench.ask()
    bench.answer(id)
    await turns()
    assert not task.done()
    assert bench.channel.counters.unmatched == 1
    bench.answer(1)
    await task


async def test_many_answers_in_any_order_reach_their_own_callers(bench: Bench) -> None:
    tasks = [await bench.ask(params={"n": n}) for n in range(50)]
    for message in reversed(bench.link.handed_over):
        bench.answer(message["id"], {"n": message["params"]["n"]})
    assert [(await task)["n"] for task in tasks] == list(range(50))
    assert bench.channel.counters.received == 50


async def test_a_second_answer_is_counted_and_dropped(bench: Bench) -> None:
    task = await bench.ask()
    bench.answer(1, {"which": "first"})
    bench.answer(1, {"which": "second"})
    assert await task == {"which": "first"}
    bench.answer(1, {"which": "third"})
    assert bench.channel.counters.unmatched == 2


# ---- outcomes ------------------------------------------------------------------------------------------------


async def test_an_error_answer_is_a_remote_error(bench: Bench) -> None:
    task = await bench.ask()
    bench.receive({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "bad", "data": [1]}})
    with pytest.raises(RemoteError) as caught:
        await task
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32602, "bad", [1])


@pytest.mark.parametrize("answer", [{}, {"result": None}, {"result": []}, {"error": "no"}, {"error": None}])
async def test_an_answer_of_a_wrong_shape_fails_its_own_call_alone(bench: Bench, answer: Any) -> None:
    broken, sound = await bench.ask(), await bench.ask()
    bench.receive({"jsonrpc": "2.0", "id": 1, **answer})
    with pytest.raises(ProtocolError):
        await broken
    bench.answer(2)
    await sound


async def test_an_error_of_null_beside_a_result_is_a_result(bench: Bench) -> None:
    task = await bench.ask()
    bench.receive({"jsonrpc": "2.0", "id": 1, "error": None, "result": {"a": 1}})
    assert await task == {"a": 1}


async def test_a_broken_line_fails_the_call_whose_id_can_be_read(bench: Bench) -> None:
    broken, sound = await bench.ask(), await bench.ask()
    bench.link.receiver.on_malformed(ProtocolError("not JSON"), b'{"jsonrpc":"2.0","id":1,"result":{"x":\xff')
    with pytest.raises(ProtocolError, match="not JSON"):
        await broken
    assert not sound.done()
    bench.answer(2)
    await sound


async def test_garbage_is_counted_and_only_an_endless_row_of_it_ends_the_channel(bench: Bench) -> None:
    task = await bench.ask()
    for _ in range(limits.MAX_MALFORMED):
        bench.link.receiver.on_malformed(ProtocolError("not JSON"), b"INFO hello")
    bench.receive({"jsonrpc": "2.0", "method": "notifications/message"})
    for message in (None, 7, "text", [], {}, {"result": {}}, {"method": 7}, {"jsonrpc": "2.0"}):
        bench.receive(message)
    assert bench.channel.counters.malformed == limits.MAX_MALFORMED + 8
    assert not task.done()
    for _ in range(limits.MAX_MALFORMED - 7):
        bench.link.receiver.on_malformed(ProtocolError("not JSON"), b"INFO hello")
    with pytest.raises(OutcomeUnknown, match="more than 1000 malformed messages in a row"):
        await task
    assert isinstance(bench.inbound.ended[0], ProtocolError)


async def test_a_batch_is_taken_apart(bench: Bench) -> None:
    one, two = await bench.ask(), await bench.ask()
    bench.receive(
        [
            {"jsonrpc": "2.0", "id": 2, "result": {"n": 2}},
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}},
            7,
            [{"jsonrpc": "2.0", "id": 1, "result": {"nested": True}}],
            {"jsonrpc": "2.0", "id": 1, "result": {"n": 1}},
            {"jsonrpc": "2.0", "id": "theirs", "method": "ping"},
        ]
    )
    assert (await one, await two) == ({"n": 1}, {"n": 2})
    assert bench.inbound.received == [("notifications/message", {"level": "info"})]
    assert (bench.channel.counters.received, bench.channel.counters.malformed) == (4, 2)
    await turns()
    assert [reply["id"] for reply in bench.link.replies()] == ["theirs"]


# ---- the end -------------------------------------------------------------------------------------------------


async def test_when_the_link_is_lost_each_call_learns_whether_it_was_sent(bench: Bench) -> None:
    sent = await bench.ask()
    bench.link.open_pipe = False
    unsent = await bench.ask()
    why = OSError("the peer died")
    bench.link.receiver.on_lost(why)
    with pytest.raises(OutcomeUnknown, match="may have been executed") as lost:
        await sent
    with pytest.raises(ConnectionLost, match="never sent") as kept:
        await unsent
    assert (lost.value.sent, kept.value.sent) == (True, False)
    assert lost.value.__cause__ is kept.value.__cause__ is why
    assert bench.link.queue == []
    assert bench.inbound.ended == [why]


async def test_after_the_end_a_request_is_surely_unsent_and_a_notification_is_nothing(bench: Bench) -> None:
    bench.link.receiver.on_lost(OSError("the peer died"))
    bench.link.receiver.on_lost(OSError("again"))
    with pytest.raises(ConnectionLost, match="the peer died"):
        await bench.channel.request("tools/call", None)
    await bench.channel.notify("notifications/initialized")
    assert bench.link.handed_over == []
    assert len(bench.inbound.ended) == 1


@pytest.mark.parametrize("force", [True, False])
async def test_closing_ends_the_calls_and_then_the_link_and_is_not_a_loss(bench: Bench, force: bool) -> None:
    task = await bench.ask()
    await bench.channel.close(force=force)
    with pytest.raises(OutcomeUnknown, match="closed"):
        await task
    assert bench.link.closed == [force]
    bench.link.receiver.on_lost(OSError("late"))
    assert bench.inbound.ended == []


async def test_an_answer_that_comes_after_the_end_does_no_harm(bench: Bench) -> None:
    task = await bench.ask()
    bench.link.receiver.on_lost(OSError("gone"))
    bench.answer(1)
    with pytest.raises(OutcomeUnknown):
        await task
    assert bench.channel.counters.unmatched == 1


async def test_nothing_is_kept_of_a_call_that_is_over(bench: Bench) -> None:
    for end in ("answer", "error", "cancel", "lost"):
        task = await bench.ask()
        if end == "answer":
            bench.answer(bench.last_id)
        elif end == "error":
            bench.receive({"jsonrpc": "2.0", "id": bench.last_id, "error": {"code": 1, "message": ""}})
        elif end == "cancel":
            task.cancel()
        else:
            bench.link.receiver.on_lost(OSError("gone"))
        await asyncio.wait([task])
        task.exception() if not task.cancelled() else None
        assert bench.channel._pending == {}
