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
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import click

from .console import keeping_stdout

if TYPE_CHECKING:
    from ..settings import ServerEntry

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
    config: Path | None = None
    """The settings file that the command line names."""
    servers: dict[str, ServerEntry] = field(default_factory=dict)
    """The servers that the command can work on, by name, for hints."""

    def record(self, *entries: ServerEntry) -> None:
        """Add servers to `servers`."""
        self.servers.update({entry.name: entry for entry in entries})

    def doctor(self, server: str | None = None) -> str:
        """Return the command that diagnoses the same servers, or only the server of this name."""
        if self.command:
            return "toolcrib doctor -- COMMAND"  # not the words themselves: they may contain secrets
        python_file = next((word for word in self.words[1:] if _PYTHON_FILE.fullmatch(word)), None)
        if python_file is not None:
            return f"toolcrib doctor {shlex.quote(python_file)}"
        url = self._url_of(server) or next(filter(_is_url, self.words[1:]), None)
        if url is not None:
            return f"toolcrib doctor {_quote_url(url)}"
        return " ".join(filter(None, ("toolcrib doctor", server, self._config_option)))

    def login(self, server: str | None) -> str:
        """Return the command that signs in to the server of this name."""
        if server is None and len(self.servers) == 1:
            (server,) = self.servers
        url = self._url_of(server)
        if url is not None:
            return f"toolcrib auth login {_quote_url(url)}"
        return " ".join(filter(None, ("toolcrib auth login", server or "NAME", self._config_option)))

    @property
    def _config_option(self) -> str:
        return "" if self.config is None else f"-c {shlex.quote(str(self.config))}"

    def _url_of(self, server: str | None) -> str | None:
        """Return the URL of a server that the command line itself defines; None if it is from the settings."""
        entry = self.servers.get(server or "")
        return getattr(entry.config, "url", None) if entry is not None and entry.source is None else None


def _quote_url(url: str) -> str:
    from ..diagnostics.sign_in_state import quote_url  # noqa: PLC0415  # slow, and only hints need it

    return quote_url(url)


def _is_url(word: str) -> bool:
    return word.startswith(("http://", "https://"))


INVOCATION: Final = ContextVar("INVOCATION", default=Invocation())  # noqa: B039  # `run` sets another one
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
        ctx.obj = replace(ctx.obj, config=ctx.params.get("config"))
        INVOCATION.set(ctx.obj)
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
