"""The user's folders for settings and caches, according to the XDG Base Directory Specification."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder in this environment."""
    return Path(environ.get("HOME") or Path.home())


def config_folder(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Return the folder of the user's settings, by default `~/.config`."""
    return _base_folder("XDG_CONFIG_HOME", ".config", environ, home)


def cache_folder(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Return the folder of the user's caches, by default `~/.cache`."""
    return _base_folder("XDG_CACHE_HOME", ".cache", environ, home)


def _base_folder(variable: str, default: str, environ: Mapping[str, str], home: Path | None) -> Path:
    given = Path(environ.get(variable, ""))
    # The specification requires ignoring relative paths: they would name a different folder in each project.
    return given if given.is_absolute() else (home or home_folder(environ)) / default
