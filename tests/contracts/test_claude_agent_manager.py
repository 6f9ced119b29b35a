"""claude-agent's MCP integration, sentence by sentence: the manager of many servers and what it gives.

Where that document writes `McpManager`, `ResourceManager` and `McpToolset`, Toolcrib writes `Hub`, `hub.resources` and
`Toolset`. Each docstring gives the document's sentence in short words, and, after "Here:", where Toolcrib departs from
it and why.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.contracts import filesystem_server
from tests.hub.kit import bad, echo_server, played
from tests.unit.kit import LEGACY, PlayedServer, eventually
from toolcrib import tool_names
from toolcrib.hub.hub import Hub
from toolcrib.hub.resources import BinaryResource, ResourceQuery
from toolcrib.hub.toolsets import ToolLoadConfig, Toolset, Toolsets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    place.mkdir()
    (place / "test.txt").write_text("File contents...")
    (place / "picture.png").write_bytes(b"\x89PNG\xff")
    return place


@pytest.fixture
def filesystem(folder: Path) -> tc.ToolServer:
    return filesystem_server.make_server(folder)


@pytest.fixture
def filesystem_process(folder: Path) -> tc.StdioServer:
    return tc.StdioServer(sys.executable, [filesystem_server.__file__, str(folder)])


def github() -> tc.ToolServer:
    return echo_server("create_issue", name="github")


# ---- "McpManager": manages multiple server connections


async def test_the_life_of_a_manager(filesystem_process: tc.StdioServer, folder: Path) -> None:
    """new, add_server twice, list_tools, call_tool, read_resource, list_servers, remove_server, close_all."""
    manager = Hub()
    await manager.add_server("filesystem", filesystem_process)
    await manager.add_server("github", github())
    listed = {tool.name: tool.description for tool in await manager.list_tools()}
    assert listed == {
        "mcp__filesystem__read_file": "Read a file.",
        "mcp__filesystem__write_file": "Write a file.",
        "mcp__github__create_issue": "create_issue something",
    }
    path = folder / "test.txt"
    result = await manager.call_tool("mcp__filesystem__read_file", {"path": str(path)})
    assert result.text == "File contents..."
    assert (await manager.read_resource("filesystem", path.as_uri())).text == "File contents..."
    assert [server.name for server in manager.list_servers()] == ["filesystem", "github"]
    await manager.remove_server("filesystem")
    assert [server.name for server in manager.list_servers()] == ["github"]
    with pytest.raises(tc.ToolNotFound):
        await manager.call_tool("mcp__filesystem__read_file", {"path": str(path)})
    await manager.close()
    with pytest.raises(tc.UsageError):
        await manager.list_tools()


async def test_a_server_that_cannot_be_connected_is_not_added() -> None:
    """add_server(...).await?"""
    async with Hub() as manager:
        with pytest.raises(tc.ConnectError):
            await manager.add_server("gone", tc.StdioServer("no-such-command-here"))
        assert manager.list_servers() == []


async def test_each_server_has_its_own_connection(filesystem_process: tc.StdioServer, folder: Path) -> None:
    """The picture: one manager, a client for each server, a transport for each client."""
    async with Hub(dict.fromkeys(("server1", "server2", "server3"), filesystem_process)) as manager:
        path = {"path": str(folder / "test.txt")}
        calls = [manager.call_tool(f"mcp__server{n}__read_file", path) for n in (1, 2, 3)]
        assert [result.text for result in await asyncio.gather(*calls)] == ["File contents..."] * 3
        await manager.remove_server("server2")
        assert [state.connected for state in manager.list_servers()] == [True, True]
        assert (await manager.call_tool("mcp__server3__read_file", path)).text == "File contents..."


# ---- "Tool naming convention"


@pytest.mark.parametrize(
    "server, tool, name",
    [
        ("filesystem", "read_file", "mcp__filesystem__read_file"),
        ("github", "create_issue", "mcp__github__create_issue"),
        ("slack", "send_message", "mcp__slack__send_message"),
    ],
)
async def test_tools_are_exposed_with_qualified_names(server: str, tool: str, name: str) -> None:
    """mcp__{server_name}__{tool_name}, with double underscores; the document's three examples."""
    async with Hub({server: echo_server(tool)}) as manager:
        (found,) = await manager.list_tools()
        assert (found.name, found.server, found.original_name) == (name, server, tool)
        assert (await manager.call_tool(name, {"x": 1})).data == {"x": 1}


async def test_names_are_the_managers_business() -> None:
    """parse_mcp_name, make_mcp_name, is_mcp_name are not part of the public API: use call_tool directly.

    Here: names are never parsed, so no names of servers and tools can be mistaken for others.
    """
    assert not any("mcp_name" in name for name in tc.__all__) and not hasattr(tool_names, "parse")
    async with Hub({"a": echo_server("b__c"), "a_b": echo_server("c")}) as manager:
        assert [tool.name for tool in await manager.list_tools()] == ["mcp__a__b__c", "mcp__a_b__c"]
        assert {state.name: len(state.tools) for state in manager.list_servers()} == {"a": 1, "a_b": 1}


# ---- the definitions


async def test_a_tool_definition_has_name_description_and_input_schema(filesystem: tc.ToolServer) -> None:
    """McpToolDefinition { name, description, input_schema: JSON Schema }."""
    async with Hub({"filesystem": filesystem}) as manager:
        tool = (await manager.list_tools())[0]
    assert (tool.name, tool.description) == ("mcp__filesystem__read_file", "Read a file.")
    assert tool.input_schema["type"] == "object" and tool.input_schema["required"] == ["path"]


async def test_a_resource_definition_has_uri_name_and_perhaps_description_and_type(
    filesystem: tc.ToolServer, folder: Path
) -> None:
    """McpResourceDefinition { uri, name, description: Option, mime_type: Option }."""
    async with Hub({"filesystem": filesystem}) as manager:
        picture, text = await manager.list_resources()
    assert (text.uri, text.name, text.mime_type) == ((folder / "test.txt").as_uri(), "test.txt", "text/plain")
    assert (picture.mime_type, picture.server) == ("image/png", "filesystem")
    assert tc.Resource("a:", "a").mime_type is None and tc.Resource("a:", "a").description == ""


async def test_a_tool_result_has_content_and_is_error() -> None:
    """McpToolResult { content, is_error }; McpContent: Text, Image { data, mime_type }, Resource { uri, ... }."""
    data = b64encode(b"bytes").decode()
    content = [
        {"type": "text", "text": "t"},
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a:", "text": "x", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "b:", "blob": data}},
    ]
    server = played("one", tools__call={"content": content, "isError": True})
    async with Hub({"s": server}) as manager:
        result = await manager.call_tool("mcp__s__one")
    assert result.is_error is True
    text, image, words, blob = result.content
    assert text == tc.TextContent("t")
    # Here: bytes are decoded; what the wire had is in `raw`.
    assert image == tc.ImageContent(b"bytes", "image/png") and image.raw["data"] == data
    assert isinstance(words, tc.EmbeddedResource) and isinstance(blob, tc.EmbeddedResource)
    assert (words.resource.uri, words.resource.text, words.resource.mime_type) == ("a:", "x", "text/plain")
    assert (blob.resource.blob, blob.resource.text, blob.resource.mime_type) == (b"bytes", None, None)


# ---- "ResourceManager": high-level resource operations


async def test_the_operations_of_the_resource_manager(filesystem: tc.ToolServer, folder: Path) -> None:
    """list_all, list_from_server, read_text, find_by_pattern("file://*")."""
    other = tc.ToolServer("other")
    other.add_resource(lambda: "hello", uri="memo://hello", name="hello")
    async with Hub({"filesystem": filesystem, "other": other}) as manager:
        resources = manager.resources
        assert [each.name for each in await resources.list_all()] == ["picture.png", "test.txt", "hello"]
        assert [each.name for each in await resources.list_from_server("filesystem")] == ["picture.png", "test.txt"]
        uri = (folder / "test.txt").as_uri()
        assert await resources.read_text("filesystem", uri) == "File contents..."
        matches = await resources.find_by_pattern("file://*")
        assert [each.name for each in matches] == ["picture.png", "test.txt"]


async def test_a_picture_is_not_text(filesystem: tc.ToolServer, folder: Path) -> None:
    """Read as text. Here: of other content, a typed error, and read_bytes gives it."""
    async with Hub({"filesystem": filesystem}) as manager:
        uri = (folder / "picture.png").as_uri()
        with pytest.raises(BinaryResource, match="read_bytes"):
            await manager.resources.read_text("filesystem", uri)
        assert await manager.resources.read_bytes("filesystem", uri) == b"\x89PNG\xff"


async def test_the_resource_query_builder(filesystem: tc.ToolServer) -> None:
    """ResourceQuery::new().server("filesystem").pattern("file://*").mime_type("text/plain").execute(&manager)."""
    async with Hub({"filesystem": filesystem, "copy": filesystem}) as manager:
        results = (
            await ResourceQuery()
            .server("filesystem")
            .pattern("file://*")
            .mime_type("text/plain")
            .execute(manager.resources)
        )
        assert [(each.server, each.name) for each in results] == [("filesystem", "test.txt")]
        of_both = await ResourceQuery().mime_type("text/plain").execute(manager.resources)
        assert [each.server for each in of_both] == ["filesystem", "copy"]
        # Here: a missing server is not an empty answer.
        with pytest.raises(tc.ServerNotFound):
            await ResourceQuery().server("filesytem").execute(manager.resources)


# ---- "Toolset configuration"


def test_a_toolset_defers_all_or_all_but_some() -> None:
    """McpToolset::new("database").defer_all().keep_loaded(["search_events"])."""
    everything = Toolset("database").defer_all()
    assert everything.is_deferred("some_tool") and everything.is_deferred("search_events")
    kept = everything.keep_loaded(["search_events"])
    assert kept.is_deferred("some_tool") and not kept.is_deferred("search_events")
    assert everything.is_deferred("search_events"), "a step makes a new toolset"


def test_the_registry_manages_several_toolsets() -> None:
    """registry.register(toolset); registry.is_deferred("database", "some_tool"). Unregistered servers are not."""
    registry = Toolsets()
    registry.register(Toolset("database").defer_all().keep_loaded(["search_events"]))
    registry.register(Toolset("files").configure("rare", ToolLoadConfig(defer=True)))
    assert registry.is_deferred("database", "some_tool")
    assert not registry.is_deferred("database", "search_events")
    assert registry.is_deferred("files", "rare") and not registry.is_deferred("files", "common")
    assert not registry.is_deferred("unregistered", "some_tool")


async def test_deferred_tools_are_loaded_on_first_use() -> None:
    """Deferred tool loading for API request optimization: loaded on first use.

    Here: in the view of the agent that used it. What an agent searches for can be loaded into its view as well.
    """
    database = echo_server("search_events", "drop_table", "count_rows", name="database")
    async with Hub({"database": database}) as manager:
        manager.toolsets.register(Toolset("database").defer_all().keep_loaded(["search_events"]))
        assert [tool.original_name for tool in await manager.list_tools()] == ["search_events"]
        assert len(await manager.list_tools(deferred=True)) == 3
        agent, other = manager.view(), manager.view()
        assert (await agent.call_tool("mcp__database__drop_table", {"x": 1})).data == {"x": 1}
        assert [tool.original_name for tool in await agent.list_tools()] == ["search_events", "drop_table"]
        await other.search_tools("count the rows", limit=1, load=True)
        assert [tool.original_name for tool in await other.list_tools()] == ["search_events", "count_rows"]
        assert len(await manager.list_tools()) == 1


# ---- "ReconnectPolicy"


def test_the_reconnect_policy_and_its_defaults() -> None:
    """base_delay_ms 1000, max_delay_ms 30000, max_retries 3, jitter_factor 0.3. Here: seconds."""
    assert dataclasses.asdict(tc.ReconnectPolicy()) == {
        "base_delay": 1.0,
        "max_delay": 30.0,
        "max_retries": 3,
        "jitter_factor": 0.3,
    }


async def test_a_server_that_is_lost_comes_back(tmp_path: Path) -> None:
    """Automatic reconnection."""
    harness = bad(tmp_path, "lost")
    policy = tc.ReconnectPolicy(base_delay=0.01, max_delay=0.1, max_retries=3, jitter_factor=0.0)
    async with Hub({"lost": harness.server()}, reconnect=policy) as manager:
        back = asyncio.Event()
        manager.on(tc.events.Reconnected, lambda event: back.set())
        harness.kill()
        async with asyncio.timeout(10):
            await back.wait()
        assert (await manager.call_tool("mcp__lost__echo", {"nonce": "n"})).text == "n"
    assert harness.record.lives == 2


async def test_the_policy_is_the_managers(tmp_path: Path) -> None:
    """McpManager::new().reconnect_policy(policy): it decides how often and when a lost server is tried.

    Here max_retries is 2: the first attempt comes after one base delay, the second after two.
    """
    harness, gone = bad(tmp_path, "lost"), tmp_path / "gone"
    # Once the file exists, the server's process ends as soon as it has started.
    command = ["-c", '[ -e "$0" ] && exit 7; exec "$@"', str(gone), *harness.command()]
    policy = tc.ReconnectPolicy(base_delay=0.1, max_delay=30, max_retries=2, jitter_factor=0.0)
    clock = asyncio.get_running_loop().time
    async with Hub({"lost": tc.StdioServer("sh", command)}, reconnect=policy) as manager:
        lost, attempts, failures = [], [], []
        manager.on(tc.events.Disconnected, lambda event: lost.append(clock()))
        manager.on(tc.events.ConnectionStarted, lambda event: attempts.append(clock()))
        manager.on(tc.events.ConnectionFailed, lambda event: failures.append(clock()))
        gone.touch()
        harness.kill()
        await eventually(lambda: manager.list_servers()[0].status.state is tc.ConnectionState.FAILED)
        assert (len(lost), len(attempts), len(failures)) == (1, 2, 2)
        waits = [attempts[0] - lost[0], attempts[1] - failures[0]]
        assert waits[0] >= 0.09 and waits[1] >= 0.19, waits


# ---- "Connection status" and "Server state"


async def test_the_states_of_a_connection() -> None:
    """Connecting, Connected, Disconnected. Here: and why it is so, and four more that say what to do."""
    assert {"connecting", "connected", "disconnected"} < {state.value for state in tc.ConnectionState}
    release = asyncio.Event()

    async def handshake(params: Any) -> dict[str, Any]:
        await release.wait()
        return LEGACY

    slow = PlayedServer(initialize=handshake, tools__list={"tools": []})
    manager = Hub({"slow": slow}, mode="legacy", start_timeout=0)
    assert manager.list_servers()[0].status.state is tc.ConnectionState.DISCONNECTED
    async with manager:
        assert manager.list_servers()[0].status.state is tc.ConnectionState.CONNECTING
        release.set()
        await manager.refresh("slow")
        assert manager.list_servers()[0].status.state is tc.ConnectionState.CONNECTED
    assert manager.list_servers()[0].status.state is tc.ConnectionState.DISCONNECTED


async def test_the_state_of_a_server(filesystem: tc.ToolServer) -> None:
    """McpServerState { name, config, status, server_info: Option, tools, resources }."""
    async with Hub({"filesystem": filesystem}) as manager:
        (state,) = manager.list_servers()
    assert (state.name, state.config, state.status.state) == ("filesystem", filesystem, tc.ConnectionState.CONNECTED)
    assert state.server_info is not None
    assert (state.server_info.name, state.server_info.version) == ("filesystem", "1.2.3")
    assert [tool.name for tool in state.tools] == ["mcp__filesystem__read_file", "mcp__filesystem__write_file"]
    assert [resource.name for resource in state.resources] == ["picture.png", "test.txt"]
    (before,) = Hub({"filesystem": filesystem}).list_servers()
    assert (before.server_info, before.tools, before.resources) == (None, (), ())


# ---- "Error handling"


def failing() -> PlayedServer:
    def call(params: dict[str, Any]) -> Any:
        if params["name"] == "failing":
            return {"content": [{"type": "text", "text": "disk full"}], "isError": True}
        return tc.RemoteError(-32000, "busy") if params["name"] == "busy" else ["not", "an", "object"]

    handshake = {**LEGACY, "capabilities": {"tools": {}, "resources": {}}}
    return played("failing", "busy", "odd", initialize=handshake, tools__call=call, resources__list={"resources": []})


async def test_what_went_wrong_is_a_type() -> None:
    """Protocol, JsonRpc { code, message }, ToolError, ServerNotFound, ToolNotFound, ResourceNotFound { uri }."""
    files = tc.ToolServer("files")
    files.add_resource(lambda: "", "file:///tmp/test.txt", name="test")
    async with Hub({"s": failing(), "files": files}) as manager:
        with pytest.raises(tc.RemoteError, match="busy") as told:
            await manager.call_tool("mcp__s__busy")
        assert (told.value.code, told.value.message) == (-32000, "busy")
        result = await manager.call_tool("mcp__s__failing")
        with pytest.raises(tc.ToolFailed, match="disk full") as failed:
            result.raise_for_error()
        assert failed.value.result is result
        with pytest.raises(tc.ProtocolError) as odd:
            await manager.call_tool("mcp__s__odd")
        assert (odd.value.server, odd.value.tool, odd.value.sent) == ("s", "odd", True)
        assert (told.value.server, told.value.tool) == ("s", "busy")
        with pytest.raises(tc.ServerNotFound) as no_server:
            await manager.read_resource("filez", "file:///tmp/test.txt")
        assert (no_server.value.server, no_server.value.nearest) == ("filez", ("files",))
        with pytest.raises(tc.ToolNotFound) as no_tool:
            await manager.call_tool("mcp__s__bussy")
        assert (no_tool.value.server, no_tool.value.tool) == ("s", "mcp__s__bussy")
        assert no_tool.value.nearest == ("mcp__s__busy",)
        with pytest.raises(tc.ResourceNotFound) as no_resource:
            await manager.read_resource("files", "file:///tmp/tset.txt")
        assert (no_resource.value.server, no_resource.value.uri) == ("files", "file:///tmp/tset.txt")
        assert no_resource.value.nearest == ("file:///tmp/test.txt",)


async def test_a_connection_that_fails_says_why() -> None:
    """ConnectionFailed { message }, Io. Here: and the exit code, and the last words of the server."""
    sick = tc.StdioServer("sh", ["-c", "echo 'no token' >&2; exit 3"])
    async with Hub({"sick": sick}) as manager:
        (state,) = manager.list_servers()
        assert isinstance(state.last_error, tc.StartError)
        assert (state.last_error.exit_code, state.last_error.stderr.strip()) == (3, "no token")


async def test_a_server_that_speaks_no_json_says_so() -> None:
    """Json(serde_json::Error), Protocol. Here: for this server alone, the others serve."""
    noisy = tc.StdioServer(sys.executable, ["-c", "print('this is no JSON\\n' * 2000, flush=True); input()"])
    async with Hub({"noisy": noisy, "github": github()}) as manager:
        state, _ = manager.list_servers()
        assert isinstance(state.last_error, tc.ConnectError) and "malformed messages" in str(state.last_error)
        assert [tool.server for tool in await manager.list_tools()] == ["github"]


# ---- "Agent integration"


async def test_an_agent_has_the_tools_of_all_servers_at_once(filesystem: tc.ToolServer, folder: Path) -> None:
    """Agent::builder().mcp_manager(manager): tools automatically available as mcp__servername_toolname.

    Here: with two underscores, as everywhere else in the document; a name that a model gives back is called as it is.
    """
    async with Hub({"filesystem": filesystem, "github": github()}) as manager:
        tools = {tool.name: tool.input_schema for tool in await manager.list_tools()}
        asked = {"name": "mcp__filesystem__read_file", "input": {"path": str(folder / "test.txt")}}
        assert asked["name"] in tools and "mcp__github__create_issue" in tools
        assert (await manager.call_tool(asked["name"], asked["input"])).text == "File contents..."  # type: ignore[arg-type]
