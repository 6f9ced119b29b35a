"""claude-agent's MCP integration, sentence by sentence: the agent. `test_claude_sdk.py` runs the cases.

Where that document writes `Agent::builder().from_claude_code(".").mcp_manager(manager).build()`, Toolcrib writes
`ClaudeAgentOptions(mcp_servers=claude_agent.servers(hub), allowed_tools=claude_agent.allowed_tools(hub))`, of the
Claude Agent SDK. Each docstring gives the document's sentence in short words, and, after "Here:", a departure.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

import toolcrib as tc
from tests.contracts import filesystem_server
from tests.frameworks.played_cli import Play, PlayedCli, run_query
from toolcrib.adapters import claude_agent
from toolcrib.hub.hub import Hub
from toolcrib.hub.toolsets import Toolset

CASES: dict[str, Any] = {}


def case(function: Any) -> Any:
    CASES[function.__name__] = function
    return function


def folder_with_files() -> Path:
    folder = Path(tempfile.mkdtemp())
    (folder / "test.txt").write_text("File contents...")
    return folder


def github() -> tc.ToolServer:
    server = tc.ToolServer("github")
    server.add_tool(lambda title: {"title": title}, name="create_issue", description="Create an issue.")
    return server


async def run(hub: Hub, play: Play) -> None:
    """Run an agent of the SDK, whose CLI does this."""
    servers, allowed = claude_agent.servers(hub), claude_agent.allowed_tools(hub)
    result = await run_query(play, ClaudeAgentOptions(mcp_servers=servers, allowed_tools=allowed))
    assert not result.is_error, result.result


@case
async def an_agent_is_built_from_the_settings_of_a_project() -> None:
    """Agent::builder().from_claude_code("."): the servers of .claude/settings.json, with variables and cwd.

    Here: three lines, for .mcp.json and the settings of other programs too.
    """
    folder = folder_with_files()
    command = {"type": "stdio", "command": sys.executable, "args": [filesystem_server.__file__, "."]}
    settings = {"mcpServers": {"filesystem": {**command, "env": {"TOKEN": "${CRIB_TOKEN}"}, "cwd": str(folder)}}}
    (folder / ".claude").mkdir()
    (folder / ".claude" / "settings.json").write_text(json.dumps(settings))
    os.environ["CRIB_TOKEN"] = "t"

    async def play(cli: PlayedCli) -> None:
        await cli.initialize("filesystem")
        result = await cli.call_tool("filesystem", "read_file", {"path": str(folder / "test.txt")})
        assert result["content"] == [{"type": "text", "text": "File contents..."}]

    async with Hub.from_config(tc.discover_settings(folder)) as hub:
        options = ClaudeAgentOptions(
            mcp_servers=claude_agent.servers(hub), allowed_tools=claude_agent.allowed_tools(hub)
        )
        assert options.allowed_tools == ["mcp__filesystem__read_file", "mcp__filesystem__write_file"]
        assert not (await run_query(play, options)).is_error


@case
async def the_manager_of_the_program_is_given_to_the_agent() -> None:
    """let mut mcp_manager = McpManager::new(); mcp_manager.add_server(...); .mcp_manager(mcp_manager)."""
    folder = folder_with_files()
    async with Hub() as manager:
        await manager.add_server("filesystem", filesystem_server.make_server(folder))
        await manager.add_server("github", github())

        async def play(cli: PlayedCli) -> None:
            for name in ("filesystem", "github"):
                await cli.initialize(name)
            result = await cli.call_tool("github", "create_issue", {"title": "Broken"})
            assert json.loads(result["content"][0]["text"]) == {"title": "Broken"}

        await run(manager, play)


@case
async def tools_are_available_by_their_qualified_names() -> None:
    """MCP tools automatically available as mcp__servername_toolname.

    Here: with two underscores, as everywhere else in the document. Claude's names and those of the hub are the same.
    """
    async with Hub({"filesystem": filesystem_server.make_server(folder_with_files()), "github": github()}) as manager:
        names = [tool.name for tool in await manager.list_tools()]
        assert claude_agent.allowed_tools(manager) == names

        async def play(cli: PlayedCli) -> None:
            offered = []
            for server in claude_agent.servers(manager):
                await cli.initialize(server)
                offered += [f"mcp__{server}__{tool['name']}" for tool in await cli.list_tools(server)]
            assert offered == names

        await run(manager, play)


@case
async def a_tool_has_name_description_and_schema() -> None:
    """McpToolDefinition { name, description, input_schema }."""
    async with Hub({"github": github()}) as manager:

        async def play(cli: PlayedCli) -> None:
            await cli.initialize("github")
            (tool,) = await cli.list_tools("github")
            assert (tool["name"], tool["description"]) == ("create_issue", "Create an issue.")
            assert tool["inputSchema"]["required"] == ["title"]

        await run(manager, play)


@case
async def content_of_every_kind_reaches_the_agent() -> None:
    """McpContent: Text, Image { data, mime_type }, Resource { uri, text, blob, mime_type }; McpToolResult.is_error."""
    server = tc.ToolServer("lab")

    @server.tool
    def everything() -> tc.ToolResult:
        resource = tc.ResourceContents("memo://1", "text/plain", "a memo")
        image = tc.ImageContent(b"\x89PNG", "image/png")
        return tc.ToolResult.from_blocks([tc.TextContent("a text"), image, tc.EmbeddedResource(resource)])

    @server.tool
    def fail() -> str:
        raise tc.ToolFailed("the disk is full")

    async with Hub({"lab": server}) as manager:

        async def play(cli: PlayedCli) -> None:
            await cli.initialize("lab")
            text, image, resource = (await cli.call_tool("lab", "everything", {}))["content"]
            assert text == {"type": "text", "text": "a text"}
            assert (image["type"], image["data"], image["mimeType"]) == ("image", "iVBORw==", "image/png")
            assert (resource["resource"]["uri"], resource["resource"]["text"]) == ("memo://1", "a memo")
            failed = await cli.call_tool("lab", "fail", {})
            assert failed["isError"] is True and "the disk is full" in failed["content"][0]["text"]

        await run(manager, play)


@case
async def deferred_tools_are_not_in_the_request() -> None:
    """McpToolset::new("github").defer_all(): deferred tool loading for API request optimization."""
    async with Hub({"github": github()}) as manager:
        manager.toolsets.register(Toolset("github").defer_all())
        assert claude_agent.allowed_tools(manager) == []
        assert claude_agent.allowed_tools(manager, deferred=True) == ["mcp__github__create_issue"]
        searching = manager.view(meta_tools=True)
        assert "mcp__toolcrib__search_tools" in claude_agent.allowed_tools(searching)


@case
async def the_tools_of_a_removed_server_are_gone() -> None:
    """manager.remove_server("github"). Here: an agent that is running notices it with its next list or call."""
    async with Hub({"github": github()}) as manager:

        async def play(cli: PlayedCli) -> None:
            await cli.initialize("github")
            assert len(await cli.list_tools("github")) == 1
            await manager.remove_server("github")
            assert await cli.list_tools("github") == []
            assert (await cli.call_tool("github", "create_issue", {"title": "x"}))["isError"] is True

        await run(manager, play)


@case
async def a_server_that_is_not_there_does_not_end_the_agent() -> None:
    """McpError::ConnectionFailed. Here: the agent runs with the other servers."""
    async with Hub({"gone": tc.StdioServer("no-such-command-here"), "github": github()}) as manager:

        async def play(cli: PlayedCli) -> None:
            for name in ("gone", "github"):
                await cli.initialize(name)
            assert await cli.list_tools("gone") == []
            failed = await cli.call_tool("gone", "anything", {})
            assert failed["isError"] is True and "did not run" in failed["content"][0]["text"]
            assert not (await cli.call_tool("github", "create_issue", {"title": "x"})).get("isError")

        await run(manager, play)
