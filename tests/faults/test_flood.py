"""A server that floods the client with every kind of message, and does not read the replies."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import Web
from tests.faults.http_server import BadWebServer
from tests.faults.http_sse import BadSseServer
from tests.faults.kit import FAST, FaultyServer, eventually, impatient, matrix, outcome_of
from toolcrib import events

MIB = 1 << 20
MOST_MEMORY = 40 * MIB
MOST_DESCRIPTORS = 64
PAD = "p" * 8_000


def message(method: str, params: dict[str, Any] | None = None, **more: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": {"pad": PAD, **(params or {})}, **more})


# `$N` becomes the number of the message. Those of ANSWERED ask for a reply, which the server never takes.
ANSWERED = {
    "pings with large ids": json.dumps({"jsonrpc": "2.0", "id": f"$N-{PAD}", "method": "ping"}),
    "small pings": json.dumps({"jsonrpc": "2.0", "id": "$N", "method": "ping"}),
    "sampling": message("sampling/createMessage", {"messages": [], "maxTokens": 1}, id=f"$N-{PAD}"),
    "unknown methods": message("no/such/method", id=f"$N-{PAD}"),
}
IGNORED = {
    "pings with huge ids": json.dumps({"jsonrpc": "2.0", "id": f"$N-{PAD * 150}", "method": "ping"}),
    "sampling under one id": message("sampling/createMessage", {"messages": [], "maxTokens": 1}, id="same"),
    "progress": message("notifications/progress", {"progressToken": 1, "progress": 1, "message": PAD}),
    "progress of nothing": message("notifications/progress", {"progressToken": f"$N-{PAD}", "progress": 1}),
    "log": message("notifications/message", {"level": "info", "data": PAD}),
    "changed lists": message("notifications/prompts/list_changed"),
    "changed resources": message("notifications/resources/updated", {"uri": f"file:///$N/{PAD}"}),
    "cancellations": message("notifications/cancelled", {"requestId": f"$N-{PAD}"}),
    "answers to nothing": json.dumps({"jsonrpc": "2.0", "id": f"$N-{PAD}", "result": {"pad": PAD}}),
    "malformed lines": f"not JSON {PAD}",
}
FLOODS = {**ANSWERED, **IGNORED}
# The transport can influence how replies are sent, and what counts as a message or an answer.
SOME = ("pings with large ids", "small pings", "progress", "answers to nothing", "malformed lines")
SOME_FLOODS = matrix(SOME, [kind for kind in FLOODS if kind not in SOME])

STDIO_SERVER = """
import json, os, sys, time
text, size, ping = open(sys.argv[1]).read(), int(sys.argv[2]), '{"jsonrpc": "2.0", "method": "notifications/message"}'
for line in sys.stdin:
    asked = json.loads(line)
    method, answer = asked.get("method"), {}
    if method == "server/discover":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": ""}}), flush=True)
        continue
    if method == "initialize":
        answer = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    if method == "tools/call":
        answer = {"content": [{"type": "text", "text": "survived"}]}
        sent = count = 0
        while sent < size:
            block = "".join(text.replace("$N", str(count + n)) + "\\n" for n in range(max(1, 65536 // len(text))))
            count += max(1, 65536 // len(text))
            if not text.startswith("{"):
                block += ping + "\\n"
            os.write(1, block.encode())
            sent += len(block)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
    if method == "tools/call":
        while True:
            time.sleep(60)
"""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Peaks:
    def __init__(self) -> None:
        self.memory = self.descriptors = 0

    async def watch(self) -> None:
        memory, open_files = resident(), descriptors()
        while True:
            self.memory = max(self.memory, resident() - memory)
            self.descriptors = max(self.descriptors, descriptors() - open_files)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def bounded() -> AsyncIterator[None]:
    """Fail if the block uses much more memory or many more descriptors."""
    peaks = Peaks()
    watch = asyncio.create_task(peaks.watch())
    await asyncio.sleep(0)
    try:
        yield
        await asyncio.sleep(0.01)
    finally:
        watch.cancel()
    assert peaks.memory < MOST_MEMORY, f"{peaks.memory / MIB:.0f} MiB"
    assert peaks.descriptors < MOST_DESCRIPTORS


async def sample(_: tc.SamplingRequest) -> str:
    return "x"


def options(seen: list[str]) -> dict[str, Any]:
    """Return the options of a client with every handler."""
    return {"sampling_handler": sample, "log_handler": lambda message: seen.append(message.level), "reconnect": FAST}


def check_outcome(outcome: Any, kind: str) -> None:
    if kind in IGNORED:
        assert isinstance(outcome, tc.ToolResult), repr(outcome)
        assert outcome.text == "survived"
    else:
        assert isinstance(outcome, tc.OutcomeUnknown), repr(outcome)
        assert "does not read the replies" in outcome.message
        assert outcome.sent is True


def size_of(kind: str) -> int:
    return 8 * MIB if kind == "small pings" else 48 * MIB if kind in ANSWERED else 16 * MIB


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory and descriptors are read from /proc"),
]


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)


async def flood_over_stdio(faulty: FaultyServer, kind: str, size: int) -> None:
    faulty.path("flood").write_text(FLOODS[kind])
    arguments = ["-S", "-E", "-c", STDIO_SERVER, str(faulty.path("flood")), str(size), str(faulty.record.path)]
    seen: list[str] = []
    async with tc.Client(tc.StdioServer(sys.executable, arguments), name="flood", **options(seen)) as client:
        async with bounded():
            outcome = await outcome_of(client.call_tool("flood", {}, timeout=30, on_progress=lambda *_: None))
        check_outcome(outcome, kind)


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_over_stdio_is_survived_or_ends_the_connection(faulty: FaultyServer, kind: str) -> None:
    await flood_over_stdio(faulty, kind, size_of(kind))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", FLOODS)
async def test_a_long_flood_over_stdio_is_survived_or_ends_the_connection(faulty: FaultyServer, kind: str) -> None:
    await flood_over_stdio(faulty, kind, 8 * size_of(kind))


def never_takes_replies(server: BadWebServer) -> None:
    server.gate("", "silent")
    server.gate("notifications/cancelled", "silent")


@pytest.mark.parametrize("kind", SOME_FLOODS)
async def test_a_flood_on_the_stream_of_a_post_is_survived_or_ends_the_connection(web: Web, kind: str) -> None:
    server, seen = await web.server(era="legacy"), []  # type: tuple[BadWebServer, list[str]]
    never_takes_replies(server)
    server.gate("tools/call", "deluge", text=FLOODS[kind], size=size_of(kind))
    async with web.client(server, **options(seen)) as client:
        async with bounded():
            outcome = await outcome_of(client.call_tool("flood", {}, timeout=30, on_progress=lambda *_: None))
        check_outcome(outcome, kind)


@pytest.mark.parametrize("kind", SOME_FLOODS)
async def test_a_flood_on_the_standing_stream_is_survived_or_ends_the_connection(web: Web, kind: str) -> None:
    server, seen = await web.server(era="legacy"), []  # type: tuple[BadWebServer, list[str]]
    never_takes_replies(server)
    server.gate("stand", "deluge", text=FLOODS[kind], size=size_of(kind), times=1)
    lost: list[str] = []
    async with web.client(server, **options(seen)) as client:
        client.on(events.Disconnected, lambda event: lost.append(event.reason))
        async with bounded():
            call = asyncio.create_task(outcome_of(client.call_tool("silent", {}, timeout=30)))
            await eventually(lambda: server.received("tools/call"))
            server.release.set()
            await eventually(lambda: server.executed["deluge"] or lost, within=20)
        if kind in ANSWERED:
            assert "does not read the replies" in lost[0]
            check_outcome(await call, kind)
        else:
            assert lost == []
            call.cancel()
            assert (await client.call_tool("echo", {"nonce": "well"})).text == "well"


@pytest.mark.parametrize("kind", SOME_FLOODS)
async def test_a_flood_over_sse_is_survived_or_ends_the_connection(web: Web, kind: str) -> None:
    server = BadSseServer()
    web.servers.append(await server.start())
    never_takes_replies(server)
    server.gate("tools/call", "deluge", text=FLOODS[kind], size=size_of(kind))
    seen: list[str] = []
    client = tc.Client(tc.SseServer(server.url), **options(seen))
    web.clients.append(client)
    await client.connect()
    async with bounded():
        outcome = await outcome_of(client.call_tool("flood", {}, timeout=30, on_progress=lambda *_: None))
    check_outcome(outcome, kind)
