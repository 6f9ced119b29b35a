"""Whole processes that serve: they end on request, in time, with exit code 0 and without a traceback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.kit import eventually, noise_in
from tests.faults.server_kit import Place
from tests.faults.server_wire import LEGACY, LEVEL, Line, call, message, meta, modern

pytestmark = pytest.mark.slow

CHILD = str(Path(__file__).with_name("serving_child.py"))
MIB = 1024 * 1024
SOON = "0.5"
"""Seconds to drain, for servers that have requests which never end."""


@dataclass
class Child:
    """A process that serves."""

    process: asyncio.subprocess.Process
    stderr: bytearray = field(default_factory=bytearray)

    async def read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(65_536):
            self.stderr += data

    async def ended(self, within: float) -> int:
        """Wait for the end and return the exit code."""
        async with asyncio.timeout(within):
            return await self.process.wait()

    def quiet(self) -> bool:
        return not noise_in(self.stderr.decode().replace("ERROR", ""))

    @property
    def rss(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    # ---- over stdio

    async def say(self, said: Any) -> None:
        assert self.process.stdin is not None
        data = said if isinstance(said, bytes) else json.dumps(said).encode() + b"\n"
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(data)
            await self.process.stdin.drain()

    async def hear(self) -> Any:
        assert self.process.stdout is not None
        async with asyncio.timeout(10):
            line = await self.process.stdout.readline()
        return json.loads(line) if line else None

    async def answer(self, id: Any) -> Any:
        while (said := await self.hear()) is not None:
            if said.get("id") == id and "method" not in said:
                return said
        raise AssertionError("stdout ended")


@contextlib.asynccontextmanager
async def child(*arguments: str) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", CHILD, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=32 * MIB,
    )
    one = Child(process)
    reading = asyncio.create_task(one.read_stderr())
    try:
        yield one
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading
        process._transport.close()  # type: ignore[attr-defined]


@contextlib.asynccontextmanager
async def web(transport: str = "http", *options: str) -> AsyncIterator[tuple[Child, Place]]:
    async with child(transport, *options) as one:
        found = await eventually(lambda: re.search(rb"http://127\.0\.0\.1:\d+", one.stderr), within=20)
        place = Place(None, None, found[0].decode())  # type: ignore[arg-type]
        try:
            yield one, place
        finally:
            for line in place.lines:
                line.cut()


def asked(tool: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    return modern("tools/call", call(tool, arguments), id, **{LEVEL: "debug"})


async def rest(line: Line) -> bytes:
    """Read to the end of the connection."""
    async with asyncio.timeout(15):
        try:
            return await line.reader.read()
        except ConnectionError:
            return b""


# ---- over HTTP -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_web_server_ends_at_once(number: signal.Signals) -> None:
    async with web() as (one, place):
        assert (await place.post(asked("add", a=1, b=2))).text == "3"
        began = time.monotonic()
        one.process.send_signal(number)
        assert await one.ended(10) == 0
        assert time.monotonic() - began < 5
        assert one.quiet(), one.stderr


async def test_a_signal_under_load_drains_and_ends_with_everything_open() -> None:
    async with web("http", "3") as (one, place):
        session = await place.session()
        standing = [await place.open(b"", session, "GET") for _ in range(3)]
        listening = [
            await place.begin(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
            for _ in range(5)
        ]
        for _ in range(5):
            assert (await place.post(asked("ask"))).json["result"]["resultType"] == "input_required"
        short = [await place.begin(asked("nap", number, seconds=1)) for number in range(10)]
        long = [await place.begin(asked("nap", number, seconds=600)) for number in range(10)]
        long += [await place.begin(asked("talk", number, seconds=600)) for number in range(10)]
        for tool in ("nap", "talk"):
            long.append(await place.begin(message("tools/call", call(tool, {"seconds": 600}), tool), session))
        for line in (*standing[-1:], *listening, *long[10:20]):
            assert (await line.head()).status == 200
        answered: list[int] = []
        load = [asyncio.create_task(hammer(place, answered)) for _ in range(8)]
        await eventually(lambda: len(answered) > 50)
        began = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        for line in short:  # what ends in time is answered
            answer = await line.answer()
            assert (answer.status, answer.text) == (200, "rested")
        assert await one.ended(10 - (time.monotonic() - began)) == 0
        assert time.monotonic() - began < 10
        await asyncio.gather(*load)
        for line in (*listening, *long, *standing):
            assert b"Traceback" not in await rest(line)
        assert one.quiet(), one.stderr.decode()


async def hammer(place: Place, answered: list[int]) -> None:
    """Call until the server no longer answers; every answer must be complete."""
    request = asked("add", a=1, b=2)
    with contextlib.suppress(ConnectionError):
        while True:
            answer = await place.post(request)
            assert answer.status in (200, 503)
            answered.append(answer.status)


async def test_listeners_are_notified_of_the_end() -> None:
    async with web() as (one, place):
        line = await place.begin(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 77))
        await line.head()
        assert "acknowledged" in (await line.event())["data"]
        one.process.send_signal(signal.SIGTERM)
        (last,) = await line.messages()
        assert (last["id"], last["result"]["resultType"]) == (77, "complete")
        assert await one.ended(10) == 0


@pytest.mark.parametrize("tool, bound", [("block", 10), ("stubborn", 15)])
async def test_a_tool_that_does_not_end_holds_no_process(tool: str, bound: float) -> None:
    async with web("http", SOON) as (one, place):
        arguments = {"seconds": 600} if tool == "block" else {}
        for number in range(3):
            await place.begin(asked(tool, number, **arguments))
        assert (await place.post(asked("add", a=1, b=2))).text == "3"
        one.process.send_signal(signal.SIGTERM)
        assert await one.ended(bound) == 0
        assert tool == "stubborn" or one.quiet(), one.stderr
    assert tool == "block" or b"3 tasks did not end" in one.stderr


async def test_a_second_signal_prints_no_traceback() -> None:
    async with web("http", SOON) as (one, place):
        await place.begin(asked("nap", seconds=600))
        assert (await place.post(asked("add", a=1, b=2))).text == "3"
        one.process.send_signal(signal.SIGTERM)
        one.process.send_signal(signal.SIGTERM)
        one.process.send_signal(signal.SIGINT)
        assert await one.ended(10) == 0
        assert one.quiet(), one.stderr


async def test_a_server_of_http_sse_ends_with_its_streams() -> None:
    async with web("sse", SOON) as (one, place):
        lines = [await place.open(b"", {}, "GET", "/sse") for _ in range(5)]
        for line in lines:
            await line.head()
            path = (await line.event())["data"]
            assert (await place.post(asked("nap", 3, seconds=600), path=path)).status == 202
        one.process.send_signal(signal.SIGTERM)
        assert await one.ended(10) == 0
        assert one.quiet(), one.stderr


# ---- over stdio ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stdin ends", "SIGTERM", "SIGINT", "stdout closes"])
async def test_a_server_over_stdio_ends_with_what_it_does(how: str) -> None:
    async with child("stdio") as one:
        for number, tool in enumerate(("nap", "talk", "ask", "nap")):
            arguments = {} if tool == "ask" else {"seconds": 600}
            await one.say(asked(tool, number, **arguments))
        await one.say(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "l"))
        await one.say(asked("add", "x", a=1, b=2))
        assert (await one.answer("x"))["result"]["structuredContent"] == {"result": 3}
        assert one.process.stdin is not None
        began = time.monotonic()
        if how == "stdin ends":
            one.process.stdin.close()
        elif how == "stdout closes":
            one.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
            await asyncio.sleep(0)  # the pipe is closed in the next turn of the loop, and must be before the answer
            await one.say(asked("add", "y", a=1, b=2))
        else:
            one.process.send_signal(getattr(signal, how))
        assert await one.ended(8) == 0
        assert time.monotonic() - began < 6
        assert one.quiet(), one.stderr


async def test_output_of_a_tool_is_not_a_message() -> None:
    async with child("stdio") as one:
        await one.say(message("initialize", {"protocolVersion": LEGACY}, 0))
        assert (await one.hear())["id"] == 0
        await one.say(message("tools/call", call("noise"), 1))
        assert (await one.hear())["result"]["content"][0]["text"] == "quiet"
        await eventually(lambda: all(said in one.stderr for said in (b"this is no", b"nor is this", b"nor this")))


GARBAGE: dict[str, tuple[bytes, Any]] = {
    "words": (b"hello\n", None),
    "an unclosed object": (b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {\n', 5),
    "invalid UTF-8": (b'{"jsonrpc": "2.0", "id": "six", "method": "tools/call", "params": "\xff\xfe"}\n', "six"),
    "a depth bomb": (b"[" * 200_000 + b"]" * 200_000 + b"\n", None),
    "NaN": (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"x": NaN}}\n', 7),
    "a line of 17 MiB": (
        b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"x":"' + b"x" * 17 * MIB + b'"}}\n',
        8,
    ),
}


@pytest.mark.parametrize("said, id", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_on_stdin_is_answered_and_survived(said: bytes, id: Any) -> None:
    async with child("stdio") as one:
        await one.say(said)
        answer = await one.hear()
        assert (answer["error"]["code"], answer["id"]) == (-32700, id)
        for blank in (b"\n", b"\r\n"):
            await one.say(blank)
        await one.say(json.dumps(asked("add", 9, a=1, b=2)).encode() + b"\r\n")
        assert (await one.hear())["result"]["structuredContent"] == {"result": 3}
        assert one.rss < 200 * MIB


async def test_a_flood_of_garbage_neither_fills_memory_nor_blocks() -> None:
    async with child("stdio") as one:
        await one.say(b"garbage\n" * 10_000)
        await one.say(asked("add", 9, a=1, b=2))
        assert (await one.answer(9))["result"]["structuredContent"] == {"result": 3}
        assert one.rss < 150 * MIB


async def test_a_client_that_does_not_read_stdout_costs_little_and_loses_nothing() -> None:
    async with child("stdio") as one:
        await one.say(message("initialize", {"protocolVersion": LEGACY}, 0))
        await one.hear()
        one.process._transport.get_pipe_transport(1).pause_reading()  # type: ignore[attr-defined]
        before = one.rss
        await one.say(message("tools/call", call("flood", {"count": 200, "size": 256 * 1024}), 1))  # 50 MB
        seen = 0
        async with asyncio.timeout(20):
            while (now := one.rss) > seen + MIB // 4:
                seen = now
                await asyncio.sleep(0.2)
        assert one.rss - before < 40 * MIB
        one.process._transport.get_pipe_transport(1).resume_reading()  # type: ignore[attr-defined]
        messages = [await one.hear() for _ in range(201)]
        assert [int(each["params"]["data"].partition(":")[0]) for each in messages[:-1]] == list(range(200))
        assert messages[-1]["id"] == 1


async def test_tracebacks_go_to_stderr_and_nowhere_else() -> None:
    async with child("stdio") as one:
        await one.say(message("tools/call", {**call("fail", {"text": "too bad"}), "_meta": meta()}, 1))
        answer = await one.hear()
        assert answer["result"]["content"][0]["text"] == "too bad"
        await eventually(lambda: b"RuntimeError: too bad" in one.stderr)
        assert os.path.basename(CHILD) not in json.dumps(answer)
