"""The Claude Agent SDK, with a played CLI; see `tests/frameworks/test_claude_cli.py` for the real one."""

from __future__ import annotations

import asyncio
import json
import warnings
from typing import Any, Literal

from claude_agent_sdk import CanUseToolShadowedWarning, ClaudeAgentOptions

from tests.frameworks.driver import Ability, Call, Script, Seen, Transcript
from tests.frameworks.played_cli import PlayedCli, run_query
from toolcrib.adapters import claude_agent
from toolcrib.hub.interceptors import ToolCall


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
