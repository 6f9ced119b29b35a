"""Suspended calls: requests for input in the modern era, in which a server cannot send requests to the client.

If a call needs input from the client, its questions are sent as an `input_required` result while its coroutine waits.
The client sends the request again with the answers, and the random handle in `requestState` identifies the waiting
call. The principal, the digest of the request and the deadline stay in the server, so that the handle holds nothing to
read or to forge. A call never runs twice.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from hashlib import sha256
from typing import Final

import orjson

from .._util.futures import retrieve
from .._util.tasks import TaskSet
from ..errors import RemoteError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ..protocol.versions import MAY_ASK_FOR_INPUT
from ..types import Wire
from .eras import internal_error
from .handler import RequestContext, RequestHandler, principal_key
from .json_copy import size_of

TTL: Final = 600.0
"""Seconds that a suspended call waits for the client's answers."""
OUTCOME_TTL: Final = 30.0
"""Seconds that an outcome is kept for a client that repeats its last request."""
MAX_SUSPENDED: Final = 1_000
MAX_EACH: Final = 100
MAX_BYTES: Final = 64 * 1024 * 1024
"""Limits on the suspended calls of an endpoint, of one principal, and on the bytes of all their requests."""
KEPT_HANDLES: Final = 2
"""Valid handles of a call: the newest one, and the one before it for a client that repeats its last request."""
SETTLE_TURNS: Final = 4
"""Iterations of the event loop within which questions are collected and sent together."""

Outlet = Callable[[str, Wire], Awaitable[None]]
"""Sends a notification to the client of the request that waits for the call."""


def request_digest(method: str, params: Wire) -> bytes:
    """Return a digest of the method and params, without the client's answers and metadata."""
    kept = {k: v for k, v in params.items() if k not in ("_meta", "inputResponses", "requestState")}
    try:
        text = orjson.dumps([method, kept], option=orjson.OPT_SORT_KEYS)
    except TypeError:
        text = json.dumps([method, kept], sort_keys=True).encode()
    return sha256(text).digest()


class SuspendedCall:
    """A call that may ask the client for input; also the `BackChannel` of its request.

    It runs in its own task; requests wait for it with `outcome`.
    """

    def __init__(
        self,
        suspended_calls: SuspendedCalls,
        handler: RequestHandler,
        method: str,
        params: Wire,
        context: RequestContext,
        digest: bytes,
        brought: dict[str, Wire],
    ) -> None:
        self.principal = context.peer.principal
        self.owner = principal_key(self.principal)
        self.digest = digest
        self.params = params
        self.size = 0
        """Bytes of the whole request, including answers and `_meta`; measured when the call is suspended."""
        self.handles: list[str] = []
        self._suspended_calls = suspended_calls
        self._context = context
        self._brought = brought
        self._questions: dict[str, tuple[Wire, asyncio.Future[Wire]]] = {}
        self._asked = 0
        self._over = False
        self._ended = False
        self._waiters: dict[asyncio.Future[None], Outlet | None] = {}
        self._timer: asyncio.TimerHandle | None = None
        context.back_channel = self
        self._task = suspended_calls.tasks.create(handler.answer(method, params, context))
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Wire]) -> None:
        retrieve(task)  # perhaps no request waits for the result
        self._fail_questions("the request that the question belongs to has ended")
        self._wake()

    def _fail_questions(self, reason: str) -> None:
        """Fail the open questions. Other tasks or threads than the call's own may still wait for their answers."""
        self._over = True
        for _, future in self._questions.values():
            if not future.done():
                future.set_exception(RemoteError(INTERNAL_ERROR, reason))

    def belongs_to_running_loop(self) -> bool:
        """Return whether the call runs on the current event loop; a call on a closed loop cannot continue."""
        return self._task.get_loop() is asyncio.get_running_loop()

    def resume(self, request: RequestContext) -> None:
        """Attribute the call from now on to the request that brought the answers."""
        context = self._context
        context.id, context.meta, context.headers, context.peer = (
            request.id,
            request.meta,
            request.headers,
            request.peer,
        )

    # ---- for the request handler ---------------------------------------------------------------------------

    async def notify(self, method: str, params: Wire) -> None:
        """Send a notification on the latest request that waits for the call; drops it while the call is suspended."""
        outlet = next((each for each in reversed(self._waiters.values()) if each is not None), None)
        if outlet is not None:
            await outlet(method, params)

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
        """Wait for the client's answer to a question and return it; the request may have brought the answer already."""
        if self._over:
            raise RemoteError(INTERNAL_ERROR, "the request that the question belongs to has ended")
        if key is not None and key in self._brought:
            return self._brought.pop(key)
        name = key or "question"
        while key is None or key in self._questions:
            self._asked += 1
            key = f"{name}-{self._asked}"
        answer: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()
        self._questions[key] = ({"method": method, "params": params} if params else {"method": method}, answer)
        self._wake()
        try:
            return await answer
        finally:
            self._questions.pop(key, None)

    async def pause(self) -> None:
        """Do nothing: modern streams cannot be resumed."""

    # ---- for the requests that wait ------------------------------------------------------------------------

    async def outcome(self, outlet: Outlet | None) -> Wire:
        """Return the result of the call, or its open questions as an `input_required` result.

        The call is cancelled if the last request that waits here is cancelled while the call is running.
        """
        self._set_timer(None)
        turn = self._wait(outlet)
        try:
            while not self._task.done() and not await self._settled():
                await turn
                del self._waiters[turn]
                turn = self._wait(outlet)
            state = None if self._task.done() else self._suspended_calls.admit(self, self._open())
        finally:
            del self._waiters[turn]
            if not self._waiters:
                self._last_waiter_left()
        if state is None:
            if self._ended:
                raise RemoteError(INTERNAL_ERROR, "the call was ended by the server")
            if self._task.cancelled():  # the function itself raised CancelledError
                raise internal_error(RuntimeError("the call cancelled itself"), "a call")
            return self._task.result()
        asked = self._open()
        return {
            "resultType": "input_required",
            "inputRequests": {key: question for key, (question, _) in asked.items()},
            "requestState": state,
        }

    def _wait(self, outlet: Outlet | None) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[turn] = outlet
        return turn

    def _open(self) -> dict[str, tuple[Wire, asyncio.Future[Wire]]]:
        return {key: pair for key, pair in self._questions.items() if not pair[1].done()}

    async def _settled(self) -> bool:
        """Return whether there are open questions, after collecting those that are asked together."""
        if not self._open():
            return False
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)
        return not self._task.done() and bool(self._open())

    def _wake(self) -> None:
        for turn in self._waiters:
            if not turn.done():
                turn.set_result(None)

    # ---- the end -------------------------------------------------------------------------------------------

    def _last_waiter_left(self) -> None:
        """Set the timer within which the client must answer the questions or fetch the outcome, or end the call."""
        if self.handles and self._task.done():
            self._set_timer(OUTCOME_TTL)
        elif self.handles and self._open():
            self._set_timer(self._suspended_calls.ttl)
        else:
            self.end()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        """Cancel the call, and invalidate its handles."""
        self._set_timer(None)
        self._suspended_calls.forget(self)
        if not self._task.done():
            self._ended = True
            self._task.cancel()
            self._fail_questions("the client did not answer in time")


def _answers(params: Wire) -> dict[str, Wire]:
    answers = params.get("inputResponses", {})
    if not isinstance(answers, dict) or not all(isinstance(value, dict) for value in answers.values()):
        raise RemoteError(INVALID_PARAMS, "inputResponses: must be an object of objects")
    return dict(answers)


def may_suspend(handler: RequestHandler, method: str, params: Wire) -> bool:
    """Return whether a modern request may have to wait for the client's answers, or brings some."""
    return method in MAY_ASK_FOR_INPUT and (
        "requestState" in params or "inputResponses" in params or handler.may_ask(method, params)
    )


class SuspendedCalls:
    """The suspended calls of one endpoint."""

    def __init__(self, ttl: float = TTL) -> None:
        self.ttl = ttl
        self._handles: dict[str, tuple[SuspendedCall, dict[str, asyncio.Future[Wire]]]] = {}
        self._suspended: Counter[Hashable] = Counter()
        self._size = 0
        self.tasks = TaskSet()
        """The tasks of calls that may be suspended."""

    async def answer(
        self, handler: RequestHandler, method: str, params: Wire, context: RequestContext, outlet: Outlet | None
    ) -> Wire:
        """Return the result of a request that may be suspended: its own, or its questions (`input_required`).

        `outlet` sends the notifications of the call meanwhile.
        """
        state, answers = params.get("requestState"), _answers(params)
        digest = request_digest(method, params)
        if state is None:
            return await SuspendedCall(self, handler, method, params, context, digest, answers).outcome(outlet)
        found, questions = self._handles.get(state, (None, {})) if isinstance(state, str) else (None, {})
        if (
            found is None
            or not found.belongs_to_running_loop()
            or found.principal != context.peer.principal
            or found.digest != digest
        ):
            raise RemoteError(INVALID_PARAMS, "requestState: unknown, expired, or of another request")
        for key, future in questions.items():
            if key in answers and not future.done():  # done: the client repeats its request, which then only waits
                future.set_result(answers[key])
        found.resume(context)
        return await found.outcome(outlet)

    def admit(self, call: SuspendedCall, asked: dict[str, tuple[Wire, asyncio.Future[Wire]]]) -> str:
        """Return the handle of a call for its open questions; raises -32603 if too many calls are suspended."""
        questions = {key: answer for key, (_, answer) in asked.items()}
        if call.handles and self._handles[call.handles[-1]][1] == questions:
            return call.handles[-1]
        if not call.handles:
            call.size = size_of(call.params)
            full = self._suspended.total() >= MAX_SUSPENDED or self._size + call.size > MAX_BYTES
            # Without `auth`, all clients have the principal None, and share only the limits of the endpoint.
            if full or (call.principal is not None and self._suspended[call.owner] >= MAX_EACH):
                raise RemoteError(INTERNAL_ERROR, "too many calls are waiting for answers of their clients")
            self._suspended[call.owner] += 1
            self._size += call.size
        handle = secrets.token_urlsafe(24)
        call.handles.append(handle)
        self._handles[handle] = (call, questions)
        for old in call.handles[:-KEPT_HANDLES]:
            del self._handles[old]
        del call.handles[:-KEPT_HANDLES]
        return handle

    def forget(self, call: SuspendedCall) -> None:
        """Invalidate the handles of a call."""
        if call.handles:
            self._size -= call.size
            self._suspended[call.owner] -= 1
            self._suspended += Counter()  # removes principals without suspended calls
        for handle in call.handles:
            del self._handles[handle]
        call.handles.clear()

    def close(self) -> None:
        """End every suspended call."""
        for call, _ in list(self._handles.values()):
            call.end()
