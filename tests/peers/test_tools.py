"""Tools of real servers: lists, results of each shape, errors, progress, many calls at once."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

import pytest

import toolcrib as tc
from tests.peers.kit import (
    EACH_TRANSPORT,
    FASTMCP_LEGACY,
    FASTMCP_MODERN,
    SDK1,
    SDK2_MODERN,
    Chosen,
    Peer,
    ScriptedClient,
    over_each_transport,
    over_http,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)


async def test_every_tool_is_listed_with_its_description_and_schemas(scripted: ScriptedClient) -> None:
    tools = {tool.name: tool for tool in await scripted.client.list_tools()}

    assert {"add", "echo", "forecast", "fail", "nap", "ask_user", "ask_model", "grow"} <= tools.keys()
    assert tools["add"].description == "Add two numbers."
    assert tools["add"].input_schema["required"] == ["a", "b"]
    assert tools["add"]["inputSchema"] is tools["add"].input_schema
    assert tools["echo"].output_schema is None
    forecast = tools["forecast"].output_schema
    assert forecast is not None and set(forecast["properties"]) == {"city", "degrees"}


async def test_a_plain_result_has_text_and_no_data(scripted: ScriptedClient) -> None:
    result = await scripted.client.call_tool("echo", {"text": "grüße, 庭\nsecond line"})

    assert result.text == "grüße, 庭\nsecond line"
    assert result.data is None and not result.has_data and not result.is_error
    assert result.elapsed > 0


async def test_an_object_comes_as_data_and_as_text(scripted: ScriptedClient) -> None:
    result = await scripted.client.call_tool("forecast", {"city": "Bonn"})

    assert result.data == {"city": "Bonn", "degrees": 21.5}
    assert "Bonn" in result.text


@pytest.mark.parametrize(
    "tool, arguments, value", [("add", {"a": 2, "b": 40}, 42), ("numbers", {"count": 3}, [0, 1, 2])]
)
async def test_a_wrapped_value_is_unwrapped_where_the_server_marks_it(
    scripted: ScriptedClient, peer: Peer, tool: str, arguments: dict[str, int], value: object
) -> None:
    result = await scripted.client.call_tool(tool, arguments)

    assert result.data == (value if peer.marks_wrapped_results else {"result": value})
    assert result.raw["structuredContent"] == {"result": value}


@pytest.mark.slow
@pytest.mark.peers(
    Chosen(
        over_each_transport(FASTMCP_MODERN, FASTMCP_LEGACY),
        over_http(FASTMCP_MODERN, FASTMCP_LEGACY),
    )
)
async def test_a_mark_in_the_result_is_enough_where_no_tools_were_listed(
    peer: Peer, server_of: Callable[..., tc.ServerConfig]
) -> None:
    async with tc.Client(server_of(peer), mode=peer.mode) as client:
        assert (await client.call_tool("add", {"a": 2, "b": 40})).data == 42


async def test_no_block_of_a_result_is_dropped(scripted: ScriptedClient, peer: Peer) -> None:
    result = await scripted.client.call_tool("showcase")

    kinds = {type(block): block for block in result.content}
    assert kinds[tc.TextContent] == tc.TextContent("first")
    assert kinds[tc.ImageContent] == tc.ImageContent(PNG, "image/png")
    link = kinds[tc.ResourceLink]
    assert isinstance(link, tc.ResourceLink) and (link.uri, link.name) == ("crib://greeting", "greeting")
    embedded = kinds[tc.EmbeddedResource]
    assert isinstance(embedded, tc.EmbeddedResource) and embedded.resource.text == "inside"
    if peer.framework != "sdk1":
        assert kinds[tc.AudioContent] == tc.AudioContent(b"RIFF", "audio/wav")
    assert len(result.content) == len(kinds) == len(result.raw["content"])


async def test_a_tool_that_fails_gives_a_result_that_says_so(scripted: ScriptedClient) -> None:
    result = await scripted.client.call_tool("fail", {"message": "boom"})

    assert result.is_error and result.text
    with pytest.raises(tc.ToolFailed) as failure:
        result.raise_for_error()
    assert failure.value.result is result


async def test_arguments_that_the_schema_refuses_are_an_error_of_the_tool_that_names_them(
    scripted: ScriptedClient,
) -> None:
    result = await scripted.client.call_tool("add", {"a": "many", "b": 1})

    assert result.is_error
    assert "many" in result.text and "integer" in result.text


async def call_unknown_tool(client: tc.Client) -> str:
    """Return the outcome of calling an unknown tool.

    Some servers refuse the call: `ToolNotFound`. Others answer with an error result, which is returned as it is.
    """
    try:
        result = await client.call_tool("forecst", {"city": "Bonn"})
    except tc.ToolNotFound as exc:
        refusal = exc
    else:
        assert result.is_error
        return result.text
    assert "forecast" in refusal.nearest
    assert (refusal.tool, refusal.sent) == ("forecst", True)
    return str(refusal)


async def test_a_call_of_an_unknown_tool_says_so(scripted: ScriptedClient) -> None:
    await scripted.client.list_tools()
    assert "forecst" in await call_unknown_tool(scripted.client)


@pytest.mark.peers(Chosen(over_each_transport(SDK1, SDK2_MODERN), over_http(SDK1, SDK2_MODERN), over_http(SDK2_MODERN)))
async def test_a_call_of_an_unknown_tool_says_so_also_where_none_were_listed(
    peer: Peer, server_of: Callable[..., tc.ServerConfig]
) -> None:
    async with tc.Client(server_of(peer), mode=peer.mode) as client:
        assert "forecst" in await call_unknown_tool(client)


@pytest.mark.peers(EACH_TRANSPORT)
async def test_progress_is_reported_in_order_and_before_the_result(scripted: ScriptedClient) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    result = await scripted.client.call_tool("count", {"steps": 3}, on_progress=lambda *step: seen.append(step))

    assert result.text == "counted 3"
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@pytest.mark.peers(EACH_TRANSPORT)
async def test_progress_of_calls_at_once_reaches_its_own_caller(scripted: ScriptedClient) -> None:
    seen: dict[int, list[float | None]] = {steps: [] for steps in range(1, 9)}

    async def call(steps: int) -> None:
        await scripted.client.call_tool(
            "count", {"steps": steps}, on_progress=lambda _, total, __: seen[steps].append(total)
        )

    await asyncio.gather(*map(call, seen))

    assert seen == {steps: [steps] * steps for steps in seen}


@pytest.mark.peers(EACH_TRANSPORT)
async def test_calls_at_once_get_each_its_own_answer(scripted: ScriptedClient) -> None:
    results = await asyncio.gather(*(scripted.client.call_tool("add", {"a": n, "b": 1000}) for n in range(64)))

    assert [result.text for result in results] == [str(n + 1000) for n in range(64)]


async def test_the_raw_door_gives_the_wire_form(scripted: ScriptedClient) -> None:
    answer = await scripted.client.request("tools/list", {})

    assert "add" in [tool["name"] for tool in answer["tools"]]


async def test_an_unknown_method_is_the_servers_own_error(scripted: ScriptedClient, peer: Peer) -> None:
    with pytest.raises(tc.RemoteError) as refusal:
        await scripted.client.request("crib/nothing", {})

    assert refusal.value.code == (-32602 if peer.framework == "sdk1" else -32601)
