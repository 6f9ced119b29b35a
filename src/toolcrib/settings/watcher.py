"""Telling when settings files change: by looking, so that it works on every file system and needs no library."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from ..errors import ConfigError, UsageError
from .documents import read_bytes
from .load import announce, read_file
from .merge import diff, merge
from .models import Settings

log = logging.getLogger("toolcrib.settings")

_SETTLED = 2.0
"""Seconds after which a file's time of change is sure to differ from that of a later write."""


class Watcher:
    """Looks at settings files every `interval` seconds and calls `on_change` with the new `Settings`.

    A file that is broken or gone leaves the last settings in force, and is told to `on_error` once. Both may be async.
    They run one after the other; what they raise is logged.
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
            raise UsageError("a Watcher needs at least one file, and a positive interval")
        self._paths = [Path(path).expanduser().absolute() for path in given]
        self._on_change = on_change
        self._on_error = on_error
        self._interval = interval
        # Now, because the current folder can be another one, or gone, by the time of a look.
        folder = Path.cwd() if project is None else Path(project)
        self._options = {"format": format, "project": folder, "environ": environ}
        self._looks: dict[Path, tuple[Any, bytes]] = {}
        self.turn = asyncio.Lock()
        """Held from a look until what it found was told: who reads the files beside it does so in between."""
        self._task: asyncio.Task[None] | None = None
        self.settings = settings
        """The last ones that could be read; those that were given, at first."""

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def start(self) -> Self:
        """Begin to look. What differs from the settings that were given is told at the first look."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="toolcrib settings watcher")
        return self

    async def close(self) -> None:
        """Stop looking; a callback that is under way is cancelled."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        if task is not asyncio.current_task():  # a callback may close its own watcher
            await asyncio.wait([task])

    async def check(self) -> bool:
        """Look now. Whether something was told; for those who want to decide themselves when to look."""
        async with self.turn:
            return await self._check()

    async def _check(self) -> bool:
        if not await asyncio.to_thread(self._changed):
            return False
        try:
            new = await asyncio.to_thread(self._load)
        except ConfigError as exc:
            await self._tell(self._on_error, exc)
            return self._on_error is not None
        old, self.settings = self.settings, new
        announce(new, old)
        if old is not None and _same(old, new):
            return False
        await self._tell(self._on_change, new)
        return True

    async def _run(self) -> None:
        while True:
            try:
                await self.check()
            except Exception:  # whatever it was: the next change must be told
                log.exception("looking at the settings failed")
            await asyncio.sleep(self._interval)

    async def _tell(self, callback: Callable[[Any], Any] | None, news: Settings | ConfigError) -> None:
        if callback is None:
            log.warning("the last settings stay in force: %s", news)
            return
        try:
            outcome = callback(news)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception:  # the next change must be told too
            log.exception("a listener to settings failed")

    def _changed(self) -> bool:
        looks = {path: self._look(path) for path in self._paths}
        changed = [digest for _, digest in looks.values()] != [digest for _, digest in self._looks.values()]
        self._looks = looks
        return changed

    def _look(self, path: Path) -> tuple[Any, bytes]:
        """Who the file was when we looked, and the digest of its content; it is read only if it may have changed."""
        last, digest = self._looks.get(path, (None, b""))
        now = time.time()  # compared with a file's time, not measured by
        try:
            seen = path.stat()
            mark = (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino)
            if mark == last:
                return last, digest
            # Two writes in one tick of the file system's clock leave the same mark: a young one is not relied on.
            settled = mark if now - max(seen.st_mtime, seen.st_ctime) > _SETTLED else None
            return settled, sha256(read_bytes(path) or b"").digest()
        except OSError as exc:
            return None, type(exc).__name__.encode()

    def _load(self) -> Settings:
        parts = [part for path in self._paths for part in read_file(path, **self._options)]  # type: ignore[arg-type]
        return parts[0] if len(parts) == 1 else merge(*parts)


def _same(old: Settings, new: Settings) -> bool:
    return not any(diff(old, new)) and dict(old.defaults) == dict(new.defaults)
