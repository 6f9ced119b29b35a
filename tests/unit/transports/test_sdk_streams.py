"""Foreign transports by duck typing. tests/peers uses the real ones of the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from toolcrib.errors import ConfigError, ConnectionLost
from toolcrib.transports.message_stream import MemoryStream
from toolcrib.transports.sdk_streams import StreamPair, connector


class EndOfStream(Exception):  # known by its name, as anyio's
    pass


class Pipe:
    """One direction, like anyio's object streams."""

    def __init__(self, items: list[Any] | None = None) -> None:
        self.items: asyncio.Queue[Any] = asyncio.Queue()
        self.closed = False
        for item in items or []:
            self.items.put_nowait(item)

    async def send(self, item: Any) -> None:
        await self.items.put(item)

    async def receive(self) -> Any:
        if self.items.empty() and self.closed:
            raise EndOfStream
        return await self.items.get()

    async def aclose(self) -> None:
        self.closed = True


class IterablePipe(Pipe):
    def __aiter__(self) -> IterablePipe:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None


class Parsed:
    """A message as a model class of another library."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, **options: Any) -> Any:
        assert options == {"by_alias": True, "mode": "json", "exclude_unset": True}
        return self.fields


class Envelope:
    def __init__(self, message: Any) -> None:
        self.message = message


def in_every_shape(made: Any) -> list[Any]:
    """Return callables that give the value: directly, awaited, as a context manager, and as an awaited one."""

    async def later() -> Any:
        return made

    @asynccontextmanager
    async def manager() -> AsyncIterator[Any]:
        yield made

    async def manager_later() -> Any:
        return manager()

    return [lambda: made, later, manager, manager_later]


SHAPES = ["at once", "awaited", "context manager", "awaited context manager"]


@pytest.mark.parametrize("shape", range(4), ids=SHAPES)
@pytest.mark.parametrize("kind", ["pair", "triple", "stream"])
async def test_a_transport_may_come_in_every_shape(shape: int, kind: str) -> None:
    there, back = IterablePipe([{"n": 1}]), Pipe()
    stream, peer = MemoryStream.pair()
    await peer.send({"n": 1})
    made = {"pair": (there, back), "triple": (there, back, lambda: "session"), "stream": stream}[kind]
    async with connector(in_every_shape(made)[shape])() as opened:
        assert await opened.receive() == {"n": 1}
        await opened.send({"n": 2})
    assert (await peer.receive() if kind == "stream" else back.items.get_nowait()) == {"n": 2}


async def test_a_plain_pair_is_closed_when_it_is_left_and_a_context_manager_closes_its_own() -> None:
    there, back = Pipe(), Pipe()
    async with connector(lambda: (there, back))():
        assert not there.closed
    assert there.closed and back.closed
    there, back = Pipe(), Pipe()
    async with connector(in_every_shape((there, back))[2])():
        pass
    assert not there.closed


async def test_the_callable_is_asked_for_each_connection() -> None:
    made: list[tuple[Pipe, Pipe]] = []

    def factory() -> tuple[Pipe, Pipe]:
        made.append((Pipe(), Pipe()))
        return made[-1]

    connect = connector(factory)
    for _ in range(3):
        async with connect():
            pass
    assert len(made) == 3


@pytest.mark.parametrize("made", [None, 7, "http://x", (), (1,), (1, 2), [Pipe(), Pipe()], {"a": 1}])
async def test_a_non_transport_is_named_with_what_was_expected(made: Any) -> None:
    with pytest.raises(ConfigError, match=type(made).__name__) as caught:
        async with connector(lambda: made)():
            pass
    assert "MessageStream" in (caught.value.expected or "")


@pytest.mark.parametrize("pipe", [Pipe, IterablePipe])
async def test_items_are_taken_out_of_their_envelopes(pipe: type[Pipe]) -> None:
    items = [Envelope(Parsed(jsonrpc="2.0", id=1)), Envelope({"n": 2}), Parsed(n=3), {"n": 4}]
    pair = StreamPair(pipe(items), Pipe())
    assert [await pair.receive() for _ in items] == [{"jsonrpc": "2.0", "id": 1}, {"n": 2}, {"n": 3}, {"n": 4}]


async def test_an_exception_among_the_items_is_garbage_and_no_end() -> None:
    pair = StreamPair(Pipe([ValueError("bad line"), {"n": 1}]), Pipe())
    garbage = await pair.receive()
    assert "method" not in garbage and "id" not in garbage
    assert await pair.receive() == {"n": 1}


@pytest.mark.parametrize("pipe, end", [(Pipe, ConnectionLost), (IterablePipe, EOFError)])
async def test_the_end_of_their_stream_is_the_end(pipe: type[Pipe], end: type[Exception]) -> None:
    there = pipe([{"n": 1}])
    there.closed = True
    pair = StreamPair(there, Pipe())
    await pair.receive()
    with pytest.raises(end):
        await pair.receive()
