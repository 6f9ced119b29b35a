"""The tools of one server of a toolbox, as a server of its own. tests/frameworks uses it with the Claude Agent SDK."""

from __future__ import annotations

from typing import Any

import pytest

import toolcrib as tc
from toolcrib.adapters.tool_requests import MAX_SERVER_NAME, ServerTools, ToolRequests
from toolcrib.adapters.toolbox import Toolbox
from toolcrib.errors import RemoteError
from toolcrib.server.handler import NO_BACK_CHANNEL, RequestContext
from toolcrib.server.requests import UNKNOWN_CLIENT

CONTEXT = RequestContext(UNKNOWN_CLIENT, NO_BACK_CHANNEL)


def lab() -> tc.ToolServer:
    server = tc.ToolServer("lab")

    @server.tool(title="Greet", annotations={"readOnlyHint": True})
    def greet(name: str, title: str = "") -> dict[str, str]:
        """Greet a person."""
        return {"text": f"Hello {title}{name}"}

    server.add_tool(lambda: "other", name="other")
    return server


def requests_for(hub: tc.Hub, server: str, **options: Any) -> ToolRequests:
    return ToolRequests(Toolbox(hub, **options), ServerTools(server, server))


async def names(requests: ToolRequests) -> list[str]:
    return [tool["name"] for tool in (await requests.answer("tools/list", {}, CONTEXT))["tools"]]


async def call(requests: ToolRequests, name: Any, /, **arguments: Any) -> Any:
    return await requests.answer("tools/call", {"name": name, "arguments": arguments}, CONTEXT)


async def test_a_server_lists_its_own_tools_by_short_names() -> None:
    async with tc.Hub({"lab": lab(), "more": lab()}) as hub:
        requests = requests_for(hub, "more")
        greet, other = (await requests.answer("tools/list", {}, CONTEXT))["tools"]
        assert (greet["name"], greet["title"], greet["description"]) == ("greet", "Greet", "Greet a person.")
        assert greet["annotations"] == {"readOnlyHint": True}
        assert set(greet["inputSchema"]["properties"]) == {"name", "title"}
        assert other["name"] == "other"
        assert requests.describe(UNKNOWN_CLIENT)["serverInfo"]["name"] == "more"


async def test_the_list_is_live() -> None:
    server = lab()
    async with tc.Hub({"lab": server}) as hub:
        requests = requests_for(hub, "lab")
        assert await names(requests) == ["greet", "other"]
        server.add_tool(lambda: "fresh", name="fresh")
        await hub.refresh()
        assert (await call(requests, "fresh"))["content"][0]["text"] == "fresh"
        assert await names(requests) == ["greet", "other", "fresh"]


async def test_results_keep_their_wire_form() -> None:
    async with tc.Hub({"lab": lab()}) as hub:
        result = await call(requests_for(hub, "lab"), "greet", name="Ada", title=None)
        assert result["structuredContent"] == {"text": "Hello Ada"}


async def test_errors_are_results_that_say_whether_the_tool_ran() -> None:
    async with tc.Hub({"lab": lab()}, disallowed_tools=["mcp__lab__other"]) as hub:
        requests = requests_for(hub, "lab")
        hidden = await call(requests, "other")
        assert hidden["isError"] and "did not run" in hidden["content"][0]["text"]
        assert (await call(requests, "nope"))["isError"]
        assert (await call(requests, "greet", wrong=1))["isError"]


async def test_other_requests_are_errors() -> None:
    async with tc.Hub({"lab": lab()}) as hub:
        requests = requests_for(hub, "lab")
        for method, params, code in (
            ("resources/list", {}, -32601),
            ("tools/call", {"name": 3}, -32602),
        ):
            with pytest.raises(RemoteError) as raised:
                await requests.answer(method, params, CONTEXT)
            assert raised.value.code == code


async def test_a_closed_hub_is_an_error_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with tc.Hub({"lab": lab()}) as hub:
        requests = requests_for(hub, "lab")
        await names(requests)
    for method, params in (("tools/list", {}), ("tools/call", {"name": "greet"})):
        with pytest.raises(RemoteError, match="closed"):
            await requests.answer(method, params, CONTEXT)
    assert "closed" in caplog.text


@pytest.mark.parametrize("name", ["", "a b", "a__b", "x" * (MAX_SERVER_NAME + 1)])
def test_a_name_that_leaves_no_room_or_is_not_valid_is_rejected(name: str) -> None:
    with pytest.raises(tc.ConfigError, match="Rename the server"):
        ServerTools(name, None)


async def test_tools_without_a_server_get_names_that_fit() -> None:
    server = tc.ToolServer("lab")
    server.add_tool(lambda: "long", name="l" * 100)
    server.add_tool(lambda: "dotted", name="a.b")
    async with tc.Client(server) as client:
        tools = ServerTools("x" * MAX_SERVER_NAME, None)
        requests = ToolRequests(Toolbox(client), tools)
        shown = await names(requests)
        assert all(len(tools.prefix + name) <= 64 for name in shown)
        assert [(await call(requests, name))["content"][0]["text"] for name in shown] == ["long", "dotted"]
