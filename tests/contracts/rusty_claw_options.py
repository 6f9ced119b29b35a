"""rusty_claw's MCP integration, sentence by sentence: the options of the agent. `test_claude_sdk.py` runs the cases.

Where that document writes `ClaudeAgentOptions::builder().mcp_servers(...).sdk_mcp_servers(...).allowed_tools(...)`, one
writes `ClaudeAgentOptions(mcp_servers=claude_agent.servers(...), allowed_tools=...)` of the Claude Agent SDK. Each
docstring gives the document's sentence in short words, and, after "Here:", a departure.
"""

from __future__ import annotations

from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

import toolcrib as tc
from tests.frameworks.played_cli import Play, PlayedCli, run_query
from toolcrib.adapters import claude_agent
from toolcrib.errors import ServerNotFound

CASES: dict[str, Any] = {}


def case(function: Any) -> Any:
    CASES[function.__name__] = function
    return function


@tc.tool(name="calculator", description="Perform arithmetic")
async def calculator(operation: str, a: int, b: int) -> tc.ToolResult:
    match operation:
        case "add":
            return tc.ToolResult.from_text(f"{a + b}")
        case "multiply":
            return tc.ToolResult.from_text(f"{a * b}")
        case _:
            return tc.ToolResult.from_error(f"Unknown operation: {operation}")


def math_tools() -> tc.ToolServer:
    server = tc.ToolServer("math-tools", version="1.0.0")
    server.add_tool(calculator)
    return server


async def run(play: Play, **options: Any) -> None:
    """Run an agent of the SDK, whose CLI does this."""
    result = await run_query(play, ClaudeAgentOptions(**options))
    assert not result.is_error, result.result


# ---- 2: external MCP servers


@case
async def external_configurations_are_passed_through() -> None:
    """The SDK passes the configuration through: tagged as stdio, sse or http; it starts nothing itself."""
    servers = claude_agent.servers(
        external={
            "my-server": tc.StdioServer("my-server", ["--fast"], env={"TOKEN": "t"}),
            "events": tc.SseServer("https://example.com/sse", headers={"X-Team": "tools"}),
            "remote": tc.HttpServer("https://example.com/mcp"),
        }
    )
    options = ClaudeAgentOptions(mcp_servers=servers)
    assert options.mcp_servers == {
        "my-server": {"type": "stdio", "command": "my-server", "args": ["--fast"], "env": {"TOKEN": "t"}},
        "events": {"type": "sse", "url": "https://example.com/sse", "headers": {"X-Team": "tools"}},
        "remote": {"type": "http", "url": "https://example.com/mcp"},
    }


@case
async def both_categories_are_in_one_map() -> None:
    """External servers, managed by the CLI; SDK servers, in-process tools. Here: both are in `mcp_servers`."""
    registry = tc.ServerRegistry([math_tools()])
    servers = claude_agent.servers(registry, external={"my-server": tc.StdioServer("my-server")})
    assert {name: entry["type"] for name, entry in servers.items()} == {"math-tools": "sdk", "my-server": "stdio"}


# ---- 3 and 8: in-process servers, JSON-RPC routing


@case
async def messages_of_the_cli_reach_the_server_with_that_name() -> None:
    """The CLI sends JSON-RPC by mcp_message; the registry routes it to the server, and the server to its tool."""
    other = tc.ToolServer("other")
    other.add_tool(lambda: "the other", name="calculator")

    async def play(cli: PlayedCli) -> None:
        for name in ("math-tools", "other"):
            await cli.initialize(name)
        sum_of = await cli.call_tool("math-tools", "calculator", {"operation": "add", "a": 2, "b": 3})
        assert sum_of["content"] == [{"type": "text", "text": "5"}]
        assert (await cli.call_tool("other", "calculator", {}))["content"][0]["text"] == "the other"
        unknown = await cli.send("nowhere", "tools/list")
        assert unknown["error"]["code"] == -32601

    registry = tc.ServerRegistry([math_tools(), other])
    await run(play, mcp_servers=claude_agent.servers(registry))


@case
async def the_registry_itself_can_be_the_handler() -> None:
    """registry.handle("my_server", request), called by the control protocol when an mcp_message arrives."""
    registry = tc.ServerRegistry([math_tools()])
    request = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    answer = await registry.handle("math-tools", request)
    assert answer is not None and [tool["name"] for tool in answer["result"]["tools"]] == ["calculator"]
    near: list[str] = []
    try:
        await registry.handle("math-tool", request)
    except ServerNotFound as exc:
        near = list(exc.nearest)
    assert near == ["math-tools"]


@case
async def initialize_names_version_capabilities_and_server() -> None:
    """Protocol version 2025-11-25, capabilities { "tools": {} }, server info (name, version)."""

    async def play(cli: PlayedCli) -> None:
        result = await cli.initialize("math-tools")
        assert result["protocolVersion"] == "2025-11-25"
        assert "tools" in result["capabilities"]
        assert result["serverInfo"] == {"name": "math-tools", "version": "1.0.0"}

    await run(play, mcp_servers=claude_agent.servers(math_tools()))


@case
async def tools_are_listed_with_name_description_and_schema() -> None:
    """tools/list: an array of name, description, inputSchema."""

    async def play(cli: PlayedCli) -> None:
        await cli.initialize("math-tools")
        (tool,) = await cli.list_tools("math-tools")
        assert (tool["name"], tool["description"]) == ("calculator", "Perform arithmetic")
        assert set(tool["inputSchema"]["properties"]) == {"operation", "a", "b"}

    await run(play, mcp_servers=claude_agent.servers(math_tools()))


@case
async def errors_are_told_apart() -> None:
    """-32601 for an unknown method; -32602 for a tool that is not found; is_error for an error of the tool.

    Here: an unknown tool and an exception are results with isError too, which the model can read.
    """
    server = math_tools()

    @server.tool
    async def broken() -> str:
        raise RuntimeError("out of order")

    async def play(cli: PlayedCli) -> None:
        await cli.initialize("math-tools")
        assert (await cli.send("math-tools", "tools/unknown"))["error"]["code"] == -32601
        assert (await cli.call_tool("math-tools", "nope", {}))["isError"] is True
        wrong = await cli.call_tool("math-tools", "calculator", {"operation": "divide", "a": 1, "b": 1})
        assert wrong["isError"] is True and wrong["content"][0]["text"] == "Unknown operation: divide"
        failed = await cli.call_tool("math-tools", "broken", {})
        assert failed["isError"] is True and "out of order" in failed["content"][0]["text"]
        missing = await cli.call_tool("math-tools", "calculator", {"operation": "add"})
        assert missing["isError"] is True

    await run(play, mcp_servers=claude_agent.servers(server))


# ---- 6 and 7: names, allowed tools


@case
async def claude_sees_qualified_names_and_the_server_short_ones() -> None:
    """mcp__math-tools__calculator; inside the SDK, tools are registered with their short name only."""
    assert claude_agent.allowed_tools(math_tools()) == ["mcp__math-tools__calculator"]
    assert [tool.name for tool in math_tools().list_tools()] == ["calculator"]


@case
async def tools_are_allowed_and_blocked_by_the_options() -> None:
    """allowed_tools pre-authorizes tools; disallowed_tools blocks them. Here: derived from the rules of a hub."""
    risky = tc.ToolServer("risky-server")
    risky.add_tool(lambda: "deleted", name="delete")
    risky.add_tool(lambda: "looked", name="look")
    rules = {"disallowed_tools": ["mcp__risky-server__delete"]}
    async with tc.Hub({"math-tools": math_tools(), "risky-server": risky}, **rules) as hub:
        options = ClaudeAgentOptions(
            mcp_servers=claude_agent.servers(hub),
            allowed_tools=claude_agent.allowed_tools(hub),
            disallowed_tools=claude_agent.disallowed_tools(hub),
        )
        assert options.allowed_tools == ["mcp__math-tools__calculator", "mcp__risky-server__look"]
        assert options.disallowed_tools == ["mcp__risky-server__delete"]

        async def play(cli: PlayedCli) -> None:
            await cli.initialize("risky-server")
            assert [tool["name"] for tool in await cli.list_tools("risky-server")] == ["look"]
            assert (await cli.call_tool("risky-server", "delete", {}))["isError"] is True

        assert not (await run_query(play, options)).is_error


# ---- 10: the example


@case
async def the_whole_example_runs() -> None:
    """A tool, a server, a registry, options with sdk_mcp_servers and allowed_tools."""
    server = tc.ToolServer("math-tools", version="1.0.0")
    server.add_tool(calculator)
    registry = tc.ServerRegistry()
    registry.register(server)

    async def play(cli: PlayedCli) -> None:
        await cli.initialize("math-tools")
        product = await cli.call_tool("math-tools", "calculator", {"operation": "multiply", "a": 6, "b": 7})
        assert product["content"] == [{"type": "text", "text": "42"}]

    await run(play, mcp_servers=claude_agent.servers(registry), allowed_tools=["mcp__math-tools__calculator"])
