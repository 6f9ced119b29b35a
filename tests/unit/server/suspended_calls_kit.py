"""A tool that requests input, and a client that repeats its request, for the tests of suspended calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from toolcrib.errors import RemoteError
from toolcrib.server.handler import NO_BACK_CHANNEL, BackChannel, Deliver, Peer, RequestContext, Watch
from toolcrib.server.suspended_calls import SETTLE_TURNS, TTL, Outlet, SuspendedCall, SuspendedCalls
from toolcrib.types import Wire

Tool = Callable[[BackChannel], Awaitable[Any]]
CALL = {"name": "tool", "arguments": {"a": 1, "b": [2, {"c": None}]}}
YES = {"action": "accept", "content": {"ok": True}}


class Desk:
    """One tool with suspended calls, a record of its outcomes, and requests for it."""

    def __init__(self, tool: Tool, *, ttl: float = TTL) -> None:
        self.parking = SuspendedCalls(ttl)
        self.began = self.cancelled = 0
        self.exchanges: list[RequestContext] = []
        self._tool = tool

    # ---- the server's side ---------------------------------------------------------------------------------

    def describe(self, peer: Peer) -> Wire:
        raise NotImplementedError

    def may_ask(self, method: str, params: Wire) -> bool:
        return params.get("name") == "tool"

    def mirrored(self, tool: str) -> tuple[()]:
        return ()

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> Watch:
        raise NotImplementedError

    async def answer(self, method: str, params: Wire, exchange: RequestContext) -> Wire:
        self.began += 1
        self.exchanges.append(exchange)
        try:
            return {"said": await self._tool(exchange.back_channel)}
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    # ---- the client's side ------------------------------------------------------------------------------------

    async def call(
        self,
        state: Any = None,
        answers: Any = None,
        *,
        method: str = "tools/call",
        params: Wire = CALL,
        principal: Any = None,
        meta: Wire | None = None,
        level: str | None = None,
        id: int = 1,
        outlet: Outlet | None = None,
    ) -> Wire:
        params = {**params, "_meta": meta or {}}
        params |= {"requestState": state} if state is not None else {}
        params |= {"inputResponses": answers} if answers is not None else {}
        peer = Peer("2026-07-28", modern=True, principal=principal, log_level=level)
        exchange = RequestContext(peer, NO_BACK_CHANNEL, id, meta or {}, {"x-request": str(id)})
        return await self.parking.answer(self, method, params, exchange, outlet)

    async def refused(self, *args: Any, **options: Any) -> str:
        """Return the message with which an invalid request is refused."""
        with pytest.raises(RemoteError) as caught:
            await self.call(*args, **options)
        assert caught.value.code == -32602
        return caught.value.message

    @property
    def places(self) -> tuple[int, int, dict[str, int]]:
        """Return the handles, bytes, and calls by principal."""
        return len(self.parking._handles), self.parking._size, dict(self.parking._suspended)


def questions(result: Wire) -> dict[str, Wire]:
    """Return the questions of a suspended call."""
    assert set(result) == {"resultType", "inputRequests", "requestState"}
    assert result["resultType"] == "input_required"
    asked: dict[str, Wire] = result["inputRequests"]
    return asked


def timers() -> list[asyncio.TimerHandle]:
    """Return the pending timers of suspended calls."""
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return [each for each in scheduled if not each.cancelled() and SuspendedCall.__name__ in repr(each)]


def others() -> set[asyncio.Task[Any]]:
    """Return every task except the test's."""
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


async def one_question(back: BackChannel) -> Any:
    """Request input once."""
    return await back.ask("elicitation/create", {"message": "Go on?"}, "go")


class Working:
    """A tool that requests input, then runs until the test releases it."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.back_channel: BackChannel

    async def __call__(self, back: BackChannel) -> Any:
        self.back_channel = back
        answer = await one_question(back)
        await self.free.wait()
        return answer


async def waiting(desk: Desk, state: str, **options: Any) -> asyncio.Task[Wire]:
    """Start a repeated request that waits for the end of the call."""
    call, _ = desk.parking._handles[state]
    before = len(call._waiters)
    task = asyncio.create_task(desk.call(state, {"go": YES}, **options))
    await eventually(lambda: len(call._waiters) > before)
    await turns(SETTLE_TURNS + 1)
    return task


async def cancelled(task: asyncio.Task[Any]) -> bool:
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()
