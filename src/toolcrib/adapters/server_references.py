"""Servers as an agent's list names them: configs of Toolcrib, those of crewAI by their fields, URLs, and dicts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from .. import tool_names
from ..config import HttpServer, SseServer, StdioServer, mask_arguments, server_from_dict
from ..errors import ConfigError
from ..policy.filters import dynamic_filter
from ..transports.factory import ServerLike
from ..types import FilterContext, Tool

_EXPECTED: Final = "a server config, a ToolServer, or an http:// or https:// URL"
_WEB_FIELDS: Final = ("url", "headers", "cache_tools_list")


@dataclass(frozen=True, slots=True)
class NamedTools:
    """A filter for tools by name that ignores case and punctuation, as `#tool` behind a URL does."""

    names: frozenset[str]

    def __call__(self, tool: Tool) -> bool:
        """Return whether the tool has one of the names."""
        return _letters(tool.original_name or tool.name) in self.names


def read_servers(references: Iterable[Any] | Mapping[str, Any]) -> dict[str, ServerLike]:
    """Return the servers of a list under names of their own, or those of a mapping under the given names.

    URLs of the list that differ only in `#tool` are one server with these tools.
    """
    if isinstance(references, Mapping):
        return {name: read_server(reference) for name, reference in references.items()}
    servers: dict[str, ServerLike] = {}
    tools_by_url: dict[str, set[str]] = {}
    for reference in references:
        if isinstance(reference, str):
            url, _, tool = reference.partition("#")
            tools_by_url.setdefault(url, set()).add(tool)
    for reference in references:
        if isinstance(reference, str):
            url = reference.partition("#")[0]
            if url not in tools_by_url:
                continue
            tools = tools_by_url.pop(url)
            server: ServerLike = _from_url(url, () if "" in tools else tools)
        else:
            server = read_server(reference)
        servers[tool_names.slug(_name_of(server), servers)] = server
    return servers


def read_server(reference: Any) -> ServerLike:
    """Return one server. A hub rejects objects that it does not know; they are returned as they are."""
    match reference:
        case str():
            url, _, tool = reference.partition("#")
            return _from_url(url, (tool,) if tool else ())
        case Mapping():
            kind = "stdio" if "command" in reference else "http"
            return server_from_dict({"type": kind, **reference})
        case StdioServer() | HttpServer() | SseServer():
            return reference
    given = {name: getattr(reference, name) for name in _WEB_FIELDS if hasattr(reference, name)}
    if hasattr(reference, "tool_filter"):
        given["tool_filter"] = _as_filter(reference.tool_filter)
    if isinstance(getattr(reference, "command", None), str):
        return StdioServer(reference.command, list(reference.args or ()), env=reference.env, **given)
    if isinstance(given.get("url"), str):
        if hasattr(reference, "streamable"):
            return HttpServer(**given, streamable=reference.streamable)
        return SseServer(**given)
    server: ServerLike = reference
    return server


def _from_url(url: str, tools: Iterable[str]) -> HttpServer:
    if not url.startswith(("http://", "https://")):
        advice = "For a server of crewAI's catalog use its URL, or leave it in `Agent(mcps=[...])`"
        raise ConfigError(
            f"servers: expected {_EXPECTED}, got a text that is not a URL. {advice}", key="servers", expected=_EXPECTED
        )
    names = frozenset(map(_letters, tools))
    return HttpServer(url, tool_filter=NamedTools(names) if names else None)


def _as_filter(function: Callable[..., Any] | None) -> Callable[..., bool] | None:
    """Return a filter of crewAI, which takes a tool, or a context and a tool, as one of Toolcrib."""
    if function is None or not callable(function):
        return None
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len([each for each in positional if each.default is each.empty]) < 2:
        return function

    def allows(context: FilterContext, tool: Tool) -> bool:
        verdict: bool = function(context, tool)
        return verdict

    return dynamic_filter(allows)


def _name_of(server: Any) -> str:
    """Return a short name: the host of a URL, the script, package or program of a process, or the server's own."""
    if isinstance(server, HttpServer | SseServer):
        return (urlsplit(server.url).hostname or "server").replace(".", "_")
    if isinstance(server, StdioServer):
        words = [word for word in mask_arguments(server.args) if not word.startswith("-") and "<" not in word]
        # `npx -y @scope/name@1.2` -> name, `python server.py --port 1` -> server
        word = words[0] if words else server.command
        last = re.split(r"(?<=.)@", PurePath(word).name)[0]
        return PurePath(last).stem or "server"
    name = getattr(server, "name", None)
    return name if isinstance(name, str) and name.strip() else "server"


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
