"""JSON-RPC without a session: takes a request and returns its answer (`ToolServer.handle`).

Legacy requests need no preceding `initialize`, and results have neither null fields nor `"isError": false`. Without a
back channel, log messages and progress are dropped, and only a modern request can ask the client for input, with an
`input_required` answer. Invalid arguments and a tool's exceptions are results with `isError`; error answers are -32700
(invalid JSON), -32600 (invalid request), -32601 (unknown method), -32602 (unknown tool, invalid params), -32603 (a bug
of the server), and any `RemoteError` that a tool raises.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from .._util.cancellation import OwnCancellation
from ..errors import ProtocolError, UsageError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from ..protocol.metadata import SERVER_INFO
from ..types import Wire
from .eras import (
    ResultFramer,
    answer_at_once,
    begin_session,
    error_answer,
    internal_error,
    is_modern,
    legacy_result,
    peer_of_request,
)
from .handler import NO_BACK_CHANNEL, NOTHING, Peer, RequestContext, RequestHandler
from .json_copy import copied
from .requests import UNKNOWN_CLIENT
from .suspended_calls import SuspendedCalls, may_suspend

OFFERED: Final = ("tools", "prompts", "resources", "completions")
"""Capabilities that need no stream to the client."""


class JsonRpcHandler:
    """Answers single requests of both eras."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._framer = ResultFramer(handler)
        self._suspended_calls = SuspendedCalls()

    def describe(self, peer: Peer) -> Wire:
        """Return the handler's description without the capabilities that need a stream: change notifications, logs."""
        description = self._handler.describe(peer)
        capabilities: Wire = {name: {} for name in OFFERED if name in description["capabilities"]}
        return {**description, "capabilities": capabilities}

    async def handle(self, request: Any) -> Wire | None:
        """Return the answer to a request; None for a notification."""
        if isinstance(request, str | bytes | bytearray):
            try:
                request = jsonrpc.decode(request)
            except ProtocolError as exc:
                return jsonrpc.error(None, PARSE_ERROR, f"Parse error: {exc.message}")
        id = request.get("id") if isinstance(request, dict) else None
        wrong = _what_is_wrong(request)
        if wrong is not None:
            return jsonrpc.error(id if jsonrpc.is_id(id) else None, INVALID_REQUEST, f"Invalid Request: {wrong}")
        if id is None:
            return None  # no notification has an effect here
        method, params = request["method"], request.get("params")
        if params is not None and not isinstance(params, dict):
            return jsonrpc.error(id, INVALID_PARAMS, "Invalid params: must be an object")
        try:
            params = copied(params or {})
        except UsageError as exc:
            return jsonrpc.error(id, INVALID_PARAMS, f"Invalid params: {exc}")
        modern = is_modern(params)
        answer = self._answer_modern if modern else self._answer_legacy
        cancellation = OwnCancellation()
        try:
            return jsonrpc.result(id, await answer(method, params, id))
        except asyncio.CancelledError as exc:
            if cancellation.cancelled_by_others():
                raise
            fault = internal_error(RuntimeError(repr(exc)), method)  # the function itself raised it
        except Exception as exc:  # noqa: BLE001  # every exception becomes an error answer
            return error_answer(id, method, exc, modern=modern)
        return jsonrpc.error(id, fault.code, fault.message)

    async def _answer_legacy(self, method: str, params: Wire, id: jsonrpc.RequestId) -> Wire:
        own = None
        if method == "initialize":
            own = begin_session(self, params)[1]
        elif method != "tools/call":
            own = answer_at_once(self, UNKNOWN_CLIENT, method, params)
        if own is not None:
            return copied(own)
        context = RequestContext(UNKNOWN_CLIENT, NO_BACK_CHANNEL, id, params.get("_meta") or NOTHING)
        result = legacy_result(await self._handler.answer(method, params, context))
        return result if method == "tools/call" else copied(result)

    async def _answer_modern(self, method: str, params: Wire, id: jsonrpc.RequestId) -> Wire:
        handler, peer = self._handler, peer_of_request(params)
        result = answer_at_once(self, peer, method, params)
        if result is None:
            context = RequestContext(peer, NO_BACK_CHANNEL, id, params["_meta"])
            if may_suspend(handler, method, params):
                result = await self._suspended_calls.answer(handler, method, params, context, None)
            else:
                result = await handler.answer(method, params, context)
        framed = self._framer.frame(peer, method, result)
        if method != "tools/call":
            return copied(framed)
        meta = framed["_meta"]
        if type(meta[SERVER_INFO]) is dict:
            meta[SERVER_INFO] = meta[SERVER_INFO].copy()  # the caller may modify the answer
        return framed


def _what_is_wrong(request: Any) -> str | None:
    """Return why `request` is neither a request nor a notification; None if it is one."""
    if isinstance(request, list):
        return "batches are not supported; send one message at a time"
    if not isinstance(request, dict):
        return "must be an object"
    if request.get("jsonrpc") != "2.0":
        return 'jsonrpc: must be "2.0"'
    if not isinstance(request.get("method"), str):
        return "method: must be a string"
    if "id" in request and not jsonrpc.is_id(request["id"]):
        return "id: must be a string or an integer"
    return None
