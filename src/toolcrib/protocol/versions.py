"""The two eras of the protocol, as tables.

Legacy era (2024-11-05 to 2025-11-25): `initialize` opens a session, and both sides may send requests. Modern era
(2026-07-28): there is no session, each request states client and version, and only the client sends requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..types import ServerInfo, Wire
from .metadata import SERVER_INFO

LEGACY_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MODERN_VERSIONS: Final = ("2026-07-28",)

HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
MODERN_ERRORS: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""Error codes that only modern servers send."""

OLD_NOT_FOUND: Final = -32002
RESOURCE_NOT_FOUND: Final = frozenset({OLD_NOT_FOUND, -32602})
"""The error codes for unknown resources in the legacy and in the modern era."""

MAY_ASK_FOR_INPUT: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that a modern server may answer with `input_required`."""

NEVER_CANCELLED: Final = frozenset({"initialize", "server/discover"})
"""Requests for which no `notifications/cancelled` is sent."""


@dataclass(frozen=True, slots=True)
class Era:
    """The differences between the eras that concern a client."""

    name: str
    server_asks: bool
    """Whether the server may send requests."""
    health_method: str
    subscribe_method: str | None
    """The method that subscribes to a resource; None if subscriptions are part of `subscriptions/listen`."""
    log_level_method: str | None
    """The method that sets the log level; None if every request carries the level."""


LEGACY: Final = Era("legacy", True, "ping", "resources/subscribe", "logging/setLevel")
MODERN: Final = Era("modern", False, "server/discover", None, None)


def choose(offered: Iterable[Any]) -> str | None:
    """Return the newest version that both sides support, None if there is none."""
    known = {version for version in offered if isinstance(version, str)}
    return next((version for version in (*MODERN_VERSIONS, *LEGACY_VERSIONS) if version in known), None)


def server_info(version: str, answer: Wire) -> ServerInfo:
    """Return the description of the server from its response to `initialize` or `server/discover`."""
    meta = answer.get("_meta")
    given = answer.get("serverInfo") or (meta.get(SERVER_INFO) if isinstance(meta, dict) else None)
    info = given if isinstance(given, dict) else {}
    capabilities = answer.get("capabilities")
    return ServerInfo(
        name=str(info.get("name", "")),
        version=str(info.get("version", "")),
        title=info.get("title"),
        protocol_version=version,
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=answer.get("instructions"),
    )
