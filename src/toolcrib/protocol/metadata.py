"""The `_meta` of a request: what the modern era puts on each one, and what the caller adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from ..types import Wire

PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_INFO: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
SERVER_INFO: Final = PREFIX + "serverInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
PROGRESS_TOKEN: Final = "progressToken"

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: Final[tuple[str, ...]] = get_args(LogLevel)
"""From the most to the least that is told."""


def stamp(version: str, client_info: Wire, capabilities: Wire, log_level: str | None) -> Wire:
    """What every request of a modern connection carries; made once for a connection."""
    meta = {PROTOCOL_VERSION: version, CLIENT_INFO: client_info, CLIENT_CAPABILITIES: capabilities}
    if log_level is not None:
        meta[LOG_LEVEL] = log_level
    return meta


def with_meta(params: Mapping[str, Any] | None, *layers: Mapping[str, Any] | None) -> Wire:
    """A copy of `params` whose `_meta` is its own with the layers over it; the caller's mapping is never changed."""
    copy: Wire = dict(params) if params else {}
    if (
        len(layers) == 1 and "_meta" not in copy
    ):  # nearly every modern request: nothing to merge, and the layer is shared
        if layers[0]:
            copy["_meta"] = layers[0]
        return copy
    meta = copy.get("_meta")
    merged: Wire = dict(meta) if isinstance(meta, Mapping) else {}
    for layer in layers:
        if layer:
            merged.update(layer)
    if merged:
        copy["_meta"] = merged
    return copy


def subscription_of(params: Any) -> Any:
    """The id of the listen request that a notification belongs to, if it says one."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None
