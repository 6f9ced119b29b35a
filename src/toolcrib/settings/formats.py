"""The formats of settings files: which program a file belongs to, and where it keeps its servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from .._util.suggest import did_you_mean, find_misspelled
from ..errors import ConfigError
from ..protocol.sanitize import one_line
from .documents import Document, Table, place_of

MAX_SERVERS = 5_000
"""The most servers in one file."""

_MCP_SERVERS = ("mcpServers",)
_SERVERS = ("servers",)
_MCP = ("mcp", "servers")
_REACH = ("command", "url", "httpUrl", "serverUrl", "python")
_NO_SERVERS = frozenset({"$schema", "inputs", "sandbox"})


@dataclass(frozen=True, slots=True)
class Format:
    """The conventions of one program's settings files."""

    name: str
    sections: tuple[tuple[str, ...], ...] = (_MCP_SERVERS, _SERVERS, _MCP)
    """The paths at which the map of servers may be."""
    home: tuple[str, ...] = _MCP_SERVERS
    """The path at which a file without servers gets the map."""
    bare: bool = False
    """Whether the whole file may be the map of servers."""
    mixed: bool = False
    """Whether the file has other settings too, so that it may be without servers."""
    url_is_sse: bool = False
    """Whether a `url` without a type means HTTP+SSE; in other formats it means streamable HTTP."""
    milliseconds: bool = False
    """Whether entries have a `timeout` for calls, in milliseconds."""
    dollar_names: bool = False
    """Whether a bare `$NAME` is a variable too."""
    folders: bool = False
    """Whether it has variables such as `${workspaceFolder}`."""
    hub: bool = False
    """Whether the file may have options of the hub under `hub`."""


FORMATS = {
    known.name: known
    for known in (
        Format("toolcrib", (_SERVERS,), _SERVERS, hub=True),
        Format("json", bare=True, hub=True),
        Format("claude-code", bare=True),
        Format("claude-user", (_MCP_SERVERS,), mixed=True),
        Format("claude-settings", (_MCP_SERVERS,), mixed=True),
        Format("claude-desktop", (_MCP_SERVERS,), mixed=True),
        Format("vscode", home=_SERVERS, mixed=True, folders=True),
        Format("cursor", bare=True, folders=True),
        Format("gemini", (_MCP_SERVERS,), mixed=True, url_is_sse=True, milliseconds=True, dollar_names=True),
    )
}

_BY_FOLDER = {
    (".claude", "settings.json"): "claude-settings",
    (".claude", "settings.local.json"): "claude-settings",
    (".gemini", "settings.json"): "gemini",
    (".cursor", "mcp.json"): "cursor",
    (".vscode", "mcp.json"): "vscode",
    (".vscode", "settings.json"): "vscode",
    ("User", "mcp.json"): "vscode",
    ("User", "settings.json"): "vscode",
}
_BY_NAME = {
    ".mcp.json": "claude-code",
    ".claude.json": "claude-user",
    "claude_desktop_config.json": "claude-desktop",
}


def format_of(path: Path) -> Format:
    """Return the format of a file by its name and folder; for other names `toolcrib` if it is TOML, else `json`."""
    if path.suffix.lower() == ".toml":
        return FORMATS["toolcrib"]
    by_folder = _BY_FOLDER.get((path.absolute().parent.name, path.name))
    return FORMATS[by_folder or _BY_NAME.get(path.name, "json")]


def section_for_new(kind: Format, path: Path) -> tuple[str, ...]:
    """Return the path at which a file without servers gets the map of servers."""
    # VS Code's settings.json has many other settings; its mcp.json has the servers at the top level.
    return _MCP if kind.name == "vscode" and path.name == "settings.json" else kind.home


def format_named(name: str) -> Format:
    """Return the format of that name; raise `ConfigError` if it is unknown."""
    if name not in FORMATS:
        expected = f"one of {', '.join(sorted(FORMATS))}"
        raise ConfigError(f"format: expected {expected}", key="format", expected=expected)
    return FORMATS[name]


@dataclass(frozen=True, slots=True)
class Section:
    """A map of servers in a file."""

    path: tuple[str, ...]
    servers: Mapping[str, Any]
    excluded: frozenset[str] = frozenset()
    """Servers that the file turns off outside their entries."""
    included: frozenset[str] | None = None
    """The only servers that the file does not turn off; None means all."""

    @property
    def key(self) -> str:
        """The section's path as a dotted key, empty for a bare map."""
        return ".".join(one_line(part, 200) for part in self.path)

    def is_off(self, name: str) -> bool:
        """Return whether the file turns this server off."""
        return name in self.excluded or (self.included is not None and name not in self.included)


def find_sections(kind: Format, root: Any, document: Document, project: Path | None) -> Iterator[Section]:
    """Yield the maps of servers in the file, more general ones first; raise `ConfigError` if there must be one."""
    if not isinstance(root, Mapping):
        raise document.error(
            "expected an object of settings", offset=0 if document.text else None, expected="an object"
        )
    there = [path for path in kind.sections if _at(root, path) is not None]
    if len(there) > 1:
        both = " and ".join(".".join(path) for path in there)
        message = f"expected one of {both}, got both"
        raise document.error(message, offset=place_of(root, *there[1]), key=".".join(there[1]), expected="one of them")
    for path in there:
        excluded, included = _switches(kind, root)
        yield Section(path, _servers(root, path, document), excluded, included)
    if kind.name == "claude-user" and project is not None:
        yield from () if there else (Section(_MCP_SERVERS, {}),)
        yield from _of_project(root, document, project)
    if not there and not kind.mixed:
        yield from _bare(kind, root, document)


def near_miss(kind: Format, root: Any) -> tuple[str, str] | None:
    """Return a key that looks like a misspelled section, and that section; `None` if a section is there."""
    if any(_at(root, path) is not None for path in kind.sections):
        return None
    return find_misspelled(map(str, islice(root, 1000)), [path[0] for path in kind.sections])


def _at(root: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = root
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _servers(root: Mapping[str, Any], path: tuple[str, ...], document: Document) -> Mapping[str, Any]:
    servers, key = _at(root, path), ".".join(path)
    if not isinstance(servers, Mapping):
        expected = "an object of server names and their settings"
        raise document.error(f"{key}: expected {expected}", offset=place_of(root, *path), key=key, expected=expected)
    _check_names(servers, key, document, place_of(root, *path))
    above = _at(root, path[:-1])
    if isinstance(above, Table) and path[-1] in above.repeats:
        first = document.line(above.repeats[path[-1]])
        message = f"{key}: duplicate key (first defined on line {first})"
        raise document.error(message, offset=place_of(root, *path), key=key, expected="each name once")
    return servers


def _check_names(servers: Mapping[Any, Any], key: str, document: Document, offset: int | None) -> None:
    if len(servers) > MAX_SERVERS or not all(isinstance(name, str) for name in servers):
        expected = f"at most {MAX_SERVERS} servers, with strings as names"
        message = f"{key}: expected {expected}" if key else f"expected {expected}"
        raise document.error(message, offset=offset, key=key or None, expected=expected)


def _switches(kind: Format, root: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str] | None]:
    """Return the servers that Gemini's `mcp.excluded` and `mcp.allowed` list."""
    if kind.name != "gemini":
        return frozenset(), None
    allowed = _at(root, ("mcp", "allowed"))
    return _names(_at(root, ("mcp", "excluded"))), None if allowed is None else _names(allowed)


def _names(value: Any) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def _of_project(root: Mapping[str, Any], document: Document, project: Path) -> Iterator[Section]:
    """Yield the servers for this project from the user's file, where Claude Code keeps a user's servers per project."""
    for folder in dict.fromkeys((str(project), str(project.resolve()))):
        path = ("projects", folder, "mcpServers")
        if _at(root, path) is not None:
            excluded = _names(_at(root, ("projects", folder, "disabledMcpServers")))
            yield Section(path, _servers(root, path, document), excluded)
            return


def _bare(kind: Format, root: Mapping[str, Any], document: Document) -> Iterator[Section]:
    aside = _NO_SERVERS | {"hub"} if kind.hub and not is_server(root.get("hub")) else _NO_SERVERS
    maybe = {key: value for key, value in root.items() if key not in aside}
    if not maybe:
        return
    _check_names(maybe, "", document, None)
    if kind.bare and any(map(is_server, maybe.values())):
        places = root.places if isinstance(root, Table) else {}
        servers = Table(maybe, {key: places[key] for key in maybe if key in places})
        servers.repeats = root.repeats if isinstance(root, Table) else {}
        yield Section((), servers)
        return
    first = next(iter(maybe))
    expected = f"the servers under {' or '.join('.'.join(path) for path in kind.sections)}"
    near = near_miss(kind, root)
    hint = did_you_mean(near[1:], given=one_line(near[0], 60)) if near else ""
    offset = place_of(root, near[0] if near else first)
    raise document.error(f"expected {expected}{hint}", offset=offset, key=near[0] if near else None, expected=expected)


def is_server(value: Any) -> bool:
    """Return whether this value is the settings of one server, not a map of servers."""
    return isinstance(value, Mapping) and any(key in value for key in _REACH)
