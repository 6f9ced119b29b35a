"""What the shell offers after Tab, beyond commands and options."""

from __future__ import annotations

from pathlib import Path

import typer  # noqa: TC002  # typer reads the annotations


def server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The servers of the settings. No server is started for a Tab, so no tools are offered."""
    from ..errors import ToolcribError  # noqa: PLC0415  # nothing of this is needed unless Tab is pressed
    from .exit_codes import CliError  # noqa: PLC0415
    from .target import found_settings  # noqa: PLC0415

    config = ctx.params.get("config")
    try:
        settings = found_settings(None if config is None else Path(config))
    except (ToolcribError, CliError):
        return []  # the command itself will say what is wrong
    return [entry.name for entry in settings.entries if entry.name.startswith(incomplete)]
