"""Reads `Settings` from files, or from a mapping."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import tool_names
from .._util.folders import home_folder
from .._util.suggest import did_you_mean
from ..protocol.sanitize import one_line
from .documents import Document, place_of, read_document
from .entries import Reading, make_entry
from .formats import Format, Section, find_sections, format_named, format_of, near_miss
from .hub_table import hub_options
from .jsonc import read_jsonc
from .merge import merge
from .models import Settings
from .toml import read_toml

log = logging.getLogger("toolcrib.settings")


def load_settings(
    path: str | os.PathLike[str],
    *more: str | os.PathLike[str],
    format: str | None = None,
    project: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings in one or more files; later files override earlier ones.

    An invalid entry has an `error` and does not affect the others; an invalid file raises `ConfigError`. `format` names
    the file's format, if its name does not imply it. `project` is the folder whose servers are read from
    `~/.claude.json`, by default the current one.
    """
    parts = [
        part for each in (path, *more) for part in read_file(each, format=format, project=project, environ=environ)
    ]
    settings = parts[0] if len(parts) == 1 else merge(*parts)
    announce(settings)
    return settings


def parse_settings(
    values: Mapping[str, Any],
    source: str | os.PathLike[str] | None = None,
    *,
    format: str = "json",
    project: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings in a mapping, as `load_settings` does for a file; `source` is its name in error messages."""
    document = Document(None if source is None else Path(source))
    parts = list(parts_of(document, values, format_named(format), folder_of(project), environ))
    settings = parts[0] if len(parts) == 1 else merge(*parts)
    announce(settings)
    return settings


def read_file(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    project: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[Settings]:
    """Return one `Settings` for each map of servers in the file, at least one; more general ones first."""
    file = Path(os.path.expanduser(path))
    kind = format_named(format) if format is not None else format_of(file)
    document = read_document(file)
    return list(parts_of(document, read_root(document), kind, folder_of(project), environ))


def read_root(document: Document) -> Any:
    """Return the value of a file: parsed as TOML if its name ends in `.toml`, else as JSON."""
    is_toml = document.path is not None and document.path.suffix.lower() == ".toml"
    return read_toml(document) if is_toml else read_jsonc(document)


def announce(settings: Settings, but: Settings | None = None) -> None:
    """Log the warnings, except for those that `but` has too."""
    for text in settings.warnings:
        if but is None or text not in but.warnings:
            log.warning("%s", text)


def folder_of(project: str | os.PathLike[str] | None) -> Path:
    """Return the absolute path of a folder, by default the current one; `~user` of an unknown user is a plain name."""
    return Path.cwd() if project is None else Path(os.path.expanduser(project)).absolute()


def parts_of(
    document: Document, root: Any, kind: Format, project: Path, environ: Mapping[str, str] | None = None
) -> Iterator[Settings]:
    """Yield one `Settings` for each map of servers in a document whose value is `root`."""
    reading = Reading(document, kind, dict(os.environ if environ is None else environ))
    reading.known = known_names(reading, project)
    sections = list(find_sections(kind, root, document, project))
    is_server = any(not section.path and "hub" in section.servers for section in sections)
    options = hub_options(reading, root) if kind.hub and not is_server else {}
    _warn_about_other_keys(reading, root, is_server)
    for section in sections or [Section((), {})]:
        named = tool_names.unique(section.servers)
        entries = tuple(make_entry(reading, section, display, name) for display, name in named.items())
        yield Settings(entries, document.path, kind.name, options, tuple(reading.warnings.values()))
        reading.warnings.clear()


def _warn_about_other_keys(reading: Reading, root: Mapping[str, Any], hub_is_server: bool) -> None:
    """Warn about top-level keys that have no effect and were probably meant to have one."""
    if "hub" in root and not reading.kind.hub and not hub_is_server:
        text = "hub: has no effect in another program's file; put it into toolcrib.toml, as [hub]"
        reading.warn("hub", text, place_of(root, "hub"))
    found = near_miss(reading.kind, root)
    if found is not None:
        text = f"{one_line(found[0], 60)}: unknown key, has no effect{did_you_mean(found[1:])}"
        reading.warn(found[0], text, place_of(root, found[0]))
    if reading.kind.name == "toolcrib":
        for key in root:
            if key not in ("servers", "hub"):
                reading.warn(str(key), f"{one_line(str(key), 60)}: unknown key, has no effect", place_of(root, key))


def known_names(reading: Reading, project: Path) -> dict[str, str]:
    """Return the variables that the file's program defines itself, as VS Code and Cursor do, with their values."""
    if not reading.kind.folders:
        return {}
    path = reading.document.path
    above = path.absolute().parent if path is not None else project
    home = home_folder(reading.environ)
    # A user's own file is in the home folder, and applies to every project.
    in_project = above.name in (".vscode", ".cursor") and above.parent != home
    folder = above.parent if in_project else project
    return {
        "workspaceFolder": str(folder),
        "workspaceFolderBasename": folder.name,
        "userHome": str(home),
        "pathSeparator": os.sep,
        "/": os.sep,
    }
