"""Keeps the servers of a hub in step with settings: as they are at first, and after each change."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..errors import ConfigError, UsageError
from ..policy.filters import static_filter
from ..policy.permissions import Permissions
from ..settings import (
    ServerEntry,
    Settings,
    SettingsDiff,
    Watcher,
    announce,
    diff,
    keep_names,
    load_settings,
    merge,
    parse_settings,
)
from .access import Access
from .managed_server import ManagedServer
from .server_options import CommonOptions, ServerSpec, for_all, spec_for, spec_without
from .servers import ServerSet

log = logging.getLogger("toolcrib.hub")

PERMISSIONS: Final = ("allowed_tools", "disallowed_tools", "require_approval")
Path = str | os.PathLike[str]
Given = Path | Sequence[Path] | Mapping[str, Any] | Settings | Sequence[Settings]


def repeatable(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with every iterator replaced by a tuple: they are read more than once."""
    return {
        key: tuple(value) if key in PERMISSIONS and isinstance(value, Iterator) else value
        for key, value in options.items()
    }


class ConfigSource:
    """Where settings come from: a file, several (a later one overrides), a mapping, or settings that were read."""

    def __init__(self, given: Given, environ: Mapping[str, str] | None = None) -> None:
        self._given = given
        self._environ = environ
        self._paths: list[Path] = []
        several: list[Any] = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        if several and all(isinstance(each, Settings) for each in several):
            self._given = merge(*several) if len(several) > 1 else several[0]
        elif several and all(isinstance(each, str | os.PathLike) for each in several):
            self._paths = several
        elif not isinstance(given, Mapping):
            expected = "the path of a settings file, several, or the mapping that such a file holds"
            raise ConfigError(f"from_config: expected {expected}", key="config", expected=expected)

    def read(self) -> Settings:
        """Return the settings as they are now."""
        if isinstance(self._given, Settings):
            announce(self._given)
            return self._given
        if isinstance(self._given, Mapping):
            return parse_settings(self._given, environ=self._environ)
        return load_settings(*self._paths, environ=self._environ)

    def make_watcher(self, on_change: Any, interval: float, settings: Settings) -> Watcher:
        """Return a watcher that calls `on_change` with the settings when the files change."""
        if not self._paths:
            raise UsageError("only files can be watched; give from_config a path")
        return Watcher(self._paths, on_change, interval=interval, settings=settings, environ=self._environ)


class ConfigSync:
    """The servers of a hub that come from entries of settings. Those of `add_server` are left alone."""

    def __init__(
        self,
        source: ConfigSource,
        settings: Settings,
        keywords: Mapping[str, Any],
        common: CommonOptions,
        servers: ServerSet,
        access: Access,
    ) -> None:
        self._source = source
        self._settings = settings
        self._keywords = dict(keywords)
        self._common = common
        self._servers = servers
        self._access = access
        self._managed: dict[str, ManagedServer] = {}
        self._turn = asyncio.Lock()
        self._watcher: Watcher | None = None
        for entry in settings.entries:
            self._add(entry)

    def watch(self, interval: float) -> None:
        """Follow the files from the start of the hub until it is closed."""
        self._watcher = watcher = self._source.make_watcher(self.follow, interval, self._settings)
        self._turn = watcher.turn
        self._servers.on_begin(watcher.start)
        self._servers.on_close(watcher.close)

    async def reload(self) -> SettingsDiff:
        """Read the settings again and follow them."""
        async with self._turn:  # settings that were read first must not be applied last
            difference, ending = self._apply(await asyncio.to_thread(self._source.read))
        await self._wait_until_applied(difference, ending)
        return difference

    async def follow(self, new: Settings) -> None:
        """Apply these settings. The next change does not wait for servers that start slowly."""
        if not self._servers.closed:
            self._apply(new)

    def _apply(self, new: Settings) -> tuple[SettingsDiff, list[asyncio.Future[None]]]:
        """Restart only the servers whose settings changed, each when its predecessor has ended."""
        self._servers.check()
        new = keep_names(self._settings, new)
        difference = self._with_options(new, diff(self._settings, new))
        self._settings = new
        if self._watcher is not None:
            self._watcher.set_baseline(new)
        gone = [self._managed.pop(name, None) for name in (*difference.removed, *difference.changed)]
        ending = [self._servers.remove(managed) for managed in gone if managed is not None]
        for name in (*difference.added, *difference.changed):
            entry = new.get(name)
            assert entry is not None
            self._add(entry)
        if any(difference):
            log.info("the settings changed: %s", difference)
        return difference, ending

    async def _wait_until_applied(self, difference: SettingsDiff, ending: list[asyncio.Future[None]]) -> None:
        await asyncio.gather(*map(asyncio.shield, ending))
        begun = (self._managed.get(name) for name in (*difference.added, *difference.changed))
        await self._servers.wait_for_starts([managed for managed in begun if managed is not None])

    def _with_options(self, new: Settings, difference: SettingsDiff) -> SettingsDiff:
        """Apply options of the hub that changed: permissions at once, others by new clients for all servers.

        Servers that were removed by `remove_server` stay away until their own entry changes.
        """
        before, after = ({**each.defaults, **self._keywords} for each in (self._settings, new))
        if any(before.get(key) != after.get(key) for key in PERMISSIONS):
            self._access.replace_permissions(Permissions(**{key: after.get(key) for key in PERMISSIONS}))
            self._servers.judge_all()
        if for_all(before) == for_all(after):
            return difference
        self._common.replace({"start": "eager", **for_all(after)})
        managed_servers = self._servers.by_name
        here = {name for name, managed in self._managed.items() if managed_servers.get(name) is managed}
        kept = [e.name for e in new.entries if e.name in here or e.name in difference.changed]
        return difference._replace(changed=tuple(kept))

    def _add(self, entry: ServerEntry) -> None:
        try:
            managed = self._managed[entry.name] = self._servers.add(self._spec(entry))
        except ConfigError as exc:
            if not self._servers.begun:
                raise
            log.warning("%s", exc)  # a server of that name was added by `add_server`
        else:
            if self._servers.begun and managed.spec.start == "eager":
                managed.start()

    def _spec(self, entry: ServerEntry) -> ServerSpec:
        display_name = entry.display_name or entry.name
        if entry.disabled:
            return spec_without(entry.name, display_name, entry.config, None)
        config = entry.config
        if config is None:
            assert entry.error is not None
            return spec_without(entry.name, display_name, None, entry.error)
        if entry.allowed_tools is not None or entry.blocked_tools:
            config = replace(config, tool_filter=static_filter(entry.allowed_tools, entry.blocked_tools))
        return spec_for(entry.name, display_name, (config, entry.client_options), self._common.values)
