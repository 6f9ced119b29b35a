"""A click command whose module is imported when it runs, so that `--help` and completion are quick."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import shlex
import signal
from collections.abc import Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import click

from .console import keeping_stdout

LAUNCHERS: Final = frozenset(
    ("bun", "bunx", "deno", "docker", "node", "npm", "npx", "pipx", "pnpm", "podman", "python", "python3", "uv", "uvx")
)
"""Programs that usually start servers; on a command line they go after `--`."""

_PYTHON_FILE: Final = re.compile(r"[^=]+\.py(:\w+)?")


@dataclass(frozen=True, slots=True)
class Invocation:
    """What `app.run` takes from the command line before click parses the rest; it is `ctx.obj`."""

    command: tuple[str, ...] = ()
    """The words after `--`: the command of a server."""
    debug: bool = False
    words: tuple[str, ...] = ()
    """The words before `--`, as they were typed."""

    def doctor(self) -> str:
        """Return the command that diagnoses the same servers. It has placeholders, as the words may contain secrets."""
        if self.command:
            return "toolcrib doctor -- COMMAND"
        if any(word.startswith(("http://", "https://")) for word in self.words[1:]):
            return "toolcrib doctor URL"
        if any(_PYTHON_FILE.fullmatch(word) for word in self.words[1:]):
            return "toolcrib doctor FILE.py"
        if any(word.startswith(("-c", "--config")) for word in self.words[1:]):
            return "toolcrib doctor -c FILE"
        return "toolcrib doctor"

    def login(self, server: str | None) -> str:
        """Return the command that signs in to a server; it has placeholders where words may contain secrets."""
        if any(word.startswith(("http://", "https://")) for word in self.words[1:]):
            return "toolcrib auth login URL"
        file = " -c FILE" if any(word.startswith(("-c", "--config")) for word in self.words[1:]) else ""
        return f"toolcrib auth login {server or 'NAME'}{file}"


INVOCATION: Final = ContextVar("INVOCATION", default=Invocation())  # noqa: B039  # it is frozen
"""The command line that is running; errors are printed after click has left its own context."""


def dashes_hint(words: Sequence[str]) -> str:
    """Return the hint that the command of a server goes after `--`, if the typed words contain one; else nothing."""
    at = next((at for at, word in enumerate(words) if PurePath(word).name in LAUNCHERS), None)
    if at is None:
        return ""
    return f"the command of a server goes after --: {shlex.join(['toolcrib', *words[:at], '--', *words[at:]])}"


class Argument(click.Argument):
    """A positional argument with a description. (click has one only since 8.5.)"""

    def __init__(self, name: str, description: str, **attributes: Any) -> None:
        super().__init__([name], **attributes)
        self.description = description


class LazyCommand(click.Command):
    """A command that runs the function `command` of a module in `commands`.

    The function takes the `Invocation`, then the parameters by name. It returns an exit code, None for 0, or a
    coroutine of either.
    """

    def __init__(
        self,
        module: str,
        short_help: str,
        help: str,  # noqa: A002  # as click calls it
        params: Sequence[click.Parameter],
        *,
        examples: str = "",
        starts_servers: bool = True,
        serves: bool = False,
    ) -> None:
        name = module.strip("_").replace("_", " ")  # `auth_login` is the command `auth login`
        super().__init__(name, short_help=short_help, help=help, params=[*params], epilog=examples)
        self.module = module
        self.starts_servers = starts_servers
        """Whether the command of a server may follow `--`."""
        self.serves = serves
        """Whether standard output belongs to an MCP client."""

    def invoke(self, ctx: click.Context) -> Any:
        """Import the module and run its function."""
        if ctx.obj.command and not self.starts_servers:
            ctx.fail(f"`{ctx.command_path}` takes no command after --")
        function = importlib.import_module(f".commands.{self.module}", __package__).command
        with contextlib.nullcontext() if self.serves else keeping_stdout():
            result = function(ctx.obj, **ctx.params)
            if not inspect.iscoroutine(result):
                return result
            import asyncio  # noqa: PLC0415  # slow; help and completion do without

            return asyncio.run(_run_until_signal(result))

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, the help text, the arguments, the options and the examples."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        arguments = [param for param in self.params if isinstance(param, Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(param.human_readable_name, param.description) for param in arguments])
        self.format_options(ctx, formatter)
        if self.epilog:
            write_lines(formatter, "Examples", self.epilog)


def write_lines(formatter: click.HelpFormatter, heading: str, text: str) -> None:
    """Write a section whose lines are not wrapped."""
    with formatter.section(heading):
        formatter.write("".join(f"  {line}\n" for line in text.strip().splitlines()))


async def _run_until_signal(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a command; SIGTERM and SIGHUP cancel it, so that it cancels calls and ends servers as after Ctrl-C."""
    import asyncio  # noqa: PLC0415  # as above

    loop, task, received = asyncio.get_running_loop(), asyncio.current_task(), list[int]()

    def cancel(number: int) -> None:
        received.append(number)
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, cancel, number)
    try:
        return await work
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]
