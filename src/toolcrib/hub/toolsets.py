"""Which tools a model sees at once, and which only when it searches for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..errors import ConfigError
from ..tool_names import SERVER_NAME_RULE, invalid_server_name, is_server_name


@dataclass(frozen=True, slots=True)
class ToolLoadConfig:
    """How one tool is loaded. `defer`: lists leave it out until it is loaded."""

    defer: bool = False


@dataclass(frozen=True, slots=True)
class Toolset:
    """Which tools of one server are loaded. Each method returns a new value:
    `Toolset("db").defer_all().keep_loaded("search")`.

    A rule for a tool's name overrides the rule for all, in whichever order they are given. Names are the server's own,
    not qualified ones.
    """

    name: str
    default: ToolLoadConfig = ToolLoadConfig()
    tools: Mapping[str, ToolLoadConfig] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _expect(str, self.name, key="name", expected="the name of a server")
        if not is_server_name(self.name):
            raise ConfigError(invalid_server_name(self.name), key="name", expected=SERVER_NAME_RULE)

    def defer_all(self) -> Toolset:
        """Defer all tools of the server, except those that have a rule of their own."""
        return replace(self, default=replace(self.default, defer=True))

    def keep_loaded(self, *names: str | Iterable[str]) -> Toolset:
        """Load these tools, whatever the rule for all; names are given one by one or in lists."""
        kept: list[str] = []
        for given in names:
            _expect(Iterable, given, key="keep_loaded", expected="names of tools")
            kept += [given] if isinstance(given, str) else given
        for name in kept:
            _expect(str, name, key="keep_loaded", expected="names of tools")
        loaded = {name: replace(self.load_config(name), defer=False) for name in kept}
        return replace(self, tools={**self.tools, **loaded})

    def configure(self, tool: str, config: ToolLoadConfig) -> Toolset:
        """Set how one tool is loaded."""
        _expect(str, tool, key="configure", expected="the name of a tool")
        _expect(ToolLoadConfig, config, key="configure", expected="a ToolLoadConfig")
        return replace(self, tools={**self.tools, tool: config})

    def load_config(self, tool: str) -> ToolLoadConfig:
        """Return how the tool is loaded."""
        return self.tools.get(tool, self.default)

    def is_deferred(self, tool: str) -> bool:
        """Whether lists leave the tool out until it is loaded."""
        return self.load_config(tool).defer


class Toolsets:
    """The toolsets of a hub, one for each server. All tools of a server without one are loaded."""

    def __init__(self, toolsets: Iterable[Toolset] = ()) -> None:
        self._toolsets: dict[str, Toolset] = {}
        self.version = 0
        """Counts the changes, so that results computed from the toolsets can be recognised as out of date."""
        for toolset in toolsets:
            self.register(toolset)

    def register(self, toolset: Toolset) -> None:
        """Add a toolset; it replaces an earlier one of the same server."""
        _expect(Toolset, toolset, key="toolset", expected="a Toolset, such as Toolset('db').defer_all()")
        self._toolsets[toolset.name] = toolset
        self.version += 1

    def remove(self, server: str) -> Toolset | None:
        """Remove the toolset of a server, so that all of its tools are loaded. Returns it, if there was one."""
        removed = self._toolsets.pop(server, None)
        if removed is not None:
            self.version += 1
        return removed

    def get(self, server: str) -> Toolset | None:
        """Return the toolset of a server, if it has one."""
        return self._toolsets.get(server)

    def is_deferred(self, server: str, tool: str) -> bool:
        """Whether the server's tool of this name (its own, not the qualified one) is deferred."""
        toolset = self._toolsets.get(server)
        return toolset is not None and toolset.is_deferred(tool)

    def __iter__(self) -> Iterator[Toolset]:
        return iter(tuple(self._toolsets.values()))

    def __len__(self) -> int:
        return len(self._toolsets)

    def __contains__(self, server: object) -> bool:
        return server in self._toolsets


def _expect(kind: type, given: object, *, key: str, expected: str) -> None:
    if not isinstance(given, kind):
        raise ConfigError(f"{key}: expected {expected}, not {given!r}", key=key, expected=expected)
