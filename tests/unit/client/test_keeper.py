"""The owner of a connection: when it goes on and when it gives up."""

from __future__ import annotations

import asyncio

import toolyard as ty
from tests.unit.kit import eventually

FAST = ty.ReconnectPolicy(base_delay=0.001, max_delay=0.5, max_retries=3, jitter_factor=0.0)


class Mayfly:
    """A server that shakes hands and dies; so many lives, and then it stays."""

    def __init__(self, short_lives: int) -> None:
        self.short_lives = short_lives
        self.lives = 0
        self.tasks: list[asyncio.Task[None]] = []

    def __call__(self) -> ty.MemoryStream:
        ours, theirs = ty.MemoryStream.pair()
        self.lives += 1
        self.tasks.append(asyncio.ensure_future(self.live(theirs, self.lives > self.short_lives)))
        return ours

    async def live(self, stream: ty.MemoryStream, stays: bool) -> None:
        while True:
            try:
                message = await stream.receive()
            except EOFError:
                return
            if message["method"] == "initialize":
                info = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "serverInfo": {"name": "m", "version": "1"},
                }
                await stream.send({"jsonrpc": "2.0", "id": message["id"], "result": info})
                if not stays:
                    await stream.close()
                    return
            elif "id" in message:
                await stream.send({"jsonrpc": "2.0", "id": message["id"], "result": {}})


async def test_a_server_that_shakes_hands_and_dies_again_and_again_is_given_up() -> None:
    mayfly = Mayfly(short_lives=1_000)
    client = ty.Client(mayfly, mode="legacy", reconnect=FAST)
    try:
        await client.connect()
        await eventually(lambda: client.status.state is ty.State.FAILED)
        assert mayfly.lives == 1 + FAST.max_retries
        assert client.status.reason
    finally:
        await client.close()


async def test_a_server_that_dies_of_its_first_lives_and_then_answers_is_there_again() -> None:
    mayfly = Mayfly(short_lives=2)
    client = ty.Client(mayfly, mode="legacy", reconnect=FAST)
    try:
        await client.connect()
        await eventually(lambda: mayfly.lives == 3 and client.connected)
        await client.ping()
        assert client.status.state is ty.State.CONNECTED
    finally:
        await client.close()
