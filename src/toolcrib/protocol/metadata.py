"""The `_meta` of requests: the fields that the modern era requires on each, and those that the caller adds."""

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
"""The log levels, the most verbose first."""


def stamp(version: str, client_info: Wire, capabilities: Wire, log_level: str | None) -> Wire:
    """Return the `_meta` fields of every request of a modern connection; created once per connection."""
    meta = {PROTOCOL_VERSION: version, CLIENT_INFO: client_info, CLIENT_CAPABILITIES: capabilities}
    if log_level is not None:
        meta[LOG_LEVEL] = log_level
    return meta


def with_meta(params: Mapping[str, Any] | None, *layers: Mapping[str, Any] | None) -> Wire:
    """Return a copy of `params` with the layers merged into its `_meta`, later ones last; `params` is not changed."""
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
    """Return the id of the listen request that a notification belongs to, None if it has none."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None
