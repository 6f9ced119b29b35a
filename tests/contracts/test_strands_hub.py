"""Strands' MCP tools, sentence by sentence: several servers at once, and the structure of a result.

Where that document enters several clients and adds their lists up, Toolcrib has `toolcrib.sync.Hub`; where it converts
a result, `result.to_tool_result(tool_use_id)`. Each docstring gives the document's sentence in short words, and, after
"Here:", a departure.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Place
from toolcrib.sync import Client, Hub


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, Place]]:
    """One server over SSE and one over stdio, as in the document's example."""
    made = {}
    for way in ("sse", "stdio"):
        (tmp_path / way).mkdir()
        made[way] = Place(way, "older", tmp_path / way)
    yield made
    for place in made.values():
        place.end()
        assert place.journal.faults == []


@pytest.fixture
def hub(places: dict[str, Place]) -> Iterator[Hub]:
    with Hub({way: place.server() for way, place in places.items()}) as hub:
        yield hub


# ---- "Using multiple MCP servers"


def test_tools_of_several_servers_are_combined_in_one_list(hub: Hub) -> None:
    """tools = sse_mcp_client.list_tools_sync() + stdio_mcp_client.list_tools_sync(): here hub.list_tools()."""
    tools = hub.list_tools()
    of_each = {way: [tool for tool in tools if tool.server == way] for way in ("sse", "stdio")}
    assert len(of_each["sse"]) == len(of_each["stdio"]) == len(tools) / 2 > 1
    assert tools == [*of_each["sse"], *of_each["stdio"]]


def test_tools_of_the_same_name_do_not_hide_each_other(hub: Hub, places: dict[str, Place]) -> None:
    """Combine tools from both servers. Here: both have an `echo`, and each is called by its own name."""
    names = [tool.name for tool in hub.list_tools()]
    assert len({*names}) == len(names) and {"mcp__sse__echo", "mcp__stdio__echo"} <= {*names}
    for way, place in places.items():
        assert hub.call_tool(f"mcp__{way}__echo", {"text": way}).text == way
        (call,) = place.journal.got("tools/call")
        assert call["params"]["arguments"] == {"text": way}


def test_several_clients_can_be_entered_side_by_side_as_well(places: dict[str, Place]) -> None:
    """with sse_mcp_client, stdio_mcp_client: both servers together."""
    with Client(places["sse"].server()) as one, Client(places["stdio"].server()) as two:
        assert len(one.list_tools() + two.list_tools()) == 2 * len(two.list_tools())


def test_custom_transports_work_together_in_one_hub(tmp_path: Path) -> None:
    """MCPClient(lambda: sse_client(...)), MCPClient(lambda: stdio_client(...)): used together, callables and all."""
    made = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made[name] = Place("pair", "older", tmp_path / name)
    with Hub({name: place.server() for name, place in made.items()}) as hub:
        assert {tool.server for tool in hub.list_tools()} == {"one", "two"}
        assert [hub.call_tool(f"mcp__{name}__echo", {"text": name}).text for name in made] == ["one", "two"]
    assert [(place.journal.lives, place.journal.faults) for place in made.values()] == [(1, []), (1, [])]


def test_the_servers_live_as_long_as_the_block(places: dict[str, Place]) -> None:
    """All operations within the context manager; outside it, errors. Here: UsageError."""
    hub = Hub({way: place.server() for way, place in places.items()})
    with pytest.raises(tc.UsageError, match="with"):
        hub.list_tools()
    with hub:
        assert all(state.connected for state in hub.list_servers())
    with pytest.raises(tc.UsageError, match="with"):
        hub.call_tool("mcp__stdio__echo", {"text": "x"})
    assert not any(state.connected for state in hub.list_servers())
    assert [place.journal.lives for place in places.values()] == [1, 1]


def test_one_server_that_is_not_there_does_not_take_the_others_away(places: dict[str, Place]) -> None:
    """Connection failures: ensure that the server is running. Here: the others serve meanwhile."""
    servers = {"gone": tc.StdioServer("no-such-command-here"), "stdio": places["stdio"].server()}
    with Hub(servers) as hub:
        assert {tool.server for tool in hub.list_tools()} == {"stdio"}
        gone = hub.list_servers()[0]
        assert not gone.connected and isinstance(gone.last_error, tc.StartError)
        assert "no-such-command-here" in str(gone.last_error)


class Agent:
    """As much of the document's agent as a test needs: it runs the tool uses that a model asks for."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.tools = {tool.name for tool in hub.list_tools()}

    def use(self, tool_use: dict[str, Any]) -> dict[str, Any]:
        assert tool_use["name"] in self.tools
        result = self.hub.call_tool(tool_use["name"], tool_use["input"])
        return result.to_tool_result(tool_use["toolUseId"])


def test_an_agent_with_all_tools(hub: Hub) -> None:
    """agent = Agent(tools=tools)."""
    agent = Agent(hub)
    uses = [
        {"toolUseId": f"use-{way}", "name": f"mcp__{way}__echo", "input": {"text": way}} for way in ("sse", "stdio")
    ]
    assert [agent.use(use) for use in uses] == [
        {"status": "success", "toolUseId": "use-sse", "content": [{"text": "sse"}]},
        {"status": "success", "toolUseId": "use-stdio", "content": [{"text": "stdio"}]},
    ]


# ---- "MCP tool response format" and "Tool result structure"


@pytest.mark.parametrize("way", ["sse", "stdio"])
def test_the_structure_of_a_result(hub: Hub, way: str) -> None:
    """{"status": str, "toolUseId": str, "content": List[dict]}."""
    result = hub.call_tool(f"mcp__{way}__echo", {"text": "30"}).to_tool_result("tool-123")
    assert result == {"status": "success", "toolUseId": "tool-123", "content": [{"text": "30"}]}
    assert result["content"][0]["text"] == "30"


def test_the_status_is_error_if_the_tool_says_so(hub: Hub) -> None:
    """status: "success" or "error" based on the MCP call result."""
    result = hub.call_tool("mcp__stdio__fail").to_tool_result("t")
    assert (result["status"], result["content"]) == ("error", [{"text": "it is"}, {"text": "broken"}])


def test_text_and_images_are_mapped_and_nothing_is_dropped(hub: Hub) -> None:
    """Text: {"text"}; image: {"image": {"format", "source": {"bytes"}}}, base64 decoded; others: None.

    Here: other blocks become text, so that the model knows of them.
    """
    text, image, audio, link, resource, unknown, last = hub.call_tool("mcp__stdio__blocks").to_tool_result("t")[
        "content"
    ]
    assert (text, last) == ({"text": "one"}, {"text": "two"})
    assert image == {"image": {"format": "png", "source": {"bytes": b"\x89bytes"}}}
    assert audio == {"text": "[audio: audio/wav, 6 bytes]"}
    assert link == {"text": "text <memo://text>"}
    assert resource == {"text": "good day\n"}
    assert "hologram" in unknown["text"]


@pytest.mark.parametrize(
    "mime_type, known",
    [("image/png", "png"), ("image/jpeg", "jpeg"), ("image/jpg", "jpeg"), ("image/gif", "gif"), ("image/webp", "webp")],
)
def test_the_mime_type_of_an_image_becomes_its_format(mime_type: str, known: str) -> None:
    """map_mime_type_to_image_format(content.mimeType), through a server of this process."""
    server = tc.ToolServer("pictures")
    server.add_tool(lambda: tc.ImageContent(b"picture", mime_type), name="draw")
    with Hub({"pictures": server}) as hub:
        (block,) = hub.call_tool("mcp__pictures__draw").to_tool_result("t")["content"]
    assert block == {"image": {"format": known, "source": {"bytes": b"picture"}}}
