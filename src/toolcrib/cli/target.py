"""Which servers a command works on: those of a settings file, or one that is named ad hoc."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Unpack, cast

from .._util.suggest import did_you_mean
from ..catalog.routing import nearest
from ..config import HttpServer, ServerConfig, StdioServer
from ..config.launchers import name_of_command, name_of_url
from ..hub.hub import Hub
from ..hub.server_options import HubConfigOptions
from ..hub.server_state import ServerState
from ..settings import ServerEntry, Settings, load_settings
from ..tool_names import slug
from ..types import UNSET, ConnectionState
from .console import note, waiting
from .exit_codes import CliError, Exit, code_of, complain_of
from .interactive import TerminalUser
from .startup_progress import StartupProgress

PROJECT_FILES: Final = (".mcp.json", "toolcrib.toml")
"""Settings of a folder; where both are there, the later one wins."""

SILENCE: Final = 30.0
"""Seconds without a sign of life after which a call is given up."""

A_MOMENT: Final = 0.3
"""Seconds before somebody wonders whether anything is going on."""

_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_FILE: Final = re.compile(r"\.py(:\w+)?$")


def own_settings() -> Path:
    """The person's own file, used where the folder has none."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "toolcrib" / "toolcrib.toml"


def settings_files(config: Path | None) -> list[Path]:
    """The files that are read: the one that was named, else this folder's, else the person's own; none if none is."""
    if config is not None:
        return [config]
    here = [path for name in PROJECT_FILES if (path := Path(name)).is_file()]
    return here or [path for path in (own_settings(),) if path.is_file()]


def found_settings(config: Path | None) -> Settings:
    """What those files say."""
    files = settings_files(config)
    if not files:
        message = f"there are no settings: neither {' nor '.join(PROJECT_FILES)} here, nor {own_settings()}"
        hint = "toolcrib init writes some; or name a server: toolcrib tools -- npx -y some-server"
        raise CliError(message, hint=hint, code=Exit.CONFIG)
    return load_settings(*files)


def is_url(text: str) -> bool:
    """Whether a word of the command line is a server's address."""
    return _URL.match(text) is not None


def is_file(text: str) -> bool:
    """Whether a word of the command line is a Python file, or `FILE.py:NAME`."""
    return _FILE.search(text) is not None


def ad_hoc(word: str | None, command: Sequence[str]) -> tuple[str, ServerConfig] | None:
    """A server that stands on the command line itself, with a name for it; None if there is none."""
    if command:
        if word is not None and (is_url(word) or is_file(word)):
            raise CliError(f"which server: {word}, or the command after --?", hint="name one of the two")
        name = name_of_command(command[0], command[1:], os.getcwd())
        return name, StdioServer(command[0], list(command[1:]))
    if word is not None and is_url(word):
        return name_of_url(word), HttpServer(word)
    if word is not None and is_file(word):
        if not Path(_FILE.sub(".py", word)).is_file():
            raise CliError(f"there is no file {word}", code=Exit.NOT_FOUND)
        # -P: a file of this folder that is called like one of Python's modules, or like us, must not take its place.
        arguments = ["-P", "-m", "toolcrib", "run", word]
        return slug(Path(_FILE.sub("", word)).name), StdioServer(sys.executable, arguments)
    return None


@dataclass(frozen=True, slots=True)
class Target:
    """The servers of one command."""

    settings: Settings

    def hub(self, **options: Unpack[HubConfigOptions]) -> Hub:
        """A hub of them, not started."""
        return Hub.from_config(self.settings, **options)

    @property
    def names(self) -> list[str]:
        """What a hub calls them."""
        return [entry.name for entry in self.settings.entries]

    def find(self, word: str) -> str | None:
        """The server of this name, or of the name that the file has for it."""
        known = self.settings.entries
        return next((entry.name for entry in known if word in (entry.name, entry.display_name)), None)

    def only(self, names: Collection[str]) -> Target:
        """Without the others."""
        chosen = tuple(entry for entry in self.settings.entries if entry.name in names)
        return Target(replace(self.settings, entries=chosen))

    def owning(self, name: str) -> Target:
        """Those that a tool or prompt of this name can be of: its server alone, where the name says which."""
        owner = next((each for each in self.names if name.startswith(f"mcp__{each}__")), None)
        return self if owner is None else self.only([owner])

    def patience(self, server: str | None) -> dict[str, float | None]:
        """How long a call may take where nobody said so: as long as the server tells of its progress."""
        entry = self.settings.get(server or "")
        said = UNSET if entry is None or entry.config is None else entry.config.execution_timeout
        if said is not UNSET or "execution_timeout" in self.settings.defaults:
            return {}
        return {"timeout": None, "idle_timeout": SILENCE}

    def hearing(self, startup: StartupProgress) -> Target:
        """Return the servers so that `startup` receives what they write to stderr."""
        return Target(replace(self.settings, entries=tuple(map(startup.listening, self.settings.entries))))

    def within(self, timeout: float) -> Target:
        """With this time-out for whatever they do, whatever the settings say."""
        entries = tuple(
            entry if entry.config is None else replace(entry, config=_hurried(entry.config, timeout))
            for entry in self.settings.entries
        )
        return Target(replace(self.settings, entries=entries))


def _hurried(config: ServerConfig, timeout: float) -> ServerConfig:
    return replace(config, connect_timeout=timeout, discovery_timeout=timeout, execution_timeout=timeout)


def choose(words: Sequence[str], config: Path | None, command: Sequence[str]) -> Target:
    """The servers that these words mean; all of the settings without any.

    `words` are names of the settings, or one URL or Python file.
    """
    named = ad_hoc(words[0] if words else None, command)
    if named is not None:
        if len(words) > (0 if command else 1):
            raise CliError(f"{words[-1]}: one server at a time, if it is not from the settings")
        name, server = named
        if isinstance(server, StdioServer):
            # What somebody types is run as if they had run it themselves: with all of the environment.
            server = replace(server, env=dict(os.environ))
        return Target(Settings((ServerEntry(name, server, display_name=name),)))
    target = Target(found_settings(config))
    for warning in target.settings.warnings:
        note(f"warning: {warning}", "yellow")
    if not words:
        return target
    found = {word: target.find(word) for word in words}
    unknown = next((word for word, name in found.items() if name is None), None)
    if unknown is not None:
        message = f"there is no server {unknown!r} in the settings{did_you_mean(nearest(unknown, target.names))}"
        raise CliError(message, hint=f"they have {', '.join(target.names) or 'none'}", code=Exit.NOT_FOUND)
    return target.only([name for name in found.values() if name is not None])


def addressed(
    words: Sequence[str], config: Path | None, command: Sequence[str], *, is_name: Callable[[str], bool]
) -> tuple[Target, list[str]]:
    """The servers, and the words without the one in front that means a server: `call [SERVER] NAME ...`.

    It does so only before another word that `is_name`, the name of what is wanted.
    """
    first, *rest = words or [""]
    followed = bool(rest) and is_name(rest[0])
    if followed and (is_url(first) or is_file(first)):
        return choose((first,), config, command), rest
    target = choose((), config, command)
    server = target.find(first) if followed else None
    return (target, list(words)) if server is None else (target.only([server]), rest)


@dataclass(slots=True)
class HubSession:
    """A hub at work, and which of its servers could not be started."""

    hub: Hub
    failed: list[ServerState]

    @property
    def code(self) -> Exit:
        """The exit code of a command that did what it could."""
        return next((code_of(state.last_error) for state in self.failed if state.last_error), Exit.OK)


@asynccontextmanager
async def opened(
    target: Target, *, timeout: float | None = None, told: bool = True, **options: Unpack[HubConfigOptions]
) -> AsyncIterator[HubSession]:
    """The servers, started.

    If there is but one and it cannot be started, that is raised; of several it is told on stderr, and the others go on.
    With `told` False neither is done: the caller looks at `failed`.
    """
    if not target.settings.entries:
        note("the settings have no servers; toolcrib add puts one in")
    if timeout is not None:
        target = target.within(timeout)
    # Every server has its own time to start, so the hub itself needs no patience.
    chosen: HubConfigOptions = {"approve": TerminalUser().approve, "start": "eager", "start_timeout": None}
    if not told or len(target.settings.entries) == 1:
        chosen["on_error"] = "raise" if told else "skip"
    startup = StartupProgress(target.settings.entries)
    hub = target.hearing(startup).hub(**cast("HubConfigOptions", {**chosen, **options}))
    try:
        await _patiently(hub, hub.start(), startup)
        states = hub.list_servers()
        if told:
            _tell(states)
            if [state.status.state for state in states] == [ConnectionState.DISABLED]:
                hint = "take `disabled` out of its entry to use it"
                raise CliError(f"{states[0].name} is disabled in the settings", hint=hint, code=Exit.DENIED)
        yield HubSession(hub, [state for state in states if _has_failed(state)])
    finally:
        await hub.close()


def _has_failed(state: ServerState) -> bool:
    return state.last_error is not None and not state.connected


def _tell(states: Sequence[ServerState]) -> None:
    for state in states:
        if state.last_error is not None and _has_failed(state):
            complain_of(state.last_error)
        elif state.last_error is not None:
            note(f"warning: {state.last_error}", "yellow")
        elif state.status.state is ConnectionState.DISABLED and len(states) > 1:
            note(f"{state.name} is disabled in the settings")


def _starting(hub: Hub) -> list[str]:
    """The servers that are still waited for."""
    states = [state for state in hub.list_servers() if not state.connected]
    return [s.name for s in states if s.last_error is None and s.status.state is not ConnectionState.DISABLED] or [
        state.name for state in states
    ]


async def _patiently(hub: Hub, work: Coroutine[Any, Any, Any], startup: StartupProgress) -> None:
    """Wait, and if it takes longer than a moment, show for whom."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=A_MOMENT)
        if task.done():
            await task
            return
        with waiting(lambda: startup.describe(_starting(hub))):
            await task
    finally:
        task.cancel()
