"""Requests of servers to a client: sampling, elicitation, roots; as requests (legacy) or in rounds (modern)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import toolcrib as tc
from tests.peers.kit import (
    EACH_TRANSPORT,
    FASTMCP_MODERN,
    PEERS,
    ROOTS,
    SDK1,
    SDK2_MODERN,
    Chosen,
    Peer,
    ScriptedClient,
    over_http,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_tool_lets_the_clients_model_answer(scripted: ScriptedClient) -> None:
    scripted.sampled.clear()
    scripted.says = lambda request: f"echo of {request.text}"

    result = await scripted.client.call_tool("ask_model", {"prompt": "what is it?"})

    assert result.text == "unknown said echo of what is it?"
    (request,) = scripted.sampled
    assert (request.text, request.system_prompt, request.max_tokens) == ("what is it?", "Be brief.", 64)


async def test_a_sampling_handler_may_give_the_whole_answer(scripted: ScriptedClient) -> None:
    content = {"type": "text", "text": "hello"}
    scripted.says = lambda _: {"role": "assistant", "content": content, "model": "m-1", "stopReason": "endTurn"}

    result = await scripted.client.call_tool("ask_model", {"prompt": "?"})

    assert result.text == "m-1 said hello"


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_tool_asks_the_person_who_accepts(scripted: ScriptedClient) -> None:
    scripted.asked.clear()
    scripted.answers = lambda _: {"name": "Ann"}

    result = await scripted.client.call_tool("ask_user", {"question": "who?"})

    assert result.text == "hello Ann"
    (request,) = scripted.asked
    assert (request.message, request.mode, request.url) == ("who?", "form", None)
    assert request.schema["properties"]["name"]["type"] == "string"


@pytest.mark.parametrize("answer, action", [(tc.ElicitResult("decline"), "decline"), (None, "cancel")])
async def test_a_person_may_decline_or_cancel(
    scripted: ScriptedClient, answer: tc.ElicitResult | None, action: str
) -> None:
    scripted.answers = lambda _: answer

    result = await scripted.client.call_tool("ask_user", {"question": "who?"})

    assert result.text == action


@pytest.mark.peers(EACH_TRANSPORT)
async def test_one_call_may_ask_twice_and_keeps_the_first_answer(scripted: ScriptedClient) -> None:
    scripted.asked.clear()
    scripted.answers = lambda request: {"name": "Ann"} if request.message == "name?" else {"colour": "red"}

    result = await scripted.client.call_tool("interview")

    assert result.text == "Ann likes red"
    assert [request.message for request in scripted.asked] == ["name?", "colour?"]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_calls_at_once_that_ask_get_each_its_own_answer(scripted: ScriptedClient) -> None:
    scripted.answers = lambda request: {"name": request.message.upper()}
    names = [f"n{i}" for i in range(8)]

    results = await asyncio.gather(*(scripted.client.call_tool("ask_user", {"question": name}) for name in names))

    assert [result.text for result in results] == [f"hello {name.upper()}" for name in names]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_a_server_is_given_the_roots_when_it_asks(scripted: ScriptedClient, peer: Peer) -> None:
    before = scripted.roots_asked

    result = await scripted.client.call_tool("roots")

    assert result.raw["structuredContent"] == {"result": ROOTS}
    assert scripted.roots_asked == before + 1


async def test_a_handler_that_raises_fails_its_own_call_alone(scripted: ScriptedClient) -> None:
    def broken(_: object) -> str:
        raise ValueError("out of order")

    scripted.says = scripted.answers = broken
    for tool, arguments in (("ask_model", {"prompt": "?"}), ("ask_user", {"question": "who?"})):
        with pytest.raises(tc.ToolcribError):
            (await scripted.client.call_tool(tool, arguments)).raise_for_error()

    scripted.says = lambda _: "back"
    assert (await scripted.client.call_tool("ask_model", {"prompt": "?"})).text == "unknown said back"


@pytest.mark.slow
@pytest.mark.peers(Chosen(PEERS, [SDK1, *over_http(SDK2_MODERN)]))
async def test_no_deadline_passes_while_a_person_thinks(scripted: ScriptedClient) -> None:
    async def thinking() -> dict[str, str]:
        await asyncio.sleep(1.2)
        return {"name": "Ann"}

    scripted.answers = lambda _: thinking()

    result = await scripted.client.call_tool("ask_user", {"question": "who?"}, timeout=1)

    assert result.text == "hello Ann"


@pytest.mark.peers(Chosen(PEERS, over_http(SDK1, SDK2_MODERN, FASTMCP_MODERN), over_http(SDK2_MODERN)))
async def test_a_client_without_handlers_is_never_made_to_answer(
    peer: Peer, server_of: Callable[..., tc.ServerConfig]
) -> None:
    async with tc.Client(server_of(peer), mode=peer.mode) as client:
        if peer.framework == "sdk2":  # it looks at what was declared, in either era
            with pytest.raises(tc.RemoteError) as refusal:
                await client.call_tool("ask_model", {"prompt": "?"})
            assert refusal.value.code == -32021
            assert refusal.value.data == {"requiredCapabilities": {"sampling": {}}}
        elif peer.is_modern:  # it sends an undeclared request, and the modern era has no form for a refusal
            with pytest.raises(tc.AccessDenied) as denial:
                await client.call_tool("ask_model", {"prompt": "?"})
            assert denial.value.rule == "sampling/createMessage"
        else:
            assert (await client.call_tool("ask_model", {"prompt": "?"})).is_error
        assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"
