"""Shared by the interaction tests: connections to the reference server, a clock to move by hand, bounded waiting."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import toolcrib as tc
from tests.interaction.reference_server import Journal, ReferenceServer
from tests.interaction.reference_server_http import StreamableFront
from tests.interaction.reference_server_sse import SseFront
from tests.interaction.reference_server_tools import Crash
from tests.interaction.reference_server_web import Front, Host
from toolcrib import sync

REFERENCE_SERVER = str(Path(__file__).with_name("reference_server.py"))
FAST = tc.ReconnectPolicy(base_delay=0.01, max_delay=0.2, max_retries=3, jitter_factor=0.0)
BOUND = 10.0
Message = dict[str, Any]


async def eventually(condition: Callable[[], Any], what: str = "") -> Any:
    """Wait until the condition is true, and return its value. Bounded by turns: the test may control the clock."""
    for _ in range(int(BOUND / 0.002)):
        if value := condition():
            return value
        await asyncio.sleep(0.002)
    raise AssertionError(f"not within {BOUND} s: {what or condition}")


async def soon(awaitable: Any) -> Any:
    """Await something that must happen without further input, and soon."""
    return await asyncio.wait_for(awaitable, BOUND)


class Clock:
    """The event loop's clock, moved by the test, so that deadlines and lifetimes pass without waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.shift = 0.0
        true_time = loop.time
        loop.time = lambda: true_time() + self.shift  # type: ignore[method-assign]

    def advance(self, seconds: float) -> None:
        self.shift += seconds


# ---- the ways to a server in this process


async def serve(server: ReferenceServer, stream: tc.MessageStream) -> None:
    """Serve one end of a stream until the client leaves or the server crashes."""
    sent: list[Message] = []
    try:
        while True:
            message = await stream.receive()
            try:
                server.handle(message, sent.append)
            finally:
                for each in sent:
                    await stream.send(each)
                sent.clear()
    except (EOFError, Crash, tc.ConnectionLost):
        return
    finally:
        await stream.close()


class Reader:
    """The read half of a foreign pair: an async iterator of plain dicts."""

    def __init__(self, stream: tc.MessageStream) -> None:
        self._stream = stream

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self._stream.receive()
        except EOFError:
            raise StopAsyncIteration from None


class Writer:
    """The write half: `send` and `aclose`, as in anyio's streams."""

    def __init__(self, stream: tc.MessageStream) -> None:
        self._stream = stream

    async def send(self, message: Message) -> None:
        await self._stream.send(message)

    async def aclose(self) -> None:
        await self._stream.close()


class Tube:
    """A custom `MessageStream`: two queues of JSON texts."""

    def __init__(self, inbox: asyncio.Queue[str], outbox: asyncio.Queue[str]) -> None:
        self._inbox, self._outbox = inbox, outbox

    async def send(self, message: Message) -> None:
        await self._outbox.put(json.dumps(message))

    async def receive(self) -> Message:
        text = await self._inbox.get()
        if not text:
            self._inbox.put_nowait("")
            raise EOFError
        return json.loads(text)  # type: ignore[no-any-return]

    async def close(self) -> None:
        self._outbox.put_nowait("")
        self._inbox.put_nowait("")


# ---- where a test plays


@dataclass
class Place:
    """One way to a server of one era. `client()` and `sync_client()` make clients, `journal` records messages."""

    way: str
    era: str
    directory: Path
    journal: Journal = field(init=False)
    clients: list[tc.Client] = field(default_factory=list)
    servers: list[asyncio.Task[None]] = field(default_factory=list)
    host: Host | None = None
    fronts: list[Front] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = Journal(str(self.directory / "journal.jsonl"))

    @property
    def modern(self) -> bool:
        return self.era == "modern"

    @property
    def mode(self) -> str:
        return "legacy" if self.era == "legacy" else "auto"

    @property
    def version(self) -> str:
        return "2026-07-28" if self.modern else "2025-11-25"

    @property
    def _served_era(self) -> str:
        return "both" if self.era == "legacy" else self.era

    @property
    def hears_of_death(self) -> bool:
        """Whether a client without open requests notices a crash of the server, if only by its ended subscription."""
        return self.modern or self.way != "plain"

    def sick(self, attempts: int) -> dict[str, int]:
        """Return options for a server that crashes in the first attempts to connect.

        If a crash during the probe may decide the era, each attempt gets two lives of the server.
        """
        return {"sick": attempts * (1 if self.era == "legacy" or self.way in ("http", "plain") else 2)}

    def server(self, **server_options: Any) -> Any:
        """Return the server argument of a client; `crib` are options of the reference server."""
        return getattr(self, self.way)(server_options)

    def client(self, *, server_options: dict[str, Any] | None = None, **options: Any) -> tc.Client:
        made = tc.Client(self.server(**(server_options or {})), **{"mode": self.mode, "reconnect": FAST, **options})
        self.clients.append(made)
        return made

    def sync_client(self, *, server_options: dict[str, Any] | None = None, **options: Any) -> sync.Client:
        return sync.Client(self.server(**(server_options or {})), **{"mode": self.mode, "reconnect": FAST, **options})

    async def leave(self) -> None:
        """Close what is open; every server must notice it."""
        for client in self.clients:
            await client.close()
        if self.servers:
            await asyncio.wait(self.servers, timeout=BOUND)
        assert [task for task in self.servers if not task.done()] == []
        for task in self.servers:
            task.result()

    def end(self) -> None:
        """Fail if a front has anything open after the clients are closed."""
        if self.host is None:
            return
        try:
            for front in self.fronts:
                self.host.do(front.close())
        finally:
            self.host.end()

    def at_the_front(self, act: Callable[[Any], None]) -> None:
        """Run a function of the only front in the front's thread, and wait for it."""

        async def do(front: Front) -> None:
            act(front)

        assert self.host is not None
        (front,) = self.fronts
        self.host.do(do(front))

    def http(self, server_options: dict[str, Any]) -> tc.HttpServer:
        return tc.HttpServer(self._open(StreamableFront, server_options, eager=self.era == "legacy"))

    def plain(self, server_options: dict[str, Any]) -> tc.HttpServer:
        url = self._open(StreamableFront, server_options, streamable=False, wordless=True)
        return tc.HttpServer(url, streamable=False)

    def sse(self, server_options: dict[str, Any]) -> tc.SseServer:
        return tc.SseServer(self._open(SseFront, server_options, absolute=self.era == "legacy"))

    def _open(self, kind: type[Front], server_options: dict[str, Any], **web: Any) -> str:
        """Return the URL of a new front; `crib["web"]` are its options."""
        self.host = self.host or Host()
        rest = {key: value for key, value in server_options.items() if key != "web"}
        self.fronts.append(kind(self.journal, self._served_era, rest, **{**web, **server_options.get("web", {})}))
        return str(self.host.do(self.fronts[-1].open()))

    def stdio(self, server_options: dict[str, Any]) -> tc.StdioServer:
        command = [
            REFERENCE_SERVER,
            "--era",
            self._served_era,
            "--journal",
            self.journal.path,
            "--options",
            json.dumps(server_options),
        ]
        return tc.StdioServer(sys.executable, ["-S", "-E", *command])

    def memory(self, server_options: dict[str, Any]) -> Callable[[], tc.MessageStream]:
        def open_stream() -> tc.MessageStream:
            ours, theirs = tc.MemoryStream.pair()
            self._start(server_options, theirs)
            return ours

        return open_stream

    def pair(self, server_options: dict[str, Any]) -> Callable[[], tuple[Reader, Writer]]:
        def open_pair() -> tuple[Reader, Writer]:
            ours, theirs = tc.MemoryStream.pair()
            self._start(server_options, theirs)
            return Reader(ours), Writer(ours)

        return open_pair

    def manager(self, server_options: dict[str, Any]) -> Callable[[], Any]:
        @asynccontextmanager
        async def open_tube() -> AsyncIterator[Tube]:
            one: asyncio.Queue[str] = asyncio.Queue()
            two: asyncio.Queue[str] = asyncio.Queue()
            ours = Tube(one, two)
            task = self._start(server_options, Tube(two, one))
            try:
                yield ours
            finally:
                await ours.close()
                await task

        return open_tube

    def _start(self, server_options: dict[str, Any], stream: tc.MessageStream) -> asyncio.Task[None]:
        task = asyncio.create_task(
            serve(ReferenceServer(self.journal.path, self._served_era, **server_options), stream)
        )
        self.servers.append(task)
        return task


STREAMS = ("memory", "stdio", "pair", "manager")
WEB = ("http", "plain", "sse")
WAYS = (*STREAMS, *WEB)
ERAS = ("modern", "older", "legacy")
"""Mode `auto` against a modern server, `auto` against a legacy one, `legacy` against one that speaks both."""


def fan(ways: Iterable[str] = WAYS, eras: Iterable[str] = ERAS) -> list[tuple[str, str]]:
    """Return all combinations of ways and eras, without HTTP+SSE in the modern era, which does not exist."""
    return [(way, era) for way in ways for era in eras if (way, era) != ("sse", "modern")]
