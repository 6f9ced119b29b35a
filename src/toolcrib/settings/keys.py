"""The words of settings files: which key means what, in whose file so ever."""

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
"""The fields of the configs, which are called so in files too."""
KNOWN_OF = {TransportType.STDIO: STDIO, TransportType.PYTHON: PYTHON}
"""Which of them a server by that way has; the others have `WEB`."""
LOCAL = {"command": TransportType.STDIO, "python": TransportType.PYTHON}
"""What says the way by being there, and is no URL."""
KINDS = ("type", "transport")
SPELLINGS = {"streamablehttp": "streamable_http"}
"""Ways that others write in one word."""
ALLOWED = ("allowed_tools", "includeTools", "enabledTools", "enabled_tools")
BLOCKED = ("blocked_tools", "excludeTools", "disabledTools", "disabled_tools")
FLAGS = ("disabled", "enabled")
SILENT = frozenset({"description", "title", "icon", "version", "trust", "alwaysAllow", "autoApprove", "gallery", "dev"})
"""They concern people and approvals, not the way to the server: kept in `raw`."""
WITHOUT_EFFECT = {
    "envFile": "put its variables into env, as ${NAME}",
    "headersHelper": "put the headers into headers, as ${NAME}",
    "oauth": "give Client or Hub auth=",
    "auth": "give Client or Hub auth=",
    "authProviderType": "give Client or Hub auth=",
    "timeout": "tools differ in its unit; execution_timeout is in seconds",
}
"""What other programs act on and we do not, and what to do instead."""
KNOWN = (*sorted(FIELDS), *ALIASES, *URLS, *KINDS, *FLAGS, *ALLOWED, *BLOCKED, *WITHOUT_EFFECT)
EXPANDED = ("command", "python", "args", "env", "cwd", "url", "headers", "ca", "client_cert", "proxy")
"""Where variables may stand."""
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
"""Where nothing means something: no time-out, no limit."""
NULLABLE_RETRIES = ("reconnect", "max_retries")
"""The same inside of an option that is a table."""


def read_none(key: str, value: Any) -> Any:
    """Return the value of an option with the text `"none"` replaced by None, where None means no limit."""
    table, inner = NULLABLE_RETRIES
    if key == table and isinstance(value, Mapping) and value.get(inner) == "none":
        return {**value, inner: None}
    return None if value == "none" and key in NULLABLE else value


def own_name(key: str) -> str:
    """What we call the field that this key means."""
    return "url" if key in URLS else ALIASES.get(key, key)
