"""The keys of settings files, in all formats, and the fields that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..config import ALIASES, HttpServer, PythonServer, SseServer, StdioServer, TransportType
from ..config.servers import URLS

STDIO = frozenset(f.name for f in fields(StdioServer)) - {"tool_filter"}
WEB = frozenset(f.name for f in (*fields(HttpServer), *fields(SseServer))) - {"tool_filter"}
PYTHON = frozenset(f.name for f in fields(PythonServer)) - {"tool_filter"}
FIELDS = STDIO | WEB | PYTHON
"""The fields of the configs, which have the same names in files."""
KNOWN_OF = {TransportType.STDIO: STDIO, TransportType.PYTHON: PYTHON}
"""The fields of servers by transport type; all other types have `WEB`."""
LOCAL = {"command": TransportType.STDIO, "python": TransportType.PYTHON}
"""Keys other than URLs whose presence determines the transport type."""
KINDS = ("type", "transport")
SIGN_INS = ("oauth", "auth")
"""Keys that hold the options of a sign-in: `auth` is Cursor's name of `oauth`."""
SPELLINGS = {"streamablehttp": "streamable_http"}
"""Other programs' spellings of transport types."""
ALLOWED = ("allowed_tools", "includeTools", "enabledTools", "enabled_tools")
BLOCKED = ("blocked_tools", "excludeTools", "disabledTools", "disabled_tools")
FLAGS = ("disabled", "enabled")
SILENT = frozenset({"description", "title", "icon", "version", "trust", "alwaysAllow", "autoApprove", "gallery", "dev"})
"""Keys without effect on the connection that cause no warning; entries keep them in `raw`."""
WITHOUT_EFFECT = {
    "envFile": "put its variables into env, as ${NAME}",
    "headersHelper": "put the headers into headers, as ${NAME}",
    "authProviderType": "set oauth = true to sign in, or give Client or Hub auth=",
    "timeout": "programs disagree about its unit; use execution_timeout, in seconds",
}
"""Keys that other programs support and Toolcrib does not, with what to do instead."""
KNOWN = (*sorted(FIELDS), "auth", *ALIASES, *URLS, *KINDS, *FLAGS, *ALLOWED, *BLOCKED, *WITHOUT_EFFECT)
EXPANDED = ("command", "python", "args", "env", "cwd", "url", "headers", "ca", "client_cert", "proxy", "oauth")
"""Fields whose values may contain variables."""
NULLABLE = frozenset(
    {
        "connect_timeout",
        "discovery_timeout",
        "execution_timeout",
        "idle_timeout",
        "disconnect_idle_after",
        "max_in_flight",
        "max_connections",
        "max_parallel_starts",
    }
)
"""Options for which None has a meaning: no time-out, no limit."""
NULLABLE_RETRIES = ("reconnect", "max_retries")
"""A table option and its key for which None has a meaning."""


def read_none(key: str, value: Any) -> Any:
    """Return the value of an option with the text `"none"` replaced by None, where None means no limit."""
    table, inner = NULLABLE_RETRIES
    if key == table and isinstance(value, Mapping) and value.get(inner) == "none":
        return {**value, inner: None}
    return None if value == "none" and key in NULLABLE else value


def own_name(key: str) -> str:
    """Return Toolcrib's name of the field that this key means."""
    return "url" if key in URLS else "oauth" if key in SIGN_INS else ALIASES.get(key, key)
