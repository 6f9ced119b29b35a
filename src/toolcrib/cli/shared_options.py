"""Parameters that several commands have, so that they are spelled and explained the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from .lazy_command import Argument
from .shell_completion import complete_server_names


def option(*names: str, **attributes: Any) -> click.Option:
    """Return an option with a value; the help shows its default. A name without dashes is that of the parameter."""
    return click.Option(names, show_default=attributes.get("default") not in (None, ""), **attributes)


def flag(*names: str, **attributes: Any) -> click.Option:
    """Return an option without a value."""
    return click.Option(names, is_flag=True, **attributes)


def argument(name: str, metavar: str, description: str, **attributes: Any) -> Argument:
    """Return a positional argument; `metavar` is how the usage line shows it."""
    return Argument(name, description, metavar=metavar, **attributes)


def words(
    metavar: str, description: str, *, name: str = "words", complete: bool = True, required: bool = False
) -> Argument:
    """Return an argument that takes any number of words; `complete`: the shell offers the names of servers."""
    attributes: dict[str, Any] = {"shell_complete": complete_server_names} if complete else {}
    return argument(name, metavar, description, nargs=-1, required=required, **attributes)


FILE: Final = click.Path(path_type=Path)


def _check_seconds(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0.001 <= value <= 1e6:
        raise click.BadParameter("expected seconds, from 0.001 to a million", ctx, param)
    return value


def config(help_text: str) -> click.Option:
    """Return the option that names the settings file."""
    return option("--config", "-c", metavar="FILE", type=FILE, help=help_text)


SERVERS: Final = words(
    "[SERVER]...",
    "Names from the settings, a URL, or FILE.py[:NAME]; or a command after --. Default: all servers of the settings.",
    name="servers",
)
CONFIG: Final = config("Settings file. Default: toolcrib.toml and .mcp.json in this folder, else the user settings.")
JSON: Final = flag("--json", "as_json", help="Print JSON, for programs.")
LONG: Final = flag("--long", "-l", help="Show whole descriptions instead of one line of each.")
TIMEOUT: Final = option(
    "--timeout",
    "-t",
    metavar="SECONDS",
    type=float,
    callback=_check_seconds,
    help="Seconds to wait: to connect, for a list, for a call. Default: from the settings, else 30; 120 to "
    "connect with a command that may download, and no limit for a call that reports progress.",
)

# For the commands that change settings.
WRITTEN: Final = config("The file to write. Default: toolcrib.toml or .mcp.json in this folder, else a new .mcp.json.")
USER: Final = flag("--user", help="Use the user settings, which apply in folders without settings.")
REPLACE: Final = flag("--replace", help="Replace a server that has the same name.")
DRY_RUN: Final = flag("--dry-run", help="Show what would be done, and write nothing.")

# For `run` and `bridge`; `serve_options` interprets them.
SERVE: Final = (
    option(
        "--transport",
        "-T",
        type=click.Choice(("stdio", "http", "sse")),
        help="How to serve. Default: stdio.",
    ),
    flag("--http", help="Serve at a URL: short for --transport http."),
    option(
        "--host",
        metavar="HOST",
        help="Address to listen on; beyond this machine only with --allow-remote. Default: 127.0.0.1.",
    ),
    option(
        "--port",
        "-p",
        metavar="PORT",
        type=click.IntRange(0, 65535),
        help="Port to listen on; 0: any free port. Default: 8000.",
    ),
    option("--path", metavar="PATH", help="Path of the endpoint. Default: /mcp, or /sse for SSE."),
    flag("--allow-remote", help="Allow a host beyond this machine without authentication."),
)
