"""Running an ASGI app in uvicorn: the listening socket, and an orderly shutdown."""

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
DRAIN_SECONDS: Final = 5
"""Seconds that running requests have to finish when the server is stopped."""
CLOSE_SECONDS: Final = 2
"""Seconds that connections and cancelled tasks have to end after that."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address of `host`; raises `ConfigError` if that is not possible."""
    with contextlib.ExitStack() as stack:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            # asyncio sets TCP_NODELAY only if the protocol is given; without it, responses wait for acknowledgements.
            made = stack.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address[0], port, *address[2:]))  # getaddrinfo cuts a port above 65,535 to 16 bits
            made.listen(BACKLOG)  # clients may connect as soon as the address is printed
        except (OSError, OverflowError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            message = f"port: cannot listen on {host}:{port}: {reason}. Choose another port; 0 means any free port"
            raise ConfigError(message, key="port", expected="a free port") from exc
        stack.pop_all()
    return made


async def serve_app(app: AsgiApp, listening: socket.socket, title: str, path: str, remark: str = "") -> None:
    """Serve `app` on a socket until a signal arrives or the task is cancelled; prints `title`, URL and `remark`."""
    try:
        import uvicorn  # noqa: PLC0415  # an extra, and slow to load
    except ImportError as exc:
        listening.close()
        raise ConfigError(
            "transport: serving over HTTP needs uvicorn (the extra `serve`): pip install uvicorn httptools",
            key="transport",
            expected="uvicorn",
        ) from exc

    class UvicornServer(uvicorn.Server):
        """Ends requests and subscriptions before it waits for connections; a signal ends it without an exception."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            with _signals(self):
                yield

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for each in self.servers:
                each.close()
            await app.drain(DRAIN_SECONDS)
            await app.close()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # not used here, and any client can forge them
        lifespan="off",
        ws="none",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=CLOSE_SECONDS,
    )
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    more = f" ({remark})" if remark else ""
    sys.stderr.write(f"{one_line(title)} serves MCP at http://{shown}:{port}{one_line(path)}{more}\n")
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
