"""A web server around an app of ours: where it listens, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...errors import ConfigError
from ...protocol.sanitize import one_line
from .asgi import AsgiApp

if TYPE_CHECKING:
    from uvicorn import Server

BACKLOG: Final = 2048
DRAINING: Final = 5
"""Seconds that requests have to end when the server is stopped."""
CLOSING: Final = 2
"""Seconds that what is left then has to go."""


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address of `host`; raises `ConfigError` if that is not possible."""
    with contextlib.ExitStack() as stack:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            # asyncio sets TCP_NODELAY only on what says that it is TCP; without it answers wait for acknowledgements.
            made = stack.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address[0], port, *address[2:]))  # getaddrinfo cuts a port above 65,535 to 16 bits
            made.listen(BACKLOG)  # who reads where we are may connect at once
        except (OSError, OverflowError) as exc:
            what = getattr(exc, "strerror", None) or exc
            raise ConfigError(
                f"port: {host}:{port} cannot be listened on: {what}", key="port", expected="a free port"
            ) from exc
        stack.pop_all()
    return made


async def serve_app(app: AsgiApp, listening: socket.socket, who: str, path: str) -> None:
    """Serve it until a signal, or the caller's cancellation, ends it."""
    try:
        import uvicorn  # noqa: PLC0415  # an extra, and slow to load
    except ImportError as exc:
        listening.close()
        raise ConfigError(
            "serving over HTTP needs a web server, the extra `serve`: pip install uvicorn httptools",
            key="transport",
            expected="uvicorn",
        ) from exc

    class UvicornServer(uvicorn.Server):
        """Ends what runs and listens before it waits for the connections, and is ended by a signal without an error."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            with _signals(self):
                yield

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for each in self.servers:
                each.close()
            await app.drain(DRAINING)
            await app.close()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing here looks at them, so nobody's can change anything
        lifespan="off",
        ws="none",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=CLOSING,
    )
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"{one_line(who)} serves MCP at http://{shown}:{port}{one_line(path)}\n")
    sys.stderr.flush()
    serving = UvicornServer(config)
    try:
        await serving.serve(sockets=[listening])
    except asyncio.CancelledError:
        if serving.started:
            await serving.shutdown([listening])
        raise
    finally:
        listening.close()


@contextlib.contextmanager
def _signals(server: Server) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.handle_exit, number, None)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
