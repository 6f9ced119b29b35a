"""Checks settings files, and a server's entry in them, without starting anything."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._util.suggest import find_misspelled
from ..config.secrets_scan import placeholders, written_plainly
from ..config.servers import URLS
from ..errors import ConfigError
from ..settings import ServerEntry, Settings
from ..settings.keys import EXPANDED, LOCAL
from ..settings.models import place
from ..settings.variables import Reference, parse
from .report import ServerReport


def examine_files(report: ServerReport, settings: Settings, paths: Sequence[Path]) -> None:
    """Report the problems of whole files: warnings, overridden entries, permissions."""
    for text in settings.warnings:
        report.warn("settings", text, "correct the key, or remove it")
    for each in settings.overridden:
        report.warn("settings", str(each), f"remove {each.name} from one of the two files")
    with_secrets = {entry.source for entry in settings.entries if written_plainly(entry.raw)}
    for path in paths:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            text = f"{path} is writable by other users, who can change which programs are started"
            report.warn("permissions", text, f"chmod go-w {path}")
        if path in with_secrets and mode & (stat.S_IRGRP | stat.S_IROTH):
            report.warn("permissions", f"{path} contains secrets, and other users can read it", f"chmod 600 {path}")
    if not report.findings:
        report.fine("settings", ", ".join(map(str, paths)))


def examine_entry(report: ServerReport, entry: ServerEntry, environ: Mapping[str, str]) -> None:
    """Report whether an entry is valid, which variables are not set, and which secrets are in plain text."""
    missing = missing_variables(entry.raw, environ)
    error = entry.error
    if error is not None and not _is_about(error, missing):
        report.broken("settings", error.message, _remedy(error, entry.raw))
    elif entry.source is not None:
        report.fine("settings", place(entry))
    if entry.display_name and entry.display_name != entry.name:
        text = f"its name in the file cannot be part of tool names; {entry.name} is used instead"
        report.warn("settings", text, f"rename it to {entry.name} in the file")
    if missing:
        names = list(dict.fromkeys(name for _, name in missing))
        where = ", ".join(dict.fromkeys(key for key, _ in missing))
        text = f"not set: {', '.join(names)}; used in {where} of {place(entry)}"
        exports = " ".join(f"{name}=..." for name in names)
        report.broken("variables", text, f"export {exports}; or add a default: ${{{names[0]}:-default}}")
    for key in placeholders(entry.raw):
        text = f"{key} of {place(entry)} is a placeholder, not a real value"
        report.warn("placeholders", text, "replace it by the real value; for a secret, use a variable: ${NAME}")
    for key, name, instead in written_plainly(entry.raw):
        text = f"{key} of {place(entry)} contains a secret in plain text"
        report.warn("secrets", text, f"write {instead} there, and export {name}=...")


def missing_variables(raw: Mapping[str, Any], environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return every variable without a value: its key in the entry, and its name."""
    own = raw.get("env")
    env = own if isinstance(own, Mapping) else {}
    found: list[tuple[str, str]] = []
    for key, text in _texts(raw):
        inside = key.removeprefix("env.") if key.startswith("env.") else None
        unset = (name for name in _required(text) if name not in environ)
        found += [(key, name) for name in unset if name == inside or not isinstance(env.get(name), str)]
    return found


def _texts(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in dict.fromkeys((*EXPANDED, *URLS)):
        value = raw.get(key)
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, list | tuple):
            yield from ((f"{key}[{at}]", item) for at, item in enumerate(value) if isinstance(item, str))
        elif isinstance(value, Mapping):
            yield from ((f"{key}.{name}", item) for name, item in value.items() if isinstance(item, str))


def _required(text: str) -> Iterator[str]:
    """Yield the variables of a text that have no default; the entry's error reports malformed ones."""
    try:
        pieces = parse(text)
    except ConfigError:
        return
    yield from (piece.name for piece in pieces if isinstance(piece, Reference) and piece.default is None)


def _is_about(error: ConfigError, missing: list[tuple[str, str]]) -> bool:
    return error.key is not None and any(error.key.endswith(f".{key}") for key, _ in missing)


def _remedy(error: ConfigError, raw: Mapping[str, Any]) -> str:
    where = f"{error.file}:{error.line}" if error.file and error.line else "the settings"
    reach = (*LOCAL, *URLS)
    misspelled = None if any(key in raw for key in reach) else find_misspelled(raw, reach)
    if misspelled is not None:
        return f"in {where}, rename {misspelled[0]} to {misspelled[1]}"
    expected = re.sub(r"\s+", " ", error.expected or "")
    return f"in {where}, use {expected}" if expected else f"correct {where}"
