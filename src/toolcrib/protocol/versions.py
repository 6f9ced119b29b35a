"""The two eras of the protocol, as tables.

Legacy era (2024-11-05 to 2025-11-25): `initialize` opens a session, both sides may ask. Modern era (2026-07-28):
no session, each request says who asks and in which version, and only the client asks.
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
"""Errors that only a modern server knows: whoever says one is no old server."""

OLD_NOT_FOUND: Final = -32002
RESOURCE_NOT_FOUND: Final = frozenset({OLD_NOT_FOUND, -32602})
"""The legacy era's code and the modern era's."""

MAY_ASK_FOR_INPUT: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that a modern server may answer with `input_required`."""

NEVER_CANCELLED: Final = frozenset({"initialize", "server/discover"})
"""Requests for which no `notifications/cancelled` is sent."""


@dataclass(frozen=True, slots=True)
class Era:
    """What differs between the eras for a client."""

    name: str
    server_asks: bool
    """The server may send requests of its own."""
    health_method: str
    subscribe_method: str | None
    """None: subscriptions are part of `subscriptions/listen`."""
    log_level_method: str | None
    """None: the level rides on every request."""


LEGACY: Final = Era("legacy", True, "ping", "resources/subscribe", "logging/setLevel")
MODERN: Final = Era("modern", False, "server/discover", None, None)


def choose(offered: Iterable[Any]) -> str | None:
    """The best version that both sides speak: modern ones first, newest first."""
    known = {version for version in offered if isinstance(version, str)}
    return next((version for version in (*MODERN_VERSIONS, *LEGACY_VERSIONS) if version in known), None)


def server_info(version: str, answer: Wire) -> ServerInfo:
    """Who answered, from the answer to `initialize` or `server/discover`."""
    meta = answer.get("_meta")
    said = answer.get("serverInfo") or (meta.get(SERVER_INFO) if isinstance(meta, dict) else None)
    info = said if isinstance(said, dict) else {}
    capabilities = answer.get("capabilities")
    return ServerInfo(
        name=str(info.get("name", "")),
        version=str(info.get("version", "")),
        title=info.get("title"),
        protocol_version=version,
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=answer.get("instructions"),
    )
