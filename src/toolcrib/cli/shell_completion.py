"""Shell completion: the names of servers after Tab, and the scripts that make a shell ask for completions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_TOOLCRIB_COMPLETE"
_STARTUP_FILES: Final = {
    "bash": (".bashrc", "source ~/.bash_completions/toolcrib.sh"),
    "zsh": (".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
}
"""Files that a shell reads when it starts, and the line in them that makes it find the script."""
_SCRIPTS: Final = {
    "bash": ".bash_completions/toolcrib.sh",
    "zsh": ".zfunc/_toolcrib",
    "fish": ".config/fish/completions/toolcrib.fish",
}


def complete_server_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the servers of the settings. Tab starts no server, so no tools are offered."""
    from ..errors import ToolcribError  # noqa: PLC0415  # slow, and needed only after Tab
    from .exit_codes import CliError  # noqa: PLC0415
    from .target import find_settings  # noqa: PLC0415

    try:
        settings = find_settings(ctx.params.get("config"))
    except (ToolcribError, CliError):
        return []  # the command itself will report the error
    return [entry.name for entry in settings.entries if entry.name.startswith(incomplete)]


def show_script(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Print the script for a shell and exit: the callback of `--show-completion`."""
    if value is None or ctx.resilient_parsing:
        return
    click.echo(_make_script(ctx, _check_shell(ctx, param, value)))
    ctx.exit()


def install_script(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Install the script for a shell and exit: the callback of `--install-completion`."""
    if value is None or ctx.resilient_parsing:
        return
    shell = _check_shell(ctx, param, value)
    path = Path.home() / _SCRIPTS[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_make_script(ctx, shell) + "\n", encoding="utf-8")
    if shell in _STARTUP_FILES:
        name, line = _STARTUP_FILES[shell]
        startup = Path.home() / name
        with startup.open("a+b") as file:
            file.seek(0)
            content = file.read()
            if line.encode() not in content.splitlines():
                gap = b"\n" if content and not content.endswith(b"\n") else b""
                file.write(gap + line.encode() + b"\n")
    click.echo(f"{shell} completion installed in {path}")
    click.echo("Completion will take effect once you restart the terminal")
    ctx.exit()


def _check_shell(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the shell that was named; without a name the login shell."""
    shell = value or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        problem = f"{shell!r} is not supported" if shell else "$SHELL is not set"
        raise click.BadParameter(f"{problem}; expected one of {', '.join(SHELLS)}", ctx, param)
    return shell


def _make_script(ctx: click.Context, shell: str) -> str:
    from click.shell_completion import get_completion_class  # noqa: PLC0415  # slow, and rarely needed

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(ctx.command, {}, "toolcrib", _VARIABLE).source()
