"""Writing to and reading from event streams, for their tests."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.kit import eventually
from tests.unit.server.serving.asgi_kit import Out
from toolcrib.server.serving.sse_stream import SseStream


def say(stream: SseStream, *values: Any) -> None:
    for value in values:
        stream.push({"n": value})


def bring(stream: SseStream, out: Out, after: int | None = None) -> asyncio.Task[None]:
    """Send the stream as a response."""
    return asyncio.create_task(stream.pump(out, stream.attach(), after))


async def brought(stream: SseStream, after: int | None = None) -> Out:
    """Return the complete response of a finished stream."""
    out = Out()
    await stream.pump(out, stream.attach(), after)
    assert out.ended
    return out


def numbers(out: Out) -> list[Any]:
    return [message["n"] for message in out.messages]


def received(out: Out, *values: Any) -> Any:
    return eventually(lambda: numbers(out) == list(values))
