"""Options that many commands have, so that they are spelled and explained the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from .shell_completion import server_names

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Settings file. Default: toolcrib.toml and .mcp.json of this folder, else your own.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Long = Annotated[bool, typer.Option("--long", "-l", help="Show whole descriptions, not only a line of each.")]


def _seconds(value: float | None) -> float | None:
    if value is not None and not 0.001 <= value <= 1e6:
        raise typer.BadParameter("expected seconds, from 0.001 to a million")
    return value


Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        "-t",
        metavar="SECONDS",
        callback=_seconds,
        help="Seconds to wait: to connect, for a list, for a call. Default: what the settings say, else 30; 120 to "
        "connect with a command that may download, and no limit for a call that shows progress.",
        show_default=False,
    ),
]
Servers = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SERVER]...",
        help="Names from the settings, a URL, or FILE.py[:NAME]; or a command after --. Default: all of the settings.",
        show_default=False,
        autocompletion=server_names,
    ),
]

TIMEOUT: Final[float | None] = None
"""What the settings say, else the defaults of a client."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """What `app` took from the command line before the command saw it; it is `ctx.obj`."""

    command: tuple[str, ...] = ()
    """What stood behind `--`: the command of a server."""
    debug: bool = False
