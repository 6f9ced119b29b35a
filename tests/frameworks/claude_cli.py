"""Cases with the real Claude CLI, which is part of the SDK's wheel, against a local server in place of Claude's API.

`.peers/frameworks/claude_agent/bin/python -m tests.frameworks.claude_cli [CASE ...]` prints one line of JSON per case.
Run it with an environment of its own: the CLI inherits it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, SystemMessage, query

import toolcrib as tc
from tests.frameworks.driver import Call
from tests.frameworks.messages_api import ScriptedApi, Wire
from toolcrib.adapters import claude_agent
from toolcrib.hub.interceptors import ToolCall

DEMO: Final = str(Path(__file__).parents[2] / "examples" / "demo_server.py")
PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CASE_SECONDS: Final = 60.0


class Lab:
    """A server in this process, and the calls that it got."""

    def __init__(self, name: str = "lab") -> None:
        self.calls: list[str] = []
        self.server = tc.ToolServer(name, "1.0.0")
        for function in (self.add, self.greet, self.weather, self.plot, self.fail, self.secret):
            self.server.add_tool(function)

    async def add(self, a: int, b: int) -> str:
        """Add two numbers."""
        self.calls.append("add")
        return f"the sum is {a + b}"

    async def greet(self, name: str, title: str = "") -> str:
        """Greet a person."""
        self.calls.append("greet")
        return f"Hello {title}{name}"

    async def weather(self, city: str) -> dict[str, Any]:
        """Return the weather."""
        return {"city": city, "degrees": 7}

    async def plot(self) -> tc.ImageContent:
        """Draw an image."""
        return tc.ImageContent(PNG, "image/png")

    async def fail(self, reason: str) -> str:
        """Fail."""
        raise RuntimeError(reason)

    async def secret(self) -> str:
        """Return the secret."""
        self.calls.append("secret")
        return "the secret"


class Ran:
    """What happened in one query."""

    def __init__(self, api: ScriptedApi) -> None:
        self._api = api
        self.servers: dict[str, str] = {}
        """The state of each MCP server at the beginning, as the CLI reports it."""
        self.result: ResultMessage | None = None

    @property
    def offered(self) -> list[list[str]]:
        """The names of the MCP tools that the model was offered, for each of its turns."""
        return [[tool["name"] for tool in tools if tool["name"].startswith("mcp__")] for tools in self._api.tools]

    def schema(self, name: str) -> Wire:
        """Return the schema of a tool, as the model got it."""
        return next(tool["input_schema"] for tool in self._api.tools[0] if tool["name"] == name)

    def answer(self, turn: int, call: int = 0) -> Wire:
        """Return the `tool_result` for a call."""
        return self._api.results[f"toolu_{turn}_{call}"]

    def text(self, turn: int, call: int = 0) -> str:
        """Return the text of the `tool_result` for a call."""
        content = self.answer(turn, call)["content"]
        return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


async def run(turns: list[list[Call]], **options: Any) -> Ran:
    """Run a query of the SDK with the CLI, whose model makes these calls and says `done`."""
    async with ScriptedApi(turns).serve() as api:
        ran = Ran(api)
        environment = {
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }
        given: dict[str, Any] = {"strict_mcp_config": True, "setting_sources": [], "tools": [], "max_turns": 20}
        made = ClaudeAgentOptions(**{**given, **options}, env=environment, cwd=os.environ["HOME"])

        async def prompt() -> Any:
            yield {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None}

        async for message in query(prompt=prompt(), options=made):
            if isinstance(message, SystemMessage) and message.subtype == "init":
                ran.servers = {each["name"]: each["status"] for each in message.data["mcp_servers"]}
            elif isinstance(message, ResultMessage):
                ran.result = message
    assert ran.result is not None and ran.result.result == "done", ran.result
    return ran


# ---- cases -------------------------------------------------------------------------------------------------------


async def calls_tools_of_a_hub() -> None:
    """List, call, image, structured data, error, null for an optional argument, parallel calls."""
    lab = Lab()
    async with tc.Hub({"lab": lab.server}) as hub:
        ran = await run(
            [
                [Call("mcp__lab__add", {"a": 2, "b": 3}), Call("mcp__lab__greet", {"name": "Ada", "title": None})],
                [Call("mcp__lab__weather", {"city": "Bern"})],
                [Call("mcp__lab__plot")],
                [Call("mcp__lab__fail", {"reason": "the disk is full"})],
                [Call("mcp__lab__add", {"a": "x"})],
            ],
            mcp_servers=claude_agent.servers(hub),
            allowed_tools=claude_agent.allowed_tools(hub),
        )
        assert ran.servers == {"lab": "connected"}, ran.servers
        assert sorted(ran.offered[0]) == sorted(tool.name for tool in await hub.list_tools()), ran.offered
    assert ran.text(0, 0) == "the sum is 5", ran.answer(0, 0)
    assert ran.text(0, 1) == "Hello Ada", ran.answer(0, 1)
    assert json.loads(ran.text(1)) == {"city": "Bern", "degrees": 7}, ran.answer(1)
    image = next(part for part in ran.answer(2)["content"] if part["type"] == "image")
    assert image["source"]["media_type"] == "image/png", image
    assert ran.answer(3)["is_error"] and "the disk is full" in ran.text(3), ran.answer(3)
    assert ran.answer(4)["is_error"] and "a: " in ran.text(4), ran.answer(4)
    assert lab.calls == ["add", "greet"]


async def keeps_the_rules_of_permissions() -> None:
    """A tool that the hub hides, one that is not allowed, one that `can_use_tool` denies, and one that it allows."""
    lab, asked = Lab(), []

    def approve(call: ToolCall) -> bool:
        asked.append((call.server, call.tool))
        return call.tool == "greet"

    async with tc.Hub({"lab": lab.server}, disallowed_tools=["mcp__lab__secret"]) as hub:
        hidden = claude_agent.disallowed_tools(hub)
        assert hidden == ["mcp__lab__secret"]
        turns = [[Call("mcp__lab__secret")], [Call("mcp__lab__add", {"a": 1, "b": 2})]]
        options = {"mcp_servers": claude_agent.servers(hub), "disallowed_tools": [*hidden, "mcp__lab__fail"]}
        ran = await run(turns, **options)
        assert "mcp__lab__secret" not in ran.offered[0] and "mcp__lab__fail" not in ran.offered[0], ran.offered
        assert "mcp__lab__add" in ran.offered[0], ran.offered
        assert ran.answer(0)["is_error"] and ran.answer(1)["is_error"], (ran.answer(0), ran.answer(1))
        assert lab.calls == []

        turns = [[Call("mcp__lab__add", {"a": 1, "b": 2})], [Call("mcp__lab__greet", {"name": "Ada"})]]
        ran = await run(turns, **options, can_use_tool=claude_agent.can_use_tool(approve))
        assert ran.answer(0)["is_error"] and "not approved" in ran.text(0), ran.answer(0)
        assert ran.text(1) == "Hello Ada", ran.answer(1)
        assert asked == [("lab", "add"), ("lab", "greet")]
        assert lab.calls == ["greet"]


async def asks_about_tools_that_need_approval() -> None:
    """`Hub(approve="caller")`: Claude asks, and an approved call passes the hub."""
    lab, asked = Lab(), []

    def approve(call: ToolCall) -> bool:
        asked.append(call.name)
        return call.tool == "add"

    async with tc.Hub({"lab": lab.server}, require_approval=["*__add", "*__secret"], approve="caller") as hub:
        allowed = claude_agent.allowed_tools(hub)
        assert "mcp__lab__add" not in allowed and "mcp__lab__greet" in allowed
        turns = [
            [Call("mcp__lab__add", {"a": 1, "b": 2})],
            [Call("mcp__lab__secret")],
            [Call("mcp__lab__greet", {"name": "Ada"})],
        ]
        ran = await run(
            turns,
            mcp_servers=claude_agent.servers(hub),
            allowed_tools=allowed,
            can_use_tool=claude_agent.can_use_tool(approve),
        )
    assert ran.text(0) == "the sum is 3", ran.answer(0)
    assert ran.answer(1)["is_error"], ran.answer(1)
    assert asked == ["mcp__lab__add", "mcp__lab__secret"]
    assert lab.calls == ["add", "greet"]


async def connects_servers_of_all_kinds() -> None:
    """Two servers of a hub, one of a registry, and one that the CLI starts itself."""
    lab, other = Lab(), Lab("math-tools")
    external = {"outside": tc.StdioServer(sys.executable, [DEMO])}
    async with tc.Hub({"lab": lab.server, "demo": tc.StdioServer(sys.executable, [DEMO])}) as hub:
        registry = tc.ServerRegistry([other.server])
        turns = [
            [Call("mcp__lab__add", {"a": 1, "b": 2})],
            [Call("mcp__demo__echo", {"text": "from the hub"})],
            [Call("mcp__math-tools__add", {"a": 3, "b": 4})],
            [Call("mcp__math-tools__greet", {"name": "Ada", "title": None})],
            [Call("mcp__outside__echo", {"text": "from the CLI"})],
        ]
        ran = await run(
            turns,
            mcp_servers=claude_agent.servers(hub, registry, external=external),
            allowed_tools=[*claude_agent.allowed_tools(hub, registry), "mcp__outside"],
        )
    assert ran.servers == dict.fromkeys(("lab", "demo", "math-tools", "outside"), "connected"), ran.servers
    expected = ["the sum is 3", "from the hub", "the sum is 7", "Hello Ada", "from the CLI"]
    assert [ran.text(turn) for turn in range(5)] == expected
    assert lab.calls == ["add"] and other.calls == ["add", "greet"]


async def one_bad_tool_does_not_end_the_run() -> None:
    """A long name, a name with a dot, a root that the API refuses, an output schema that is not valid."""
    server = tc.ToolServer("lab")
    either = {"type": "object", "properties": {"x": {"type": "string"}}, "anyOf": [{"required": ["x"]}]}

    async def answer(arguments: dict[str, Any]) -> str:
        return f"got {arguments}"

    names = ["t" * 80, "a.b", "either"]
    for name in names:
        server.add_tool(answer, name=name, description="Answer.", input_schema=either)
    server.add_tool(Lab().add)
    async with tc.Hub({"lab": server}) as hub:
        aliases = [hub.alias(f"mcp__lab__{name}") for name in names]
        turns = [[Call(alias, {"x": "1"}) for alias in aliases], [Call("mcp__lab__add", {"a": 1, "b": 2})]]
        ran = await run(turns, mcp_servers=claude_agent.servers(hub), allowed_tools=claude_agent.allowed_tools(hub))
    assert sorted(ran.offered[0]) == sorted([*aliases, "mcp__lab__add"]), ran.offered
    assert all("anyOf" not in ran.schema(alias) for alias in aliases)
    assert [ran.text(0, number) for number in range(3)] == ["got {'x': '1'}"] * 3
    assert ran.text(1) == "the sum is 3"


async def a_dead_server_is_an_error_and_heals() -> None:
    """A server that dies during the query: the call says so, and the next one gets an answer."""
    async with tc.Hub({"demo": tc.StdioServer(sys.executable, [DEMO])}) as hub:
        pid = json.loads(await hub.resources.read_text("demo", "demo://status"))["pid"]
        os.kill(pid, 9)
        turns = [[Call("mcp__demo__echo", {"text": "one"})], [Call("mcp__demo__echo", {"text": "two"})]]
        ran = await run(turns, mcp_servers=claude_agent.servers(hub), allowed_tools=claude_agent.allowed_tools(hub))
    assert ran.text(1) == "two", ran.answer(1)


CASES: Final[dict[str, Callable[[], Coroutine[Any, Any, None]]]] = {
    case.__name__: case
    for case in (
        calls_tools_of_a_hub,
        keeps_the_rules_of_permissions,
        asks_about_tools_that_need_approval,
        connects_servers_of_all_kinds,
        one_bad_tool_does_not_end_the_run,
        a_dead_server_is_an_error_and_heals,
    )
}


def main(*wanted: str) -> int:
    """Run the cases, or those that are named; return the exit code."""
    failed = False
    for name, case in CASES.items():
        if wanted and name not in wanted:
            continue
        begun, detail = time.monotonic(), ""
        try:
            asyncio.run(asyncio.wait_for(case(), CASE_SECONDS))
        except Exception:  # noqa: BLE001  # reported
            failed, detail = True, traceback.format_exc()
        outcome = {"case": name, "detail": detail, "seconds": round(time.monotonic() - begun, 2)}
        print(json.dumps(outcome), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
