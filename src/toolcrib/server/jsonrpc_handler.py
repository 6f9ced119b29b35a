"""The JSON-RPC door of a `ToolServer`: a request in, its answer out, without a session.

Requests of the legacy era need no `initialize` before, and what they get has no null fields and no `isError` where
nothing failed. There is no way back through this door: logs and progress go nowhere, and only a modern request can be
asked something, by an `input_required` answer. Wrong arguments and a tool's exceptions are results with `isError`;
error answers are -32700 (no JSON), -32600 (no request), -32601 (no such method), -32602 (no such tool, wrong params),
-32603 (our own fault), and whatever `RemoteError` a tool raises.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from .._util.cancellation import OwnCancellation
from ..errors import ProtocolError, RemoteError, UsageError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from ..protocol.versions import LEGACY_VERSIONS
from ..types import Wire
from .eras import (
    begin_session,
    discover_result,
    internal_error,
    is_modern,
    legacy_error,
    legacy_result,
    modern_error,
    modern_result,
    peer_of_request,
)
from .handler import NO_BACK_CHANNEL, NOTHING, Peer, RequestContext
from .json_copy import copied
from .suspended_calls import SuspendedCalls, may_suspend

if TYPE_CHECKING:
    from .server import ToolServer

NOBODY: Final = Peer(LEGACY_VERSIONS[0], modern=False)
"""Who asks at this door in the legacy era: nothing is known of him, and he cannot be asked."""


class JsonRpcHandler:
    """Takes single requests, of both eras."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._suspended_calls = SuspendedCalls()

    async def handle(self, request: Any) -> Wire | None:
        """The answer; None for a notification."""
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
            return None  # a notification: none of them changes anything here
        method, params = request["method"], request.get("params")
        if params is not None and not isinstance(params, dict):
            return jsonrpc.error(id, INVALID_PARAMS, "Invalid params: must be an object")
        try:
            params = copied(params or {})
        except UsageError as exc:
            return jsonrpc.error(id, INVALID_PARAMS, f"Invalid params: {exc}")
        answer = self._modern if is_modern(params) else self._legacy
        cancellation = OwnCancellation()
        try:
            return jsonrpc.result(id, await answer(method, params, id))
        except RemoteError as exc:
            return jsonrpc.error(id, exc.code, exc.message, exc.data)
        except asyncio.CancelledError as exc:
            if cancellation.cancelled_by_others():
                raise
            fault = internal_error(RuntimeError(repr(exc)), method)  # raised by the function of its own accord
        except Exception as exc:  # noqa: BLE001  # our own fault: logged, and answered as such
            fault = internal_error(exc, method)
        return jsonrpc.error(id, fault.code, fault.message)

    # ---- the legacy era -----------------------------------------------------------------------------------

    async def _legacy(self, method: str, params: Wire, id: jsonrpc.RequestId) -> Wire:
        if method == "initialize":
            _, result = begin_session(self._server.router, params)
            return copied({**result, **self._description()})
        if method == "ping":
            return {}
        context = RequestContext(NOBODY, NO_BACK_CHANNEL, id, params.get("_meta") or NOTHING)
        try:
            result = legacy_result(await self._server.router.answer(method, params, context))
        except RemoteError as exc:
            told = legacy_error(exc, method)
            if isinstance(told, RemoteError):
                raise told from None
            result = told
        return result if method == "tools/call" else copied(result)

    def _description(self) -> Wire:
        """What is offered, without what needs a stream: nobody hears of changes or logs here."""
        description = self._server.router.describe(NOBODY)
        offered = ("tools", "prompts", "resources", "completions")
        capabilities: Wire = {name: {} for name in offered if name in description["capabilities"]}
        return {**description, "capabilities": capabilities}

    # ---- the modern era --------------------------------------------------------------------------------------

    async def _modern(self, method: str, params: Wire, id: jsonrpc.RequestId) -> Wire:
        try:
            peer = peer_of_request(params)
            result = await self._answer_modern(method, params, peer, id)
        except RemoteError as exc:
            raise modern_error(exc) from None
        return modern_result(method, result, dict(self._server.info))

    async def _answer_modern(self, method: str, params: Wire, peer: Peer, id: jsonrpc.RequestId) -> Wire:
        router = self._server.router
        if method == "server/discover":
            return copied(discover_result(self._description()))
        context = RequestContext(peer, NO_BACK_CHANNEL, id, params["_meta"])
        if may_suspend(router, method, params):
            return await self._suspended_calls.answer(router, method, params, context, None)
        result = await router.answer(method, params, context)
        return result if method == "tools/call" else copied(result)


def _what_is_wrong(request: Any) -> str | None:
    """Why this is neither a request nor a notification; None if it is one."""
    if isinstance(request, list):
        return "one message at a time, no batches"
    if not isinstance(request, dict):
        return "not an object"
    if request.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if not isinstance(request.get("method"), str):
        return "method must be a text"
    if "id" in request and not jsonrpc.is_id(request["id"]):
        return "id must be a text or an integer"
    return None
