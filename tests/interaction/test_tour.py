"""A tour of the client's features."""

from __future__ import annotations

import pytest

import toolcrib as tc
from tests.interaction.kit import Place
from tests.interaction.marks import everywhere, only, per_protocol


@everywhere
async def test_one_server_as_in_the_tour(harness: Place) -> None:
    async with tc.Client(harness.server(), mode=harness.mode) as c:
        described = {tool.name: tool.description for tool in await c.list_tools()}
        assert described["echo"] == "Say it back"
        result = await c.call_tool("echo", {"text": "hello"}, timeout=10)
        assert result.text == "hello"
        assert result.data is None
        assert result.content == (tc.TextContent("hello"),)
        assert result.raise_for_error() is result


@pytest.mark.transport
async def test_the_attributes_of_a_client(harness: Place) -> None:
    c = harness.client(name="fs")
    assert (c.name, c.connected, c.server_info, c.status.state) == ("fs", False, None, tc.ConnectionState.DISCONNECTED)
    async with c:
        assert c.connected is True
        assert c.status.state == "connected"
        assert c.server_info is not None
        assert (c.server_info.name, c.server_info.version, c.server_info.title) == ("crib", "1.2.3", "The Crib")
        assert c.server_info.protocol_version == harness.version
        assert c.server_info.instructions == "Shut the gate."
        assert c.server_info.capabilities["resources"]["subscribe"] is True
    assert c.connected is False


async def test_the_raw_door_gives_the_answer_as_it_came(harness: Place) -> None:
    async with harness.client() as c:
        answer = await c.request("tools/list", {})
        assert answer["tools"][0]["name"] == "echo"
        assert answer.get("resultType") == ("complete" if harness.modern else None)
        params = {"name": "given", "arguments": {"x": None}}
        said = await c.request("tools/call", params)
        assert '"arguments": {"x": null}' in said["content"][0]["text"]
        assert params == {"name": "given", "arguments": {"x": None}}, "what the caller gave stays as it was"


async def test_raw_requests_raise_the_servers_errors(harness: Place) -> None:
    async with harness.client(name="fs") as c:
        with pytest.raises(tc.RemoteError) as caught:
            await c.request("no/such/method", {"a": 1})
    assert (caught.value.code, caught.value.server) == (-32601, "fs")


@per_protocol
async def test_a_tools_own_error_is_raised_on_demand(harness: Place) -> None:
    async with harness.client() as c:
        result = await c.call_tool("fail")
        assert (result.is_error, result.text) == (True, "it is\nbroken")
        with pytest.raises(tc.ToolFailed, match="it is broken") as caught:
            result.raise_for_error()
    assert caught.value.result is result


@pytest.mark.transport
async def test_ping_gives_the_seconds_that_it_took(harness: Place) -> None:
    async with harness.client() as c:
        assert 0 <= await c.ping() < 10
    asked = [message["method"] for message in harness.journal.entries("got")]
    assert asked.count("server/discover" if harness.modern else "ping") == (2 if harness.modern else 1)


def test_without_an_event_loop_as_in_the_tour(place: Place) -> None:
    with place.sync_client() as c:
        assert c.call_tool("echo", {"text": "mcp"}).text == "mcp"


@everywhere
@only(ways=["stdio", "http"], eras=["legacy"])
@pytest.mark.parametrize("mode, version", [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28",) * 2])
async def test_the_mode_chooses_the_era_of_a_server_that_speaks_both(harness: Place, mode: str, version: str) -> None:
    async with harness.client(mode=mode) as c:
        assert c.server_info is not None
        assert c.server_info.protocol_version == version
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.parametrize("server", [{"command": "python"}, "settings/.mcp.json", {"mcpServers": {}}, 7])
def test_a_non_server_is_reported_at_once(server: object) -> None:
    with pytest.raises(tc.ConfigError) as caught:
        tc.Client(server)
    assert caught.value.key == "server"


def test_a_dict_or_a_path_points_to_the_hub(tmp_path: object) -> None:
    for server in ({"mcpServers": {}}, tmp_path):
        with pytest.raises(tc.ConfigError, match=r"Hub\.from_config"):
            tc.Client(server)
