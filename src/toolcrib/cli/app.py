"""The table of commands. Each is loaded when it is wanted, so that `--help` and completion are quick."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from .._version import __version__
from .console import keeping_stdout, note
from .exit_codes import CliError, Exit, tell
from .help_format import Page, Quick, write_lines
from .shared_options import Invocation


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: its module in `commands`, which has the function `command`, and its line in the help."""

    module: str
    help: str
    panel: str
    starts_servers: bool = True
    """Whether a command of a server may stand behind `--`."""
    serves: bool = False
    """Whether standard output belongs to a client of ours."""


_USE: Final = "Use servers"
_KEEP: Final = "Keep settings"
_SERVE: Final = "Serve and repair"

COMMANDS: Final[dict[str, Entry]] = {
    "servers": Entry("servers", "Show the servers: status, era, what they offer, how long they took to start.", _USE),
    "tools": Entry("tools", "List the tools, or search them; with --schema what they take.", _USE),
    "call": Entry("call", "Call a tool with key=value arguments, typed by its schema.", _USE),
    "resources": Entry("resources", "List the resources and templates.", _USE),
    "read": Entry("read", "Read a resource.", _USE),
    "prompts": Entry("prompts", "List the prompts and what they take.", _USE),
    "prompt": Entry("prompt", "Fill in a prompt.", _USE),
    "explain": Entry("explain", "Tell why a tool can or cannot be seen and called.", _USE),
    "watch": Entry("watch", "Show live what servers send: progress, logs, changes, status.", _USE),
    "init": Entry("init", "Write a settings file with comments to start from.", _KEEP, False),
    "add": Entry("add", "Add a server: a command after --, a URL, or mcpServers JSON on stdin.", _KEEP),
    "remove": Entry("remove", "Take a server out of the settings.", _KEEP, False),
    "import": Entry("import_", "Take over servers from Claude, VS Code, Cursor or Gemini CLI.", _KEEP, False),
    "export": Entry("export", "Print the servers as another program wants them.", _KEEP, False),
    "run": Entry("run", "Serve the tools of a Python file over stdio, HTTP or SSE.", _SERVE, False, serves=True),
    "bridge": Entry("bridge", "Offer a stdio server over HTTP, or a remote one over stdio.", _SERVE, serves=True),
    "doctor": Entry("doctor", "Go through every server's start step by step; a fix for each red line.", _SERVE),
}


# Of click, which is beside typer or inside of it, by version.
_WRONG_USAGE: Final[Any] = typer.BadParameter.__base__


class _Commands(Quick, TyperGroup):
    """The names and help lines come from the table; a command's module is loaded when it is run."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # as it is called
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  # as it is called
        if cmd_name not in COMMANDS:
            return None
        return _face(cmd_name, COMMANDS[cmd_name], lambda: None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        if name is None or found is None:
            return name, found, rest
        entry = COMMANDS[name]
        if ctx.obj is not None and ctx.obj.command and not entry.starts_servers:
            ctx.fail(f"`toolcrib {name}` takes no command after --")
        module = importlib.import_module(f".commands.{entry.module}", __package__)
        return (
            name,
            _face(name, entry, _runnable(module.command, serves=entry.serves), getattr(module, "EXAMPLES", None)),
            rest,
        )

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # as it is called
        write_lines("Exit codes", self.epilog, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # as it is called
        for panel in dict.fromkeys(entry.panel for entry in COMMANDS.values()):
            with formatter.section(panel):
                formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if entry.panel == panel])


def _face(name: str, entry: Entry, function: Callable[..., Any], examples: str | None = None) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    help_text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(name, cls=Page, help=help_text, short_help=entry.help, epilog=examples)(function)
    return typer.main.get_command(app)


def _runnable(function: Callable[..., Any], *, serves: bool) -> Callable[..., Any]:
    """The command as typer wants it: sync, with an exit code."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with contextlib.nullcontext() if serves else keeping_stdout():
            code = function(*args, **kwargs)
            if not inspect.iscoroutine(code):
                return code
            import asyncio  # noqa: PLC0415  # slow; help and completion do without

            return asyncio.run(_until_told(code))

    return run


async def _until_told(work: Coroutine[Any, Any, Any]) -> Any:
    """A command that is told to end leaves as at Ctrl-C: calls are cancelled, servers ended, the terminal in order."""
    import asyncio  # noqa: PLC0415  # as above

    loop, task, told = asyncio.get_running_loop(), asyncio.current_task(), list[int]()

    def end(number: int) -> None:
        told.append(number)
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        return await work
    except asyncio.CancelledError:
        if not told:
            raise
        return 128 + told[0]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"toolcrib {__version__}")
        raise typer.Exit


app = typer.Typer(cls=_Commands, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback(
    epilog="0 well, 1 the tool failed, 2 usage, 3 settings, 4 not found, 5 unreachable,\n"
    "6 denied, 7 outcome unknown, 129 terminal closed, 130 Ctrl-C, 143 SIGTERM"
)
def toolcrib(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks. Goes anywhere on the line.")] = False,
) -> None:
    """Use, manage and serve MCP servers: their tools, resources and prompts."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line: the exit code."""
    own, command = list(arguments), None
    if "--" in own:
        at = own.index("--")
        own, command = own[:at], tuple(own[at + 1 :])
    debug = "--debug" in own
    own = [each for each in own if each != "--debug"]
    _prepare(debug)
    if command == ():
        return tell(CliError("nothing stands behind --", hint="toolcrib tools -- npx -y some-server"), debug=debug)
    face, invocation = typer.main.get_command(app), Invocation(command or (), debug)
    try:
        code = face.main(own or ["--help"], "toolcrib", standalone_mode=False, obj=invocation)
    except _WRONG_USAGE as exc:
        path = exc.ctx.command_path if exc.ctx is not None else "toolcrib"
        code = tell(
            CliError(exc.format_message().replace("Value error, ", ""), hint=f"`{path} --help` tells what it takes"),
            debug=debug,
        )
    except SystemExit as exc:  # of completion, or because nobody reads the help any more
        code = Exit.OK if isinstance(exc.__context__, BrokenPipeError) else exc.code
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except Exception as exc:  # noqa: BLE001  # the last place that can say it in one line
        code = tell(exc, debug=debug)
    return _flushed(code if isinstance(code, int) else Exit.OK)


def _prepare(debug: bool) -> None:
    """What the library logs, commands say themselves, and in its place; --debug shows all of it."""
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.CRITICAL + 1,
        format="%(name)s: %(message)s",
        handlers=[_Log() if debug else logging.NullHandler()],
    )
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed; who takes its number must not be a pipe to a server
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as long as we live
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what the terminal cannot show is no reason to fail


class _Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


def _flushed(code: int) -> int:
    """All output is out, or nobody wants it any more, which is no failure of ours."""
    try:
        sys.stdout.flush()
    except OSError as exc:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nobody tries again at the end
        return Exit.OK if isinstance(exc, BrokenPipeError) else tell(exc, debug=False)
    return code
