"""Running a server: over the stdin and stdout of this process, or as a web server."""

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
from ...config.validators import wrong
from ...errors import ConfigError, UsageError
from ..handler import RequestHandler
from .cors import ANY
from .legacy_sse import SseApp
from .security import Auth, RequestGuard
from .stdio import serve_stdio
from .streamable_http import HttpApp
from .uvicorn_server import CLOSE_SECONDS, bind_socket, serve_app

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
    """Options of `ToolServer.run` and `run_async` besides host, port, path and allow_remote."""

    auth: Auth | None
    """Authenticates requests; default: the `auth` of the server."""
    allowed_hosts: Iterable[str]
    """Values of the `Host` header that are accepted besides the names of this machine."""
    allowed_origins: Iterable[str]
    """Origins of web pages that may call the server from a browser."""
    body_timeout: float
    """Seconds in which the body of a request has to arrive."""
    max_body: int
    """Maximum size of a request body in bytes (http)."""
    max_sessions: int
    """Maximum number of open legacy sessions."""
    max_listens: int
    """Maximum number of open `subscriptions/listen` requests (http)."""
    suspended_ttl: float
    """Seconds that a suspended call waits for the client's answers (http)."""
    session_ttl: float
    """Seconds without a request after which a session ends (http)."""
    keep_alive: float
    """Seconds between two comments on an idle stream (sse)."""
    messages: str | None
    """The path to which messages are posted (sse)."""


class AppOptions(ServeOptions, total=False):
    """Options of `ToolServer.asgi` besides path."""

    transport: Literal["http", "sse"]
    """The transport; default: `http`."""


ALIASES: Final = {"streamable-http": "http", "streamable_http": "http"}
"""Alternative names of transports."""
ALWAYS: Final = frozenset({"allow_remote", "allowed_hosts", "auth", "host", "path", "port"})
PATHS: Final = {"http": "/mcp", "sse": "/sse"}
"""The default path of each transport, which clients expect."""
HIGHEST_STANDARD: Final = 2


class Served(Protocol):
    """A `ToolServer`, or any other object with a request handler, a name and a version."""

    name: str
    version: str

    @property
    def router(self) -> RequestHandler:
        """The request handler."""
        ...


def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run `work`, which serves, on a new event loop, in a program that does nothing else."""
    if _is_loop_running():
        work.close()
        raise UsageError("run: an event loop is already running in this thread. Use `await server.run_async(...)`")
    _keep_standard_descriptors()
    logging.basicConfig(level=logging.WARNING)  # otherwise a program without logging handlers would log nothing
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(work)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, task.cancel)  # until `work` installs its own handlers
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            loop.run_until_complete(task)
    finally:
        _end(loop)


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks and close the loop. `asyncio.run` would wait forever for a task that ignores this."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        _, stubborn = loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSE_SECONDS))
        if stubborn:
            log.warning("%d tasks did not end after cancellation and are abandoned", len(stubborn))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _keep_standard_descriptors() -> None:
    """Open those of the descriptors 0, 1 and 2 that are closed: another file would get such a number otherwise."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= HIGHEST_STANDARD:
        continue
    os.close(fd)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False, encoding="utf-8")  # None if it was closed at startup
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
    remark: str = "",
    **options: Any,
) -> None:
    """Serve on the running event loop until the task is cancelled, a signal arrives or stdin ends.

    Over HTTP, prints the URL when it listens, with the `remark` in parentheses.
    """
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
    listening = bind_socket(host, port)
    address = listening.getsockname()[0]
    if open_to_all and not is_loopback(address):  # `*.localhost` may resolve to any address
        listening.close()
        raise _exposed(f"{host} resolves to {address}, which")
    await serve_app(app, listening, f"{server.name} {server.version}", path, remark)


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
    """Return an ASGI app. It accepts `allowed_hosts` in the `Host` header, besides the names of this machine."""
    transport = _transport(transport, ("http", "sse"))
    _check_names(transport, options)
    _check_auth(auth)
    guard = RequestGuard(
        hosts=_names("allowed_hosts", allowed_hosts), origins=_names("allowed_origins", allowed_origins), auth=auth
    )
    if transport == "sse":
        return SseApp(server.router, path=path, guard=guard, **options)
    return HttpApp(server.router, path=path, guard=guard, **options)


def _check_auth(auth: Any) -> None:
    is_verifier_class = isinstance(auth, type) and hasattr(auth, "check_query")
    if auth is not None and (is_verifier_class or not callable(auth)):
        raise wrong("auth", "a function of the headers, or TokenVerifier(issuer, resource)", auth)


def _exposed(what: str) -> ConfigError:
    return ConfigError(
        f"host: {what} can be reached from other machines; pass auth=..., or allow_remote=True to allow "
        "unauthenticated calls",
        key="host",
        expected="a loopback address, or auth, or allow_remote=True",
    )


def _transport(given: Any, known: tuple[str, ...]) -> str:
    """Return the transport for a name or an alias; raises `ConfigError` for any other value."""
    transport = ALIASES.get(given, given) if isinstance(given, str) else given
    if transport not in known:
        expected = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
        raise ConfigError(f"transport: expected {expected}, got {given!r}", key="transport", expected=expected)
    return str(transport)


def _names(key: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, str):  # iterating over it would give single characters
        raise ConfigError(
            f"{key}: expected a list of strings, such as [{given!r}], got a string",
            key=key,
            expected="a list of strings",
        )
    return list(given)


def _check_names(transport: str, options: Mapping[str, Any]) -> None:
    known = OPTIONS[transport] | ALWAYS
    for name in options.keys() - known:
        message = f"{name}: unknown option for the transport {transport!r}{suggest(name, known)}"
        raise ConfigError(message, key=name, expected=", ".join(sorted(known)))
