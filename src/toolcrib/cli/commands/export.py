"""`toolcrib export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...settings import ServerEntry, Settings
from ...settings.edit.convert import PROGRAMS, Program, worded
from ...settings.formats import FORMATS
from ...settings.models import place
from ..console import complain, note, show_json
from ..exit_codes import CliError, Exit
from ..lazy_command import Invocation
from ..settings_edit import checked, format_name, free, keep
from ..target import find_settings, unknown_server


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
    known = PROGRAMS[program]
    settings = find_settings(config)
    path = to or (Path(known.place) if write else None)
    chosen = _chosen(settings, names)
    servers, failed = _worded(chosen if path is None else _from_elsewhere(chosen, path), known)
    if settings.defaults:
        note(f"{known.title} has no options for all servers: {', '.join(settings.defaults)} of [hub] stay here")
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
        message = f"{path} is where these servers are: there is nothing to export"
        raise CliError(message, hint="--to FILE writes to another file, --config FILE reads from another")
    return others


def _worded(entries: list[ServerEntry], program: Program) -> tuple[dict[str, Mapping[str, Any]], bool]:
    """Return the servers in the format of that program, and whether one is invalid. Reports what is lost."""
    servers: dict[str, Mapping[str, Any]] = {}
    failed = False
    for entry in entries:
        name, format = entry.display_name, format_name(entry.source) if entry.source is not None else "json"
        if entry.disabled:
            note(f"{name} is left out: {place(entry)} disables it, which {program.title} cannot express")
            continue
        try:
            checked(name, entry, format)
            wording = worded(entry, format, program, only_known=True)
        except ConfigError as exc:
            complain(str(exc), f"{name} is left out")
            failed = True
            continue
        servers[name] = wording.values
        if wording.lost:
            note(f"{name}: {program.title} cannot express {', '.join(wording.lost)}", "yellow")
    return servers, failed
