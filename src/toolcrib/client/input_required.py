"""Multi-round requests of the modern era: the server requires input, the client sends the request again with it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from ..errors import AccessDenied, ProtocolError, RemoteError
from ..protocol.limits import MAX_ROUNDS
from ..protocol.sanitize import Mask, one_line
from ..protocol.versions import MAY_ASK_FOR_INPUT
from ..types import Wire
from .handlers import HandlerFailed

BACK_OFF_SECONDS = (0.05, 0.25)
"""Range of seconds to wait if the server only wants the request to be sent again."""


async def resolve_input_required(
    exchange: Callable[[Wire], Awaitable[Wire]],
    answer: Callable[[str, Wire], Awaitable[Wire]],
    method: str,
    params: Wire,
    first: Wire,
    on_asked: Callable[[float], None],
    mask: Mask | None = None,
) -> Wire:
    """Return the final result of a request that was answered with `input_required`.

    `on_asked` is called with the seconds that answering took.
    """
    result = first
    for _ in range(MAX_ROUNDS):
        if method not in MAY_ASK_FOR_INPUT:
            raise ProtocolError(f"the server requested input for {method}, which the protocol does not allow")
        again = dict(params)
        requests, state = result.get("inputRequests"), result.get("requestState")
        if requests is None and state is None:
            raise ProtocolError("input_required: expected inputRequests or requestState, got neither")
        if requests:
            began = asyncio.get_running_loop().time()
            again["inputResponses"] = await _answer_all(answer, requests, mask)
            on_asked(asyncio.get_running_loop().time() - began)
        else:
            await asyncio.sleep(random.uniform(*BACK_OFF_SECONDS))  # noqa: S311  # jitter, no secret
        if state is not None:
            again["requestState"] = state
        result = await exchange(again)
        if result.get("resultType") != "input_required":
            return result
    raise ProtocolError(f"the server requested input more than {MAX_ROUNDS} times")


async def _answer_all(answer: Callable[[str, Wire], Awaitable[Wire]], requests: Any, mask: Mask | None) -> Wire:
    if not isinstance(requests, dict) or not all(isinstance(r, dict) for r in requests.values()):
        raise ProtocolError("inputRequests: expected an object of requests")

    tasks = [asyncio.ensure_future(_answer_one(answer, request, mask)) for request in requests.values()]
    try:
        return dict(zip(requests, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()


async def _answer_one(answer: Callable[[str, Wire], Awaitable[Wire]], request: Wire, mask: Mask | None) -> Wire:
    method, params = str(request.get("method")), request.get("params")
    try:
        return await answer(method, params if isinstance(params, dict) else {})
    except HandlerFailed:
        raise  # the person or model gave no answer, so the call cannot continue
    except RemoteError as exc:
        if method == "elicitation/create":
            return {"action": "cancel"}
        # The protocol cannot express this refusal, so the call fails. The method is masked: the error quotes it.
        rule = one_line(method, mask=mask)
        refusal = exc if rule == method else RemoteError(exc.code, "an unknown method")
    raise AccessDenied(f"the server needs {rule} for this call: {one_line(refusal.message)}", rule=rule) from refusal
