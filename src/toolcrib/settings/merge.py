"""Several settings as one, and what changed between two: pure functions."""

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
    """Names of servers, each in the order of the settings that have it."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def diff(old: Settings, new: Settings) -> SettingsDiff:
    """What a reload has to do. An entry that only moved in its file, or to another one, did not change."""
    before = {entry.name: entry for entry in old.entries}
    after = {entry.name: entry for entry in new.entries}
    return SettingsDiff(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(name for name, entry in after.items() if name in before and not entry.same_as(before[name])),
    )


def merge(*settings: Settings, on_conflict: Literal["override", "raise"] = "override") -> Settings:
    """All together: a later one wins, and `overridden` says over whom.

    `on_conflict="raise"`: settings that disagree about a server are a `ConfigError` that names it and both places.
    """
    winners: dict[str, ServerEntry] = {}
    overridden: list[Overridden] = [record for each in settings for record in each.overridden]
    for entry in (entry for each in settings for entry in each.entries):
        earlier = winners.get(entry.display_name)
        if earlier is not None and not entry.same_as(earlier):
            if on_conflict == "raise":
                raise _disagreement(earlier, entry)
            overridden.append(Overridden(entry.display_name, entry, earlier))
        # In the place of the earlier one, so that the order of a list does not depend on who overrides.
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
    """A file that could not be read has no entries to merge; that it is missing must not be lost."""
    return () if settings.error is None else (str(settings.error),)


def keep_names(old: Settings, new: Settings) -> Settings:
    """`new` with the names that servers have in `old`: no server is called otherwise because another one went.

    A name that somebody has by right, because it stands in the file so, is left to them.
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
    """The one file that all of it is from, if it is one."""
    different = set(sources)
    return different.pop() if len(different) == 1 else None


def _disagreement(earlier: ServerEntry, entry: ServerEntry) -> ConfigError:
    name = one_line(entry.display_name, 80)
    message = f"{place(entry)} and {place(earlier)} disagree about {name}: expected one of them, or the same in both"
    file = None if entry.source is None else str(entry.source)
    return ConfigError(message, file=file, key=name, expected="the same server in both", server=entry.name)
