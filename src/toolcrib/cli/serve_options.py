"""What `run` and `bridge` share: how somebody is served."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Coroutine, Iterator
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from ..errors import ConfigError
from .console import cell, note, plain
from .exit_codes import CliError


class Transport(StrEnum):
    """How it is served."""

    STDIO = "stdio"
    HTTP = "http"
    SSE = "sse"


Way = Annotated[Transport, typer.Option("--transport", "-T", help="How it is served.")]
Http = Annotated[bool, typer.Option("--http", help="Serve at a URL: short for --transport http.")]
Host = Annotated[
    str,
    typer.Option(metavar="HOST", help="Where to listen; beyond this machine only with --allow-remote."),
]
Port = Annotated[int, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0: any that is free.")]
UrlPath = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="Default: /mcp, for SSE /sse.", show_default=False)
]
AllowRemote = Annotated[bool, typer.Option("--allow-remote", help="Whoever reaches the host may call.")]

_AT_A_URL: Final = ("host", "port", "path", "allow_remote")
_HINTS: Final = {
    "host": "--allow-remote, if whoever reaches it may call; a ToolServer may have auth instead",
    "port": "--port takes another one; 0 is any that is free",
}
"""What to do about an option that cannot be served with."""


def way_of(ctx: typer.Context, http: bool, transport: Transport) -> Transport:
    """The way that the options name; options that do not go together are told."""
    sources = {name: ctx.get_parameter_source(name) for name in ("transport", *_AT_A_URL)}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if http and "transport" in given and transport is not Transport.HTTP:
        raise CliError(f"--http and --transport {transport.value} say two things", hint="give one of them")
    way = Transport.HTTP if http else transport
    idle = [name for name in given if name in _AT_A_URL and way is Transport.STDIO]
    if idle:
        raise CliError(f"--{idle[0].replace('_', '-')}: over stdio it has no effect", hint="--http serves at a URL")
    return way


@contextlib.contextmanager
def as_options() -> Iterator[None]:
    """What serving has to say of its parameters, said of the options that were typed."""
    try:
        yield
    except ConfigError as exc:
        if exc.key not in _HINTS:
            raise
        what = exc.message.partition("; ")[0]  # what comes after it is said to programmers
        raise CliError(f"--{what}", hint=_HINTS[exc.key]) from exc


def with_plain_logging(debug: bool) -> None:
    """What fails while somebody is served is logged to stderr, unless the served set up logging of its own."""
    if not debug:
        root = logging.getLogger()
        root.handlers.clear()
        root.setLevel(logging.WARNING)
        logging.lastResort = _PlainHandler(logging.WARNING)


class _PlainHandler(logging.Handler):
    """Writes to stderr, each message on one line and without control characters: it may quote a server or a client."""

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        sys.stderr.write(f"{cell(record.getMessage())}\n{plain(trace)}")


async def announce(name: str, way: Transport, serving: Coroutine[Any, Any, None]) -> None:
    """Serve, and tell a person at the terminal why nothing happens.

    The person is told by a task that Ctrl-C already ends in good order.
    """
    if way is Transport.STDIO and sys.stdin is not None and sys.stdin.isatty():
        note(f"{name} serves MCP over stdio and waits for a client's messages; --http serves it at a URL")
    await serving
