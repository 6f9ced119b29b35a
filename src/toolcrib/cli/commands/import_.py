"""`toolcrib import`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any, Final

from ...errors import ConfigError
from ...settings import ServerEntry, discover_settings
from ...settings.edit.convert import ConvertedEntry, convert_entry, program_for
from ...settings.edit.validate import Check
from ...settings.load import read_file
from ...settings.models import place
from ..console import Column, Styled, can_ask, complain, note, show_json, show_table
from ..exit_codes import CliError
from ..lazy_command import Invocation
from ..settings_edit import (
    References,
    checked,
    described,
    file_to_write,
    format_name,
    free,
    keep,
    same,
    standing,
    tell_unset,
)
from ..target import PROJECT_FILES, unknown_server

SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "claude-code": ("claude-code", "claude-user", "claude-settings"),
    "claude-desktop": ("claude-desktop",),
    "vscode": ("vscode",),
    "cursor": ("cursor",),
    "gemini": ("gemini",),
}
"""Programs whose settings can be imported, with the formats of their files."""

_COLOURS: Final = {"new": "green", "same": "dim", "other": "yellow", "disabled": "dim", "broken": "bold red"}


@dataclass(frozen=True, slots=True)
class _Found:
    """A server of another program's settings."""

    entry: ServerEntry
    program: str
    state: str
    """`new`; `same` or `other`, if our file already has the name; `disabled`; `broken`."""
    converted: ConvertedEntry | None = None
    check: Check | None = None
    fault: ConfigError | None = None
    secrets: Sequence[tuple[str, str]] = ()
    """The key and the variable of each secret that a reference replaces."""

    @property
    def name(self) -> str:
        return self.entry.display_name

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "program": self.program,
            "file": str(self.entry.source),
            "line": self.entry.line,
            "server": described(self.entry.raw),
            "state": self.state,
            "error": None if self.fault is None else str(self.fault),
        }


def command(
    _invocation: Invocation,
    words: Sequence[str],
    everything: bool,
    keep_secrets: bool,
    config: Path | None,
    user: bool,
    replace: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import servers from the settings of other programs."""
    path = file_to_write(config, user)
    source, names = _split(words)
    if as_json and (everything or names):
        raise CliError("--json lists what is found, and imports nothing", hint="omit --json, or --all and the names")
    found = _find(source, path, None if keep_secrets else References())
    if as_json:
        show_json([each.as_json() for each in found])
        return
    _show(found, source)
    chosen = _chosen(found, names, everything, may_ask=not dry_run)
    servers = {each.name: each.converted.values for each in chosen if each.converted is not None}
    wanted = free(path, servers, replace=replace)
    for each in chosen:
        _tell(each, each.name in wanted)
    if dry_run:
        note(f"would write {', '.join(wanted) or 'nothing'} to {path}")
    else:
        keep(path, wanted, replace=replace, private=keep_secrets)


def _show(found: list[_Found], source: str) -> None:
    if not found:
        note(f"no servers found in the settings of {source or 'other programs'}; `toolcrib add` adds one by hand")
        return
    rows = [
        (at, each.name, each.program, described(each.entry.raw), _near(each.entry), _shown(each.state))
        for at, each in enumerate(found, 1)
    ]
    columns = (
        Column("", "dim"),
        Column("server", "bold"),
        Column("from", optional=1),
        Column("what", text=True),
        Column("file", optional=2),
        "state",
    )
    show_table(columns, rows)
    for each in found:
        if each.fault is not None:
            note(f"broken: {each.fault}", "yellow")


def _split(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the source, if the first word names one, and the names of servers."""
    first = words[0] if words else ""
    is_path = "/" in first or first.endswith((".json", ".toml")) or Path(first).is_file()
    return (first, list(words[1:])) if first in SOURCES or is_path else ("", list(words))


def _find(source: str, path: Path, references: References | None) -> list[_Found]:
    """Return the servers of other programs; with `references`, variables take the place of their secrets."""
    if source and source not in SOURCES:
        parts = read_file(source)
    else:
        # Toolcrib reads these files itself: they need no import.
        ours = {Path(name).resolve() for name in PROJECT_FILES} | {path.resolve()}
        parts = [
            part
            for part in discover_settings()
            if part.source is not None
            and part.source.resolve() not in ours
            and part.format in (SOURCES[source] if source else [each for of in SOURCES.values() for each in of])
        ]
    there = standing(path)
    found = []
    for part in parts:
        if part.error is not None:
            complain(str(part.error), "its servers are skipped")
        title = next((name for name, formats in SOURCES.items() if part.format in formats), part.format)
        found += [_examine(entry, title, part.format, path, there, references) for entry in part.entries]
    return found


def _examine(
    entry: ServerEntry,
    title: str,
    format: str,
    path: Path,
    there: Mapping[str, ServerEntry],
    references: References | None,
) -> _Found:
    try:
        check = checked(entry.display_name, entry, format)
        converted = convert_entry(entry, format, program_for(format_name(path)), folder=path.absolute().parent)
    except ConfigError as exc:
        return _Found(entry, title, "broken", fault=exc)
    secrets: list[tuple[str, str]] = []
    if references is not None:
        values, secrets = references.replace_secrets(entry.display_name, converted.values)
        converted = replace_fields(converted, values=values)
    state = "disabled" if entry.disabled else "new"
    if entry.display_name in there:
        state = "same" if same(there[entry.display_name], converted.values) else "other"
    return _Found(entry, title, state, converted, check, secrets=secrets)


def _near(entry: ServerEntry) -> str:
    return re.sub(rf"^{re.escape(str(Path.home()))}(?=/)", "~", place(entry))


def _shown(state: str) -> Styled:
    words = {"same": "already configured", "other": "configured differently"}
    return Styled(words.get(state, state), _COLOURS[state])


def _chosen(found: list[_Found], names: Sequence[str], everything: bool, *, may_ask: bool) -> list[_Found]:
    if everything and names:
        raise CliError("--all cannot be combined with server names")
    if everything:
        return _last_of_each([each for each in found if each.state not in ("broken", "disabled")])
    if names:
        return _last_of_each(_named(found, names))
    if not found or not may_ask:
        return []
    if can_ask():
        return _last_of_each(_asked(found))
    note("nothing imported: name the servers, or give --all")
    return []


def _named(found: list[_Found], names: Sequence[str]) -> list[_Found]:
    known = [each.name for each in found]
    for name in names:
        if name not in known:
            raise unknown_server(name, known, "the settings of other programs", "`toolcrib import` lists them")
    return [each for each in found if each.name in names]


def _asked(found: list[_Found]) -> list[_Found]:
    """Prompt for the servers to import; Return or Ctrl-D selects none."""
    while True:
        sys.stderr.write("Import which? Numbers or names, or all: ")
        sys.stderr.flush()
        answer = sys.stdin.readline().strip()
        if answer == "all":
            return [each for each in found if each.state not in ("broken", "disabled")]
        wanted = [word for word in re.split(r"[,\s]+", answer) if word]
        numbered = {str(at): each.name for at, each in enumerate(found, 1)}
        unknown = [word for word in wanted if word not in numbered and word not in numbered.values()]
        if not unknown:
            return [each for at, each in enumerate(found, 1) if str(at) in wanted or each.name in wanted]
        complain(f"{unknown[0]!r} is neither a number nor a name in the table")


def _last_of_each(chosen: list[_Found]) -> list[_Found]:
    """Return one server per name, the most specific: a project's before the user's. Raises if one is invalid."""
    broken = [each for each in chosen if each.fault is not None]
    if broken:
        raise broken[0].fault or ConfigError("is broken")
    kept = {each.name: each for each in chosen}
    for each in chosen:
        if kept[each.name] is not each:
            note(f"{each.name} of {place(each.entry)} is not imported: {place(kept[each.name].entry)} takes precedence")
    return list(kept.values())


def _tell(each: _Found, is_written: bool) -> None:
    if not is_written:
        return
    if each.converted is not None and each.converted.omitted:
        note(f"{each.name}: not imported, because it has no effect here: {', '.join(each.converted.omitted)}")
    if each.entry.disabled:
        note(f"{each.name} is disabled in {place(each.entry)}, and stays disabled")
    for key, variable in each.secrets:
        note(f"{each.name}: wrote ${{{variable}}} instead of the secret in {key}")
        if variable not in os.environ:
            note(f"warning: {each.name}: set {variable} to the secret in {key} of {place(each.entry)}", "yellow")
    if each.check is not None:
        tell_unset(each.name, each.check)
