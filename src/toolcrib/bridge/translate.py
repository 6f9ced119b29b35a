"""Translate messages between the client in front of us and the server behind us, which may differ in their revision.

Pure functions: they take and return plain JSON values. `modern` says which revision the client in front speaks. Ids and
progress tokens never cross, and neither does what belongs to one hop only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import RemoteError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ..protocol.metadata import PREFIX, PROGRESS_TOKEN
from ..protocol.versions import HEADER_MISMATCH, OLD_NOT_FOUND, UNSUPPORTED_VERSION
from ..types import ServerInfo, Wire

FORWARDED_CAPABILITIES: Final = {
    "completions": (),
    "logging": (),
    "prompts": ("listChanged",),
    "resources": ("subscribe", "listChanged"),
    "tools": ("listChanged",),
}
"""The server capabilities that are announced to clients, with their parts."""
HOP_ERRORS: Final = frozenset({HEADER_MISMATCH, UNSUPPORTED_VERSION})
"""Codes of errors that are about how we sent a request, not about what the client in front asked for."""
_HOP_PARAMS: Final = ("_meta", "inputResponses", "requestState")


def translate_description(info: ServerInfo) -> Wire:
    """Return what the server says of itself, reduced to what is forwarded."""
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


def translate_params(params: Wire) -> Wire:
    """Return the params of a request without what belongs to the hop in front of us."""
    kept = {key: value for key, value in params.items() if key not in _HOP_PARAMS}
    meta = params.get("_meta")
    own = _without_protocol_keys(meta) if isinstance(meta, dict) else {}
    return {**kept, "_meta": own} if own else kept


def translate_result(method: str, result: Wire, *, modern: bool) -> Wire:
    """Return a result without what belongs to the hop behind us, in the form that the client in front understands."""
    meta = result.get("_meta")
    if isinstance(meta, dict):
        own = _without_protocol_keys(meta)
        result = {**result, "_meta": own} if own else {key: value for key, value in result.items() if key != "_meta"}
    if method == "tools/list" and isinstance(result.get("tools"), list):
        tools = [_translate_tool(tool, modern=modern) for tool in result["tools"]]
        return {**result, "tools": [tool for tool in tools if tool is not None]}
    if not modern and method == "tools/call" and not isinstance(result.get("structuredContent", {}), dict):
        return {key: value for key, value in result.items() if key != "structuredContent"}
    return result


def _without_protocol_keys(meta: Wire) -> Wire:
    return {key: value for key, value in meta.items() if key != PROGRESS_TOKEN and not key.startswith(PREFIX)}


def _translate_tool(tool: Wire, *, modern: bool) -> Wire | None:
    """Return a tool as it can be called through us, or None for one that can only be called as a task.

    Legacy clients accept only objects as output, so another output schema is left out for them.
    """
    execution, schema = tool.get("execution"), tool.get("outputSchema")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        return None
    dropped = {"execution"}
    if not modern and isinstance(schema, dict) and schema.get("type") != "object":
        dropped.add("outputSchema")
    return {key: value for key, value in tool.items() if key not in dropped}


def translate_error(error: RemoteError, method: str, *, modern: bool) -> RemoteError:
    """Return an error of the server, with its code and data, as the revision in front of us spells it."""
    code, data = error.code, error.data
    if code in HOP_ERRORS:
        code, data = INTERNAL_ERROR, {"code": error.code, "data": error.data}
    elif code == INVALID_PARAMS and method == "resources/read" and not modern:
        code = OLD_NOT_FOUND
    return RemoteError(code, error.message, data)
