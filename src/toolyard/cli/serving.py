"""What `run` and `bridge` share: how somebody is served."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

import typer

from ..errors import ConfigError
from .exits import Trouble
from .screen import note


class Transport(StrEnum):
    """How it is served."""

    STDIO = "stdio"
    HTTP = "http"
    SSE = "sse"


Way = Annotated[Transport, typer.Option("--transport", "-T", help="How it is served.")]
Http = Annotated[bool, typer.Option("--http", help="Serve at a URL: short for --transport http.")]
Host = Annotated[
    str,
    typer.Option(metavar="HOST", help="Where to listen; beyond this machine only with --allow-remote, or with auth."),
]
Port = Annotated[int, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0: any that is free.")]
UrlPath = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="Default: /mcp, for SSE /sse.", show_default=False)
]
AllowRemote = Annotated[bool, typer.Option("--allow-remote", help="Whoever reaches the host may call.")]

_HINTS: Final = {
    "host": "--allow-remote, if whoever reaches it may call; or give the server auth",
    "port": "--port takes another one; 0 is any that is free",
}
"""What to do about an option that cannot be served with."""


@contextlib.contextmanager
def as_options() -> Iterator[None]:
    """What serving has to say of its parameters, said of the options that were typed."""
    try:
        yield
    except ConfigError as exc:
        if exc.key not in _HINTS:
            raise
        what = exc.message.partition("; ")[0]  # what comes after it is said to programmers
        raise Trouble(f"--{what}", hint=_HINTS[exc.key]) from exc


def with_plain_logging(debug: bool) -> None:
    """What fails while somebody is served is logged to stderr, unless the served set up logging of its own."""
    if not debug:
        root = logging.getLogger()
        root.handlers.clear()
        root.setLevel(logging.WARNING)


def waits_for_messages(name: str) -> None:
    """Tell a person at the terminal why nothing happens."""
    if sys.stdin is not None and sys.stdin.isatty():
        note(f"{name} serves MCP over stdio and waits for a client's messages; --http serves it at a URL")
