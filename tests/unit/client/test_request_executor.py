"""One request, one outcome: the error of a call whose server disappears."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, MODERN, SILENCE, PlayedServer, eventually
from toolcrib.protocol import jsonrpc

QUESTION = {"method": "elicitation/create", "params": {"message": "?"}}
ASKS = {"resultType": "input_required", "inputRequests": {"q": QUESTION}}


async def test_a_call_whose_first_round_ran_is_neither_run_again_nor_called_unsent() -> None:
    """The server requests input and has ended when the answer arrives."""
    server = PlayedServer(server__discover=MODERN, tools__call=ASKS)

    async def answer(request: tc.ElicitRequest) -> dict[str, Any]:
        await server.end.close()
        await eventually(lambda: not client.connected)
        return {}

    client = tc.Client(server, elicitation_handler=answer)
    try:
        with pytest.raises(tc.OutcomeUnknown) as caught:
            await client.call_tool("any", retry_safe=False)
        assert caught.value.sent is True
        assert len(server.named("tools/call")) == 1
    finally:
        await client.close()


async def test_a_call_whose_server_dies_in_a_later_round_is_not_run_again() -> None:
    async def call(params: Any) -> Any:
        if "inputResponses" not in params:
            return ASKS
        await server.end.close()
        return SILENCE

    server = PlayedServer(server__discover=MODERN, tools__call=call)
    async with tc.Client(server, elicitation_handler=lambda _: {}) as client:
        with pytest.raises(tc.OutcomeUnknown) as caught:
            await client.call_tool("any", timeout=5)
    assert caught.value.sent is True
    assert len(server.named("tools/call")) == 2


# ---- sent ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer, expected",
    [
        (lambda _: 1 / 0, tc.RemoteError),
        (lambda _: object(), tc.RemoteError),
        (lambda _: {"x": object()}, tc.UsageError),
        (None, tc.AccessDenied),
    ],
    ids=["the handler raises", "no answer", "an answer that is not JSON", "no handler"],
)
async def test_a_call_that_fails_in_a_later_round_was_sent(answer: Any, expected: type[Exception]) -> None:
    question = {"method": "sampling/createMessage", "params": {"messages": []}}
    asks = {"resultType": "input_required", "inputRequests": {"q": question}}
    server = PlayedServer(server__discover=MODERN, tools__call=asks)
    async with tc.Client(server, sampling_handler=answer) as client:
        with pytest.raises(expected) as caught:
            await client.call_tool("any", timeout=5)
    assert caught.value.sent is True  # type: ignore[attr-defined]


async def test_a_server_that_asks_too_often_got_the_call() -> None:
    server = PlayedServer(server__discover=MODERN, tools__call=ASKS)
    async with tc.Client(server, elicitation_handler=lambda _: {}) as client:
        with pytest.raises(tc.ProtocolError) as caught:
            await client.call_tool("any", timeout=5)
    assert caught.value.sent is True


async def test_a_call_whose_first_attempt_was_sent_stays_sent_when_the_next_one_cannot_connect() -> None:
    server = PlayedServer(initialize=LEGACY)

    async def die(_: Any) -> Any:
        gone.set()
        await server.end.close()
        return SILENCE

    gone = asyncio.Event()
    server.answers["tools/call"] = die

    def transport() -> Any:
        if gone.is_set():
            raise OSError("the server does not exist")
        return server()

    async with tc.Client(transport, mode="legacy", retry_safe=True, max_attempts=2) as client:
        with pytest.raises(tc.ConnectError, match="the server does not exist") as caught:
            await client.call_tool("any", timeout=20)
    assert caught.value.sent is True
    assert len(server.named("tools/call")) == 1


async def test_a_connection_that_breaks_the_protocol_sent_no_call() -> None:
    server = PlayedServer(initialize={"protocolVersion": 5})
    client = tc.Client(server, mode="legacy")
    with pytest.raises(tc.ToolcribError) as caught:
        await client.call_tool("any", timeout=5)
    assert caught.value.sent is False
    await client.close()


# ---- the limit of calls in flight ----------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_handler_may_call_its_own_server_though_all_slots_are_taken(era: str) -> None:
    async def answer(_: tc.ElicitRequest) -> dict[str, Any]:
        return {"from the server": (await client.call_tool("inner", timeout=5)).text}

    async def call(params: Any) -> Any:
        if params["name"] == "inner" or "inputResponses" in params:
            return {"content": [{"type": "text", "text": params["name"]}]}
        if era == "modern":
            return ASKS
        await server.end.send(jsonrpc.request("q", QUESTION["method"], QUESTION["params"]))
        await eventually(lambda: [m for m in server.received if m.get("id") == "q" and "result" in m])
        return {"content": [{"type": "text", "text": "outer"}]}

    server = PlayedServer(initialize=LEGACY, server__discover=MODERN, tools__call=call)
    mode = "legacy" if era == "legacy" else "2026-07-28"
    async with tc.Client(server, mode=mode, max_in_flight=1, elicitation_handler=answer) as client:
        assert (await client.call_tool("outer", timeout=5)).text == "outer"
        assert [m["params"]["name"] for m in server.named("tools/call")][:2] == ["outer", "inner"]


# ---- deadlines while the server asks -------------------------------------------------------------------------


async def test_a_server_that_keeps_asking_cannot_keep_deadlines_from_passing() -> None:
    """This includes the deadlines of calls that are unrelated to the questions."""

    async def flood() -> None:
        for number in range(10_000):
            await server.end.send(jsonrpc.request(number, "sampling/createMessage", {"messages": []}))
            await asyncio.sleep(0.01)

    async def answer(_: tc.SamplingRequest) -> str:
        await asyncio.sleep(0.05)
        return "an answer"

    server = PlayedServer(initialize=LEGACY, tools__call=SILENCE, prompts__get=SILENCE)
    async with tc.Client(server, mode="legacy", sampling_handler=answer) as client:
        flooding = asyncio.ensure_future(flood())
        try:
            async with asyncio.timeout(10):
                calls = (client.call_tool("any", timeout=0.2), client.get_prompt("other", timeout=0.2))
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
        finally:
            flooding.cancel()
    assert [type(outcome) for outcome in outcomes] == [tc.UnansweredTimeout] * 2


async def test_a_server_that_asks_before_the_handshake_cannot_keep_the_attempt_open() -> None:
    async def initialize(_: Any) -> Any:
        await server.end.send(jsonrpc.request("q", "sampling/createMessage", {"messages": []}))
        return SILENCE

    server = PlayedServer(initialize=initialize)
    asked = asyncio.Event()

    async def answer(_: tc.SamplingRequest) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    client = tc.Client(server, mode="legacy", sampling_handler=answer, connect_timeout=0.3, max_attempts=1)
    async with asyncio.timeout(10):
        with pytest.raises(tc.ConnectError, match="connect_timeout"):
            await client.connect()
        assert asked.is_set()
        await client.close()


async def test_large_answers_of_a_handler_do_not_drop_a_server_that_reads_them() -> None:
    """Four pictures of 4 MB wait at the same time."""
    picture = {"role": "assistant", "model": "m", "content": {"type": "image", "data": "A" * 4_500_000}}

    async def call(_: Any) -> Any:
        for number in range(4):
            await server.end.send(jsonrpc.request(f"q{number}", "sampling/createMessage", {"messages": []}))
        await eventually(lambda: len([m for m in server.received if str(m.get("id")).startswith("q")]) == 4)
        return {"content": [{"type": "text", "text": "seen"}]}

    server = PlayedServer(initialize=LEGACY, tools__call=call)

    async def answer(_: tc.SamplingRequest) -> dict[str, Any]:
        return picture

    async with tc.Client(server, mode="legacy", sampling_handler=answer) as client:
        assert (await client.call_tool("any", timeout=20)).text == "seen"


async def test_a_lost_connection_is_reported_without_the_control_characters_of_a_foreign_transport(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Breaking(tc.MemoryStream):
        async def receive(self) -> Any:
            if broken.is_set():
                raise OSError("closed by peer: \x1b]0;owned\x07\n2026 CRITICAL forged")
            return await super().receive()

    broken, reasons = asyncio.Event(), []
    server = PlayedServer(initialize=LEGACY, tools__call={"content": []})

    def transport() -> Any:
        stream = server()
        stream.__class__ = Breaking
        return stream

    client = tc.Client(transport, mode="legacy", reconnect=tc.ReconnectPolicy(max_retries=0))
    client.on(tc.events.Disconnected, lambda event: reasons.append(event.reason))
    await client.connect()
    broken.set()
    await server.end.send(jsonrpc.notification("notifications/message", {"data": "wakes the reader"}))
    await eventually(lambda: reasons)
    await client.close()
    assert "closed by peer" in reasons[0]
    assert all(text.isprintable() for text in (*reasons, *caplog.messages))
