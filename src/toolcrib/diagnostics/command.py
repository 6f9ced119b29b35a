"""Checks that the program of a local server exists, and finds where else it may be."""

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
    "docker": "install Docker (https://docs.docker.com/get-docker), or use podman as command",
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
"""Where per-user installers put programs; they are on the PATH of a shell, but not of a program started elsewhere."""
_SYSTEM: Final = ("/usr/local/bin", "/opt/homebrew/bin", "/snap/bin")


def examine_program(report: ServerReport, config: StdioServer) -> bool:
    """Check whether the command can be started, and report a fix if not."""
    if config.cwd is not None and not os.path.isdir(config.cwd):
        report.broken("command", f"its cwd {config.cwd} is not a folder", "create the folder, or correct cwd")
        return False
    command, path = config.command, environment(config.env).get("PATH", os.defpath)
    if os.sep in command:
        return _examine_path(report, command, Path(config.cwd or ".") / command)
    found = shutil.which(command, path=path)
    if found is None:
        report.broken("command", f"{command} is not on its PATH", _remedy(command, path))
        return False
    report.facts["command"] = found
    report.fine("command", _from_home(found))
    return True


def examine_file(report: ServerReport, config: PythonServer) -> bool:
    """Check whether the Python file of a server exists."""
    if not os.path.isfile(config.file):
        fix = "correct its path, which is relative to the settings file"
        report.broken("command", f"the file {config.file} does not exist", fix)
        return False
    report.fine("command", config.file)
    return True


def _examine_path(report: ServerReport, command: str, file: Path) -> bool:
    if not os.path.isfile(file):
        fix = _split(command) or "correct the path of the command"
        report.broken("command", f"the file {command} does not exist", fix)
    elif not os.access(file, os.X_OK):
        report.broken("command", f"{command} is not executable", f"chmod +x {shlex.quote(str(file))}")
    else:
        report.facts["command"] = str(file)
        report.fine("command", command)
        return True
    return False


def _remedy(command: str, path: str) -> str:
    if split := _split(command):
        return split
    if elsewhere := _elsewhere(command):
        return f"it is at {elsewhere}: use that as command, or add its folder to PATH under env"
    twin = _TWINS.get(command)
    if twin is not None and shutil.which(twin, path=path):
        return f"use {twin} as command, which is installed"
    install = _INSTALL.get(command) or suggest(command, _INSTALL, separator="")
    return install or f"install {command}, or use its full path as command"


def _from_home(path: str) -> str:
    """Return the path with the user's home folder written as `~`."""
    home = str(Path.home()) + os.sep
    return f"~{os.sep}{path.removeprefix(home)}" if path.startswith(home) else path


def _split(command: str) -> str:
    """Return the fix for a common mistake, a whole command line in `command`; empty if it is a single word."""
    words = command.split()
    return f'use "{words[0]}" as command, and put the rest into args' if len(words) > 1 else ""


def _elsewhere(command: str) -> str | None:
    """Return the path of a command that is installed outside the PATH; the last of several versions."""
    home = Path.home()
    folders = [*(folder for pattern in _FOLDERS for folder in sorted(home.glob(pattern))), *map(Path, _SYSTEM)]
    return next((str(folder / command) for folder in reversed(folders) if os.access(folder / command, os.X_OK)), None)
