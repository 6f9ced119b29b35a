"""Requests of an upstream that belong to no call: they are forwarded with a running call, whichever ends first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.kit import LEGACY, PlayedServer, eventually, turns
from toolcrib.errors import OutcomeUnknown, RemoteError
from toolcrib.protocol import jsonrpc
from toolcrib.server.handler import Peer, RequestContext
from toolcrib.server.suspended_calls import SuspendedCalls
from toolcrib.types import UNSET, Wire
from toolcrib.upstreams.connection import Upstream
from toolcrib.upstreams.features import Features

ROOTS = {"roots": [{"uri": "file:///garden"}]}
RESULT = {"content": [{"type": "text", "text": "done"}]}
PARAMS = {"name": "look"}


class AskingServer(PlayedServer):
    """A legacy server that sends `roots/list` when it is asked to, and answers calls when `gate` is set."""

    execution_timeout = UNSET

    def __init__(self) -> None:
        super().__init__(initialize=LEGACY, tools__call=self._call)
        self.gate = asyncio.Event()
        self.gate.set()
        self.asks_in_calls = 0
        self._asked = 0

    async def ask(self) -> None:
        self._asked += 1
        await self.end.send(jsonrpc.request(f"roots-{self._asked}", "roots/list", {}))

    async def _call(self, _: Wire) -> Wire:
        for _ in range(self.asks_in_calls):
            await self.ask()
        self.asks_in_calls = 0
        await self.gate.wait()
        return RESULT

    @property
    def answers_received(self) -> list[Any]:
        return [each.get("result", each.get("error")) for each in self.received if "method" not in each]


class Front:
    """A modern client in front of the upstream."""

    def __init__(self, upstream: Upstream) -> None:
        self.calls = SuspendedCalls()
        self._upstream = upstream

    async def answer(self, method: str, params: Wire, context: RequestContext) -> Wire:
        return await self._upstream.request(method, PARAMS, context)

    async def send(self, **more: Any) -> Wire:
        peer = Peer("2026-07-28", modern=True, capabilities={"roots": {}})
        return await self.calls.answer(
            self,  # type: ignore[arg-type]  # only `answer` is needed
            "tools/call",
            {**PARAMS, **more},
            RequestContext(peer, None),  # type: ignore[arg-type]  # the suspended call is the back channel
            None,
        )

    async def send_answers(self, result: Wire, answer: Wire) -> Wire:
        assert result.get("resultType") == "input_required", result
        answers = dict.fromkeys(result["inputRequests"], answer)
        return await self.send(requestState=result["requestState"], inputResponses=answers)


async def forward(context: RequestContext, method: str, params: Wire) -> Wire:
    return await context.back_channel.ask(method, params, None)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[AskingServer, Upstream, Front]]:
    server = AskingServer()
    upstream = Upstream(server, Features(roots=True), None, forward, {"mode": "legacy"})  # type: ignore[arg-type]
    front = Front(upstream)
    try:
        yield server, upstream, front
    finally:
        front.calls.close()
        await upstream.client.close()


async def test_a_request_that_arrives_just_before_the_answer_of_a_modern_call_is_answered() -> None:
    async with asyncio.timeout(10), connected() as (server, _, front):
        server.asks_in_calls = 1
        asked = await front.send()
        assert await front.send_answers(asked, ROOTS) == RESULT
        await eventually(lambda: server.answers_received == [ROOTS])


async def test_all_requests_that_arrive_before_the_answer_are_answered() -> None:
    async with asyncio.timeout(10), connected() as (server, _, front):
        server.asks_in_calls = 3
        result = await front.send()
        while result.get("resultType") == "input_required":
            result = await front.send_answers(result, ROOTS)
        assert result == RESULT
        await eventually(lambda: server.answers_received == [ROOTS] * 3)


@pytest.mark.parametrize("count", [1, 2])
async def test_a_request_without_a_call_is_sent_with_the_next_one(count: int) -> None:
    async with asyncio.timeout(10), connected() as (server, upstream, front):
        await upstream.client.connect()
        for _ in range(count):
            await server.ask()
        await turns(20)
        result = await front.send()
        while result.get("resultType") == "input_required":
            result = await front.send_answers(result, ROOTS)
        assert result == RESULT
        await eventually(lambda: server.answers_received == [ROOTS] * count)


async def test_a_request_is_sent_with_the_next_call_if_the_call_ends_before_it_is_sent() -> None:
    """At each turn of the loop around the end of a call."""
    for after in range(12):
        async with asyncio.timeout(10), connected() as (server, upstream, front):
            await upstream.client.connect()
            server.gate.clear()
            first = asyncio.create_task(front.send())
            await eventually(lambda server=server: server.named("tools/call"))
            server.gate.set()
            await turns(after)
            await server.ask()
            results = [await first]
            if results[0] == RESULT:
                await turns(20)
                results = [await front.send()]
            assert await front.send_answers(results[0], ROOTS) == RESULT
            await eventually(lambda server=server: server.answers_received == [ROOTS])


async def test_a_client_that_rejects_the_request_is_not_asked_again() -> None:
    async with asyncio.timeout(10), connected() as (server, upstream, _):
        asked: list[str] = []

        class Rejecting:
            async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
                asked.append(method)
                raise RemoteError(-32601, "no roots")

        server.asks_in_calls = 1
        peer = Peer("2026-07-28", modern=True)
        context = RequestContext(peer, Rejecting())  # type: ignore[arg-type]  # only `ask` is used
        assert await upstream.request("tools/call", PARAMS, context) == RESULT
        assert await upstream.request("tools/call", PARAMS, context) == RESULT
        assert asked == ["roots/list"]
        await eventually(lambda: [each["message"] for each in server.answers_received] == ["no roots"])


async def test_a_call_that_is_cancelled_does_not_wait_for_the_client() -> None:
    async with asyncio.timeout(10), connected() as (server, upstream, _):

        class Silent:
            async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
                await asyncio.Event().wait()
                return {}

        server.asks_in_calls = 1
        context = RequestContext(Peer("2026-07-28", modern=True), Silent())  # type: ignore[arg-type]
        call = asyncio.create_task(upstream.request("tools/call", PARAMS, context))
        await eventually(lambda: server.named("tools/call"))
        await turns(20)
        assert not call.done(), "the request of the server is still open"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_legacy_call_does_not_wait_for_requests_of_the_server() -> None:
    """A legacy client can be asked at any time."""
    async with asyncio.timeout(10), connected() as (server, upstream, _):
        answer: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()

        class Slow:
            async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
                return await answer

        server.asks_in_calls = 1
        context = RequestContext(Peer("2025-11-25", modern=False), Slow())  # type: ignore[arg-type]
        assert await upstream.request("tools/call", PARAMS, context) == RESULT
        answer.set_result(ROOTS)
        await eventually(lambda: server.answers_received == [ROOTS])


async def test_a_call_ends_with_its_connection_even_if_a_request_of_the_server_is_open() -> None:
    async with asyncio.timeout(10), connected() as (server, _, front):
        server.asks_in_calls = 1
        server.gate.clear()
        asked = await front.send()
        await server.end.close()

        async def send_until_the_loss_is_noticed() -> None:
            while True:
                await front.send(requestState=asked["requestState"])

        with pytest.raises(OutcomeUnknown):
            await send_until_the_loss_is_noticed()
