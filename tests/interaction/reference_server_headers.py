"""Checks the headers of the modern era against the body."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from tests.interaction.reference_server_methods import META
from tests.interaction.reference_server_trials import TOOLS

VERSION, SESSION = "MCP-Protocol-Version", "MCP-Session-Id"
METHOD, NAME, PARAM = "Mcp-Method", "Mcp-Name", "Mcp-Param-"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
Message = dict[str, Any]


def decoded(value: str | None) -> str | None:
    """Return a header's value, decoded if it is encoded."""
    if value is not None and value.startswith("=?base64?") and value.endswith("?="):
        return b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    return value


def mismatch(headers: Mapping[str, str], message: Message) -> str | None:
    """Return the headers that are wrong or missing."""
    params, method = message.get("params") or {}, message["method"]
    expected = {
        VERSION: (params.get("_meta") or {}).get(META + "protocolVersion"),
        METHOD: method,
        NAME: params.get(NAMED[method]) if method in NAMED else None,
    }
    for name, value in expected.items():
        raw = headers.get(name)
        if raw is not None and not (raw.isascii() and raw.isprintable()):
            return f"{name} has characters that no header may have: {raw!r}"
        if (decoded(raw) if name == NAME else raw) != value:
            return f"{name} is {raw!r} and the body says {value!r}"
    return None


def param_mismatch(headers: Mapping[str, str], message: Message) -> str | None:
    """Return the wrong or missing headers of arguments that the tool's schema maps to headers."""
    params = message.get("params") or {}
    if message["method"] != "tools/call" or params.get("name") not in TOOLS:
        return None
    for header, value in _mirrored(TOOLS[params["name"]].wire["inputSchema"], params.get("arguments") or {}):
        raw = headers.get(PARAM + header)
        if not _same(decoded(raw), value):
            return f"{PARAM}{header} is {raw!r} and the body says {value!r}"
    return None


def _mirrored(schema: Message, arguments: Any) -> Iterator[tuple[str, Any]]:
    for key, inner in schema.get("properties", {}).items():
        value = arguments.get(key) if isinstance(arguments, dict) else None
        if "x-mcp-header" in inner:
            yield inner["x-mcp-header"], value
        yield from _mirrored(inner, value)


def _same(said: str | None, value: Any) -> bool:
    if said is None or value is None:
        return said is value
    if isinstance(value, bool):
        return said == str(value).lower()
    if isinstance(value, int):
        return float(said) == value
    return said == value
