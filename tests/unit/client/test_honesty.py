"""Outcomes and beginnings that are easy to get wrong."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import toolyard as ty
from tests.unit.kit import HANDSHAKE, MODERN, eventually
from toolyard.protocol import jsonrpc

QUESTION = {"method": "elicitation/create", "params": {"message": "?"}}
ASKS = {"resultType": "input_required", "inputRequests": {"q": QUESTION}}


class Fickle:
    """A modern server that asks for input and is gone when the answer comes."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(self) -> ty.MemoryStream:
        ours, theirs = ty.MemoryStream.pair()
        self._tasks.append(asyncio.ensure_future(self._serve(theirs)))
        return ours

    async def _serve(self, stream: ty.MemoryStream) -> None:
        while True:
            try:
                message = await stream.receive()
            except EOFError:
                return
            if message["method"] == "server/discover":
                await stream.send({"jsonrpc": "2.0", "id": message["id"], "result": MODERN})
            elif message["method"] == "tools/call":
                self.calls += 1
                await stream.send({"jsonrpc": "2.0", "id": message["id"], "result": ASKS})
                await self.asked.wait()
                await stream.close()
                self.gone.set()
                return


async def test_a_call_whose_first_round_ran_is_neither_run_again_nor_called_unsent() -> None:
    server = Fickle()

    async def answer(request: ty.ElicitRequest) -> dict[str, Any]:
        server.asked.set()
        await server.gone.wait()
        await eventually(lambda: not client.connected)
        return {}

    client = ty.Client(server, elicitation_handler=answer)
    try:
        with pytest.raises(ty.OutcomeUnknown) as told:
            await client.call_tool("any")
        assert told.value.sent is True
        assert server.calls == 1
    finally:
        await client.close()


DIES_OF_THE_PROBE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        sys.exit("ExpectedInitializeRequest")
    if message["method"] == "initialize":
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "strict", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": info}), flush=True)
"""


async def test_a_server_that_dies_of_a_question_it_does_not_know_is_asked_in_the_older_way() -> None:
    async with ty.Client(ty.StdioServer(sys.executable, ["-c", DIES_OF_THE_PROBE])) as client:
        assert client.server_info is not None
        assert client.server_info.name == "strict"


async def test_a_server_that_dies_without_hearing_us_is_started_once(tmp_path: Path) -> None:
    count = f"open({str(tmp_path / 'starts')!r}, 'a').write('x'); raise SystemExit(3)"
    with pytest.raises(ty.StartError) as told:
        await ty.Client(ty.StdioServer(sys.executable, ["-c", count])).connect()
    assert (told.value.exit_code, told.value.heard) == (3, False)
    assert (tmp_path / "starts").read_text() == "x"


async def test_a_block_that_is_never_entered_leaves_no_server_behind() -> None:
    mute = ty.StdioServer(sys.executable, ["-c", "import sys; sys.stdin.read()"])
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), ty.Client(mute):
            raise AssertionError("it cannot connect")
    after = {child.pid for child in psutil.Process().children(recursive=True) if child.status() != "zombie"}
    assert after <= before


async def test_secrets_stay_secret_in_banners_and_inside_of_each_other() -> None:
    env = {"DB_USER": "admin", "DB_URL": "postgres://admin:s3cret@host", "KEY": "line-one-9f\nline-two-9f"}
    noisy = (
        "import os, sys; print(os.environ['DB_URL'], flush=True); sys.exit(os.environ['DB_URL'] + os.environ['KEY'])"
    )
    client = ty.Client(ty.StdioServer(sys.executable, ["-c", noisy], env=env), mode="legacy")
    with pytest.raises(ty.StartError) as told:
        await client.connect()
    shown = f"{told.value} {told.value.stderr} {client.counters.last_garbage}"
    assert client.counters.garbage == 1
    assert not any(part in shown for part in ("s3cret", "admin", "line-one-9f", "line-two-9f"))


async def test_an_idle_time_out_lets_the_server_report_progress() -> None:
    tokens: list[Any] = []

    class Stream(ty.MemoryStream):
        async def send(self, message: dict[str, Any]) -> None:
            if message["method"] == "tools/call":
                tokens.append(message["params"].get("_meta", {}).get("progressToken"))
            await super().send(message)

    ours, theirs = Stream.pair()

    async def serve() -> None:
        while True:
            try:
                message = await theirs.receive()
            except EOFError:
                return
            if message["method"] == "initialize":
                await ty.MemoryStream.send(theirs, {"jsonrpc": "2.0", "id": message["id"], "result": HANDSHAKE})
            elif "id" in message:
                await ty.MemoryStream.send(theirs, {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})

    serving = asyncio.ensure_future(serve())
    async with ty.Client(lambda: ours, mode="legacy") as client:
        await client.call_tool("any", idle_timeout=5)
    await serving
    assert len(tokens) == 1
    assert isinstance(tokens[0], int)


async def test_an_error_of_null_beside_a_result_is_a_result() -> None:
    assert jsonrpc.outcome({"jsonrpc": "2.0", "id": 1, "error": None, "result": {"a": 1}}) == {"a": 1}


async def test_a_call_during_a_disconnect_connects_again() -> None:
    server = ty.StdioServer(sys.executable, ["-c", DIES_OF_THE_PROBE + "\nimport time; time.sleep(0.3)"])
    client = await ty.Client(server, mode="legacy").connect()
    try:
        leaving = asyncio.create_task(client.disconnect())
        await asyncio.sleep(0)
        await client.connect()
        assert client.connected
        await leaving
    finally:
        await client.close()
