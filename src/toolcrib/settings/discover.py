"""Finds the settings files of all supported programs on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from .._util.folders import config_folder, home_folder
from ..errors import ConfigError
from .formats import format_of
from .load import folder_of, read_file
from .models import Settings


def discover_settings(
    project: str | os.PathLike[str] | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    platform: str = sys.platform,
) -> tuple[Settings, ...]:
    """Return the settings in the user's home and in the project's folder (default: the current one); starts nothing.

    More general settings come first, so in `merge(*discover_settings())` the project's override the user's. A file that
    cannot be read is included, with its `error` and without entries.
    """
    surroundings = dict(os.environ if environ is None else environ)
    folder = folder_of(project)
    house = folder_of(home) if home is not None else home_folder(surroundings)
    general: list[Settings] = []
    personal: list[Settings] = []
    persons = list(_of_person(house, surroundings, platform))
    for path in persons:
        found = _read(path, folder, surroundings)
        # The second part holds the user's own servers for this project, which override the project's shared ones.
        general += found[:1]
        personal += found[1:]
    # If the project's folder is the home, some files are in both lists.
    paths = [path for path in _of_project(folder) if path not in persons]
    shared = [each for path in paths for each in _read(path, folder, surroundings)]
    own = _read(folder / "toolcrib.toml", folder, surroundings)
    return (*general, *shared, *personal, *own)


def user_settings(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Return the path of the user's own `toolcrib.toml`, whether or not the file exists."""
    return config_folder(environ, home) / "toolcrib" / "toolcrib.toml"


def claude_desktop_settings(environ: Mapping[str, str], home: Path | None = None, platform: str = sys.platform) -> Path:
    """Return the path of the settings of Claude Desktop, whether or not the file exists."""
    return _programs(home or home_folder(environ), environ, platform) / "Claude" / "claude_desktop_config.json"


def _programs(home: Path, environ: Mapping[str, str], platform: str) -> Path:
    """Return the folder in which desktop programs keep their settings."""
    return home / "Library/Application Support" if platform == "darwin" else config_folder(environ, home)


def _read(path: Path, project: Path, environ: Mapping[str, str]) -> list[Settings]:
    try:
        return read_file(path, project=project, environ=environ)
    except ConfigError as exc:
        if isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError):
            return []
        return [Settings(source=path, format=format_of(path).name, error=exc)]


def _of_person(home: Path, environ: Mapping[str, str], platform: str) -> Iterator[Path]:
    yield claude_desktop_settings(environ, home, platform)
    yield _programs(home, environ, platform) / "Code" / "User" / "mcp.json"
    yield home / ".cursor" / "mcp.json"
    yield home / ".gemini" / "settings.json"
    yield home / ".claude.json"
    yield home / ".claude" / "settings.json"
    yield user_settings(environ, home)


def _of_project(folder: Path) -> Iterator[Path]:
    yield folder / ".vscode" / "mcp.json"
    yield folder / ".cursor" / "mcp.json"
    yield folder / ".gemini" / "settings.json"
    yield folder / ".mcp.json"
    yield folder / ".claude" / "settings.json"
    yield folder / ".claude" / "settings.local.json"
