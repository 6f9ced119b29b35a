"""What settings files give: servers by name, each with its config or with what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config import MaskedMapping, ServerConfig
from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server of a settings file: either `config` or `error` is there."""

    name: str
    """What a hub calls it: the name in the file, or a legal one made of it."""
    config: ServerConfig | None
    error: ConfigError | None = None
    disabled: bool = False
    source: Path | None = None
    line: int | None = None
    display_name: str = ""
    """The name as it stands in the file."""
    allowed_tools: tuple[str, ...] | None = None
    """The only tools that the file lets through, by their own names; None: all."""
    blocked_tools: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=lambda: MaskedMapping({}), compare=False)
    """The entry as it stands in the file, unknown keys included."""
    client_options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Options of the server's client that no file can express, such as handlers. A program may set them."""

    def same_as(self, other: ServerEntry) -> bool:
        """Whether both mean the same server, wherever they stand."""
        return self._meaning() == other._meaning()

    def _meaning(self) -> tuple[Any, ...]:
        # Not an error's text, nor its key: they have the place, which an edit elsewhere in the file moves.
        fault = (self.error.expected, dict(self.raw)) if self.error else None
        return (self.config, fault, self.disabled, self.allowed_tools, self.blocked_tools)


@dataclass(frozen=True, slots=True)
class Overridden:
    """Two files that disagree about a server: whose word holds, and whose does not."""

    name: str
    winner: ServerEntry
    loser: ServerEntry

    def __str__(self) -> str:
        return f"{self.name}: {place(self.winner)} overrides {place(self.loser)}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What one settings file says, or several together."""

    entries: tuple[ServerEntry, ...] = ()
    source: Path | None = None
    format: str = ""
    """Whose habits the file follows: a name of the table in the documents."""
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Options of the hub: the `[hub]` table of our own format."""
    warnings: tuple[str, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    error: ConfigError | None = None
    """Why the whole file could not be read. Only `discover_settings` gives such ones; `load_settings` raises it."""

    @property
    def servers(self) -> dict[str, ServerConfig]:
        """The configs that can be used: neither wrong nor disabled."""
        return {e.name: e.config for e in self.entries if e.config is not None and not e.disabled}

    @property
    def failed(self) -> tuple[ServerEntry, ...]:
        """The entries that are wrong."""
        return tuple(entry for entry in self.entries if entry.error is not None)

    def get(self, name: str) -> ServerEntry | None:
        """The entry of that name."""
        return next((entry for entry in self.entries if entry.name == name), None)


def place(entry: ServerEntry) -> str:
    """`file:line` of an entry, as far as it is known."""
    parts = [str(part) for part in (entry.source, entry.line) if part is not None]
    return ":".join(parts) or "a mapping"
