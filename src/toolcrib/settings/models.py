"""The contents of settings files: servers by name, each with its config or its error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config import MaskedMapping, ServerConfig
from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server of a settings file, with either a `config` or an `error`."""

    name: str
    """The server's name in a hub: the name in the file, or a legal name derived from it."""
    config: ServerConfig | None
    error: ConfigError | None = None
    disabled: bool = False
    source: Path | None = None
    line: int | None = None
    display_name: str = ""
    """The name in the file."""
    allowed_tools: tuple[str, ...] | None = None
    """The only tools that the file allows, by their unqualified names; None means all."""
    blocked_tools: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=lambda: MaskedMapping({}), compare=False)
    """The entry as written in the file, including unknown keys; values that may be secrets are masked in its repr."""
    client_options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Options of the server's client that no file can express, such as handlers. A program may set them."""
    key_lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """The line of each setting in the file, by the setting's own name, such as `connect_timeout`."""

    def same_as(self, other: ServerEntry) -> bool:
        """Return whether both entries mean the same server, regardless of file and line."""
        return self._meaning() == other._meaning()

    def _meaning(self) -> tuple[Any, ...]:
        # Neither the text nor the key of an error: they contain the position, which edits elsewhere in the file change.
        fault = (self.error.expected, dict(self.raw)) if self.error else None
        return (self.config, fault, self.disabled, self.allowed_tools, self.blocked_tools)


@dataclass(frozen=True, slots=True)
class Overridden:
    """A conflict between two files about a server: the entry that is used, and the one that it overrides."""

    name: str
    winner: ServerEntry
    loser: ServerEntry

    def __str__(self) -> str:
        return f"{self.name}: {place(self.winner)} overrides {place(self.loser)}"


@dataclass(frozen=True, slots=True)
class Settings:
    """The contents of one settings file, or of several merged ones."""

    entries: tuple[ServerEntry, ...] = ()
    source: Path | None = None
    format: str = ""
    """The name of the file's format, such as `toolcrib` or `claude-code`."""
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Options of the hub, from the `[hub]` table of `toolcrib.toml`."""
    warnings: tuple[str, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    error: ConfigError | None = None
    """Why the file could not be read. Only `discover_settings` sets it; `load_settings` raises the error instead."""

    @property
    def servers(self) -> dict[str, ServerConfig]:
        """The configs of all valid and enabled servers, by name."""
        return {e.name: e.config for e in self.entries if e.config is not None and not e.disabled}

    @property
    def failed(self) -> tuple[ServerEntry, ...]:
        """The invalid entries."""
        return tuple(entry for entry in self.entries if entry.error is not None)

    def get(self, name: str) -> ServerEntry | None:
        """Return the entry of that name, None if there is none."""
        return next((entry for entry in self.entries if entry.name == name), None)


def place(entry: ServerEntry, key: str = "") -> str:
    """Return `file:line` of an entry, or of one of its settings if it has that; as much of it as the entry has."""
    line = entry.key_lines.get(key, entry.line)
    parts = [str(part) for part in (entry.source, line) if part is not None]
    return ":".join(parts) or "a mapping"
