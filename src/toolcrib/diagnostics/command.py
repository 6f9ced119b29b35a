"""The program of a local server: whether it is there, and where it might be instead."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .._util.suggest import suggest
from ..config import PythonServer, StdioServer
from ..transports.stdio.process import environment
from .report import ServerReport

_INSTALL: Final[Mapping[str, str]] = {
    "npx": "install Node.js, which brings npx: https://nodejs.org",
    "npm": "install Node.js, which brings npm: https://nodejs.org",
    "node": "install Node.js: https://nodejs.org",
    "uvx": "install uv, which brings uvx: https://docs.astral.sh/uv",
    "uv": "install uv: https://docs.astral.sh/uv",
    "pipx": "install pipx: https://pipx.pypa.io",
    "docker": "install Docker, or say podman: https://docs.docker.com/get-docker",
    "bunx": "install Bun, which brings bunx: https://bun.sh",
    "deno": "install Deno: https://deno.com",
}
_TWINS: Final = {"python": "python3", "python3": "python", "docker": "podman", "node": "nodejs"}
_FOLDERS: Final = (
    ".local/bin",
    ".cargo/bin",
    ".bun/bin",
    ".deno/bin",
    ".volta/bin",
    ".nvm/versions/node/*/bin",
    ".local/share/fnm/node-versions/*/installation/bin",
)
"""Where people's own installers put programs; a shell has them on its PATH, a program started elsewhere has not."""
_SYSTEM: Final = ("/usr/local/bin", "/opt/homebrew/bin", "/snap/bin")


def examine_program(report: ServerReport, config: StdioServer) -> bool:
    """Whether the command can be started; where not, what can be done."""
    if config.cwd is not None and not os.path.isdir(config.cwd):
        report.broken("command", f"its cwd, {config.cwd}, is no folder", "make the folder, or correct cwd")
        return False
    command, path = config.command, environment(config.env).get("PATH", os.defpath)
    if os.sep in command:
        return _examine_path(report, command, Path(config.cwd or ".") / command)
    found = shutil.which(command, path=path)
    if found is None:
        report.broken("command", f"there is no {command} on its PATH", _remedy(command, path))
        return False
    report.facts["command"] = found
    report.fine("command", _from_home(found))
    return True


def examine_file(report: ServerReport, config: PythonServer) -> bool:
    """The same for a Python file that is run in this process."""
    if not os.path.isfile(config.file):
        report.broken("command", f"there is no file {config.file}", "correct its path, which counts from the settings")
        return False
    report.fine("command", config.file)
    return True


def _examine_path(report: ServerReport, command: str, file: Path) -> bool:
    if not os.path.isfile(file):
        report.broken("command", f"there is no file {command}", _split(command) or "correct the path of the command")
    elif not os.access(file, os.X_OK):
        report.broken("command", f"{command} may not be executed", f"chmod +x {shlex.quote(str(file))}")
    else:
        report.facts["command"] = str(file)
        report.fine("command", command)
        return True
    return False


def _remedy(command: str, path: str) -> str:
    if split := _split(command):
        return split
    if elsewhere := _elsewhere(command):
        return f"it is at {elsewhere}: give that as command, or put its folder on the PATH in env"
    twin = _TWINS.get(command)
    if twin is not None and shutil.which(twin, path=path):
        return f"there is {twin}: give that as command"
    install = _INSTALL.get(command) or suggest(command, _INSTALL, separator="")
    return install or f"install {command}, or give its whole path as command"


def _from_home(path: str) -> str:
    """As people write it."""
    home = str(Path.home()) + os.sep
    return f"~{os.sep}{path.removeprefix(home)}" if path.startswith(home) else path


def _split(command: str) -> str:
    """A whole command line in `command` is a common slip."""
    words = command.split()
    return f'command is one word: "{words[0]}"; the rest belongs into args' if len(words) > 1 else ""


def _elsewhere(command: str) -> str | None:
    """Where it is though the PATH does not say so; the last of several versions."""
    home = Path.home()
    folders = [*(folder for pattern in _FOLDERS for folder in sorted(home.glob(pattern))), *map(Path, _SYSTEM)]
    return next((str(folder / command) for folder in reversed(folders) if os.access(folder / command, os.X_OK)), None)
