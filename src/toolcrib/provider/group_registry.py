"""The groups of a provider: creates, changes and removes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .._util.suggest import suggest
from ..errors import ConfigError
from ..upstreams.pool import LOCAL
from .groups import Group, NameMode, Override
from .source_registry import SourceRegistry


class Groups:
    """Selections of tools, each offered as one virtual server: `provider.groups`."""

    def __init__(self, registry: SourceRegistry) -> None:
        self._registry = registry
        self._lock = asyncio.Lock()
        """Held from reading a group to its change being in force."""

    async def create(
        self,
        name: str,
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        description: str = "",
        overrides: Mapping[str, Override | Mapping[str, Any]] | None = None,
        name_mode: str = "qualified",
        by: str = LOCAL,
    ) -> Group:
        """Create a group. Patterns are `source/tool` with `*`, `tag:name`, or `source:name`; exclusions win.

        Without `include`, a group has no tools. `overrides` maps patterns to another `name`, `description` or defaults
        of `arguments`. `name_mode` is `qualified`, `plain` or `auto`.
        """
        group = Group(
            name=name,
            description=description,
            include=_as_tuple(include),
            exclude=_as_tuple(exclude),
            overrides=_as_overrides(overrides),
            name_mode=_as_mode(name_mode),
            created_at=time.time(),
        )
        async with self._lock:
            self._check_new(name, ". Use groups.update")
            await self._registry.put_group(group, by=by)
        return group

    async def update(self, name: str, *, by: str = LOCAL, **fields: Any) -> Group:
        """Change fields of a group: `include`, `exclude`, `description`, `overrides`, `name_mode`, `name`."""
        known = ("name", "include", "exclude", "description", "overrides", "name_mode")
        for field in fields:
            if field not in known:
                message = f"{field}: expected one of {', '.join(known)}{suggest(field, known)}"
                raise ConfigError(message, key=field, expected=", ".join(known))
        if "overrides" in fields:
            fields["overrides"] = _as_overrides(fields["overrides"])
        if "name_mode" in fields:
            fields["name_mode"] = _as_mode(fields["name_mode"])
        for key in ("include", "exclude"):
            if key in fields:
                fields[key] = _as_tuple(fields[key])
        async with self._lock:
            group = self.get(name)
            if (renamed := fields.get("name", name)) != name:
                self._check_new(renamed)
            changed = replace(group, **fields)
            await self._registry.put_group(changed, by=by)
        return changed

    async def remove(self, name: str, *, by: str = LOCAL) -> None:
        """Delete a group."""
        async with self._lock:
            await self._registry.remove_group(self.get(name), by=by)

    def get(self, name: str) -> Group:
        """Return a group; raise `ConfigError` if there is none of this name."""
        groups = self._registry.snapshot.groups
        if name not in groups:
            message = f"group: expected the name of a group, got {name!r}{suggest(name, groups)}"
            raise ConfigError(message, key="group", expected=", ".join(groups) or "a group; there is none yet")
        return groups[name]

    def list(self) -> list[Group]:
        """Return all groups."""
        return list(self._registry.snapshot.groups.values())

    def _check_new(self, name: str, advice: str = "") -> None:
        if name in self._registry.snapshot.groups:
            message = f"name: expected a new name, got {name!r}, which a group has already{advice}"
            raise ConfigError(message, key="name", expected="a name that no group has")


def _as_tuple(patterns: Any) -> Any:
    # `Group` rejects what is not a list of patterns, a single string for example, and says what it expects.
    return patterns if isinstance(patterns, str) or not isinstance(patterns, Iterable) else tuple(patterns)


def _as_mode(mode: Any) -> Any:
    try:
        return NameMode(mode)
    except ValueError:
        return mode  # `Group` rejects it


def _as_overrides(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return {} if given is None else given  # `Group` rejects it
    try:
        return {pattern: each if isinstance(each, Override) else Override(**each) for pattern, each in given.items()}
    except TypeError as exc:
        expected = "name, description, arguments"
        raise ConfigError(f"overrides: expected only {expected}", key="overrides", expected=expected) from exc
