"""Watches settings files and reports changes."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from .._util.files import FilePoller
from ..errors import ConfigError, UsageError
from .load import announce, read_file
from .merge import diff, merge
from .models import Settings

log = logging.getLogger("toolcrib.settings")


class Watcher:
    """Polls settings files every `interval` seconds and calls `on_change` with the new `Settings` if they changed.

    If a file is invalid or missing, the last settings stay in force and `on_error` is called once. Both callbacks may
    be async. They never run at the same time; exceptions that they raise are logged.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        on_change: Callable[[Settings], Any],
        *,
        on_error: Callable[[ConfigError], Any] | None = None,
        interval: float = 1.0,
        settings: Settings | None = None,
        format: str | None = None,
        project: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not given or not interval > 0:
            raise UsageError("Watcher: expected at least one path and a positive interval")
        self._paths = [Path(path).expanduser().absolute() for path in given]
        self._on_change = on_change
        self._on_error = on_error
        self._interval = interval
        # Read now, because the current folder may have changed, or be deleted, when a file is polled.
        folder = Path.cwd() if project is None else Path(project)
        self._options = {"format": format, "project": folder, "environ": environ}
        self._poller = FilePoller(self._paths, content_only=True)
        self.turn = asyncio.Lock()
        """Held from a poll until its callback has returned; code that reads the same files acquires it as well."""
        self._task: asyncio.Task[None] | None = None
        self.settings = settings
        """The last settings that could be read; initially those that were passed in."""

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def start(self) -> Self:
        """Start polling. The first poll reports differences from the settings that were passed in."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="toolcrib settings watcher")
        return self

    async def close(self) -> None:
        """Stop polling; a running callback is cancelled."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        if task is not asyncio.current_task():  # a callback may close its own watcher
            await asyncio.wait([task])

    def set_baseline(self, settings: Settings) -> None:
        """Set the settings that the next poll is compared with; the caller has read them itself."""
        self.settings = settings

    async def check(self) -> bool:
        """Poll now, for code that schedules polls itself; return whether a callback was called."""
        async with self.turn:
            return await self._check()

    async def _check(self) -> bool:
        if not await asyncio.to_thread(self._poller.poll):
            return False
        try:
            new = await asyncio.to_thread(self._load)
        except ConfigError as exc:
            await self._notify(self._on_error, exc)
            return self._on_error is not None
        old, self.settings = self.settings, new
        announce(new, old)
        if old is not None and _same(old, new):
            return False
        await self._notify(self._on_change, new)
        return True

    async def _run(self) -> None:
        while True:
            try:
                await self.check()
            except Exception:  # the next change must still be reported
                log.exception("polling the settings failed")
            await asyncio.sleep(self._interval)

    async def _notify(self, callback: Callable[[Any], Any] | None, found: Settings | ConfigError) -> None:
        if callback is None:
            log.warning("the last settings stay in force: %s", found)
            return
        try:
            outcome = callback(found)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception:  # the next change must still be reported
            log.exception("a callback of the settings watcher failed")

    def _load(self) -> Settings:
        parts = [part for path in self._paths for part in read_file(path, **self._options)]  # type: ignore[arg-type]
        return parts[0] if len(parts) == 1 else merge(*parts)


def _same(old: Settings, new: Settings) -> bool:
    return not any(diff(old, new)) and dict(old.defaults) == dict(new.defaults)
