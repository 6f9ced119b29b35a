"""The differences between the eras: identifying the client, opening a session, the requests that an endpoint answers
itself, and framing results and errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ..errors import RemoteError, UsageError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message, RequestId
from ..protocol.metadata import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, LOG_LEVELS, PROTOCOL_VERSION, SERVER_INFO
from ..protocol.sanitize import one_line
from ..protocol.versions import LEGACY_VERSIONS, MISSING_CAPABILITY, MODERN_VERSIONS, OLD_NOT_FOUND, UNSUPPORTED_VERSION
from ..types import Wire
from .handler import Peer
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
"""Methods whose modern results carry a cache hint."""

REMOVED: Final = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "roots/list"}
)
"""Methods that the modern era has removed."""
NEW: Final = frozenset({"server/discover", "subscriptions/listen"})
"""Methods that only the modern era has."""

MAX_CLIENT_INFO: Final = 64 * 1024
"""Maximum size of `clientInfo` and `capabilities` in bytes; a legacy session keeps them in memory."""
DEFAULT_LOG_LEVEL: Final = "info"
"""The log level of a legacy session until the client sets one."""
FIRST_RESERVED, LAST_RESERVED = -32099, -32000


def is_modern(params: Any) -> bool:
    """Return whether a request names its own protocol version, as every modern one must."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def peer_of_request(params: Wire, principal: Any = None) -> Peer:
    """Return the client that a modern request describes in its `_meta`; raises `RemoteError` if that is incomplete."""
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
    """Return `level` if it is a log level of the protocol; raises -32602 otherwise."""
    if level not in LOG_LEVELS:
        raise RemoteError(INVALID_PARAMS, f"log level: must be one of {', '.join(LOG_LEVELS)}")
    return str(level)


def unsupported_version(asked: str) -> RemoteError:
    """Return the error that lists the supported versions, including the legacy ones, which `initialize` negotiates."""
    supported = [*MODERN_VERSIONS, *LEGACY_VERSIONS]
    return RemoteError(
        UNSUPPORTED_VERSION, f"protocol version {asked} is not supported", {"supported": supported, "requested": asked}
    )


# ---- what an endpoint answers itself -------------------------------------------------------------------------


class Described(Protocol):
    """The part of a `RequestHandler` that `initialize` and `server/discover` need."""

    def describe(self, peer: Peer) -> Wire:
        """Return `serverInfo`, `capabilities` and perhaps `instructions`."""
        ...


def begin_session(server: Described, params: Wire, principal: Any = None) -> tuple[Peer, Wire]:
    """Return the client of a new legacy session, and the result of `initialize`.

    The negotiated version is always a legacy one.
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
        log_level=DEFAULT_LOG_LEVEL,
    )
    return peer, {"protocolVersion": peer.version, **server.describe(peer)}


def answer_at_once(server: Described, peer: Peer, method: str, params: Wire) -> Wire | None:
    """Return the result of a request that an endpoint answers itself and without waiting; None for any other.

    The result is not framed yet. Raises `RemoteError` for a method that the era of `peer` does not have.
    """
    answer = AT_ONCE[peer.modern].get(method)
    return None if answer is None else answer(server, peer, method, params)


def check_not_removed(method: str) -> None:
    """Raise -32601 for a method that the modern era has removed."""
    if method in REMOVED:
        raise RemoteError(METHOD_NOT_FOUND, f"{method} is not part of protocol version {MODERN_VERSIONS[0]}")


def discover_result(description: Wire) -> Wire:
    """Return the result of `server/discover`, not framed yet."""
    result = {name: value for name, value in description.items() if name != "serverInfo"}
    return {"supportedVersions": [*MODERN_VERSIONS, *LEGACY_VERSIONS], **result}


def _ping(server: Described, peer: Peer, method: str, params: Wire) -> Wire:  # noqa: ARG001  # the table's signature
    return {}


def _initialize_again(server: Described, peer: Peer, method: str, params: Wire) -> Wire:  # noqa: ARG001
    raise RemoteError(INVALID_REQUEST, "the session has been initialized already")


def _set_level(server: Described, peer: Peer, method: str, params: Wire) -> Wire:
    if "logging" not in server.describe(peer).get("capabilities", {}):
        raise RemoteError(METHOD_NOT_FOUND, f"Method not found: {method}")
    peer.log_level = checked_level(params.get("level"))
    return {}


def _refuse_new(server: Described, peer: Peer, method: str, params: Wire) -> Wire:  # noqa: ARG001
    raise RemoteError(METHOD_NOT_FOUND, f"{method} is not part of protocol version {peer.version}")


def _discover(server: Described, peer: Peer, method: str, params: Wire) -> Wire:  # noqa: ARG001
    return discover_result(server.describe(peer))


def _refuse_removed(server: Described, peer: Peer, method: str, params: Wire) -> Wire:  # noqa: ARG001
    check_not_removed(method)
    raise AssertionError("only removed methods are in the table")


_LEGACY: Final[Mapping[str, Callable[[Described, Peer, str, Wire], Wire]]] = {
    "ping": _ping,
    "initialize": _initialize_again,
    "logging/setLevel": _set_level,
    **dict.fromkeys(NEW, _refuse_new),
}
_MODERN: Final[Mapping[str, Callable[[Described, Peer, str, Wire], Wire]]] = {
    "server/discover": _discover,
    **dict.fromkeys(REMOVED, _refuse_removed),
}
AT_ONCE: Final = {False: _LEGACY, True: _MODERN}
"""The requests that an endpoint answers itself, by `Peer.modern` and method."""


# ---- results -------------------------------------------------------------------------------------------------


class ResultFramer:
    """Frames the results of one endpoint. It caches `serverInfo`, which never changes."""

    __slots__ = ("_info", "_server")

    def __init__(self, server: Described) -> None:
        self._server = server
        self._info: Wire | None = None

    def frame(self, peer: Peer, method: str, result: Wire) -> Wire:
        """Return a result of the request handler in the form of the client's era."""
        if not peer.modern:
            return legacy_result(result)
        if self._info is None:
            self._info = self._server.describe(peer)["serverInfo"]
        return modern_result(method, result, self._info)


def modern_result(method: str, result: Wire, info: Wire) -> Wire:
    """Return a result with the fields that the modern era requires: its type, `serverInfo`, cache hints."""
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
    """Return a result without the fields that only the modern era has."""
    if "ttlMs" in result or "cacheScope" in result or "resultType" in result:
        return {k: v for k, v in result.items() if k not in ("ttlMs", "cacheScope", "resultType")}
    return result


# ---- errors --------------------------------------------------------------------------------------------------


def frame_error(exc: Exception, method: str, *, modern: bool) -> RemoteError | Wire:
    """Return the answer to a failed request in the client's era: an error, or a result with `isError`.

    Any exception but `RemoteError` is a bug of the server: it is logged, and the client gets no details.
    """
    if not isinstance(exc, RemoteError):
        return internal_error(exc, method)
    return modern_error(exc) if modern else legacy_error(exc, method)


def error_answer(id: RequestId, method: str, exc: Exception, *, modern: bool) -> Message:
    """Return the JSON-RPC answer to a request that failed with `exc`."""
    framed = frame_error(exc, method, modern=modern)
    if isinstance(framed, RemoteError):
        return jsonrpc.error(id, framed.code, framed.message, framed.data)
    return jsonrpc.result(id, framed)


def modern_error(exc: RemoteError) -> RemoteError:
    """Return an error with a code that the modern era defines; the data of -32603 keeps any other code."""
    if exc.code == OLD_NOT_FOUND:
        return RemoteError(INVALID_PARAMS, exc.message, exc.data)
    if FIRST_RESERVED <= exc.code <= LAST_RESERVED and exc.code not in MODERN_DEFINED:
        return RemoteError(INTERNAL_ERROR, exc.message, {"code": exc.code, "data": exc.data})
    return exc


MODERN_DEFINED: Final = frozenset({-32020, MISSING_CAPABILITY, UNSUPPORTED_VERSION})


def legacy_error(exc: RemoteError, method: str) -> RemoteError | Wire:
    """Return an error with a legacy code; for a tool that needs a missing client capability a result with `isError`."""
    if exc.code != MISSING_CAPABILITY:
        return exc
    if method == "tools/call":
        return {"content": [{"type": "text", "text": exc.message}], "isError": True}
    return RemoteError(INVALID_PARAMS, exc.message, exc.data)


def internal_error(exc: Exception, method: str) -> RemoteError:
    """Log `exc` with its traceback, and return the error for the client, which has no details."""
    log.error("%s failed", one_line(method), exc_info=exc)
    return RemoteError(INTERNAL_ERROR, "Internal error")


def encoded(answer: Message, method: str) -> bytes:
    """Return an answer as JSON, or an internal error if JSON cannot express it."""
    try:
        return jsonrpc.encode(answer)
    except UsageError as exc:
        return jsonrpc.encode(error_answer(answer["id"], method, exc, modern=True))
