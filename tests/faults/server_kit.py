"""A tool server on a real port, and a client that sends exactly the bytes of a test."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import toolcrib as tc
from tests.faults.server_wire import LEGACY, VERSION, Answer, Line, Pairs, head_of, message, modern_headers
from tests.serving import served

FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
BOTH = "application/json, text/event-stream"


class Tools:
    """A server whose tools record executed and cancelled calls, and the principals."""

    def __init__(self, **options: Any) -> None:
        self.ran: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.seen: list[Any] = []
        self.said = 0
        self.release = asyncio.Event()
        self.server = tc.ToolServer("counting", "1.0", **options)
        for tool in (self.add, self.echo, self.wait, self.talk, self.ask, self.who):
            self.server.add_tool(tool)
        self.server.add_resource(self.config, "config://app")
        self.server.add_prompt(self.explain)

    async def add(self, a: int, b: int) -> int:
        self.ran["add"] += 1
        return a + b

    def echo(self, text: str) -> str:
        self.ran["echo"] += 1
        return text

    async def wait(self) -> str:
        """Wait until the test releases the call."""
        return await self._until_released("wait")

    async def talk(self, ctx: tc.Context, words: int = 1, size: int = 10) -> str:
        """Send a notification, then wait until the test releases the call."""
        for number in range(words):
            await ctx.log("error", f"{number}:".ljust(size, "."))
            self.said += 1
        return await self._until_released("talk")

    async def _until_released(self, name: str) -> str:
        self.ran[name] += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled[name] += 1
            raise
        return "released"

    async def ask(self, ctx: tc.Context, what: str = "Go on?") -> str:
        self.ran["ask"] += 1
        try:
            answer = await ctx.elicit(what, FORM, key="go")
        except asyncio.CancelledError:
            self.cancelled["ask"] += 1
            raise
        self.ran["asked"] += 1
        return f"{ctx.principal} said {answer.action}"

    async def who(self, ctx: tc.Context) -> str:
        self.ran["who"] += 1
        self.seen.append(ctx.principal)
        return repr(ctx.principal)

    def config(self) -> str:
        self.ran["config"] += 1
        return "{}"

    def explain(self, topic: str) -> str:
        self.ran["explain"] += 1
        return topic


@dataclass
class Place:
    """A tool server on a port."""

    tools: Tools
    app: Any
    url: str
    lines: list[Line] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Errors in the log, and complaints of the event loop."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def ran(self) -> Counter[str]:
        return self.tools.ran

    async def line(self, buffer: int = 32 * 1024 * 1024) -> Line:
        """Open a connection; with a small buffer, unread data stays in the server."""
        raw = socket.socket()
        if buffer < 1024 * 1024:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        raw.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self.port))
        except OSError:
            raw.close()
            raise
        line = Line(*await asyncio.open_connection(sock=raw, limit=buffer))
        self.lines.append(line)
        return line

    def pairs(self, headers: Pairs | Mapping[str, Any], length: int | None) -> list[tuple[str, str | bytes]]:
        """Return the headers of a normal request with these changes; None removes one. A list is used unchanged."""
        if not isinstance(headers, Mapping):
            return list(headers)
        usual: dict[str, Any] = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json", "Accept": BOTH}
        if length is not None:
            usual["Content-Length"] = str(length)
        usual.update(headers)
        return [(name, value) for name, value in usual.items() if value is not None]

    async def send(
        self, body: bytes, headers: Pairs | Mapping[str, Any] = (), verb: str = "POST", path: str = "/mcp"
    ) -> Answer:
        """Send one request on its own connection; return its complete answer."""
        line = await self.open(body, headers, verb, path)
        try:
            return await line.answer()
        finally:
            await line.close()
            self.lines.remove(line)

    async def open(
        self,
        body: bytes = b"",
        headers: Pairs | Mapping[str, Any] = (),
        verb: str = "POST",
        path: str = "/mcp",
        line: Line | None = None,
    ) -> Line:
        """Send one request, whose answer the test reads itself."""
        line = line or await self.line()
        length = len(body) if verb == "POST" or body else None
        await line.say(head_of(verb, path, self.pairs(headers or {}, length)) + body)
        return line

    async def post(self, request: Any, headers: Mapping[str, Any] | None = None, **options: Any) -> Answer:
        """Post a message with its required headers, updated with the given ones."""
        owed = modern_headers(request) if _is_modern(request) else {}
        return await self.send(json.dumps(request).encode(), {**owed, **(headers or {})}, **options)

    async def begin(self, request: Any, headers: Mapping[str, Any] | None = None, line: Line | None = None) -> Line:
        """Post a message without waiting for the answer."""
        owed = modern_headers(request) if _is_modern(request) else {}
        return await self.open(json.dumps(request).encode(), {**owed, **(headers or {})}, line=line)

    async def session(self, version: str = LEGACY, headers: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Open a legacy session and return the headers of its requests."""
        params = {
            "protocolVersion": version,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        answer = await self.post(message("initialize", params, 0), headers)
        assert answer.status == 200, answer
        said = {"Mcp-Session-Id": answer.header("mcp-session-id") or "", "Mcp-Protocol-Version": version}
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.post(initialized, {**said, **(headers or {})})).status == 202
        return said

    async def quiet(self) -> None:
        """Wait until no request is being answered; tasks that remain are leaks."""
        end = asyncio.get_running_loop().time() + 5
        while left := [task for task in asyncio.all_tasks() - self._known if not self._may_stay(task)]:
            assert asyncio.get_running_loop().time() < end, f"tasks are left: {left}"
            await asyncio.sleep(0.005)

    _known: set[asyncio.Task[Any]] = field(default_factory=set)

    def _may_stay(self, task: asyncio.Task[Any]) -> bool:
        """Return the tasks that may remain: the test, the one that ends idle sessions, and suspended calls."""
        return (
            task is asyncio.current_task()
            or "_sweep" in repr(task)
            or (self.parked > 0 and "SuspendedCall" in repr(task))
        )

    def settle(self) -> None:
        """Allow the current tasks to remain."""
        self._known = asyncio.all_tasks()

    @property
    def sessions(self) -> int:
        return len(self.app._legacy._sessions)

    @property
    def parked(self) -> int:
        return len(self.app._suspended_calls._handles)


def _is_modern(request: Any) -> bool:
    params = request.get("params") if isinstance(request, dict) else None
    said = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(said, dict) and VERSION in said and isinstance(request.get("method"), str)


class _Faults(logging.Handler):
    def __init__(self, faults: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        self._faults.append(self.format(record))


@contextlib.asynccontextmanager
async def serving(tools: Tools | None = None, *, faults: bool = False, **options: Any) -> AsyncIterator[Place]:
    """Yield a place for one test.

    Afterwards no request is being answered, no session or suspended call is left, and no error was logged unless the
    test expects `faults`.
    """
    tools = tools or Tools()
    app = tools.server.asgi(**options)
    loggers = [logging.getLogger(), logging.getLogger("uvicorn.error")]
    async with served(app) as url:
        place = Place(tools, app, url)
        handler = _Faults(place.faults)
        for logger in loggers:
            logger.addHandler(handler)
        place.settle()
        try:
            yield place
            for line in place.lines:
                await line.close()
            tools.release.set()
            await place.quiet()
        finally:
            await app.close()
            for line in place.lines:
                line.cut()
    gc.collect()  # an exception that was never retrieved is reported when its task is collected
    for logger in loggers:
        logger.removeHandler(handler)
    assert (place.sessions, place.parked, len(tools.server.changes)) == (0, 0, 0)
    if not faults:
        assert place.faults == []
