"""Which file is whose, and where in it the servers stand."""

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
"""Servers of one file."""

_MCP_SERVERS = ("mcpServers",)
_SERVERS = ("servers",)
_MCP = ("mcp", "servers")
_REACH = ("command", "url", "httpUrl", "serverUrl", "python")
_NO_SERVERS = frozenset({"$schema", "inputs", "sandbox"})


@dataclass(frozen=True, slots=True)
class Format:
    """The habits of one tool's files."""

    name: str
    sections: tuple[tuple[str, ...], ...] = (_MCP_SERVERS, _SERVERS, _MCP)
    """Where the map of servers may stand."""
    home: tuple[str, ...] = _MCP_SERVERS
    """Where it is put in a file that has none."""
    bare: bool = False
    """The whole file may be that map."""
    mixed: bool = False
    """The file holds other settings too, so that no servers in it is no mistake."""
    url_is_sse: bool = False
    """A `url` without a type means HTTP+SSE; elsewhere it means streamable HTTP."""
    milliseconds: bool = False
    """It has a `timeout` for calls, in milliseconds."""
    dollar_names: bool = False
    """A bare `$NAME` is a variable in it too."""
    folders: bool = False
    """It knows `${workspaceFolder}` and its like."""
    hub: bool = False
    """It may have options of the hub under `hub`."""


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
    """The format that a file of this name in this folder has; else JSON in any of the usual forms."""
    if path.suffix.lower() == ".toml":
        return FORMATS["toolcrib"]
    by_folder = _BY_FOLDER.get((path.absolute().parent.name, path.name))
    return FORMATS[by_folder or _BY_NAME.get(path.name, "json")]


def section_for_new(kind: Format, path: Path) -> tuple[str, ...]:
    """Where the servers go in a file that has none yet."""
    # VS Code's settings hold much else; only in its mcp.json the servers stand on top.
    return _MCP if kind.name == "vscode" and path.name == "settings.json" else kind.home


def format_named(name: str) -> Format:
    """The format of that name; `ConfigError` if there is none."""
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
    """Servers that the file turns off elsewhere than in their entries."""
    included: frozenset[str] | None = None
    """The only ones that it does not turn off; None: all."""

    @property
    def key(self) -> str:
        """The section's path in a line, empty for a bare map."""
        return ".".join(one_line(part, 200) for part in self.path)

    def is_off(self, name: str) -> bool:
        """Whether the file turns this server off."""
        return name in self.excluded or (self.included is not None and name not in self.included)


def find_sections(kind: Format, root: Any, document: Document, project: Path | None) -> Iterator[Section]:
    """The maps of servers in the file, the more general ones first. None at all may be a `ConfigError`."""
    if not isinstance(root, Mapping):
        raise document.error(
            "expected an object of settings", offset=0 if document.text else None, expected="an object"
        )
    there = [path for path in kind.sections if _at(root, path) is not None]
    if len(there) > 1:
        both = " and ".join(".".join(path) for path in there)
        message = f"{both} are both there: expected one of them"
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
        expected = "an object: names of servers and their settings"
        raise document.error(f"{key}: expected {expected}", offset=place_of(root, *path), key=key, expected=expected)
    _check_names(servers, key, document, place_of(root, *path))
    above = _at(root, path[:-1])
    if isinstance(above, Table) and path[-1] in above.repeats:
        first = document.line(above.repeats[path[-1]])
        message = f"{key}: is there twice, first in line {first}: expected it once"
        raise document.error(message, offset=place_of(root, *path), key=key, expected="it once")
    return servers


def _check_names(servers: Mapping[Any, Any], key: str, document: Document, offset: int | None) -> None:
    if len(servers) > MAX_SERVERS or not all(isinstance(name, str) for name in servers):
        expected = f"at most {MAX_SERVERS} servers, by names that are texts"
        message = f"{key}: expected {expected}" if key else f"expected {expected}"
        raise document.error(message, offset=offset, key=key or None, expected=expected)


def _switches(kind: Format, root: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str] | None]:
    """Gemini's `mcp.excluded` and `mcp.allowed`."""
    if kind.name != "gemini":
        return frozenset(), None
    allowed = _at(root, ("mcp", "allowed"))
    return _names(_at(root, ("mcp", "excluded"))), None if allowed is None else _names(allowed)


def _names(value: Any) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def _of_project(root: Mapping[str, Any], document: Document, project: Path) -> Iterator[Section]:
    """Claude Code keeps the servers that a person added for one project in a file of the person's."""
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
    expected = f"{' or '.join('.'.join(path) for path in kind.sections)} with the servers in it"
    near = near_miss(kind, root)
    hint = did_you_mean(near[1:], given=one_line(near[0], 60)) if near else ""
    offset = place_of(root, near[0] if near else first)
    raise document.error(f"expected {expected}{hint}", offset=offset, key=near[0] if near else None, expected=expected)


def is_server(value: Any) -> bool:
    """Whether this is one server's settings, and not a map of servers."""
    return isinstance(value, Mapping) and any(key in value for key in _REACH)
