"""Streams in memory, and the link over any stream of whole messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.transports.children import Opened, Taker
from toolcrib.errors import ConnectError, ConnectionLost, StartError, UsageError
from toolcrib.protocol import limits
from toolcrib.protocol.jsonrpc import Message
from toolcrib.transports import message_stream
from toolcrib.transports.message_stream import MemoryStream, MessageLink, MessageStream, closing_stream

# ---- the two ends --------------------------------------------------------------------------------------------


def test_an_end_is_a_message_stream() -> None:
    assert all(isinstance(end, MessageStream) for end in MemoryStream.pair())


async def test_what_one_end_sends_the_other_receives_in_order() -> None:
    a, b = MemoryStream.pair()
    for n in range(10):
        await a.send({"n": n})
        await b.send({"back": n})
    assert [(await b.receive())["n"] for _ in range(10)] == list(range(10))
    assert [(await a.receive())["back"] for _ in range(10)] == list(range(10))


async def test_a_receiver_waits_for_what_comes_and_loses_nothing_when_it_is_cancelled() -> None:
    a, b = MemoryStream.pair()
    waiting = asyncio.create_task(b.receive())
    await turns()
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    await a.send({"n": 1})
    assert await b.receive() == {"n": 1}


async def test_what_was_sent_before_the_end_is_received_and_then_the_end_again_and_again() -> None:
    a, b = MemoryStream.pair()
    await a.send({"n": 1})
    await a.close()
    await a.close()
    assert await b.receive() == {"n": 1}
    for _ in range(3):
        with pytest.raises(EOFError):
            await b.receive()


async def test_closing_wakes_both_ends() -> None:
    a, b = MemoryStream.pair()
    waiting = [asyncio.create_task(a.receive()), asyncio.create_task(b.receive())]
    await turns()
    await a.close()
    for each in waiting:
        with pytest.raises(EOFError):
            await each
    with pytest.raises(ConnectionLost):
        await a.send({"n": 1})


# ---- the link ------------------------------------------------------------------------------------------------


class Linked(Opened):
    """A link over a stream of the test, and the other end."""

    def __init__(self, stream: MessageStream | None = None, connect: Any = None) -> None:
        near, self.far = MemoryStream.pair()
        stream = stream or near
        super().__init__(MessageLink(connect or (lambda: closing_stream(stream))))


async def test_messages_go_both_ways_in_order() -> None:
    async with Linked() as linked:
        tickets = [linked.link.send({"n": n}) for n in range(10)]
        assert [(await linked.far.receive())["n"] for _ in range(10)] == list(range(10))
        assert all(ticket.sent for ticket in tickets)
        for n in range(10):
            await linked.far.send({"n": n})
        await eventually(lambda: linked.taker.messages == [{"n": n} for n in range(10)])


async def test_what_is_not_handed_over_yet_can_be_taken_back_and_never_arrives() -> None:
    async with Linked() as linked:
        first, second, third = (linked.link.send({"n": n}) for n in range(3))
        assert linked.link.withdraw(second)
        assert linked.link.withdraw(second)
        assert [(await linked.far.receive())["n"] for _ in range(2)] == [0, 2]
        assert not linked.link.withdraw(first)
        assert not linked.link.withdraw(third)
        assert not second.sent


async def test_what_json_cannot_say_fails_its_sender_and_not_the_stream() -> None:
    async with Linked() as linked:
        with pytest.raises(UsageError):
            linked.link.send({"x": object()})
        linked.link.send({"n": 1})
        assert await linked.far.receive() == {"n": 1}


class Blocked(MemoryStream):
    """Accepts one message, then blocks."""

    def __init__(self) -> None:
        near, self.far = MemoryStream.pair()
        self.__dict__.update(near.__dict__)
        self.taken: list[Any] = []
        self.failure: Exception | None = None
        self.go_on = asyncio.Event()

    async def send(self, message: Any) -> None:
        self.taken.append(message)
        await self.go_on.wait()
        if self.failure is not None:
            raise self.failure


async def test_a_stream_that_does_not_take_more_holds_the_rest_back() -> None:
    stream = Blocked()
    async with Linked(stream) as linked:
        first, second = linked.link.send({"n": 1}), linked.link.send({"n": 2})
        await turns()
        assert (first.sent, second.sent) == (True, False)
        assert linked.link.withdraw(second)
        stream.go_on.set()
        await turns()
        assert stream.taken == [{"n": 1}]


async def test_a_stream_that_fails_in_sending_is_lost_and_the_rest_was_never_sent() -> None:
    stream = Blocked()
    stream.failure = OSError("broken")
    async with Linked(stream) as linked:
        first, second = linked.link.send({"n": 1}), linked.link.send({"n": 2})
        await turns()
        stream.go_on.set()
        await eventually(lambda: linked.taker.lost)
        assert linked.taker.lost == [stream.failure]
        assert (linked.link.withdraw(first), linked.link.withdraw(second)) == (False, True)
        assert linked.link.withdraw(linked.link.send({"n": 3}))
        assert stream.taken == [{"n": 1}]


async def test_the_end_of_the_other_side_is_a_loss_and_is_reported_once() -> None:
    async with Linked() as linked:
        await linked.far.send({"n": 1})
        await linked.far.close()
        await eventually(lambda: linked.taker.lost)
        assert linked.taker.messages == [{"n": 1}]
        assert isinstance(linked.taker.lost[0], ConnectionLost)
    assert len(linked.taker.lost) == 1


async def test_closing_is_not_a_loss_closes_the_stream_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    async with Linked() as linked:
        await turns()
    with pytest.raises(EOFError):
        await linked.far.receive()
    assert linked.taker.lost == []
    assert asyncio.all_tasks() == before
    await linked.link.close(force=False)


async def test_closing_what_was_never_opened_is_nothing() -> None:
    await Linked().link.close(force=False)


# ---- somebody else's context manager -------------------------------------------------------------------------


def watched(events: list[tuple[str, Any]], *, leaving: Any = None) -> Any:
    """Return a connector that records the tasks in which it is entered and left."""

    def connect() -> AbstractAsyncContextManager[MessageStream]:
        @asynccontextmanager
        async def manager() -> AsyncIterator[MessageStream]:
            events.append(("entered", asyncio.current_task()))
            try:
                yield MemoryStream.pair()[0]
            finally:
                events.append(("left", asyncio.current_task()))
                if leaving is not None:
                    await leaving()

        return manager()

    return connect


async def test_it_is_entered_and_left_in_one_task_for_any_opener_and_closer() -> None:
    events: list[tuple[str, Any]] = []
    linked = Linked(connect=watched(events))
    await asyncio.create_task(linked.__aenter__())
    await asyncio.create_task(linked.link.close(force=False))
    assert [name for name, _ in events] == ["entered", "left"]
    assert events[0][1] is events[1][1]
    assert events[0][1] is not asyncio.current_task()


@pytest.mark.parametrize("error", [OSError("no route"), ValueError("bad"), StartError("gone", exit_code=1)])
async def test_what_cannot_be_opened_is_a_connect_error_with_its_cause(error: Exception) -> None:
    @asynccontextmanager
    async def connect() -> AsyncIterator[MessageStream]:
        raise error
        yield

    linked = Linked(connect=connect)
    with pytest.raises(ConnectError) as caught:
        await linked.__aenter__()
    assert caught.value is error or (caught.value.__cause__ is error and str(error) in str(caught.value))
    await linked.link.close(force=False)
    assert linked.taker.lost == []


async def test_an_opening_that_is_cancelled_is_undone() -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def connect() -> AsyncIterator[MessageStream]:
        entered.set()
        try:
            await asyncio.Event().wait()
            yield MemoryStream.pair()[0]
        finally:
            left.set()

    before = asyncio.all_tasks()
    opening = asyncio.create_task(Linked(connect=connect).__aenter__())
    await entered.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await eventually(left.is_set)
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_one_that_does_not_close_is_abandoned_and_said_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(message_stream, "CLOSE_SECONDS", 0.01)
    before = asyncio.all_tasks()
    linked = Linked(connect=watched([], leaving=asyncio.Event().wait))
    await linked.__aenter__()
    await linked.link.close(force=False)
    assert "did not close within" in caplog.text
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_a_transport_that_raises_on_exit_does_no_harm() -> None:
    async def broken() -> None:
        raise ValueError("while leaving")

    linked = Linked(connect=watched([], leaving=broken))
    await linked.__aenter__()
    await linked.link.close(force=False)
    assert linked.taker.lost == []


class NeverTakes:
    """A stream that takes nothing."""

    async def send(self, message: Message) -> None:
        await asyncio.Event().wait()

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        raise EOFError

    async def close(self) -> None:
        pass


async def test_too_many_replies_that_wait_end_the_link() -> None:
    link, taker = MessageLink(lambda: closing_stream(NeverTakes())), Taker()
    await link.open(taker)  # type: ignore[arg-type]
    for n in range(limits.MAX_QUEUED):
        link.send({"jsonrpc": "2.0", "id": n, "method": "not counted"})
        link.send({"jsonrpc": "2.0", "id": n, "result": {}})
    link.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    assert taker.lost == []
    link.send({"jsonrpc": "2.0", "id": 0, "result": {}})
    assert "does not read the replies" in str(taker.lost[0])
    await link.close(force=True)
