"""Serving somebody who answers: over this process's own stdin and stdout, or as a web server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypedDict

from ..._util.net import is_loopback
from ..._util.suggest import suggest
from ...errors import ConfigError
from ..handler import RequestHandler
from .legacy_sse import SseApp
from .security import ANY, Auth, RequestGuard
from .stdio import serve_stdio
from .streamable_http import HttpApp
from .uvicorn_server import CLOSING, bound, serve_app

App = HttpApp | SseApp
log = logging.getLogger("toolcrib.server")

OPTIONS: Final = {
    "stdio": frozenset({"allowed_origins"}),
    "http": frozenset(
        {"allowed_origins", "body_timeout", "max_body", "max_listens", "max_sessions", "suspended_ttl", "session_ttl"}
    ),
    "sse": frozenset({"allowed_origins", "body_timeout", "keep_alive", "max_sessions", "messages"}),
}


class ServeOptions(TypedDict, total=False):
    """Options of `ToolServer.run` and `run_async` beside host, port, path and allow_remote."""

    auth: Auth | None
    """Decides who may call; default: the server's own."""
    allowed_hosts: Iterable[str]
    """Names under which the server may be called besides this machine's own."""
    allowed_origins: Iterable[str]
    """Web pages that may call it from a browser."""
    body_timeout: float
    """Seconds in which the body of a request has to arrive."""
    max_body: int
    """Bytes of a request's body (http)."""
    max_sessions: int
    """Sessions of legacy clients at the same time."""
    max_listens: int
    """Subscriptions at the same time (http)."""
    suspended_ttl: float
    """Seconds that a call waits for an answer of the client (http)."""
    session_ttl: float
    """Seconds without a request after which a session ends (http)."""
    keep_alive: float
    """Seconds between two comments on a silent stream (sse)."""
    messages: str | None
    """The path to which messages are posted (sse)."""


class AppOptions(ServeOptions, total=False):
    """Options of `ToolServer.asgi` beside path."""

    transport: Literal["http", "sse"]
    """Default `http`."""


ALIASES: Final = {"streamable-http": "http", "streamable_http": "http"}
"""Other common names of a transport."""
ALWAYS: Final = frozenset({"allow_remote", "allowed_hosts", "auth", "host", "path", "port"})
PATHS: Final = {"http": "/mcp", "sse": "/sse"}
"""Where clients look for it."""
HIGHEST_STANDARD: Final = 2


class Served(Protocol):
    """Who is served: a `ToolServer`, or whoever else has a request handler and a name to be announced by."""

    name: str
    version: str

    @property
    def router(self) -> RequestHandler:
        """Who answers."""
        ...


def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run what serves on a loop of its own, as a program that does nothing else."""
    _keep_standard_descriptors()
    logging.basicConfig(level=logging.WARNING)  # a program that set up none of its own would see no failure at all
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(work)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, task.cancel)  # until it has handlers of its own
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            loop.run_until_complete(task)
    finally:
        _end(loop)


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """End what is left. `asyncio.run` would wait for ever for a task that does not let itself be cancelled."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        _, stubborn = loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSING))
        if stubborn:
            log.warning("%d tasks did not end and are left behind", len(stubborn))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _keep_standard_descriptors() -> None:
    """Where one of the three is closed, something of ours would get its number, and be taken for it."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= HIGHEST_STANDARD:
        continue
    os.close(fd)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False, encoding="utf-8")  # Python has None for what was closed
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False, encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False, encoding="utf-8")


async def serve(
    server: Served,
    transport: str = "stdio",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str | None = None,
    auth: Auth | None = None,
    allow_remote: bool = False,
    allowed_hosts: Iterable[str] = (),
    **options: Any,
) -> None:
    """Serve on the running event loop until the task is cancelled, a signal arrives or stdin ends."""
    transport = _transport(transport, ("stdio", "http", "sse"))
    _check_names(transport, options)
    if transport == "stdio":
        await serve_stdio(server.router)
        return
    local, open_to_all = is_loopback(host), auth is None and not allow_remote
    if open_to_all and not local:
        raise _exposed(host)
    path = PATHS[transport] if path is None else path
    hosts = allowed_hosts or ((host,) if local else (ANY,))
    app = make_app(server, path=path, auth=auth, allowed_hosts=hosts, transport=transport, **options)
    listening = bound(host, port)
    address = listening.getsockname()[0]
    if open_to_all and not is_loopback(address):  # the system resolves names below localhost, maybe to another address
        listening.close()
        raise _exposed(f"{host} is {address}, which")
    await serve_app(app, listening, f"{server.name} {server.version}", path)


def make_app(
    server: Served,
    *,
    path: str = "/mcp",
    auth: Auth | None = None,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    transport: str = "http",
    **options: Any,
) -> App:
    """An ASGI app. `allowed_hosts` are the names under which it may be called besides this machine's own."""
    transport = _transport(transport, ("http", "sse"))
    _check_names(transport, options)
    guard = RequestGuard(
        hosts=_names("allowed_hosts", allowed_hosts), origins=_names("allowed_origins", allowed_origins), auth=auth
    )
    if transport == "sse":
        return SseApp(server.router, path=path, guard=guard, **options)
    return HttpApp(server.router, path=path, guard=guard, **options)


def _exposed(what: str) -> ConfigError:
    return ConfigError(
        f"host: {what} can be reached from other machines; give auth=..., or allow_remote=True if all may call",
        key="host",
        expected="a loopback address, or auth, or allow_remote=True",
    )


def _transport(given: Any, known: tuple[str, ...]) -> str:
    """Return the transport that a name stands for; raises `ConfigError` for any other name."""
    transport = ALIASES.get(given, given) if isinstance(given, str) else given
    if transport not in known:
        expected = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
        raise ConfigError(f"transport: expected {expected}, got {given!r}", key="transport", expected=expected)
    return str(transport)


def _names(key: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, str):  # else its letters would be the names
        raise ConfigError(f"{key}: expected a list of texts, such as [{given!r}]", key=key, expected="a list of texts")
    return list(given)


def _check_names(transport: str, options: Mapping[str, Any]) -> None:
    known = OPTIONS[transport] | ALWAYS
    for name in options.keys() - known:
        message = f"{name}: there is no such option for {transport}{suggest(name, known)}"
        raise ConfigError(message, key=name, expected=", ".join(sorted(known)))
