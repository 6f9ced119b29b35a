"""A local process that serves MCP over HTTP: it is started with a free port, and lives as long as its channel."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from .._util.tasks import TaskSet
from ..config import (
    CHECKS,
    HeaderValue,
    HttpServer,
    SecretMask,
    ServerBase,
    SseServer,
    TransportType,
    check_arguments,
    make_identifier,
    mask_arguments,
    may_download,
    one_of,
    secrets_of_process,
    secrets_of_web,
    wrong,
)
from ..errors import CallTimeout, ConnectError, ConnectionLost, OutcomeUnknown, StartError, TransportError
from ..events import Delivery
from ..types import Wire
from .channel import PLAIN, Counters, Inbound, RequestOptions
from .jsonrpc_stream import StreamChannel
from .pending import lost_error
from .stdio.listeners import Listener, find_listener
from .stdio.output import OutputReader
from .stdio.process import NEEDS_POSIX, ServerProcess, exit_error

if TYPE_CHECKING:
    from .http.channel import HttpChannel

log = logging.getLogger("toolcrib.transports")

PORT_ATTEMPTS: Final = 3
"""The most starts of one connection, if other processes take the port."""
POLL_SECONDS: Final = 0.02
"""Seconds between two attempts to reach the port."""
EXIT_DELAY_SECONDS: Final = 0.5
"""Seconds to wait for the end of the process after a connection to it broke."""

_PORT_TAKEN: Final = ("eaddrinuse", "address already in use", "address in use", "port is already allocated")
"""What programs write to stderr if they cannot listen on their port."""
_CONTAINER_COMMANDS: Final = frozenset({"docker", "podman", "nerdctl"})
"""Commands for which a daemon listens on the port, not a process of theirs."""


def _check_command(key: str, value: Any) -> tuple[str, ...]:
    words = check_arguments(key, value)
    if not words or not words[0]:
        raise wrong(key, "a list of the command and its arguments", value)
    return words


def _check_path(key: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and _PATH.fullmatch(value)):
        return value
    raise wrong(key, "the path of a URL without a query, such as /mcp", value)


_PATH: Final = re.compile(r"/(?!/)[^\x00-\x20?#\\\x7f-\U0010ffff]*")


@dataclass(frozen=True, repr=False)
class SpawnedHttpServer(ServerBase):
    """The config of a local process that serves MCP over HTTP. A `Client` accepts it; settings files have none.

    The process gets a free port in the variable `PORT`, and `${PORT}` in its arguments is replaced. It must listen on
    this port of the loopback interface. `path` is the path of its URL, by default `/mcp`, or `/sse` over SSE.
    """

    command: Sequence[str]
    env: Mapping[str, str] | None = field(default=None, kw_only=True)
    cwd: str | None = field(default=None, kw_only=True)
    transport: Literal["streamable_http", "sse"] = field(default="streamable_http", kw_only=True)
    path: str | None = field(default=None, kw_only=True)
    headers: Mapping[str, HeaderValue] | None = field(default=None, kw_only=True)
    max_connections: int | None = field(default=100, kw_only=True)

    _kinds = (TransportType.STREAMABLE_HTTP, TransportType.SSE)
    _checks: ClassVar[Mapping[str, Callable[[str, Any], Any]]] = {
        **CHECKS,
        "command": _check_command,
        "transport": one_of("streamable_http", "sse"),
        "path": _check_path,
    }
    _arguments = ("command",)

    @property
    def transport_type(self) -> TransportType:
        """The transport: `streamable_http` or `sse`."""
        return TransportType(self.transport)

    @property
    def server_identifier(self) -> str:
        """The identifier `spawned:command:arg:...` for logs and cache keys; unique in the process, without secrets."""
        return make_identifier("spawned", *self.command, shown=("spawned", *mask_arguments(self.command)))

    @property
    def secrets(self) -> SecretMask:
        """A new mask of the secrets that the process is given, and of the headers that are sent to it."""
        return secrets_of_process(self.env, self.command) | secrets_of_web("", self.headers)

    def make_channel(
        self, counters: Counters | None = None, on_stderr: Callable[[str], object] | None = None
    ) -> SpawnedHttpChannel:
        """Return a new channel, which starts the process when it is opened."""
        return SpawnedHttpChannel(self, counters or Counters(), on_stderr)


class SpawnedHttpChannel:
    """A `Channel` to a process that listens on a port of this machine.

    If the process ends, the calls fail at once. Closing the channel ends the process and its group.
    """

    def __init__(
        self, server: SpawnedHttpServer, counters: Counters, on_stderr: Callable[[str], object] | None = None
    ) -> None:
        self.over_http = server.transport == "streamable_http"
        self.secrets = server.secrets
        """Masks the secrets that the process was given, and the headers that are sent to it."""
        self._server = server
        self._counters = counters
        self._on_stderr = Delivery(on_stderr, "stderr handler") if on_stderr is not None else None  # type: ignore[arg-type]
        self._child: _ServingProcess | None = None
        self._inner: HttpChannel | StreamChannel | None = None
        self._reporter: _LossReporter | None = None

    async def open(self, inbound: Inbound) -> None:
        """Start the process, wait until it listens, and connect to it."""
        if os.name != "posix":
            raise StartError(NEEDS_POSIX, permanent=True)
        host, port = await self._start()
        inner = self._inner = self._make_inner(f"http://{host}:{port}{self._path}")
        self._running.on_exit = inner.on_lost
        reporter = self._reporter = _LossReporter(inbound, self._running)
        try:
            await inner.open(reporter)
        except TransportError as exc:
            error = await self._running.exit_after(exc)
            if error is None:
                raise
            raise error from exc

    @property
    def _path(self) -> str:
        default = "/mcp" if self._server.transport == "streamable_http" else "/sse"
        return self._server.path or default

    @property
    def _running(self) -> _ServingProcess:
        if self._child is None:
            raise RuntimeError("the channel is not open")
        return self._child

    @property
    def _channel(self) -> HttpChannel | StreamChannel:
        if self._inner is None:
            raise RuntimeError("the channel is not open")
        return self._inner

    async def _start(self) -> tuple[str, int]:
        """Start the process, again if another process takes its port, and return its address."""
        for _ in range(PORT_ATTEMPTS):
            if self._child is not None:
                await self._child.close(force=True)
            port = _free_port()
            child = self._child = _ServingProcess(self._server, port, self.secrets, self._on_stderr)
            host = await child.wait_until_listening()
            if host is not None:
                return host, port
            log.debug("%s: another process took port %d", self._server.server_identifier, port)
        raise self._running.error(
            f"the port {port} was taken by another process, the last of {PORT_ATTEMPTS}; try again, and check that the "
            "server listens on the port in the variable PORT"
        )

    def _make_inner(self, url: str) -> HttpChannel | StreamChannel:
        from .http.channel import HttpChannel  # noqa: PLC0415  # aiohttp is slow to import
        from .http.legacy_sse import SseLink  # noqa: PLC0415  # the same
        from .http.network import Egress  # noqa: PLC0415  # the same

        server, here = self._server, Egress(direct=True)
        if server.transport == "streamable_http":
            config = HttpServer(url, headers=server.headers, max_connections=server.max_connections)
            return HttpChannel(config, self._counters, secrets=self.secrets, egress=here)
        link = SseLink(SseServer(url, headers=server.headers), secrets=self.secrets, egress=here)
        return StreamChannel(link, self._counters, self.secrets)

    # ---- requests --------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Wire | None, *, options: RequestOptions = PLAIN) -> Wire:
        """Send a request and return its result."""
        try:
            return await self._channel.request(method, params, options=options)
        except (ConnectError, ConnectionLost, OutcomeUnknown) as exc:
            error = None if isinstance(exc, CallTimeout) else await self._running.exit_after(exc)
            if error is None:
                raise
            failure = lost_error(error, sent=exc.sent is not False)
        raise failure  # outside the handler: its cause is the end of the process

    async def notify(self, method: str, params: Wire | None = None) -> None:
        """Send a notification."""
        await self._channel.notify(method, params)

    def hold(self) -> AbstractContextManager[None]:
        """Return a context in which no deadline passes."""
        return self._channel.hold()

    # ---- the process -----------------------------------------------------------------------------------------

    def stderr_tail(self) -> str:
        """Return the end of what the process wrote to stderr and stdout, without secrets and control characters."""
        return self._child.stderr_tail() if self._child is not None else ""

    @property
    def may_download(self) -> bool:
        """Whether the command may have to download the server first."""
        command, *args = self._server.command
        return may_download(command, args)

    async def close(self, *, force: bool = False) -> None:
        """Close the connection, then end the process and its group."""
        if self._reporter is not None:
            self._reporter.stop()
        try:
            if self._inner is not None:
                await self._inner.close(force=force)
        finally:
            if self._child is not None:
                await self._child.close(force=force)


class _LossReporter:
    """An `Inbound` that reports the end of the connection when it is known whether the process has ended too."""

    def __init__(self, inbound: Inbound, child: _ServingProcess) -> None:
        self._inbound = inbound
        self._child = child
        self._reports = TaskSet()

    @property
    def takes_requests(self) -> bool:
        """Whether the server may send requests."""
        return self._inbound.takes_requests

    async def on_request(self, method: str, params: Wire) -> Wire:
        """Answer a request of the server."""
        return await self._inbound.on_request(method, params)

    def on_notification(self, method: str, params: Wire) -> None:
        """Handle a notification."""
        self._inbound.on_notification(method, params)

    def held(self) -> AbstractContextManager[None]:
        """Return a context that pauses the callers' deadlines."""
        return self._inbound.held()

    def on_closed(self, error: Exception) -> None:
        """Report the end of the connection."""
        if self._child.has_ended:
            self._inbound.on_closed(error)
        else:
            self._reports.create(self._report(error))

    async def _report(self, error: Exception) -> None:
        self._inbound.on_closed(await self._child.exit_after(error) or error)

    def stop(self) -> None:
        """Report nothing more."""
        self._reports.cancel()


class _ServingProcess:
    """The process, and the readers of its output. Its stdout carries no messages, so both are logs."""

    def __init__(self, server: SpawnedHttpServer, port: int, secrets: SecretMask, on_line: Delivery | None) -> None:
        self.on_exit: Callable[[Exception], None] | None = None
        """Called with the error if the process ends by itself."""
        self._server = server
        self._port = port
        self._secrets = secrets
        self._closing = False
        self._exit: StartError | None = None
        command, *args = (word.replace("${PORT}", str(port)) for word in server.command)
        env = {**(server.env or {}), "PORT": str(port)}
        self._process = process = ServerProcess.spawn(command, args, env=env, cwd=server.cwd, on_exit=self._note_exit)
        self._readers = [
            OutputReader(pipe, process.tail, name=server.server_identifier, secrets=secrets, on_line=on_line)
            for pipe in (process.stdout, process.stderr)
        ]

    async def wait_until_listening(self) -> str | None:
        """Return the host at which the process accepts connections; None if another process has its port.

        Raises `StartError` if the process ends before.
        """
        while True:
            host = await _accepting_host(self._port)
            if self._exit is not None or (host is None and await self._process.exits_within(POLL_SECONDS)):
                error = self._exit or self.error("")
                if host is not None or any(words in error.stderr.lower() for words in _PORT_TAKEN):
                    return None
                raise error
            if host is not None:
                return None if await self._is_port_foreign() else host

    async def _is_port_foreign(self) -> bool:
        if PurePath(self._server.command[0]).name in _CONTAINER_COMMANDS:
            return False
        listener = await asyncio.to_thread(find_listener, self._port, self._process.pid)
        return listener is Listener.FOREIGN

    def error(self, alive: str) -> StartError:
        """Return the error for the process as it is now; `alive` is the text if it runs."""
        for reader in self._readers:
            reader.read_rest()
        return exit_error(self._process, self._secrets, alive=alive)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended by itself."""
        return self._exit is not None

    async def exit_after(self, exc: Exception) -> StartError | None:
        """Return the error of the process if it ended when a request or a stream failed; None if it runs."""
        # An error status comes from a running server. The other errors may be noticed before the end of the process is,
        # also an answer with the status 200 that breaks off.
        has_error_status = isinstance(exc, TransportError) and (exc.status or 0) >= 400
        if self._exit is None and not has_error_status and not self._closing:
            await self._process.exits_within(EXIT_DELAY_SECONDS)
        return self._exit

    def _note_exit(self) -> None:
        if self._closing:
            return
        self._exit = self.error("")
        if self.on_exit is not None:
            self.on_exit(self._exit)

    def stderr_tail(self) -> str:
        """Return the end of the process's output, without secrets and control characters."""
        return self._process.tail.text(self._secrets)

    async def close(self, *, force: bool) -> None:
        """End the process and its group. Meanwhile its output is read: a full pipe would keep it alive."""
        if self._closing:
            return
        self._closing = True
        try:
            await self._process.stop(force=force, ends_with_stdin=False)
        except asyncio.CancelledError:
            self._process.kill()  # no time to wait
            raise
        finally:
            for reader in self._readers:
                reader.stop()
            self._process.release()


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


async def _accepting_host(port: int) -> str | None:
    """Return the loopback host at which the port accepts connections, as written in a URL; None if there is none."""
    loop = asyncio.get_running_loop()
    for family, address, host in ((socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET6, "::1", "[::1]")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setblocking(False)
                await loop.sock_connect(probe, (address, port))
                # Without a listener, the system may choose the same port for the probe and connect it to itself.
                if probe.getsockname() != probe.getpeername():
                    return host
        except OSError:
            continue
    return None
