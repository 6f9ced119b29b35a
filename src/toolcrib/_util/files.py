"""Reads small files, and detects changes of files by polling, which works on every file system."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

SETTLED_SECONDS: Final = 2.0
"""Seconds after a change from which a later write certainly has another modification time."""
MAX_COMPARED_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a file's content that are compared; beyond them only a change of the size is detected."""


def read_regular_file(path: Path, max_bytes: int) -> bytes | None:
    """Return the content of a file, at most `max_bytes` of it; `None` if it is a folder, a pipe or a device.

    Raises `OSError`, and `ValueError` for an invalid path.
    """
    # Non-blocking, so that opening a pipe without a writer returns.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    finally:
        os.close(descriptor)


class _Look(NamedTuple):
    """The state of a file at a poll. If `mark` is None, the next poll reads the content again."""

    mark: tuple[int, int, int, int] | None = None
    written: tuple[int, int] | None = None
    content: tuple[int, bytes] | str = ""
    """Size and digest, or the name of the error that reading the file raised."""


class FilePoller:
    """Polls files and finds those that changed between two polls.

    A file changes when its content does, when it appears or disappears, and when it becomes readable or unreadable.
    Unless `content_only` is set, writing the same content again is a change too.

    Files given to the constructor count as changed at the first poll.
    """

    def __init__(self, paths: Iterable[Path] = (), *, content_only: bool = False) -> None:
        self._content_only = content_only
        self._looks: dict[Path, _Look | None] = dict.fromkeys(paths)

    def follow(self, paths: Iterable[Path]) -> None:
        """Set the files to poll. For new ones, changes count from their present state."""
        known = self._looks
        self._looks = {path: known[path] if path in known else _look_at(path, _Look()) for path in paths}

    def poll(self) -> list[Path]:
        """Return the files that changed since the last poll."""
        changed = []
        for path, last in self._looks.items():
            self._looks[path] = new = _look_at(path, last or _Look())
            if last is None or self._differ(last, new):
                changed.append(path)
        return changed

    def _differ(self, last: _Look, new: _Look) -> bool:
        return last.content != new.content or (not self._content_only and last.written != new.written)


def _look_at(path: Path, last: _Look) -> _Look:
    """Return the state of a file. Its content is read only if it may have changed since the last poll."""
    now = time.time()  # the clock of the file system, not a measurement
    try:
        seen = path.stat()
        mark = (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino)
        if mark == last.mark:
            return last
        # Two writes within one tick of the file system's clock have the same times, so recent times are not trusted.
        settled = now - max(seen.st_mtime, seen.st_ctime) > SETTLED_SECONDS
        digest = sha256(read_regular_file(path, MAX_COMPARED_BYTES) or b"").digest()
        return _Look(mark if settled else None, (seen.st_mtime_ns, seen.st_ino), (seen.st_size, digest))
    except (OSError, ValueError) as exc:
        return _Look(content=type(exc).__name__)
