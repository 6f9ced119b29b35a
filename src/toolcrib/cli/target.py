"""The servers that a command works on: those of a settings file, or one that the command line names."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, cast

import click

from .._util.suggest import did_you_mean
from ..catalog.routing import nearest
from ..config import HttpServer, ServerConfig, StdioServer
from ..config.launchers import name_of_command, name_of_url
from ..diagnostics.sign_in_state import obstacle_to_sign_in
from ..errors import AuthError
from ..hub.hub import Hub
from ..hub.server_options import HubConfigOptions
from ..hub.server_state import ServerState
from ..settings import ServerEntry, Settings, load_settings
from ..settings.discover import user_settings
from ..settings.models import place
from ..tool_names import slug
from ..transports.python_file import describe_missing_file
from ..types import UNSET, ConnectionState
from .console import note, waiting
from .exit_codes import CliError, Exit, code_of, complain_of_servers, without_advice
from .interactive import TerminalUser
from .lazy_command import INVOCATION, LAUNCHERS, Invocation, dashes_hint
from .server_sign_in import SignInOffers, with_stored_sign_in
from .startup_progress import StartupProgress

PROJECT_FILES: Final = (".mcp.json", "toolcrib.toml")
"""Settings of a folder; if both exist, the later one takes precedence."""

NO_SERVERS: Final = "the settings have no servers; `toolcrib add` adds one"

CALL_IDLE_TIMEOUT: Final = 30.0
"""Seconds without progress after which a call times out."""

PROGRESS_DELAY_SECONDS: Final = 0.3
"""Seconds after which the terminal shows that servers are starting."""

_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_FILE: Final = re.compile(r"\.py(:\w+)?$")
# A host with a port, a path or both: `localhost:8000/mcp`, `example.com/mcp`.
_BARE_URL: Final = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+|\[[0-9a-fA-F:]+\])(:\d+(/\S*)?|/\S*)")
_SETTINGS_FILE: Final = re.compile(r"[^=]+\.(json|toml)")
_TAKE_COMMANDS: Final = ("doctor", "prompts", "resources", "servers", "tools", "watch")
_LOCAL_HOST: Final = re.compile(r"localhost\b|[\d.]+[:/]|\[")


def own_settings() -> Path:
    """Return the user's own settings file, which is used if the current folder has none."""
    return user_settings(os.environ)


def settings_files(config: Path | None) -> list[Path]:
    """Return the files to read: `config`, else those of this folder, else the user's own; only files that exist."""
    if config is not None:
        return [config]
    here = [path for name in PROJECT_FILES if (path := Path(name)).is_file()]
    return here or [path for path in (own_settings(),) if path.is_file()]


def find_settings(config: Path | None, hint: str = "") -> Settings:
    """Load the settings of these files; raise `CliError`, with this hint or a general one, if there are none."""
    files = settings_files(config)
    if not files:
        message = f"no settings found: neither {' nor '.join(PROJECT_FILES)} here, nor {own_settings()}"
        context = click.get_current_context(silent=True)
        command = context.info_name if context is not None and context.info_name in _TAKE_COMMANDS else "tools"
        general = f"`toolcrib init` writes a settings file; or name a server: toolcrib {command} -- npx -y some-server"
        raise CliError(message, hint=hint or general, code=Exit.CONFIG)
    return load_settings(*files)


def is_url(text: str) -> bool:
    """Return whether a word of the command line is the URL of a server."""
    return _URL.match(text) is not None


def is_file(text: str) -> bool:
    """Return whether a word of the command line is a Python file, or `FILE.py:NAME`."""
    return _FILE.search(text) is not None


def ad_hoc(word: str | None, command: Sequence[str]) -> tuple[str, ServerConfig] | None:
    """Return the name and the config of a server that the command line itself defines; None if it defines none."""
    if command:
        if word is not None and (is_url(word) or is_file(word)):
            raise CliError(f"which server: {word}, or the command after --?", hint="name one of the two")
        name = name_of_command(command[0], command[1:], os.getcwd())
        return name, StdioServer(command[0], list(command[1:]))
    if word is not None and is_url(word):
        return name_of_url(word), HttpServer(word)
    if word is not None and is_file(word):
        file = Path(_FILE.sub(".py", word))
        if not file.is_file():
            raise CliError(describe_missing_file(file), code=Exit.NOT_FOUND)
        # -P: a file of this folder must not replace a module of Python, or of toolcrib, that has the same name.
        arguments = ["-P", "-m", "toolcrib", "run", word]
        return slug(Path(_FILE.sub("", word)).name), StdioServer(sys.executable, arguments)
    return None


@dataclass(frozen=True, slots=True)
class Target:
    """The servers that one command works on."""

    settings: Settings

    def hub(self, **options: Unpack[HubConfigOptions]) -> Hub:
        """Return a hub of the servers, not started."""
        return Hub.from_config(self.settings, **options)

    @property
    def names(self) -> list[str]:
        """The names of the servers in a hub."""
        return [entry.name for entry in self.settings.entries]

    def find(self, word: str) -> str | None:
        """Return the hub's name of the server that has this name, there or in the settings file."""
        return next((each.name for each in self.settings.entries if word in (each.name, each.display_name)), None)

    def only(self, names: Collection[str]) -> Target:
        """Return a target without the other servers."""
        chosen = tuple(entry for entry in self.settings.entries if entry.name in names)
        return Target(replace(self.settings, entries=chosen))

    def owner_of(self, name: str) -> Target:
        """Return the servers that can own a tool or prompt of this name: one if the name is qualified."""
        owner = next((each for each in self.names if name.startswith(f"mcp__{each}__")), None)
        return self if owner is None else self.only([owner])

    def call_timeouts(self, server: str | None) -> dict[str, float | None]:
        """Return the time-outs of a call that neither the user nor the settings limit: none while progress arrives."""
        entry = self.settings.get(server or "")
        configured = UNSET if entry is None or entry.config is None else entry.config.execution_timeout
        if configured is not UNSET or "execution_timeout" in self.settings.defaults:
            return {}
        return {"timeout": None, "idle_timeout": CALL_IDLE_TIMEOUT}

    def with_stderr_to(self, startup: StartupProgress) -> Target:
        """Return a target whose servers' stderr goes to `startup`."""
        return Target(replace(self.settings, entries=tuple(map(startup.listening, self.settings.entries))))

    async def with_stored_sign_ins(self) -> Target:
        """Return a target whose remote servers use the stored sign-ins."""
        entries = await asyncio.gather(*map(with_stored_sign_in, self.settings.entries))
        return Target(replace(self.settings, entries=tuple(entries)))

    def with_timeout(self, timeout: float) -> Target:
        """Return a target with this time-out for connecting, lists and calls, whatever the settings say."""
        entries = tuple(
            entry if entry.config is None else replace(entry, config=_with_timeout(entry.config, timeout))
            for entry in self.settings.entries
        )
        return Target(replace(self.settings, entries=entries))


def _with_timeout(config: ServerConfig, timeout: float) -> ServerConfig:
    return replace(config, connect_timeout=timeout, discovery_timeout=timeout, execution_timeout=timeout)


def choose(words: Sequence[str], config: Path | None, command: Sequence[str]) -> Target:
    """Return the servers that these words name; without words all of the settings.

    `words` are names of the settings, or one URL or Python file.
    """
    named = ad_hoc(words[0] if words else None, command)
    if named is not None:
        if len(words) > (0 if command else 1):
            raise CliError(f"{words[-1]}: expected one server only, if it is not from the settings")
        name, server = named
        if isinstance(server, StdioServer):
            # A command that is typed gets the whole environment, as if the user had run it in the shell.
            server = replace(server, env=dict(os.environ))
        entry = ServerEntry(name, server, display_name=name)
        INVOCATION.get().record(entry)
        return Target(Settings((entry,)))
    target = _from_settings(config, words)
    if not words:
        return target
    found = {word: target.find(word) for word in words}
    unknown = next((word for word, name in found.items() if name is None), None)
    if unknown is not None:
        raise unknown_server(unknown, target.names, hint=typed_hint([unknown]))
    return target.only([name for name in found.values() if name is not None])


def choose_remote(word: str, config: Path | None) -> ServerEntry:
    """Return the remote server of this name or URL; raise `CliError` if it has no sign-in."""
    entry = choose([word], config, ()).settings.entries[0]
    match obstacle_to_sign_in(entry):
        case None:
            return entry
        case "local":
            raise CliError(f"{entry.name} runs on this machine and has no sign-in", hint="name a server with a URL")
        case "credentials":
            message = f"{entry.name} has its own credentials: the Authorization header in {place(entry, 'headers')}"
            raise CliError(message, hint="remove that header to sign in instead", code=Exit.CONFIG)
        case "off":
            message = f"the sign-in to {entry.name} is turned off in {place(entry, 'oauth')}"
            raise CliError(message, hint="remove `oauth = false` from its entry", code=Exit.CONFIG)
        case "invalid":
            raise entry.error or CliError(f"{entry.name} has no settings", code=Exit.CONFIG)


def _from_settings(config: Path | None, words: Sequence[str]) -> Target:
    """Return all servers of the settings, and print warnings about them; `words` are for the hint if there are none."""
    target = Target(find_settings(config, hint=typed_hint(words)))
    for warning in target.settings.warnings:
        note(f"warning: {warning}", "yellow")
    INVOCATION.get().record(*target.settings.entries)
    return target


def typed_hint(words: Sequence[str]) -> str:
    """Return how to type the command line if the words contain a launcher, a settings file, or a URL without http://.

    Otherwise, return an empty string.
    """
    context = click.get_current_context(silent=True)
    typed = list(context.obj.words) if context is not None else list(words)
    if any(Path(word).name in LAUNCHERS for word in words):
        return dashes_hint(typed)
    if words and _SETTINGS_FILE.fullmatch(words[0]):
        rest = [word for word in typed if word != words[0]]
        return f"a settings file goes after -c: {shlex.join(['toolcrib', *rest, '-c', words[0]])}"
    bare = next((word for word in words if _BARE_URL.fullmatch(word)), None)
    if bare is None:
        return ""
    scheme = "http" if _LOCAL_HOST.match(bare) else "https"
    line = shlex.join(["toolcrib", *(f"{scheme}://{word}" if word == bare else word for word in typed)])
    return f"a URL starts with http:// or https://: {line}"


def unknown_server(name: str, known: Collection[str], where: str = "the settings", hint: str = "") -> CliError:
    """Return the error for an unknown server name; without a hint it lists the known names."""
    message = f"there is no server {name!r} in {where}{did_you_mean(nearest(name, known))}"
    return CliError(message, hint=hint or (f"the servers are {', '.join(known)}" if known else ""), code=Exit.NOT_FOUND)


def split_server(
    words: Sequence[str], config: Path | None, command: Sequence[str], *, is_name: Callable[[str], bool]
) -> tuple[Target, list[str]]:
    """Return the servers, and the words without the leading one that names a server, as in `call [SERVER] NAME ...`.

    The first word names a server only if the next one `is_name`.
    """
    first, *rest = words or [""]
    followed = bool(rest) and is_name(rest[0])
    if followed and (is_url(first) or is_file(first)):
        return choose((first,), config, command), rest
    target = choose((), config, command) if command else _from_settings(config, words)
    server = target.find(first) if followed else None
    if followed and server is None and (hint := typed_hint([first])):
        raise unknown_server(first, target.names, hint=hint)
    return (target, list(words)) if server is None else (target.only([server]), rest)


@dataclass(slots=True)
class HubSession:
    """A started hub, and those of its servers that could not be started."""

    hub: Hub
    failed: list[ServerState]

    @property
    def code(self) -> Exit:
        """The exit code: that of the first server that could not be started, else 0."""
        return next((code_of(state.last_error) for state in self.failed if state.last_error), Exit.OK)


@asynccontextmanager
async def open_servers(
    target: Target,
    *,
    timeout: float | None = None,
    report_failures: bool = True,
    offer_sign_in: bool = False,
    **options: Unpack[HubConfigOptions],
) -> AsyncIterator[HubSession]:
    """Start the servers, and close them on exit.

    A single server that cannot be started raises; if there are several, failures are printed to stderr. With
    `report_failures` False neither happens, and the caller looks at `failed`. With `offer_sign_in`, the user is asked
    at the terminal whether to sign in to servers that require it.
    """
    if not target.settings.entries:
        note(NO_SERVERS)
    if timeout is not None:
        target = target.with_timeout(timeout)
    # Every server has its own time-out to start, so the hub needs none.
    chosen: HubConfigOptions = {"approve": TerminalUser().approve, "start": "eager", "start_timeout": None}
    if not report_failures or len(target.settings.entries) == 1:
        chosen["on_error"] = "raise" if report_failures else "skip"
    merged = cast("HubConfigOptions", {**chosen, **options})
    offers = SignInOffers(target.settings.entries)
    hub, error = await _open_hub(target, merged)
    try:
        while offer_sign_in and await offers.make(_errors_of(hub, error)):
            await hub.close()
            hub, error = await _open_hub(target, merged)
        if error is not None:
            raise error
        states = hub.list_servers()
        if report_failures:
            _report(states)
            if [state.status.state for state in states] == [ConnectionState.DISABLED]:
                hint = "remove `disabled` from its entry to use it"
                raise CliError(f"{states[0].name} is disabled in the settings", hint=hint, code=Exit.DENIED)
        yield HubSession(hub, [state for state in states if _has_failed(state)])
    finally:
        await hub.close()


async def _open_hub(target: Target, options: HubConfigOptions) -> tuple[Hub, AuthError | None]:
    """Start a hub of the servers; return it and, if the start failed because a sign-in is required, the error."""
    startup = StartupProgress(target.settings.entries)
    hub = (await target.with_stored_sign_ins()).with_stderr_to(startup).hub(**options)
    try:
        await _start(hub, hub.start(), startup)
    except AuthError as exc:
        return hub, exc
    except BaseException:
        await hub.close()
        raise
    return hub, None


def _errors_of(hub: Hub, error: AuthError | None) -> dict[str, Exception]:
    """Return why servers could not be started, by name."""
    found = {state.name: state.last_error for state in hub.list_servers() if state.last_error and _has_failed(state)}
    return found if error is None or error.server is None else {error.server: error}


class ServerParameters(TypedDict):
    """The parameters `SERVERS`, `CONFIG` and `TIMEOUT` of a command, as click passes them."""

    servers: Sequence[str]
    config: Path | None
    timeout: float | None


def open_chosen(
    invocation: Invocation,
    *,
    report_failures: bool = True,
    offer_sign_in: bool = False,
    **chosen: Unpack[ServerParameters],
) -> AbstractAsyncContextManager[HubSession]:
    """Start the servers that a command line names, as `open_servers` does."""
    target = choose(chosen["servers"], chosen["config"], invocation.command)
    return open_servers(target, timeout=chosen["timeout"], report_failures=report_failures, offer_sign_in=offer_sign_in)


def _has_failed(state: ServerState) -> bool:
    return state.last_error is not None and not state.connected


def _report(states: Sequence[ServerState]) -> None:
    complain_of_servers({s.name: s.last_error for s in states if s.last_error is not None and _has_failed(s)})
    for state in states:
        if _has_failed(state):
            continue
        if state.last_error is not None:
            note(f"warning: {without_advice(state.last_error)}", "yellow")
        elif state.status.state is ConnectionState.DISABLED and len(states) > 1:
            note(f"{state.name} is disabled in the settings")


def _starting(hub: Hub) -> list[str]:
    """Return the servers that have not started yet."""
    states = [state for state in hub.list_servers() if not state.connected]
    return [s.name for s in states if s.last_error is None and s.status.state is not ConnectionState.DISABLED] or [
        state.name for state in states
    ]


async def _start(hub: Hub, work: Coroutine[Any, Any, Any], startup: StartupProgress) -> None:
    """Wait for the hub to start; after `PROGRESS_DELAY_SECONDS` show which servers it waits for."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=PROGRESS_DELAY_SECONDS)
        if task.done():
            await task
            return
        with waiting(lambda: startup.describe(_starting(hub))):
            await task
    finally:
        task.cancel()
