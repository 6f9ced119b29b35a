"""Translates messages between the client in front of the bridge and the server behind it.

| direction | functions |
| --- | --- |
| client to server | `translate_capabilities`, `translate_params`, `translate_client_result` |
| server to client | `translate_description`, `translate_result`, `translate_error`, `translate_client_request` |

The two may use different protocol revisions. Pure functions over plain JSON values. `modern` says whether the client in
front uses a modern revision. Ids, progress tokens and other fields of one hop are never forwarded. The endpoint in
front adds the frame of an answer (`resultType`, cache hints, codes that only one era defines): see `server/eras.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from ..errors import RemoteError, ToolcribError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ..protocol.metadata import PREFIX, PROGRESS_TOKEN
from ..protocol.versions import HEADER_MISMATCH, OLD_NOT_FOUND, UNSUPPORTED_VERSION
from ..types import ServerInfo, Wire
from ..upstreams.features import Features

FORWARDED_CAPABILITIES: Final = {
    "completions": (),
    "logging": (),
    "prompts": ("listChanged",),
    "resources": ("subscribe", "listChanged"),
    "tools": ("listChanged",),
}
"""The server capabilities that are announced to clients, with their parts."""
HOP_ERRORS: Final = frozenset({HEADER_MISMATCH, UNSUPPORTED_VERSION})
"""Codes of errors about how the bridge sent a request, not about the client's request itself."""
ELICITATION_MODES: Final = ("form", "url")
_HOP_PARAMS: Final = ("_meta", "inputResponses", "requestState")


# ---- client to server ----------------------------------------------------------------------------------------


def translate_capabilities(capabilities: Mapping[str, Any]) -> Features:
    """Return the features of a client from the capabilities that it declared."""
    elicitation = capabilities.get("elicitation")
    modes: tuple[str, ...] = ()
    if isinstance(elicitation, dict):  # older revisions have no modes, only the form
        modes = tuple(mode for mode in ELICITATION_MODES if mode in elicitation) or ("form",)
    return Features(modes, isinstance(capabilities.get("sampling"), dict), isinstance(capabilities.get("roots"), dict))


def translate_params(params: Wire) -> Wire:
    """Return the params of a request without the fields of the hop in front of the bridge."""
    kept = {key: value for key, value in params.items() if key not in _HOP_PARAMS}
    meta = params.get("_meta")
    own = _without_protocol_keys(meta) if isinstance(meta, dict) else {}
    return {**kept, "_meta": own} if own else kept


def translate_client_result(method: str, result: Wire) -> Wire:
    """Return the client's answer to a request of the server."""
    if method == "elicitation/create":
        return {key: result[key] for key in ("action", "content") if key in result}
    return result


# ---- server to client ----------------------------------------------------------------------------------------


def translate_description(info: ServerInfo) -> Wire:
    """Return the server's description, reduced to the forwarded capabilities."""
    capabilities = {
        name: {part: True for part in parts if _declares(info.capabilities, name, part)}
        for name, parts in FORWARDED_CAPABILITIES.items()
        if isinstance(info.capabilities.get(name), dict)
    }
    server_info = {"name": info.name, "version": info.version, "title": info.title}
    description: Wire = {
        "serverInfo": {key: value for key, value in server_info.items() if value is not None},
        "capabilities": capabilities,
    }
    if info.instructions:
        description["instructions"] = info.instructions
    return description


def _declares(capabilities: Mapping[str, Any], name: str, part: str) -> bool:
    declared = capabilities.get(name)
    return isinstance(declared, dict) and declared.get(part) is True


def translate_result(method: str, result: Wire, *, modern: bool) -> Wire:
    """Return a result without the fields of the hop behind the bridge, in the form of the client's revision."""
    meta = result.get("_meta")
    if isinstance(meta, dict):
        own = _without_protocol_keys(meta)
        result = {**result, "_meta": own} if own else {key: value for key, value in result.items() if key != "_meta"}
    if method == "tools/list" and isinstance(result.get("tools"), list):
        tools = [_translate_tool(tool, modern=modern) for tool in result["tools"] if isinstance(tool, dict)]
        return {**result, "tools": [tool for tool in tools if tool is not None]}
    if not modern and method == "tools/call" and not isinstance(result.get("structuredContent", {}), dict):
        return _without_structure(result)
    return result


def _without_structure(result: Wire) -> Wire:
    """Return a result of a tool for clients that accept only objects as structured content; it stays as text."""
    kept = {key: value for key, value in result.items() if key != "structuredContent"}
    if not kept.get("content"):
        kept["content"] = [{"type": "text", "text": json.dumps(result["structuredContent"], ensure_ascii=False)}]
    return kept


def translate_client_request(
    method: str, params: Wire, *, modern: bool, new_id: Callable[[], str] = lambda: str(uuid4())
) -> Wire:
    """Return the params of a request of the server to the client. `new_id` makes an `elicitationId` if it has none.

    Only legacy revisions have that id, in an elicitation by URL.
    """
    kept = {key: value for key, value in params.items() if key != "_meta"}
    if method == "elicitation/create" and kept.get("mode") == "url":
        given = kept.pop("elicitationId", None)
        if not modern:
            kept["elicitationId"] = given or new_id()
    return kept


def _without_protocol_keys(meta: Wire) -> Wire:
    return {key: value for key, value in meta.items() if key != PROGRESS_TOKEN and not key.startswith(PREFIX)}


def _translate_tool(tool: Wire, *, modern: bool) -> Wire | None:
    """Return a tool as it can be called through the bridge, or None for one that can only be called as a task.

    Legacy clients accept only objects as output, so other output schemas are removed for them.
    """
    execution, schema = tool.get("execution"), tool.get("outputSchema")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        return None
    dropped = {"execution"}
    if not modern and isinstance(schema, dict) and schema.get("type") != "object":
        dropped.add("outputSchema")
    return {key: value for key, value in tool.items() if key not in dropped}


def translate_error(error: RemoteError, method: str, *, modern: bool) -> RemoteError:
    """Return an error of the server with the code and data of the client's revision."""
    code, data = error.code, error.data
    if code in HOP_ERRORS:
        code, data = INTERNAL_ERROR, {"code": error.code, "data": error.data}
    elif code == INVALID_PARAMS and method == "resources/read" and not modern:
        code = OLD_NOT_FOUND
    return RemoteError(code, error.message, data)


def translate_failure(exc: ToolcribError, *, detailed: bool) -> RemoteError:
    """Return the error for a request without an answer. Its data says whether the request may have been executed.

    `detailed=False` hides the server's output from clients that use the bridge over a network.
    """
    text = exc.message if detailed else "the server behind this bridge did not answer; see the log of the bridge"
    return RemoteError(INTERNAL_ERROR, text, {"reason": type(exc).__name__, "sent": getattr(exc, "sent", False)})
