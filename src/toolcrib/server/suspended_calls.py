"""Questions of the modern era, where a server cannot ask: the call is suspended, and its questions are the answer.

The coroutine that asked goes on waiting. A random handle in `requestState` finds it when the client comes again with
what it was asked for; everything that binds the two together (who asked, for what, until when) stays here, so there is
nothing in the handle to read or to forge. A call is never run a second time.
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
"""Seconds that a suspended call waits for its answers."""
AFTERLIFE: Final = 30.0
"""Seconds that an outcome is kept for a client that comes twice."""
MAX_SUSPENDED: Final = 1_000
MAX_EACH: Final = 100
MAX_BYTES: Final = 64 * 1024 * 1024
"""Suspended calls of all, of one principal, and the size of their requests."""
KEPT_HANDLES: Final = 2
"""Handles of a call that find it: the newest, and the one before for a client that comes twice."""
SETTLING: Final = 4
"""Turns of the loop in which questions count as asked at the same time."""

Outlet = Callable[[str, Wire], Awaitable[None]]
"""Takes a notification for the one who waits for the call now."""


def salient(method: str, params: Wire) -> bytes:
    """A digest of what makes two requests the same one (not who sends it, nor what it answers)."""
    kept = {k: v for k, v in params.items() if k not in ("_meta", "inputResponses", "requestState")}
    try:
        text = orjson.dumps([method, kept], option=orjson.OPT_SORT_KEYS)
    except TypeError:
        text = json.dumps([method, kept], sort_keys=True).encode()
    return sha256(text).digest()


class SuspendedCall:
    """A call that may ask, in a task of its own; also the `BackChannel` of its request. Wait for it with `outcome`."""

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
        """Bytes of the whole request, with answers and `_meta`; measured when the call is suspended."""
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
        retrieve(task)  # it may be that no request waits for it any more
        self._close_questions("the request that the question belongs to is over")
        self._wake()

    def _close_questions(self, why: str) -> None:
        """Nobody will answer: who asks may be another task than the call's own, or a thread that it left behind."""
        self._over = True
        for _, future in self._questions.values():
            if not future.done():
                future.set_exception(RemoteError(INTERNAL_ERROR, why))

    def is_here(self) -> bool:
        """Whether it belongs to the running loop: what another one left behind does not go on."""
        return self._task.get_loop() is asyncio.get_running_loop()

    def go_on(self, request: RequestContext) -> None:
        """What is said from now on belongs to the request with which the client came again."""
        mine = self._context
        mine.id, mine.meta, mine.headers, mine.peer = request.id, request.meta, request.headers, request.peer

    # ---- the side of the one who answers -------------------------------------------------------------------

    async def notify(self, method: str, params: Wire) -> None:
        """Tell the one who waits, the latest of them; nobody waits for a suspended call."""
        outlet = next((each for each in reversed(self._waiters.values()) if each is not None), None)
        if outlet is not None:
            await outlet(method, params)

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
        """Park until the client comes with the answer, unless it brought it at once."""
        if self._over:
            raise RemoteError(INTERNAL_ERROR, "the request that the question belongs to is over")
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
        """There is nothing that the client could come again for."""

    # ---- the side of the one who asked ---------------------------------------------------------------------

    async def outcome(self, outlet: Outlet | None) -> Wire:
        """The result, or the questions as a result. Whoever leaves while the call runs for nobody else cancels it."""
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
                self._left()
        if state is None:
            if self._ended:
                raise RemoteError(INTERNAL_ERROR, "the call was ended")
            if self._task.cancelled():  # by itself: who waits was not
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
        """Whether there are questions, and all of those that are asked together."""
        if not self._open():
            return False
        for _ in range(SETTLING):
            await asyncio.sleep(0)
        return not self._task.done() and bool(self._open())

    def _wake(self) -> None:
        for turn in self._waiters:
            if not turn.done():
                turn.set_result(None)

    # ---- the end -------------------------------------------------------------------------------------------

    def _left(self) -> None:
        """Nobody waits now: for its questions the client will come again, for a lost outcome it may."""
        if self.handles and self._task.done():
            self._set_timer(AFTERLIFE)
        elif self.handles and self._open():
            self._set_timer(self._suspended_calls.ttl)
        else:
            self.end()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        """Nobody comes for it any more."""
        self._set_timer(None)
        self._suspended_calls.forget(self)
        if not self._task.done():
            self._ended = True
            self._task.cancel()
            self._close_questions("the client did not answer in time")


def _answers(params: Wire) -> dict[str, Wire]:
    answers = params.get("inputResponses", {})
    if not isinstance(answers, dict) or not all(isinstance(value, dict) for value in answers.values()):
        raise RemoteError(INVALID_PARAMS, "inputResponses: must be an object of objects")
    return dict(answers)


def may_suspend(handler: RequestHandler, method: str, params: Wire) -> bool:
    """Whether a modern request may have to wait for answers, or comes with some."""
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
        """The handlers that run for calls that may be suspended."""

    async def answer(
        self, handler: RequestHandler, method: str, params: Wire, context: RequestContext, outlet: Outlet | None
    ) -> Wire:
        """The result of a request that may park: its own, or its questions. `outlet` takes what is told meanwhile."""
        state, answers = params.get("requestState"), _answers(params)
        digest = salient(method, params)
        if state is None:
            return await SuspendedCall(self, handler, method, params, context, digest, answers).outcome(outlet)
        found, questions = self._handles.get(state, (None, {})) if isinstance(state, str) else (None, {})
        if found is None or not found.is_here() or found.principal != context.peer.principal or found.digest != digest:
            raise RemoteError(INVALID_PARAMS, "requestState: not one of ours, not of this request, or too old")
        for key, future in questions.items():
            if key in answers and not future.done():  # else it came before: who comes twice only waits
                future.set_result(answers[key])
        found.go_on(context)
        return await found.outcome(outlet)

    def admit(self, call: SuspendedCall, asked: dict[str, tuple[Wire, asyncio.Future[Wire]]]) -> str:
        """The handle of a call for the questions that it asks now."""
        questions = {key: answer for key, (_, answer) in asked.items()}
        if call.handles and self._handles[call.handles[-1]][1] == questions:
            return call.handles[-1]
        if not call.handles:
            call.size = size_of(call.params)
            full = self._suspended.total() >= MAX_SUSPENDED or self._size + call.size > MAX_BYTES
            # Where nobody is asked who he is, all are one.
            if full or (call.principal is not None and self._suspended[call.owner] >= MAX_EACH):
                raise RemoteError(INTERNAL_ERROR, "too many calls wait for their clients' answers")
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
        """Its handles find nothing any more."""
        if call.handles:
            self._size -= call.size
            self._suspended[call.owner] -= 1
            self._suspended += Counter()  # leaves out those who have none
        for handle in call.handles:
            del self._handles[handle]
        call.handles.clear()

    def close(self) -> None:
        """End every suspended call."""
        for call, _ in list(self._handles.values()):
            call.end()
