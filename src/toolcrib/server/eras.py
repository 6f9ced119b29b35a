"""What differs between the eras around a request: who asks, how results and errors are framed, how a session begins."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from ..errors import RemoteError, UsageError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message
from ..protocol.metadata import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, LOG_LEVELS, PROTOCOL_VERSION, SERVER_INFO
from ..protocol.sanitize import one_line
from ..protocol.versions import LEGACY_VERSIONS, MISSING_CAPABILITY, MODERN_VERSIONS, OLD_NOT_FOUND, UNSUPPORTED_VERSION
from ..types import Wire
from .handler import Peer, RequestHandler
from .json_copy import size_of

log = logging.getLogger("toolcrib.server")

CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""Results that owe a cache hint in the modern era."""

GONE: Final = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "roots/list"}
)
"""What the modern era has no more."""
NEW: Final = frozenset({"server/discover", "subscriptions/listen"})
"""What the legacy era has not yet."""

MAX_CLIENT_INFO: Final = 64 * 1024
"""Bytes of `clientInfo` and `capabilities`, which are kept for as long as a legacy session lives."""
FIRST_LEVEL: Final = "info"
"""The level of logs in the legacy era as long as the client has set none."""
FIRST_RESERVED, LAST_RESERVED = -32099, -32000


def is_modern(params: Any) -> bool:
    """Whether the request says its own version, as every modern one must."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def peer_of_request(params: Wire, principal: Any = None) -> Peer:
    """Who asks, as a modern request says it."""
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise RemoteError(INVALID_PARAMS, f"_meta: must be an object with {PROTOCOL_VERSION}")
    version, capabilities = meta.get(PROTOCOL_VERSION), meta.get(CLIENT_CAPABILITIES)
    if not isinstance(version, str):
        raise RemoteError(INVALID_PARAMS, f"_meta: {PROTOCOL_VERSION} is missing")
    if version not in MODERN_VERSIONS:
        raise unsupported_version(version)
    if not isinstance(capabilities, dict):
        raise RemoteError(INVALID_PARAMS, f"_meta: {CLIENT_CAPABILITIES} is missing")
    info = meta.get(CLIENT_INFO, {})
    if not isinstance(info, dict):
        raise RemoteError(INVALID_PARAMS, f"_meta: {CLIENT_INFO} must be an object")
    return Peer(
        version,
        modern=True,
        info=info,
        capabilities=capabilities,
        principal=principal,
        log_level=checked_level(meta[LOG_LEVEL]) if LOG_LEVEL in meta else None,
    )


def checked_level(level: Any) -> str:
    """A level of logs that somebody asks for."""
    if level not in LOG_LEVELS:
        raise RemoteError(INVALID_PARAMS, f"the level of logs must be one of {', '.join(LOG_LEVELS)}")
    return str(level)


def unsupported_version(asked: str) -> RemoteError:
    """The versions that are served; all of them, for an older one can be had by `initialize`."""
    served = [*MODERN_VERSIONS, *LEGACY_VERSIONS]
    return RemoteError(
        UNSUPPORTED_VERSION, f"protocol version {asked} is not served", {"supported": served, "requested": asked}
    )


# ---- the beginning -------------------------------------------------------------------------------------------


def begin_session(handler: RequestHandler, params: Wire, principal: Any = None) -> tuple[Peer, Wire]:
    """Who begins a session of the legacy era, and the answer to `initialize`.

    Never a modern version, whatever is asked for.
    """
    asked, info, capabilities = params.get("protocolVersion"), params.get("clientInfo"), params.get("capabilities")
    if size_of([info, capabilities]) > MAX_CLIENT_INFO:
        raise RemoteError(INVALID_PARAMS, f"clientInfo and capabilities: more than {MAX_CLIENT_INFO:,} bytes")
    peer = Peer(
        asked if isinstance(asked, str) and asked in LEGACY_VERSIONS else LEGACY_VERSIONS[0],
        modern=False,
        info=info if isinstance(info, dict) else {},
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        principal=principal,
        log_level=FIRST_LEVEL,
    )
    return peer, {"protocolVersion": peer.version, **handler.describe(peer)}


def answer_at_once(handler: RequestHandler, peer: Peer, method: str, params: Wire) -> Wire | None:
    """What an endpoint answers itself, without waiting, in a session of the legacy era; None: it does not."""
    if method == "ping":
        return {}
    if method == "initialize":
        raise RemoteError(INVALID_REQUEST, "this session is initialized already")
    if method in NEW:
        raise RemoteError(METHOD_NOT_FOUND, f"{method} is not part of {peer.version}")
    if method == "logging/setLevel":
        if "logging" not in handler.describe(peer).get("capabilities", {}):
            raise RemoteError(METHOD_NOT_FOUND, f"Method not found: {method}")
        peer.log_level = checked_level(params.get("level"))
        return {}
    return None


def discover_result(description: Wire) -> Wire:
    """The answer to `server/discover`, not framed yet."""
    result = {name: value for name, value in description.items() if name != "serverInfo"}
    return {"supportedVersions": [*MODERN_VERSIONS, *LEGACY_VERSIONS], **result}


# ---- results -------------------------------------------------------------------------------------------------


def modern_result(method: str, result: Wire, info: Wire) -> Wire:
    """A result with what the modern era owes: its type, the server's name, cache hints."""
    meta = result.get("_meta")
    framed = {
        "resultType": "complete",
        **result,
        "_meta": {SERVER_INFO: info, **meta} if isinstance(meta, Mapping) and meta else {SERVER_INFO: info},
    }
    if method in CACHEABLE and framed["resultType"] == "complete":
        framed.setdefault("ttlMs", 0)
        framed.setdefault("cacheScope", "private")
    return framed


def legacy_result(result: Wire) -> Wire:
    """A result without what only the modern era knows."""
    if "ttlMs" in result or "cacheScope" in result or "resultType" in result:
        return {k: v for k, v in result.items() if k not in ("ttlMs", "cacheScope", "resultType")}
    return result


# ---- errors --------------------------------------------------------------------------------------------------


def modern_error(exc: RemoteError) -> RemoteError:
    """An error with the modern era's code; one that is not defined there has no place on its wire."""
    if exc.code == OLD_NOT_FOUND:
        return RemoteError(INVALID_PARAMS, exc.message, exc.data)
    if FIRST_RESERVED <= exc.code <= LAST_RESERVED and exc.code not in MODERN_DEFINED:
        return RemoteError(INTERNAL_ERROR, exc.message, {"code": exc.code, "data": exc.data})
    return exc


MODERN_DEFINED: Final = frozenset({-32020, MISSING_CAPABILITY, UNSUPPORTED_VERSION})


def legacy_error(exc: RemoteError, method: str) -> RemoteError | Wire:
    """An error with the legacy era's code. A tool that needs what the client has not is a result to read."""
    if exc.code != MISSING_CAPABILITY:
        return exc
    if method == "tools/call":
        return {"content": [{"type": "text", "text": exc.message}], "isError": True}
    return RemoteError(INVALID_PARAMS, exc.message, exc.data)


def internal_error(exc: Exception, method: str) -> RemoteError:
    """Our own fault: the log has the whole of it, the caller nothing but the fact."""
    log.error("%s failed", one_line(method), exc_info=exc)
    return RemoteError(INTERNAL_ERROR, "Internal error")


def encoded(answer: Message, method: str) -> bytes:
    """An answer as JSON; one that JSON cannot say is our own fault."""
    try:
        return jsonrpc.encode(answer)
    except UsageError as exc:
        fault = internal_error(exc, method)
        return jsonrpc.encode(jsonrpc.error(answer["id"], fault.code, fault.message))
