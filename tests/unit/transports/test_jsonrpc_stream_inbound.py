"""Messages that the peer initiates: requests, cancellations, progress, in order."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.transports.links import Bench
from toolcrib.errors import RemoteError
from toolcrib.protocol import jsonrpc, limits
from toolcrib.types import Wire

# ---- requests ------------------------------------------------------------------------------------------------


def ask_us(bench: Bench, id: Any, method: str = "roots/list", params: Any = None) -> None:
    bench.receive({"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})})


@pytest.mark.parametrize("id", [0, 7, "7", "", "x"])
async def test_a_request_is_answered_under_its_very_id(bench: Bench, id: Any) -> None:
    ask_us(bench, id, "roots/list", {"a": 1})
    await turns()
    assert bench.link.replies() == [jsonrpc.result(id, {"method": "roots/list", "params": {"a": 1}})]
    assert type(bench.link.replies()[0]["id"]) is type(id)


@pytest.mark.parametrize("params", [None, [1, 2], "text", 7])
async def test_params_that_are_not_an_object_are_treated_as_empty(bench: Bench, params: Any) -> None:
    ask_us(bench, 1, params=params)
    await turns()
    assert bench.link.replies()[0]["result"]["params"] == {}


@pytest.mark.parametrize("id", [True, None, 1.5, [], {}])
async def test_a_request_without_a_proper_id_is_dropped_and_counted(bench: Bench, id: Any) -> None:
    ask_us(bench, id)
    await turns()
    assert bench.link.handed_over == []
    assert bench.channel.counters.dropped == 1


async def test_where_the_peer_may_not_ask_its_requests_are_dropped_and_counted(bench: Bench) -> None:
    bench.inbound.takes_requests = False
    ask_us(bench, 1)
    await turns()
    assert bench.link.handed_over == []
    assert bench.channel.counters.dropped == 1


async def test_a_refusal_is_passed_on_and_any_other_exception_keeps_its_words_here(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(method: str, params: Wire) -> Wire:
        raise RemoteError(-32601, "not offered", {"x": 1}) if method == "refused" else ValueError("s3cret")

    bench.inbound.answer = fail
    ask_us(bench, 1, "refused")
    ask_us(bench, 2, "broken")
    await turns()
    refused, broken = bench.link.replies()
    assert refused["error"] == {"code": -32601, "message": "not offered", "data": {"x": 1}}
    assert broken["error"]["code"] == -32603
    assert "s3cret" not in str(broken)
    assert "s3cret" in caplog.text


@pytest.mark.parametrize("how", ["given", "raised"])
async def test_an_answer_that_cannot_be_written_becomes_an_error_answer(bench: Bench, how: str) -> None:
    """A handler may return what JSON cannot represent; the peer must not wait forever."""

    async def unwritable(method: str, params: Wire) -> Wire:
        if how == "raised":
            raise RemoteError(-1, "no", {"x": object()})
        return {"x": object()}

    send = bench.link.send

    def strict(message: Any) -> Any:
        jsonrpc.encode(message)
        return send(message)

    bench.link.send = strict  # type: ignore[method-assign]
    bench.inbound.answer = unwritable
    ask_us(bench, 1)
    await turns()
    (reply,) = bench.link.replies()
    assert (reply["id"], "error" in reply) == (1, True)
    assert bench.channel._inbox._asked == {}


async def test_requests_are_worked_on_at_the_same_time_and_answered_as_they_end(bench: Bench) -> None:
    gates = {1: asyncio.Event(), 2: asyncio.Event()}

    async def wait(method: str, params: Wire) -> Wire:
        await gates[params["n"]].wait()
        return {}

    bench.inbound.answer = wait
    for n in gates:
        ask_us(bench, n, params={"n": n})
    for n in (2, 1):
        gates[n].set()
        await eventually(lambda n=n: bench.link.replies() and bench.link.replies()[-1]["id"] == n)


async def stuck(bench: Bench) -> list[str]:
    """Return handlers that never end, and a list of those that were cancelled."""
    given_up: list[str] = []

    async def never(method: str, params: Wire) -> Wire:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.append(method)
            raise
        return {}

    bench.inbound.answer = never
    return given_up


async def test_beyond_the_cap_a_request_is_refused_at_once(bench: Bench) -> None:
    await stuck(bench)
    for n in range(limits.MAX_INBOUND + 3):
        ask_us(bench, n)
    assert [reply["id"] for reply in bench.link.replies()] == [limits.MAX_INBOUND + n for n in range(3)]
    assert {reply["error"]["code"] for reply in bench.link.replies()} == {-32603}
    assert bench.channel.counters.dropped == 3
    await bench.channel.close()


@pytest.mark.parametrize("id", [7, "7"])
async def test_a_request_that_the_peer_cancelled_gets_no_answer(bench: Bench, id: Any) -> None:
    given_up = await stuck(bench)
    ask_us(bench, id, "sampling/createMessage")
    ask_us(bench, "other", "roots/list")
    await turns()
    bench.receive(jsonrpc.notification("notifications/cancelled", {"requestId": id}))
    await turns()
    assert given_up == ["sampling/createMessage"]
    assert bench.link.handed_over == []
    assert bench.inbound.received == [("notifications/cancelled", {"requestId": id})]
    await bench.channel.close()


@pytest.mark.parametrize("id", [8, "7", True, None, [], {}])
async def test_cancelling_what_was_not_asked_cancels_nothing(bench: Bench, id: Any) -> None:
    given_up = await stuck(bench)
    ask_us(bench, 7)
    await turns()
    bench.receive(jsonrpc.notification("notifications/cancelled", {"requestId": id}))
    await turns()
    assert given_up == []
    await bench.channel.close()


async def test_a_handler_that_is_cancelled_by_itself_is_an_error_answer_and_frees_its_place(bench: Bench) -> None:
    """Only a cancellation by the peer means no answer."""

    async def unlucky(method: str, params: Wire) -> Wire:
        raise asyncio.CancelledError

    bench.inbound.answer = unlucky
    ask_us(bench, 7)
    await turns()
    assert bench.channel._inbox._asked == {}
    assert [reply["error"]["code"] for reply in bench.link.replies()] == [-32603]


async def test_when_the_channel_ends_what_the_peer_asked_is_given_up_without_an_answer(bench: Bench) -> None:
    given_up = await stuck(bench)
    ask_us(bench, 1, "one")
    ask_us(bench, 2, "two")
    await turns()
    bench.link.receiver.on_lost(OSError("gone"))
    await turns()
    assert given_up == ["one", "two"]
    assert bench.link.handed_over == []


# ---- notifications -------------------------------------------------------------------------------------------


async def test_notifications_are_received_in_the_order_in_which_they_came(bench: Bench) -> None:
    for n in range(20):
        bench.receive(jsonrpc.notification(f"notifications/{n}", {"n": n}))
    assert bench.inbound.received == [(f"notifications/{n}", {"n": n}) for n in range(20)]


# ---- progress ------------------------------------------------------------------------------------------------


async def test_progress_reaches_the_handler_of_its_call_before_the_result(bench: Bench) -> None:
    received: list[Any] = []
    params = {"_meta": {"mine": 1}}
    task = await bench.ask(params=params, on_progress=lambda *said: received.append(said))
    assert bench.link.handed_over[0]["params"] == {"_meta": {"mine": 1, "progressToken": 1}}
    assert params == {"_meta": {"mine": 1}}
    bench.progress(1, 0.5, total=2, message="half")
    bench.progress("1", 1)
    bench.progress(2, 9)
    bench.answer(1)
    await task
    assert received == [(0.5, 2, "half"), (1, None, None)]
    bench.progress(1, 2)
    assert len(received) == 2


@pytest.mark.parametrize("bad", [True, False, "1", None, [], {}])
async def test_progress_values_are_numbers_and_never_bools(bench: Bench, bad: Any) -> None:
    received: list[Any] = []
    task = await bench.ask(on_progress=lambda *said: received.append(said))
    bench.progress(1, bad)
    bench.progress(1, 1, total=bad, message=7)
    bench.answer(1)
    await task
    assert received == [(1, None, None)]


async def test_an_async_handler_has_had_everything_before_the_result_is_given(bench: Bench) -> None:
    received: list[float] = []

    async def slow(progress: float, total: float | None, message: str | None) -> None:
        await turns(3)
        received.append(progress)

    task = await bench.ask(on_progress=slow)
    for n in range(5):
        bench.progress(1, n)
    bench.answer(1)
    await task
    assert received == [0, 1, 2, 3, 4]


async def test_a_progress_handler_that_raises_does_no_harm(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def bad(*said: Any) -> None:
        raise ValueError("my own fault")

    task = await bench.ask(on_progress=bad)
    bench.progress(1, 1)
    bench.answer(1, {"ok": 1})
    assert await task == {"ok": 1}
    assert "my own fault" in caplog.text


async def test_a_second_request_with_the_id_of_one_that_is_handled_is_dropped(bench: Bench) -> None:
    """Otherwise one id could start any number of handlers at the same time."""
    asked = 0

    async def never(method: str, params: Wire) -> Wire:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()
        return {}

    bench.inbound.answer = never
    for _ in range(limits.MAX_INBOUND + 10):
        bench.receive(jsonrpc.request("same", "sampling/createMessage", {}))
    await asyncio.sleep(0)
    assert asked == 1
    assert bench.channel.counters.dropped == limits.MAX_INBOUND + 9
    await bench.channel.close()


async def test_handlers_that_go_on_after_a_cancellation_still_count(bench: Bench) -> None:
    ends = asyncio.Event()

    async def stubborn(method: str, params: Wire) -> Wire:
        while not ends.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ends.wait()
        return {}

    bench.inbound.answer = stubborn
    for n in range(limits.MAX_INBOUND + 5):
        bench.receive(jsonrpc.request(n, "sampling/createMessage", {}))
        await asyncio.sleep(0)
        bench.receive(jsonrpc.notification("notifications/cancelled", {"requestId": n}))
    assert bench.channel.counters.dropped == 5
    assert len(bench.link.replies()) == 5
    ends.set()
    await turns()
    bench.receive(jsonrpc.request("later", "ping", {}))
    await turns()
    assert bench.link.replies()[-1]["id"] == "later"


async def test_the_bytes_of_requests_that_are_handled_at_the_same_time_are_bounded(bench: Bench) -> None:
    async def never(method: str, params: Wire) -> Wire:
        await asyncio.Event().wait()
        return {}

    bench.inbound.answer = never
    third = "x" * (limits.MAX_INBOUND_BYTES // 3)
    for n in range(4):
        bench.receive(jsonrpc.request(n, "sampling/createMessage", {"pad": third}))
    await asyncio.sleep(0)
    assert [message["id"] for message in bench.link.replies()] == [2, 3]
    await bench.channel.close()
