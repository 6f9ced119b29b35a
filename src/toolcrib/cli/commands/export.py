"""`toolcrib export`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...config import PythonServer, StdioServer
from ...errors import ConfigError
from ...settings import ServerEntry, Settings
from ...settings.discover import claude_desktop_settings
from ...settings.edit.convert import PROGRAMS, Program, convert_entry
from ...settings.formats import FORMATS
from ...settings.models import place
from ..console import complain, note, show_json
from ..exit_codes import CliError, Exit
from ..lazy_command import Invocation
from ..settings_edit import checked, format_name, free, keep
from ..target import NO_SERVERS, find_settings, unknown_server

CLAUDE_DESKTOP: Final = Program(
    "Claude Desktop", "claude-desktop", "", frozenset({"command", "args", "env"}), defaults=False
)
"""Starts commands only, with few variables of the user's, in no particular folder, and without expanding `${NAME}`."""


def command(
    _invocation: Invocation,
    program: str,
    names: Sequence[str],
    config: Path | None,
    write: bool,
    to: Path | None,
    replace: bool,
) -> int:
    """Print the servers in the format of another program, or write them to its settings."""
    known = CLAUDE_DESKTOP if program == "claude-desktop" else PROGRAMS[program]
    settings = find_settings(config)
    path = to or (_file_of(known) if write else None)
    chosen = _chosen(settings, names)
    if not chosen:
        note(NO_SERVERS)
    servers, failed = _convert(chosen if path is None else _from_elsewhere(chosen, path), known)
    if settings.defaults:
        note(f"{known.title} has no options for all servers: {', '.join(settings.defaults)} of [hub] not exported")
    if path is None:
        shown: Any = servers
        for key in reversed(FORMATS[known.format].home):
            shown = {key: shown}
        show_json(shown)
    else:
        if to is None:
            path.parent.mkdir(parents=True, exist_ok=True)
        wanted = free(path, servers, replace=replace, format=known.format)
        keep(path, wanted, replace=replace, format=known.format)
    return Exit.CONFIG if failed else Exit.OK


def _chosen(settings: Settings, names: Sequence[str]) -> list[ServerEntry]:
    known = {name: entry for entry in settings.entries for name in (entry.name, entry.display_name)}
    for name in names:
        if name not in known:
            raise unknown_server(name, known)
    return [known[name] for name in names] if names else list(settings.entries)


def _from_elsewhere(entries: list[ServerEntry], path: Path) -> list[ServerEntry]:
    """Return the entries that are not from the file to be written; raise `CliError` if none is left."""
    others = [entry for entry in entries if entry.source is None or entry.source.resolve() != path.resolve()]
    if entries and not others:
        message = f"nothing to export: the servers are already in {path}"
        raise CliError(message, hint="--to FILE writes to another file, --config FILE reads from another")
    return others


def _convert(entries: list[ServerEntry], program: Program) -> tuple[dict[str, Mapping[str, Any]], bool]:
    """Return the servers in the format of that program, and whether one is invalid. Reports omitted fields."""
    servers: dict[str, Mapping[str, Any]] = {}
    failed = False
    for entry in entries:
        name, format = entry.display_name, format_name(entry.source) if entry.source is not None else "json"
        if entry.disabled:
            note(f"{name} is not exported: {place(entry)} disables it, which {program.title} cannot express")
            continue
        try:
            checked(name, entry, format)
            if program is CLAUDE_DESKTOP and _needs_bridge(entry):
                servers[name] = _bridged(entry)
                note(f"{name}: {program.title} starts it with `toolcrib bridge`{_with_variables(entry)}")
                continue
            converted = convert_entry(entry, format, program, only_known=True)
        except ConfigError as exc:
            complain(str(exc), f"{name} is not exported")
            failed = True
            continue
        servers[name] = _with_absolute_paths(entry, converted.values, program)
        if converted.omitted:
            note(f"{name}: {program.title} cannot express {', '.join(converted.omitted)}", "yellow")
    return servers, failed


def _file_of(program: Program) -> Path:
    """Return the settings file of a program: in this folder, if the program has settings for a folder."""
    return claude_desktop_settings(os.environ) if program is CLAUDE_DESKTOP else Path(program.place)


def _needs_bridge(entry: ServerEntry) -> bool:
    """Return whether an entry has a URL, a variable or a folder, none of which Claude Desktop supports."""
    return not isinstance(entry.config, StdioServer | PythonServer) or "cwd" in entry.raw or _has_variables(entry.raw)


def _with_variables(entry: ServerEntry) -> str:
    return ", which needs its variables in the environment" if _has_variables(entry.raw) else ""


def _has_variables(value: Any) -> bool:
    """Return whether a value of an entry, or a value inside it, refers to a variable."""
    if isinstance(value, Mapping):
        return any(map(_has_variables, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_variables, value))
    return isinstance(value, str) and "${" in value


def _bridged(entry: ServerEntry) -> dict[str, Any]:
    """Return an entry that starts `toolcrib bridge`, which reads the server from its settings file."""
    assert entry.source is not None
    return _toolcrib("bridge", entry.name, "--config", str(entry.source.absolute()))


def _with_absolute_paths(entry: ServerEntry, values: Mapping[str, Any], program: Program) -> dict[str, Any]:
    """Return an entry that starts toolcrib by its absolute path; for Claude Desktop all paths are absolute."""
    if "python" in entry.raw:
        return {**values, **_toolcrib(*values["args"])}
    if program is not CLAUDE_DESKTOP:
        return dict(values)
    found = shutil.which(values["command"])
    args = [os.path.abspath(arg) if _is_path(arg) else arg for arg in values.get("args", ())]
    return {
        **values,
        "command": os.path.abspath(found) if found else values["command"],
        **({"args": args} if args else {}),
    }


def _is_path(argument: str) -> bool:
    return argument in (".", "..") or Path(argument).is_file()


def _toolcrib(*arguments: str) -> dict[str, Any]:
    # -P: a module of the current folder must not replace one of Python's or of toolcrib's.
    return {"command": sys.executable, "args": ["-P", "-m", "toolcrib", *arguments]}
