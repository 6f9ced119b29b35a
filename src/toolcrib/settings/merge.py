"""Pure functions that merge settings and compare them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from .. import tool_names
from ..errors import ConfigError
from ..protocol.sanitize import one_line
from .models import Overridden, ServerEntry, Settings, place


class SettingsDiff(NamedTuple):
    """The names of servers that differ between two settings, in the order of the settings that have them."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def diff(old: Settings, new: Settings) -> SettingsDiff:
    """Return the servers that a reload adds, removes or changes; an entry that was only moved is unchanged."""
    before = {entry.name: entry for entry in old.entries}
    after = {entry.name: entry for entry in new.entries}
    return SettingsDiff(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(name for name, entry in after.items() if name in before and not entry.same_as(before[name])),
    )


def merge(*settings: Settings, on_conflict: Literal["override", "raise"] = "override") -> Settings:
    """Return all settings as one; later entries override earlier ones, and `overridden` lists the conflicts.

    With `on_conflict="raise"`, different entries for one server raise a `ConfigError` that names both places.
    """
    winners: dict[str, ServerEntry] = {}
    overridden: list[Overridden] = [record for each in settings for record in each.overridden]
    for entry in (entry for each in settings for entry in each.entries):
        earlier = winners.get(entry.display_name)
        if earlier is not None and not entry.same_as(earlier):
            if on_conflict == "raise":
                raise _disagreement(earlier, entry)
            overridden.append(Overridden(entry.display_name, entry, earlier))
        # It takes the position of the earlier entry, so that overriding does not change the order.
        winners[entry.display_name] = entry
    unique = tool_names.unique(winners)
    return Settings(
        entries=tuple(replace(entry, name=unique[display]) for display, entry in winners.items()),
        source=_one_of(each.source for each in settings),
        format=settings[-1].format if settings else "",
        defaults={key: value for each in settings for key, value in each.defaults.items()},
        warnings=tuple(dict.fromkeys(text for each in settings for text in (*each.warnings, *_fault(each)))),
        overridden=tuple(overridden),
    )


def _fault(settings: Settings) -> tuple[str, ...]:
    """Return the error of a file that could not be read as a warning; it has no entries to merge."""
    return () if settings.error is None else (str(settings.error),)


def keep_names(old: Settings, new: Settings) -> Settings:
    """Return `new` with the names that its servers have in `old`, so that removing one server renames no other.

    A server whose display name is a legal name always keeps it.
    """
    known = {entry.display_name: entry.name for entry in old.entries if entry.display_name != entry.name}
    own = {entry.display_name for entry in new.entries}
    kept = {display: name for display, name in known.items() if display in own and name not in own}
    taken = own | set(kept.values())
    entries = []
    for entry in new.entries:
        name = kept.get(entry.display_name, entry.name)
        if entry.display_name not in kept and name != entry.display_name:
            name = tool_names.slug(entry.display_name, taken)
            taken.add(name)
        entries.append(replace(entry, name=name))
    return replace(new, entries=tuple(entries))


def _one_of(sources: Iterable[Path | None]) -> Path | None:
    """Return the file that all settings come from, None if there are several."""
    different = set(sources)
    return different.pop() if len(different) == 1 else None


def _disagreement(earlier: ServerEntry, entry: ServerEntry) -> ConfigError:
    name = one_line(entry.display_name, 80)
    message = f"{place(entry)} and {place(earlier)} define {name} differently: remove one of them, or make them equal"
    file = None if entry.source is None else str(entry.source)
    return ConfigError(message, file=file, key=name, expected="the same server in both", server=entry.name)
