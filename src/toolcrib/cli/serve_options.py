"""Shared by `run` and `bridge`: the transport, its options, logging and messages while they serve."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Coroutine, Iterator
from enum import StrEnum
from typing import Any, Final, TypedDict, Unpack

from ..errors import ConfigError
from .console import cell, note, plain
from .exit_codes import CliError


class Transport(StrEnum):
    """The transports over which a server can be served."""

    STDIO = "stdio"
    HTTP = "http"
    SSE = "sse"


class ServeParameters(TypedDict):
    """The parameters of `shared_options.SERVE`, as click passes them; None or False: not given."""

    transport: str | None
    http: bool
    host: str | None
    port: int | None
    path: str | None
    allow_remote: bool


_HINTS: Final = {
    "host": "--allow-remote accepts unauthenticated requests from other machines; or give the ToolServer an `auth`",
    "port": "choose another --port; 0 chooses a free one",
}
"""What to do about an option that was rejected."""


def choose_transport(**given: Unpack[ServeParameters]) -> tuple[Transport, dict[str, Any]]:
    """Return the transport that the options name, and the options of `serve` for it; raise `CliError` on conflicts."""
    transport = Transport(given["transport"] or (Transport.HTTP if given["http"] else Transport.STDIO))
    if given["http"] and transport is not Transport.HTTP:
        raise CliError(f"--http conflicts with --transport {transport.value}", hint="give one of them")
    names = ("host", "port", "path", "allow_remote")
    options = {
        name: value for name, value in given.items() if name in names and value is not None and value is not False
    }
    if options and transport is Transport.STDIO:
        option = next(iter(options)).replace("_", "-")
        raise CliError(f"--{option} has no effect over stdio", hint="--http serves at a URL")
    return transport, options


@contextlib.contextmanager
def as_options() -> Iterator[None]:
    """Report errors about the parameters of `serve` as errors about the options that were typed."""
    try:
        yield
    except ConfigError as exc:
        if exc.key not in _HINTS:
            raise
        what = exc.message.partition("; ")[0]  # the rest is advice for programmers
        raise CliError(f"--{what}", hint=_HINTS[exc.key]) from exc


def with_plain_logging(debug: bool) -> None:
    """Log warnings and errors to stderr while serving, unless the served file sets up its own logging."""
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


async def announce(name: str, transport: Transport, serving: Coroutine[Any, Any, None]) -> None:
    """Serve; at a terminal first print what the process waits for, within the task that Ctrl-C cancels."""
    if transport is Transport.STDIO and sys.stdin is not None and sys.stdin.isatty():
        note(f"{name} serves MCP over stdio and waits for a client's messages; --http serves it at a URL")
    await serving
