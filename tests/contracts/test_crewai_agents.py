"""crewAI's MCP module, sentence by sentence: what an agent has of its list of servers, `mcps`.

`crewai.tools([...])` gives an agent the tools of such a list. These tests need no crewAI: its configs are recognised by
their fields, and the model's calls go through the same toolbox. The cases with crewAI's own classes, agents and crews
are in `tests/frameworks/drivers/crewai.py`. Each docstring gives the document's sentence in short words, and, after
"Here:", where Toolcrib departs from it and why.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import toolcrib as tc
from tests.serving import served
from toolcrib.adapters import Toolbox
from toolcrib.adapters.owned_hub import OwnedHub
from toolcrib.adapters.server_references import read_servers

DEMO = str(Path(__file__).parents[2] / "examples" / "demo_server.py")


@dataclass
class Stdio:
    """The fields of MCPServerStdio, with the document's defaults."""

    command: str
    args: list[str] = field(default_factory=list)
    env: dict[str, str] | None = None
    tool_filter: Callable[..., bool] | None = None
    cache_tools_list: bool = False


@dataclass
class Http:
    """The fields of MCPServerHTTP."""

    url: str
    headers: dict[str, str] | None = None
    streamable: bool = True
    tool_filter: Callable[..., bool] | None = None
    cache_tools_list: bool = False


@dataclass
class Sse:
    """The fields of MCPServerSSE."""

    url: str
    headers: dict[str, str] | None = None
    tool_filter: Callable[..., bool] | None = None
    cache_tools_list: bool = False


@contextmanager
def tools_of(*mcps: Any, agent: Any = None, run_context: Any = None) -> Iterator[Toolbox]:
    """The tools that `crewai.tools(mcps, agent=..., run_context=...)` gives to crewAI."""
    owned = OwnedHub(read_servers(mcps))
    try:
        yield Toolbox(owned.hub.view(agent=agent, run_context=run_context), target="openai-strict")
    finally:
        owned.close()


def names(box: Toolbox) -> list[str]:
    return [spec.tool.original_name or "" for spec in box.tools()]


def demo(**options: Any) -> Stdio:
    return Stdio(sys.executable, [DEMO], **options)


# ---- "Architecture overview"


def test_an_agent_discovers_and_invokes_tools_of_external_servers() -> None:
    """MCP integration allows agents to discover and invoke tools from external MCP-compatible servers."""
    with tools_of(demo()) as box:
        assert "echo" in names(box)
        assert box.call_sync("mcp__demo_server__echo", {"text": "hello"}).text == "hello"


async def test_mcps_holds_servers_of_all_three_kinds() -> None:
    """Agent: mcps: Vec<MCPServerConfig> with MCPServerStdio, MCPServerHTTP, MCPServerSSE."""
    seen: list[str | None] = []
    web, old = tc.ToolServer("web"), tc.ToolServer("old")

    @web.tool
    def search(ctx: tc.Context) -> str:
        seen.append(ctx.headers.get("authorization"))
        return "web"

    old.add_tool(lambda: "old", name="search")

    def use(http: str, sse: str) -> list[str]:
        mcps = (
            demo(),
            Http(f"{http}/mcp", {"Authorization": "Bearer token123"}, cache_tools_list=True),
            Sse(f"{sse}/mcp"),
        )
        calls = (("demo_server__echo", {"text": "stdio"}), ("127_0_0_1__search", {}), ("127_0_0_1-2__search", {}))
        with tools_of(*mcps) as box:
            return [box.call_sync(f"mcp__{name}", arguments).text for name, arguments in calls]

    async with served(web.asgi()) as http, served(old.asgi(transport="sse")) as sse:
        assert await asyncio.to_thread(use, http, sse) == ["stdio", "web", "old"]
    assert seen == ["Bearer token123"]


def test_configs_of_any_kind_are_one_type_in_the_list() -> None:
    """Store as MCPServerConfig for polymorphic usage. Here: Toolcrib's configs, crewAI's, dicts and URLs mix."""
    given = [demo(), tc.StdioServer("node"), {"command": "uvx", "args": ["tool"]}, Http("https://a.example.com/mcp")]
    servers = read_servers([*given, "https://b.example.com/mcp"])
    assert list(servers) == ["demo_server", "node", "tool", "a_example_com", "b_example_com"]


# ---- "Server configuration"


def test_the_defaults_of_the_fields_are_those_of_the_document() -> None:
    """The tables of fields: args [], env None, streamable true, headers None, cache_tools_list false."""
    assert read_servers([Stdio("python")]) == {"python": tc.StdioServer("python")}
    assert read_servers([Http("https://example.com")]) == {"example_com": tc.HttpServer("https://example.com")}
    assert read_servers([Sse("https://example.com/sse")]) == {"example_com": tc.SseServer("https://example.com/sse")}


def test_a_process_gets_the_environment_of_its_config(tmp_path: Path) -> None:
    """Environment variables for the child process."""
    server = tmp_path / "weather.py"
    server.write_text(
        "import os, toolcrib\n"
        "server = toolcrib.ToolServer('weather')\n"
        "server.add_tool(lambda: os.environ['API_KEY'], name='key')\n"
        "server.run()\n"
    )
    with tools_of(Stdio(sys.executable, [str(server)], env={"API_KEY": "secret123"})) as box:
        assert box.call_sync("mcp__weather__key").text == "secret123"


def test_cache_tools_list_is_kept() -> None:
    """Cache discovered tools for faster subsequent access."""
    servers = read_servers([demo(cache_tools_list=True), Http("https://example.com", cache_tools_list=True)])
    assert [server.cache_tools_list for server in servers.values()] == [True, True]  # type: ignore[union-attr]


def test_a_config_from_json_is_a_server_of_the_list() -> None:
    """All configs support serialization; the filter is None afterwards."""
    text = tc.HttpServer("https://example.com/mcp", cache_tools_list=True, tool_filter=lambda tool: True).to_json()
    assert read_servers([json.loads(text)]) == read_servers([tc.server_from_json(text)])
    (server,) = read_servers([json.loads(text)]).values()
    assert isinstance(server, tc.HttpServer) and server.cache_tools_list and server.tool_filter is None


# ---- "Calling a tool", "Argument cleaning"


def test_a_call_returns_the_text_of_the_tool() -> None:
    """call_tool returns a String with the tool's text output. Here: content that is not text is described, not lost."""
    server = tc.ToolServer("lab")
    server.add_tool(lambda: [tc.TextContent("a caption"), tc.ImageContent(b"\x89PNG", "image/png")], name="plot")
    with tools_of(server) as box:
        assert box.call_sync("mcp__lab__plot").text == "a caption\n[image: image/png, 4 bytes]"


def test_nulls_that_strict_models_send_do_not_reach_the_tool() -> None:
    """Remove null values. Here: by the schema; a null that the schema allows is kept, because it can have a meaning."""
    got: list[Any] = []
    server = tc.ToolServer("lab")
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "unused": {"type": "string"},
            "until": {"type": ["string", "null"]},
        },
        "required": ["query", "until"],
    }

    @server.tool(input_schema=schema)
    def search(arguments: dict[str, Any]) -> None:
        got.append(arguments)

    with tools_of(server) as box:
        (spec,) = box.tools()
        assert sorted(spec.input_schema["required"]) == ["query", "until", "unused"]
        answer = box.call_sync(spec.name, {"query": "test", "unused": None, "until": None})
    assert not answer.is_error, answer
    assert got == [{"query": "test", "until": None}]


def test_a_failed_call_tells_whether_it_can_be_repeated() -> None:
    """Errors are text for the model. Here: it also says whether the tool ran, and crewAI gets it as a `ToolFailure`."""
    with tools_of(demo()) as box:
        unknown = box.call_sync("mcp__demo_server__nope")
        assert unknown.is_error and isinstance(unknown.error, tc.ToolNotFound)
        assert "The tool did not run." in unknown.text


# ---- "Tool filtering"


def test_a_function_of_the_tool_filters_a_server() -> None:
    """ArcToolFilter: only include tools that start with a prefix; it reads tool.get("name")."""
    with tools_of(demo(tool_filter=lambda tool: tool.get("name").startswith("ech"))) as box:
        assert names(box) == ["echo"]
        assert box.call_sync("mcp__demo_server__add", {"a": 1, "b": 2}).is_error


def test_blocked_tools_take_precedence_over_allowed_ones() -> None:
    """If a tool appears in both allow and block lists, it is blocked."""
    with tools_of(demo(tool_filter=tc.static_filter(allowed=["add", "echo"], blocked=["echo"]))) as box:
        assert names(box) == ["add"]


def test_a_dynamic_filter_sees_agent_server_and_run() -> None:
    """Context-aware filtering: context.agent, context.server_name, context.run_context; "write tools for admins"."""
    seen = set()

    def only_admins_echo(context: Any, tool: Any) -> bool:
        seen.add((context.server_name, context.run_context))
        return bool(tool["name"] != "echo" or context.agent["role"] == "admin")

    config = demo(tool_filter=only_admins_echo)
    for role in ("guest", "admin"):
        with tools_of(config, agent={"role": role}, run_context="run 7") as box:
            assert ("echo" in names(box)) is (role == "admin")
            assert box.call_sync("mcp__demo_server__echo", {"text": "x"}).is_error is (role == "guest")
    assert ("demo_server", "run 7") in seen


# ---- "Debug security"


def test_no_secret_is_part_of_a_name_or_of_the_text_of_a_config() -> None:
    """The value "Bearer secret_token" is never shown. Here: nor in the names of tools, which models and logs see."""
    secret = Http(
        "https://user:secret_password@example.com/mcp?key=secret_key", {"Authorization": "Bearer secret_token"}
    )
    servers = read_servers([secret, Stdio("tool", ["--token", "secret_value"])])
    assert list(servers) == ["example_com", "tool"]
    assert "secret_" not in repr(servers)
