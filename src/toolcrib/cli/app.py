"""The command line as a whole: `run` parses it, runs the command and returns the exit code."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from .._util.suggest import did_you_mean, suggest
from .._version import __version__
from .command_table import COMMANDS, GROUPS, PANELS
from .console import note
from .exit_codes import CliError, Exit, tell
from .lazy_command import INVOCATION, Invocation, LazyCommand, dashes_hint, write_lines
from .shared_options import flag, option
from .shell_completion import install_script, show_script

_EXIT_CODES: Final = """
0 success, 1 tool reported an error, 2 usage, 3 settings, 4 not found,
5 unreachable, 6 denied, 7 outcome unknown, 129 terminal closed,
130 Ctrl-C, 143 SIGTERM
"""
_HEADER_OPTIONS: Final = ("--header", "--headers", "-H")
_OTHER_NAMES: Final = {
    "check": "doctor",
    "config": "init",
    "delete": "remove",
    "install": "add",
    "list": "tools",
    "login": "auth login",
    "logout": "auth logout",
    "ls": "tools",
    "proxy": "bridge",
    "rm": "remove",
    "search": "tools",
    "serve": "run",
    "start": "run",
    "status": "servers",
    "uninstall": "remove",
}
"""Names that other programs have for what a command does."""


class _Group(click.Group):
    """A group of commands, listed in the order of the table; a misspelled name gets a suggestion."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # as click calls it
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            other = [_OTHER_NAMES[args[0]]] if ctx.parent is None and args[0] in _OTHER_NAMES else []
            hint = did_you_mean(other) or suggest(args[0], self.commands)
            raise click.UsageError(f"No such command {args[0]!r}{hint or '.'}", ctx)
        return super().resolve_command(ctx, args)


class _Toolcrib(_Group):
    """The group of all commands, listed under headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for heading, commands in PANELS.items():
            with formatter.section(heading):
                formatter.write_dl([(str(each.name), each.short_help or "") for each in commands])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_lines(formatter, "Exit codes", _EXIT_CODES)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"toolcrib {__version__}")
        ctx.exit()


def _nested() -> dict[str, click.Command]:
    """Return the commands by their first words; commands of two words are in a group."""
    found: dict[str, click.Command] = {}
    for name, command in COMMANDS.items():
        first, _, second = name.partition(" ")
        if not second:
            found[first] = command
            continue
        group = found.setdefault(first, _Group(first, help=GROUPS[first], no_args_is_help=False))
        assert isinstance(group, click.Group)
        group.add_command(command, second)
    return found


def _make_group() -> _Toolcrib:
    eager: dict[str, Any] = {"is_eager": True, "expose_value": False}
    shell = {**eager, "metavar": "[SHELL]", "is_flag": False, "flag_value": ""}
    return _Toolcrib(
        "toolcrib",
        _nested(),
        help="Use, manage and serve MCP servers: their tools, resources and prompts.",
        params=[
            flag("--version", callback=_show_version, help="Show the version.", **eager),
            flag("--debug", expose_value=False, help="Show tracebacks. Allowed anywhere on the command line."),
            option(
                "--install-completion",
                callback=install_script,
                help="Install completion for bash, zsh or fish. Default: your login shell.",
                **shell,
            ),
            option(
                "--show-completion",
                callback=show_script,
                help="Show the script that --install-completion installs.",
                **shell,
            ),
        ],
    )


def run(arguments: Sequence[str]) -> int:
    """Run a command line, and return the exit code."""
    own, command = list(arguments), None
    if "--" in own:
        at = own.index("--")
        own, command = own[:at], tuple(own[at + 1 :])
    debug = "--debug" in own
    own = [each for each in own if each != "--debug"]
    if own[:1] == ["help"]:
        own = [*own[1 : 3 if own[1:2] and own[1] in GROUPS else 2], "--help"]
    _prepare(debug)
    if command == ():
        return tell(CliError("no command given after --", hint="toolcrib tools -- npx -y some-server"), debug=debug)
    invocation = Invocation(command or (), debug, tuple(own))
    INVOCATION.set(invocation)
    try:
        code = _make_group().main(own or ["--help"], "toolcrib", standalone_mode=False, obj=invocation)
    except click.UsageError as exc:
        code = tell(CliError(_message_of(exc), hint=_hint_for(exc, own)), debug=debug)
    except SystemExit as exc:  # after completion, or because the reader of the help closed the pipe
        code = Exit.OK if isinstance(exc.__context__, BrokenPipeError) else exc.code
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    except Exception as exc:  # noqa: BLE001  # the last place that can report it in one line
        if isinstance(exc, CliError) and exc.code is Exit.USAGE and not exc.hint:
            exc.hint = _help_hint(own)
        code = tell(exc, debug=debug)
    return _flushed(code if isinstance(code, int) else Exit.OK)


def _message_of(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):  # releases of click word it differently
        similar = () if error.option_name in _HEADER_OPTIONS else error.possibilities or ()
        return f"No such option: {error.option_name}{did_you_mean(similar)}"
    return error.format_message()


def _hint_for(error: click.UsageError, own: list[str]) -> str:
    """Return what to do about a wrong command line; `own` are its words before `--`."""
    command = _command_in(own)
    if command is not None and command.name == "call" and getattr(error, "option_name", "") == "--json":
        return """--json prints the result; JSON for the tool goes after --args: --args '{"key": "value"}'"""
    if isinstance(error, click.NoSuchOption) and error.option_name in _HEADER_OPTIONS:
        return "headers are kept in the settings: toolcrib add NAME URL --header 'Authorization=Bearer ${TOKEN}'"
    if command is not None and command.name == "call" and isinstance(error, click.NoSuchOption):
        name = error.option_name.lstrip("-")
        return dashes_hint(own) or f"an argument of the tool is written as key=value, such as {name}=VALUE"
    if isinstance(error, click.NoSuchOption) and command is not None and command.starts_servers:
        return dashes_hint(own) or _help_hint(own)
    return _help_hint(own)


def _command_in(own: list[str]) -> LazyCommand | None:
    words = [word for word in own if not word.startswith("-")]
    return COMMANDS.get(" ".join(words[:2])) or COMMANDS.get("".join(words[:1]))


def _help_hint(own: list[str]) -> str:
    command = _command_in(own)
    name = command.name if command is not None else next((word for word in own[:1] if word in GROUPS), None)
    return f"`toolcrib {f'{name} ' if name else ''}--help` shows its usage"


def _prepare(debug: bool) -> None:
    """Set up logging and the standard streams. Commands report errors themselves, so logs are for --debug only."""
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.CRITICAL + 1,
        format="%(name)s: %(message)s",
        handlers=[_Log() if debug else logging.NullHandler()],
    )
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed; otherwise a pipe to a server would get its number
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters that the terminal cannot show must not fail a command


class _Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


def _flushed(code: int) -> int:
    """Flush standard output and return the exit code; a reader that closed the pipe does not count as an error."""
    try:
        sys.stdout.flush()
    except OSError as exc:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # it is flushed again at exit
        return Exit.OK if isinstance(exc, BrokenPipeError) else tell(exc, debug=False)
    return code
