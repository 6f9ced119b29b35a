"""`toolcrib remove`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...settings.edit import remove_servers
from ...settings.models import place
from ..console import note, say
from ..exit_codes import CliError
from ..lazy_command import Invocation
from ..settings_edit import check_one_file, standing
from ..target import own_settings, settings_files, unknown_server


def command(_invocation: Invocation, names: Sequence[str], config: Path | None, user: bool) -> None:
    """Remove servers from the settings."""
    check_one_file(config, user)
    files = [own_settings()] if user else settings_files(config)
    there = {path: standing(path) for path in files}
    places = {name: [entries[name] for entries in there.values() if name in entries] for name in names}
    for name, found in places.items():
        if not found:
            raise _unknown(name, files, [name for entries in there.values() for name in entries])
    for path, entries in there.items():
        going = [name for name in places if places[name][-1] is entries.get(name)]
        if going:
            remove_servers(path, going)
        for name in going:
            say(f"removed {name}  ({place(entries[name])})")
    for name, (*others, _) in places.items():
        if others:
            note(f"{place(others[-1])} also defines {name}, and that entry is used now")


def _unknown(name: str, files: list[Path], known: list[str]) -> CliError:
    own = own_settings()
    hint = f"{own} has it: toolcrib remove --user {name}" if own not in files and name in standing(own) else ""
    where = " and ".join(map(str, files)) or "the settings: no settings found here"
    return unknown_server(name, known, where, hint)
