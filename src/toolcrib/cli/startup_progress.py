"""The display of servers that take long to start: the elapsed time, and the last line that each wrote."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from ..config import StdioServer, may_download, secrets_of
from ..settings import ServerEntry
from .console import cell

DETAIL_AFTER_SECONDS: Final = 5.0
"""Seconds of waiting after which the terminal shows what is going on."""
_MAX_LINE: Final = 400
"""Characters of a server's line that are shown."""
FETCHING: Final = "its package may still be downloading"


class StartupProgress:
    """Servers that are being started, and the last line that each wrote to stderr."""

    def __init__(self, entries: Iterable[ServerEntry]) -> None:
        self._began = time.monotonic()
        self._lines: dict[str, str] = {}
        configs = {entry.name: entry.config for entry in entries if entry.config is not None}
        self._secrets = {name: secrets_of(config) for name, config in configs.items()}
        local = {name: config for name, config in configs.items() if isinstance(config, StdioServer)}
        self._fetching = {name for name, config in local.items() if may_download(config.command, config.args)}

    def listening(self, entry: ServerEntry) -> ServerEntry:
        """Return the entry with a handler that passes the stderr of its server to this display."""
        handler = partial(self.hear, entry.name)
        return replace(entry, client_options={**entry.client_options, "stderr_handler": handler})

    def hear(self, server: str, line: str) -> None:
        """Record a line that a server wrote to stderr."""
        if server in self._secrets:
            line = self._secrets[server].mask(line)
        if shown := cell(line):
            self._lines[server] = shown[:_MAX_LINE]

    def describe(self, starting: Iterable[str]) -> str:
        """Return the progress of the servers of these names."""
        names, elapsed = list(starting), time.monotonic() - self._began
        text = "starting " + ", ".join(names)
        if elapsed < DETAIL_AFTER_SECONDS:
            return text
        details = [f"\n  {name}: {detail}" for name in names if (detail := self.detail(name))]
        return f"{text} ({elapsed:.0f} s){''.join(details)}"

    def detail(self, server: str) -> str:
        """Return what is known of a server that takes long: its last line, and whether it may be downloading."""
        known = [FETCHING] if server in self._fetching else []
        return "; ".join(known + [line for line in [self._lines.get(server)] if line])
