"""Strands' MCP tools, sentence by sentence: custom transports.

Where that document writes `MCPClient(factory)`, Toolcrib writes `toolcrib.sync.Client(factory)`. Each docstring gives
the document's sentence in short words.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Place, Reader, Writer
from toolcrib import sync

MCPClient = sync.Client


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Place]:
    here = Place("pair", "older", tmp_path)
    yield here
    assert here.journal.faults == []


# ---- "Custom transport": a callable that returns a tuple of read and write streams


def test_a_callable_that_returns_a_tuple_of_streams_is_a_transport(pair: Place) -> None:
    """custom_transport_factory() -> (read_stream, write_stream); MCPClient(custom_transport_factory)."""
    made: list[tuple[Reader, Writer]] = []
    factory = pair.server()

    def custom_transport_factory() -> tuple[Reader, Writer]:
        read_stream, write_stream = factory()
        made.append((read_stream, write_stream))
        return read_stream, write_stream

    client = MCPClient(custom_transport_factory)
    assert made == [], "nothing is opened before the block"
    with client:
        assert client.list_tools()
        assert client.call_tool("echo", {"text": "x"}).text == "x"
    assert len(made) == 1


class Both:
    """A write stream that is also an async iterator, as the document asks of both."""

    def __init__(self, writer: Writer) -> None:
        self.send = writer.send
        self.aclose = writer.aclose

    def __aiter__(self) -> Both:
        return self

    async def __anext__(self) -> Any:
        raise StopAsyncIteration


def test_both_streams_may_be_async_iterators(pair: Place) -> None:
    """Both must implement the AsyncIterable and AsyncIterator protocols."""
    factory = pair.server()

    def transport() -> tuple[Reader, Both]:
        read, write = factory()
        return read, Both(write)

    with MCPClient(transport) as client:
        assert client.call_tool("echo", {"text": "x"}).text == "x"


def test_a_tuple_may_also_be_awaited_or_entered(pair: Place) -> None:
    """lambda: stdio_client(...): what the callable gives may be a context manager of the tuple."""
    factory = pair.server()
    entered: list[str] = []

    class Manager:
        async def __aenter__(self) -> tuple[Reader, Writer]:
            entered.append("in")
            self.pair = factory()
            return self.pair  # type: ignore[no-any-return]

        async def __aexit__(self, *exc: object) -> None:
            await self.pair[1].aclose()
            entered.append("out")

    async def awaited() -> tuple[Reader, Writer]:
        return factory()  # type: ignore[no-any-return]

    for transport in (Manager, awaited):
        with MCPClient(transport) as client:
            assert client.call_tool("echo", {"text": "x"}).text == "x"
    assert entered == ["in", "out"]


def test_a_callable_that_returns_something_else_raises_an_error_with_what_was_expected() -> None:
    """Must return a tuple of (read_stream, write_stream)."""
    with pytest.raises(tc.ConfigError, match="transport callable returned str") as told, MCPClient(lambda: "streams"):
        pass
    assert "(read, write)" in str(told.value.expected)


def test_a_transport_that_raises_is_a_failed_connection() -> None:
    """Connection failures occur when there are problems establishing a connection."""

    def broken() -> Any:
        raise OSError("no route")

    with pytest.raises(tc.ConnectError, match="no route") as told, MCPClient(broken):
        pass
    assert isinstance(told.value.__cause__, OSError)
