"""Hostile texts in every field of every message: none reaches a log, a status, an event, an error or the terminal.

Data that a caller requested (a result, a description) stays as the server sent it; everything that Toolcrib itself
writes about a server is free of control and invisible characters, of forged lines and of secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.cli.kit import environment, write_settings
from tests.faults.hostile_server import ANSWERS, CALLS, CONNECTS, HttpServer, serve_stdio
from tests.faults.hostile_texts import FEW, SURROGATE, TEXTS, Detector
from tests.faults.kit import FAST
from toolcrib.events import Event

ROOT = str(Path(__file__).parents[2])
CODE = f"import sys; sys.path.insert(0, {ROOT!r}); from {serve_stdio.__module__} import serve_stdio as serve"
HOSTILE = ["-S", "-E", "-c", f"{CODE}; serve(*sys.argv[1:])"]
"""Imported, the module is compiled once; as the main script it would be at every start."""

ENVIRONMENT = "wallaby-quartz-71-umbrella-env"
HEADER = "ferret-cobalt-82-lantern-header"
KEY = "heron-garnet-93-compass-key"
QUERY = "badger-topaz-64-anchor-query"
PASSWORD = "otter-amber-55-saddle-password"
BASIC = "dXNlcjpvdHRlci1hbWJlci01NS1zYWRkbGUtcGFzc3dvcmQ="
"""`Authorization: Basic`, as the user info of the URL becomes."""
SECRETS = (ENVIRONMENT, HEADER, KEY, QUERY, PASSWORD, BASIC)

ONLY_STDIO = {"stderr and exit", "stdout and exit"}
LEGACY = {"protocol version", "initialize error", "initialize result", "level error", "ping error"}
MODERN = ("discover error", "supported versions", "listen error", "header declaration")
SHOWN = ("reason 418", "body 400", "error 400", "challenge 401", "location 307", "header name", "content type")
"""Of the HTTP answers those whose errors are worded differently."""


@pytest.fixture
def http() -> Iterator[HttpServer]:
    with HttpServer() as server:
        yield server


class _Records(logging.Handler):
    def __init__(self, detector: Detector) -> None:
        super().__init__(logging.DEBUG)
        self._detector = detector
        self._before: list[tuple[logging.Logger, int, bool]] = []

    def emit(self, record: logging.LogRecord) -> None:
        where = f"log {record.name} ({record.pathname.rpartition('/src/')[2]}:{record.lineno})"
        # What aiohttp logs is its own affair, as long as it is harmless to a terminal.
        self._detector.look(where, record.getMessage(), data=record.name.startswith("aiohttp"))
        if record.exc_info:
            self._detector.look(f"{where}, traceback", logging.Formatter().format(record), multi_line=True)

    def __enter__(self) -> None:
        for name in ("toolcrib", "asyncio", "aiohttp"):
            logger = logging.getLogger(name)
            self._before.append((logger, logger.level, logger.propagate))
            logger.addHandler(self)
            logger.setLevel(logging.DEBUG)
            logger.propagate = False  # thousands of lines: pytest would format and print them all

    def __exit__(self, *exc: object) -> None:
        for logger, level, propagate in self._before:
            logger.removeHandler(self)
            logger.setLevel(level)
            logger.propagate = propagate


def detecting(test: Callable[[str, HttpServer, Detector], Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Run the test with a detector that looks at every log record too, and fail if it found anything."""

    async def run(transport: str, http: HttpServer) -> None:
        detector = Detector(SECRETS)
        with _Records(detector):
            await test(transport, http, detector)
        detector.check()

    run.__name__ = run.__qualname__ = test.__name__
    return run


def stdio_server(field: str = "", name: str = "") -> tc.StdioServer:
    return tc.StdioServer(sys.executable, [*HOSTILE, field, name], env={"HOSTILE_TOKEN": ENVIRONMENT})


def web_server(http: HttpServer, field: str = "", name: str = "", *, user: bool = False) -> tc.HttpServer:
    if user:
        return tc.HttpServer(http.url(field, name, user=f"user:{PASSWORD}@"))
    headers = {"Authorization": f"Bearer {HEADER}", "X-Api-Key": KEY}
    return tc.HttpServer(http.url(field, name, query=f"?key={QUERY}"), headers=headers)


def sse_server(http: HttpServer, field: str = "", name: str = "") -> tc.SseServer:
    headers = {"Authorization": f"Bearer {HEADER}", "X-Api-Key": KEY}
    return tc.SseServer(http.url(field, name, query=f"?key={QUERY}"), headers=headers)


class Watched:
    """A client or hub whose every output is checked."""

    def __init__(self, detector: Detector, subject: tc.Client | tc.Hub) -> None:
        self.detector, self.subject = detector, subject
        self.doing = ""
        subject.on(Event, self._on_event)

    def _on_event(self, event: Event) -> None:
        name = type(event).__name__
        self.detector.look(f"event {name}, repr", _without_arguments(event), doing=self.doing)
        self.detector.look(f"event {name}, reason", str(getattr(event, "reason", "")), doing=self.doing)
        self.detector.look_at_error(f"event {name}", getattr(event, "error", None), doing=self.doing)

    async def outcome(self, doing: str, work: Awaitable[Any]) -> Any:
        """Await something, then check its error and the status."""
        self.doing, result = doing, None
        try:
            async with asyncio.timeout(20):
                result = await work
            if isinstance(result, tc.ToolResult):
                result.raise_for_error()
        except (tc.ToolcribError, tc.UsageError) as exc:
            self.detector.look_at_error("error", exc, doing=doing)
        self.look_at_status(doing, only_good=True)
        return result

    def look_at_status(self, doing: str, *, only_good: bool = False) -> None:
        subject, look = self.subject, self.detector.look
        look("repr of the client or hub", repr(subject), doing=doing)
        if not isinstance(subject, tc.Hub):
            self._look_at(subject.status, "status", doing)
            look("counters", f"{subject.counters!r} {subject.counters.last_malformed}", doing=doing)
            return
        states = subject.list_servers()
        for state in states[:1] if only_good else states:
            self._look_at(state.status, "status of a hub's server", doing)
            bare = dataclasses.replace(state, server_info=None)  # what the server calls itself is data
            look("repr of a hub's server", repr(bare), doing=doing)
            look("repr of a hub's server with its info", repr(state), doing=doing, data=True)
            self.detector.look_at_error("last_error of a hub's server", state.last_error, doing=doing)

    def _look_at(self, status: tc.ConnectionStatus, where: str, doing: str) -> None:
        for text in (str(status), repr(status), status.reason):
            self.detector.look(where, text, doing=doing)


def _without_arguments(event: Event) -> str:
    """Return the repr without the arguments of the caller."""
    return repr(dataclasses.replace(event, arguments=None) if hasattr(event, "arguments") else event)


def _options(mode: str) -> dict[str, Any]:
    return {
        "mode": mode,
        "name": "server",
        "reconnect": FAST,
        "max_attempts": 1,
        "log_level": "debug",
        "connect_timeout": 10,
        "elicitation_handler": lambda request: None,
        "sampling_handler": lambda request: "an answer",
    }


async def _say(watched: Watched, tool: str, field: str, name: str) -> None:
    if field.startswith("input request") and name == SURROGATE:
        return  # an answer that cannot be decoded and contains "method" matches no request: the call would wait in vain
    arguments = {"field": field, "text": name}
    call = watched.subject.call_tool(tool, arguments, timeout=2, on_progress=lambda *_: None)
    await watched.outcome(f"{field}~{name}", call)


async def _in_groups(work: Callable[..., Awaitable[None]], given: Iterable[tuple[str, str]], size: int = 20) -> None:
    pending = list(given)
    for at in range(0, len(pending), size):
        await asyncio.gather(*(work(*each) for each in pending[at : at + size]))


def _server(transport: str, http: HttpServer, field: str = "", name: str = "") -> Any:
    if transport.startswith("stdio"):
        return stdio_server(field, name)
    return web_server(http, field, name, user="user" in transport)


TRANSPORTS = ("stdio legacy", "stdio modern", "http legacy", "http modern", "http legacy user")


def _mode(transport: str) -> str:
    return "2026-07-28" if "modern" in transport else "legacy"


@pytest.mark.parametrize("transport", TRANSPORTS)
@detecting
async def test_calls_of_a_client(transport: str, http: HttpServer, detector: Detector) -> None:
    texts = TEXTS if transport == "stdio legacy" else FEW
    async with tc.Client(_server(transport, http), **_options(_mode(transport))) as client:
        watched = Watched(detector, client)
        await _in_groups(partial(_say, watched, "say"), product(CALLS, texts))
        for method in (client.list_tools, client.list_resources, client.list_resource_templates, client.list_prompts):
            assert len(await watched.outcome(method.__name__, method())) > 20
        for name in texts:
            await watched.outcome(f"tool name~{name}", client.call_tool(f"[tool nam~{name}]", {}))
            await watched.outcome(f"resources/read~{name}", client.read_resource(f"say:{name}"))
            await watched.outcome(f"prompts/get~{name}", client.get_prompt(f"say:{name}"))
            await watched.outcome(f"completion~{name}", client.complete("p", "a", f"say:{name}"))
            await watched.outcome(f"request~{name}", client.request("any/method", {"name": f"say:{name}"}))
        await watched.outcome("subscribe", client.subscribe("say:secrets"))


@pytest.mark.parametrize("transport", ["http legacy", "http legacy user"])
@detecting
async def test_http_answers_to_calls(transport: str, http: HttpServer, detector: Detector) -> None:
    async def visit(field: str, name: str) -> None:
        async with tc.Client(_server(transport, http), **_options(_mode(transport))) as client:
            await _say(Watched(detector, client), "say", field, name)

    fields = [f"http {each}" for each in SHOWN] if "user" in transport else [*ANSWERS]
    await _in_groups(visit, product(fields, FEW), 16)


def _connects(transport: str) -> list[str]:
    if transport == "stdio modern":
        return [*MODERN]  # the others are the same over stdio in the legacy era, and in the modern one over HTTP
    other = LEGACY if "modern" in transport else MODERN
    fields = [field for field in CONNECTS if field not in other]
    if transport.startswith("stdio"):
        return fields
    return [*(field for field in fields if field not in ONLY_STDIO), *(ANSWERS if "modern" in transport else ())]


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio legacy", "stdio modern", "http legacy", "http modern", "sse"])
@detecting
async def test_connections_of_a_client(transport: str, http: HttpServer, detector: Detector) -> None:
    async def visit(field: str, name: str) -> None:
        server = sse_server(http, field, name) if transport == "sse" else _server(transport, http, field, name)
        client = tc.Client(server, **_options(_mode(transport)))
        watched = Watched(detector, client)
        doing = f"{field}~{name}"
        try:
            await watched.outcome(doing, client.connect())
            if client.connected:
                for work in (client.list_tools, client.list_resources, client.list_prompts, client.ping):
                    await watched.outcome(doing, work())
        finally:
            await client.close()
        watched.look_at_status(doing)

    fields = [*ANSWERS] if transport == "sse" else _connects(transport)
    await _in_groups(visit, product(fields, FEW), 16 if "http" in transport else 6)


@pytest.mark.parametrize("transport", ["stdio legacy", "http modern"])
@detecting
async def test_a_hub_of_servers(transport: str, http: HttpServer, detector: Detector) -> None:
    chosen = {"tools error", "resources error", "initialize error", "discover error", "duplicate names"}
    fields = chosen & {*_connects(transport)} | (
        {"http body 400", "http challenge 401"} if "http" in transport else set()
    )
    options = {key: value for key, value in _options(_mode(transport)).items() if key != "name"}
    servers = {"good": _server(transport, http)}
    for (number, name), field in product(enumerate(("mixed", "long")), fields):
        servers[f"{field.replace(' ', '-')}-{number}"] = _server(transport, http, field, name)
    hub = tc.Hub(servers, start_timeout=30, on_error="skip", **options)
    watched = Watched(detector, hub)
    async with hub:
        watched.look_at_status("starting")
        await _in_groups(partial(_say, watched, "mcp__good__say"), product(CALLS, FEW))
        await watched.outcome("tool name", hub.call_tool("mcp__good__sayy", {}))
        await watched.outcome("resources/read", hub.read_resource("good", "say:secrets"))
        for name in hub.list_servers():
            with contextlib.suppress(tc.ToolcribError):
                await hub.refresh(name.name)
        watched.look_at_status("at the end")


# ---- the command line ------------------------------------------------------------------------------------------------

RUNNER = """
import importlib, json, os, sys
from toolcrib.cli import app
for entry in app.COMMANDS.values():
    importlib.import_module(f"toolcrib.cli.commands.{entry.module}")
import toolcrib.transports.http.channel, toolcrib.transports.stdio.link, rich.console
for number, arguments in enumerate(json.load(sys.stdin)):
    if os.fork() == 0:
        for fd, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{number}.{name}", os.O_WRONLY | os.O_CREAT, 0o600), fd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = app.run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    if number % 2:  # two at a time
        os.wait()
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""
"""Forks a process for each command line: starting Python anew for each would take most of the time."""

SAY = ("call", "mcp__good__say")
DATA = "what the server was asked for"
LINES = "what the server was asked for, which may have several lines"
CHECKED = "all that is printed"
COMMANDS: list[tuple[str, tuple[str, ...]]] = [
    (CHECKED, ("servers",)),
    (DATA, ("servers", "--json")),
    (CHECKED, ("servers", "--config", "bad.json", "--debug")),
    (CHECKED, ("doctor", "--config", "bad.json")),
    (DATA, ("doctor", "--config", "bad.json", "--json")),
    (CHECKED, ("watch", "--for", "1", "--call", "mcp__good__all")),
    (CHECKED, ("watch", "--for", "1", "--call", "mcp__good__all", "--json")),
    (CHECKED, ("watch", "--for", "1", "--config", "bad.json")),
    (CHECKED, ("explain", "mcp__good__say")),
    (CHECKED, ("explain", "mcp__good__sayy")),
    (DATA, ("tools",)),
    (DATA, ("tools", "--json")),
    (DATA, ("tools", "--schema")),
    (DATA, ("resources",)),
    (DATA, ("prompts",)),
    (LINES, ("call", "mcp__good__all")),
    (DATA, ("call", "mcp__good__all", "--json")),
    (LINES, ("call", "mcp__good__fail")),
    (CHECKED, (*SAY, "field=error message", "text=mixed")),
    (CHECKED, (*SAY, "field=error message", "text=mixed", "--debug")),
    (CHECKED, (*SAY, "field=result object", "text=mixed")),
    (CHECKED, ("call", "mcp__good__[tool nam~mixed]")),
    (LINES, ("read", "hostile:all")),
    (CHECKED, ("read", "say:mixed")),
    (LINES, ("prompt", "all")),
    (CHECKED, ("prompt", "say:mixed")),
]
OVER_HTTP = [
    (kind, words) for kind, words in COMMANDS if "bad.json" in words or words[:3] == (*SAY, "field=error message")
]
"""Output is printed the same way for every transport; errors have words of their own."""


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_command_line(transport: str, http: HttpServer, tmp_path: Path) -> None:
    def entry(field: str = "", name: str = "") -> dict[str, Any]:
        if transport == "stdio":
            arguments = [*HOSTILE, field, name]
            return {"command": sys.executable, "args": arguments, "env": {"HOSTILE_TOKEN": ENVIRONMENT}}
        headers = {"Authorization": f"Bearer {HEADER}", "X-Api-Key": KEY}
        return {"type": "http", "url": http.url(field, name, query=f"?key={QUERY}"), "headers": headers}

    fields = (
        [*CONNECTS]
        if transport == "stdio"
        else [*(field for field in CONNECTS if field not in ONLY_STDIO), *(f"http {each}" for each in SHOWN)]
    )
    commands = COMMANDS if transport == "stdio" else OVER_HTTP
    write_settings(tmp_path, {"good": entry()})
    bad = {field.replace(" ", "-"): entry(field, "mixed") for field in fields}
    write_settings(tmp_path, bad, "bad.json")
    subprocess.run(
        [sys.executable, "-c", RUNNER],
        cwd=tmp_path,
        input=json.dumps([arguments for _, arguments in commands]),
        text=True,
        timeout=100,
        env=environment(tmp_path),
        check=True,
    )
    detector = Detector(SECRETS)
    for number, (kind, arguments) in enumerate(commands):
        for name in ("out", "err"):
            text = (tmp_path / f"{number}.{name}").read_bytes().decode()
            lines = kind is LINES and (name == "out" or "fail" in arguments[-1])
            data = lines or (kind is DATA and name == "out")
            where = f"`toolcrib {' '.join(arguments)}`, std{name}"
            detector.look(where, text, multi_line=True, forged=not lines, data=data, bounded=False)
    detector.check()
