"""The Claude Agent SDK, with a played CLI; see `tests/frameworks/test_claude_cli.py` for the real one."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from claude_agent_sdk import (
    CanUseToolShadowedWarning,
    ClaudeAgentOptions,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

import toolcrib as tc
import toolcrib.sync
from tests.frameworks.driver import Ability, Call, Script, Seen, Transcript
from tests.frameworks.played_cli import Play, PlayedCli, run_query
from toolcrib.adapters import Toolbox, claude_agent
from toolcrib.hub.interceptors import ToolCall

DEMO_FILE: Final = str(Path(__file__).parents[3] / "examples" / "demo_server.py")


class ClaudeAgentDriver:
    """Runs queries."""

    package = "claude-agent-sdk"
    source: Literal["async"] = "async"
    # Not progress: the SDK drops the notifications of in-process servers.
    abilities: frozenset[Ability] = frozenset({"images", "error-flag", "structured", "cancel", "live", "approval"})

    async def run(self, hub: Any, script: Script) -> Transcript:
        """Run a query, in which the CLI lists all tools and makes the calls of the script."""
        transcript = Transcript()

        def approve(call: ToolCall) -> bool:
            transcript.approvals.append(call.name)
            return not call.name.endswith("__fail")

        servers = claude_agent.servers(hub)
        allowed = set(claude_agent.allowed_tools(hub))
        cli_play = _CliPlay(script, transcript, list(servers), allowed)
        options = ClaudeAgentOptions(
            mcp_servers=servers, allowed_tools=sorted(allowed), can_use_tool=claude_agent.can_use_tool(approve)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CanUseToolShadowedWarning)
            result = await run_query(cli_play.run, options)
        if result.is_error:
            transcript.error = result.result or "unknown"
        else:
            transcript.final = result.result or ""
        return transcript


class _CliPlay:
    """What the CLI does in one run."""

    def __init__(self, script: Script, transcript: Transcript, servers: list[str], allowed: set[str]) -> None:
        self._script = script
        self._transcript = transcript
        self._servers = servers
        self._allowed = allowed

    async def run(self, cli: PlayedCli) -> None:
        for server in self._servers:
            await cli.initialize(server)
        for turn in range(len(self._script.turns) + 1):
            await self._offer(cli)
            await self._script.prepare(turn)
            if turn < len(self._script.turns):
                calls = (self._call(cli, call) for call in self._script.turns[turn])
                self._transcript.answers.append(await asyncio.gather(*calls))

    async def _offer(self, cli: PlayedCli) -> None:
        names = []
        for server in self._servers:
            for tool in await cli.list_tools(server):
                names.append(f"mcp__{server}__{tool['name']}")
                self._transcript.schemas[names[-1]] = tool["inputSchema"]
        self._transcript.offered.append(names)

    async def _call(self, cli: PlayedCli, call: Call) -> Seen:
        _, server, tool = call.name.split("__", 2)
        arguments = call.arguments
        if call.name in self._transcript.offered[0] and call.name not in self._allowed:
            permission = await cli.may_call(call.name, arguments)
            if permission["behavior"] == "deny":
                return Seen(permission["message"], is_error=True)
            arguments = permission["updatedInput"]
        return _seen(await cli.call_tool(server, tool, arguments))


def _seen(result: dict[str, Any]) -> Seen:
    """Return what Claude sees. The CLI shows unknown content as JSON."""
    texts, images = [], []
    for block in result["content"]:
        match block["type"]:
            case "text":
                texts.append(block["text"])
            case "image":
                images.append(block["mimeType"])
            case _:
                texts.append(json.dumps(block))
    return Seen("\n".join(texts), result.get("isError") is True, images, result.get("structuredContent"))


driver = ClaudeAgentDriver()


# ---- cases of this SDK alone ---------------------------------------------------------------------------------------


def _server(name: str = "lab") -> tc.ToolServer:
    server = tc.ToolServer(name, "1.0.0")

    @server.tool
    async def greet(name: str, title: str = "") -> str:
        """Greet a person."""
        return f"Hello {title}{name}"

    @server.resource("lab://rules")
    def rules() -> str:
        return "be quiet"

    return server


async def _play(play: Play, *sources: Any, **options: Any) -> None:
    """Run a query whose CLI does this, and fail if it does."""
    result = await run_query(play, ClaudeAgentOptions(mcp_servers=claude_agent.servers(*sources, **options)))
    assert not result.is_error, result.result


async def serves_a_registry_beside_a_hub(_: ClaudeAgentDriver) -> None:
    """Each server has its own entry; of a tool server, resources are served too."""
    registry = tc.ServerRegistry([_server("math-tools")])
    async with tc.Hub({"lab": _server()}) as hub:
        servers = claude_agent.servers(hub, registry)
        assert {name: (entry["type"], entry["name"]) for name, entry in servers.items()} == {
            "lab": ("sdk", "lab"),
            "math-tools": ("sdk", "math-tools"),
        }
        assert claude_agent.allowed_tools(hub, registry) == ["mcp__lab__greet", "mcp__math-tools__greet"]

        async def play(cli: PlayedCli) -> None:
            assert (await cli.initialize("lab"))["serverInfo"]["name"] == "lab"
            described = await cli.initialize("math-tools")
            assert described["serverInfo"] == {"name": "math-tools", "version": "1.0.0"}
            assert described["protocolVersion"] == "2025-11-25"
            for name in servers:
                (tool,) = await cli.list_tools(name)
                assert (tool["name"], tool["description"]) == ("greet", "Greet a person.")
                result = await cli.call_tool(name, "greet", {"name": "Ada", "title": None})
                assert result["content"] == [{"type": "text", "text": "Hello Ada"}]
            answer = await cli.send("math-tools", "resources/read", {"uri": "lab://rules"})
            assert answer["result"]["contents"][0]["text"] == "be quiet"
            assert (await cli.send("lab", "resources/list"))["error"]["code"] == -32601
            assert (await cli.send("lab", "tools/call", {"name": 3}))["error"]["code"] == -32602

        await _play(play, hub, registry)


async def passes_external_configs_through(_: ClaudeAgentDriver) -> None:
    external = {
        "fs": tc.StdioServer("fs-server", ["/data"], env={"TOKEN": "t"}),
        "wiki": tc.HttpServer("https://wiki.example.com/mcp", headers={"X-Team": "tools"}),
        "old": tc.SseServer("https://old.example.com/sse"),
        "plain": {"type": "stdio", "command": "plain-server", "args": []},
    }
    assert claude_agent.servers(external=external) == {
        "fs": {"type": "stdio", "command": "fs-server", "args": ["/data"], "env": {"TOKEN": "t"}},
        "wiki": {"type": "http", "url": "https://wiki.example.com/mcp", "headers": {"X-Team": "tools"}},
        "old": {"type": "sse", "url": "https://old.example.com/sse"},
        "plain": {"type": "stdio", "command": "plain-server", "args": []},
    }
    for config, word in (
        (tc.StdioServer("fs", cwd="/data"), "cwd"),
        (tc.StdioServer("fs", tool_filter=lambda tool: True), "tool_filter"),
        (tc.PythonServer("server.py"), "PythonServer"),
    ):
        _raises(lambda config=config: claude_agent.servers(external={"fs": config}), word)


async def refuses_names_that_claude_cannot_use(_: ClaudeAgentDriver) -> None:
    async with tc.Hub({"lab": _server()}) as hub:
        _raises(lambda: claude_agent.servers(hub, _server()), "'lab' is used by two")
        _raises(lambda: claude_agent.servers(hub, external={"lab": tc.StdioServer("x")}), "'lab' is used by two")
    _raises(lambda: claude_agent.servers(_server("a__b")), "Rename the server")
    _raises(lambda: claude_agent.allowed_tools(_server("x" * 50)), "at most 41 characters")


def _raises(function: Callable[[], Any], text: str) -> None:
    error = ""
    try:
        function()
    except tc.ConfigError as exc:
        error = str(exc)
    assert text in error


async def shortens_long_names(_: ClaudeAgentDriver) -> None:
    """The names for Claude have at most 64 characters, and `allowed_tools` has the same names."""
    server = _server("m" * 41)
    server.add_tool(lambda name: "long", name="l" * 100)
    server.add_tool(lambda name: "dotted", name="a.b")
    async with tc.Hub({"h" * 41: server}) as hub, tc.Client(server, name="own") as client:
        await client.list_tools()
        names = claude_agent.allowed_tools(hub, server, client)
        assert len(names) == 9 and all(len(name) <= 64 for name in names)

        async def play(cli: PlayedCli) -> None:
            offered = []
            for key in ("h" * 41, "m" * 41, "own"):
                await cli.initialize(key)
                tools = [tool["name"] for tool in await cli.list_tools(key)]
                offered += [f"mcp__{key}__{tool}" for tool in tools]
                results = [await cli.call_tool(key, tool, {"name": "Ada"}) for tool in tools]
                assert {result["content"][0]["text"] for result in results} == {"Hello Ada", "long", "dotted"}
            assert sorted(offered) == sorted(names)

        await _play(play, hub, server, client)


async def a_second_handshake_begins_a_new_session(_: ClaudeAgentDriver) -> None:
    """The CLI initializes its in-process servers again in some situations."""
    server, release = _server(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        await release.wait()
        return "waited"

    async with tc.Hub({"lab": server}) as hub:

        async def play(cli: PlayedCli) -> None:
            await cli.initialize("lab")
            before = asyncio.create_task(cli.call_tool("lab", "wait", {}))
            await cli.list_tools("lab")
            await cli.initialize("lab")
            assert (await cli.call_tool("lab", "greet", {"name": "Ada"}))["content"][0]["text"] == "Hello Ada"
            release.set()
            assert (await before)["content"][0]["text"] == "waited"

        await _play(play, hub)


async def a_cancelled_call_is_cancelled(_: ClaudeAgentDriver) -> None:
    """`notifications/cancelled` of the CLI reaches the tool, and the server goes on."""
    server, waiting, cancelled = _server(), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with tc.Hub({"lab": server}) as hub:

        async def play(cli: PlayedCli) -> None:
            await cli.initialize("lab")
            call = asyncio.create_task(cli.send("lab", "tools/call", {"name": "wait", "arguments": {}}, id=77))
            await asyncio.wait_for(waiting.wait(), 10)
            await cli.send("lab", "notifications/cancelled", {"requestId": 77, "reason": "not needed"})
            await asyncio.wait_for(cancelled.wait(), 10)
            call.cancel()
            assert (await cli.call_tool("lab", "greet", {"name": "Ada"}))["content"][0]["text"] == "Hello Ada"

        await _play(play, hub)


async def takes_views_clients_and_sync_hubs(_: ClaudeAgentDriver) -> None:
    """A view's own tools are on a server `toolcrib`; a client's tools on a server with its name."""
    sync_hub = toolcrib.sync.Hub({"sync": _server()})
    await asyncio.to_thread(sync_hub.__enter__)
    try:
        async with tc.Hub({"lab": _server()}) as hub, tc.Client(_server(), name="direct") as client:
            view = hub.view(agent="ada", meta_tools=True)
            box = await Toolbox.load(client)
            expected = ["mcp__lab__greet", "mcp__toolcrib__search_tools", "mcp__toolcrib__call_tool"]
            assert claude_agent.allowed_tools(view) == expected
            assert claude_agent.allowed_tools(client) == ["mcp__direct__greet"]
            assert claude_agent.allowed_tools(box) == ["mcp__toolcrib__greet"]
            assert claude_agent.allowed_tools(sync_hub) == ["mcp__sync__greet"]

            async def play(cli: PlayedCli) -> None:
                for name in ("lab", "toolcrib", "direct", "sync"):
                    await cli.initialize(name)
                for name in ("lab", "direct", "sync"):
                    result = await cli.call_tool(name, "greet", {"name": "Ada"})
                    assert result["content"][0]["text"] == "Hello Ada", result
                found = await cli.call_tool("toolcrib", "search_tools", {"query": "greet"})
                assert "mcp__lab__greet" in str(found), found

            await _play(play, view, client, sync_hub)
    finally:
        await asyncio.to_thread(sync_hub.__exit__, None, None, None)


async def names_limit_the_tools(_: ClaudeAgentDriver) -> None:
    server = _server()
    server.add_tool(lambda: "secret", name="secret")
    async with tc.Hub({"lab": server}, disallowed_tools=["mcp__lab__secret"]) as hub:
        assert claude_agent.disallowed_tools(hub) == ["mcp__lab__secret"]
        assert sorted(claude_agent.disallowed_tools(hub, names=[])) == ["mcp__lab__greet", "mcp__lab__secret"]
        assert claude_agent.allowed_tools(hub, names=["mcp__lab__s*"]) == []
        assert claude_agent.disallowed_tools(hub.view(), server) == []

        async def play(cli: PlayedCli) -> None:
            await cli.initialize("lab")
            assert await cli.list_tools("lab") == []
            assert (await cli.call_tool("lab", "greet", {"name": "Ada"}))["isError"]

        await _play(play, hub, names=[])


async def asks_an_approver_of_a_hub(_: ClaudeAgentDriver) -> None:
    """`can_use_tool` takes the function that a hub takes, which may edit the arguments."""
    asked = []

    async def approve(call: ToolCall) -> bool | ToolCall:
        asked.append((call.server, call.tool, dict(call.arguments)))
        if call.tool == "greet":
            return dataclasses.replace(call, arguments={"name": "Grace"})
        return dataclasses.replace(call, name="mcp__lab__greet") if call.tool == "other" else False

    ask = claude_agent.can_use_tool(approve)
    allowed = await ask("mcp__lab__greet", {"name": "Ada"}, ToolPermissionContext())
    assert isinstance(allowed, PermissionResultAllow) and allowed.updated_input == {"name": "Grace"}
    denied = await ask("Bash", {"command": "ls"}, ToolPermissionContext())
    assert isinstance(denied, PermissionResultDeny) and "not approved" in denied.message
    other = await ask("mcp__lab__other", {}, ToolPermissionContext())
    assert isinstance(other, PermissionResultDeny) and "mcp__lab__greet" in other.message
    assert asked == [("lab", "greet", {"name": "Ada"}), ("", "Bash", {"command": "ls"}), ("lab", "other", {})]


async def an_instance_can_be_referenced_weakly(_: ClaudeAgentDriver) -> None:
    """On mcp 1.x, the SDK looks the server up in a WeakSet."""
    (entry,) = claude_agent.servers(_server()).values()
    assert weakref.ref(entry["instance"])() is entry["instance"]


async def an_agent_from_a_settings_file_takes_three_lines(_: ClaudeAgentDriver) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, ".mcp.json")
        settings.write_text(json.dumps({"mcpServers": {"demo": {"command": sys.executable, "args": [DEMO_FILE]}}}))

        async def play(cli: PlayedCli) -> None:
            await cli.initialize("demo")
            result = await cli.call_tool("demo", "echo", {"text": "hello"})
            assert result["content"] == [{"type": "text", "text": "hello"}]

        async with tc.Hub.from_config(settings) as hub:
            options = ClaudeAgentOptions(
                mcp_servers=claude_agent.servers(hub), allowed_tools=claude_agent.allowed_tools(hub)
            )
            assert not (await run_query(play, options)).is_error


extra_cases = {
    case.__name__: case
    for case in (
        serves_a_registry_beside_a_hub,
        passes_external_configs_through,
        refuses_names_that_claude_cannot_use,
        shortens_long_names,
        a_second_handshake_begins_a_new_session,
        a_cancelled_call_is_cancelled,
        takes_views_clients_and_sync_hubs,
        names_limit_the_tools,
        asks_an_approver_of_a_hub,
        an_instance_can_be_referenced_weakly,
        an_agent_from_a_settings_file_takes_three_lines,
    )
}
