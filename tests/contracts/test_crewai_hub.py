"""crewAI's MCP module, sentence by sentence: tool filters where an agent has many servers.

Where that document gives an agent `mcps: Vec<MCPServerConfig>`, Toolcrib gives a `Hub` a dict of them, and
`hub.view(agent=..., run_context=...)` passes the agent and its run to the filters. Each docstring gives
the document's sentence in short words, and, after "Here:", where Toolcrib departs from it and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Place
from tests.serving import served
from toolcrib.hub.hub import Hub

TOOLS = ("get_weather", "search_files", "write_file", "delete_files")


def server(name: str, *tools: str) -> tc.ToolServer:
    """Every tool says whose it is."""
    made = tc.ToolServer(name)
    for tool in tools or TOOLS:
        made.add_tool(saying(f"{name} {tool}"), name=tool)
    return made


def saying(words: str) -> Callable[[], str]:
    return lambda: words


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Place]:
    here = Place("stdio", "older", tmp_path)
    yield here
    assert here.journal.faults == []


async def seen(hub: Any) -> list[str]:
    return [tool.name for tool in await hub.list_tools()]


async def refused(hub: Any, name: str) -> str:
    with pytest.raises(tc.AccessDenied) as told:
        await hub.call_tool(name)
    return told.value.rule or ""


# ---- "Architecture overview": an agent and its servers


async def test_an_agent_has_servers_of_all_three_kinds(harness: Place) -> None:
    """MCPServerStdio, MCPServerHTTP, MCPServerSSE --> MCPClient: list_tools(), call_tool(name, args)."""
    web, old = server("web", "search"), server("old", "search")
    async with served(web.asgi()) as http, served(old.asgi(transport="sse")) as sse:
        configs: dict[str, tc.ServerConfig] = {
            "stdio": harness.server(),
            "http": tc.HttpServer(f"{http}/mcp"),
            "sse": tc.SseServer(f"{sse}/mcp"),
        }
        async with Hub(configs) as hub:
            assert {"mcp__stdio__echo", "mcp__http__search", "mcp__sse__search"} <= set(await seen(hub))
            assert (await hub.call_tool("mcp__stdio__echo", {"text": "x"})).text == "x"
            assert (await hub.call_tool("mcp__http__search")).text == "web search"
            assert (await hub.call_tool("mcp__sse__search")).text == "old search"


async def test_a_tool_of_a_hub_is_a_map_with_the_name_by_which_it_is_called() -> None:
    """Vec<HashMap<String, Value>> with "name", "description", "inputSchema". Here: "name" is the qualified name."""
    async with Hub({"web": server("web", "search")}) as hub:
        (tool,) = await hub.list_tools()
    assert tool["name"] == tool.get("name") == dict(tool)["name"] == tool.to_dict()["name"] == tool.name
    assert (tool.name, tool.original_name, tool.raw["name"]) == ("mcp__web__search", "search", "search")


# ---- "ArcToolFilter", at the level of a config


async def test_the_filter_of_a_config_holds_for_its_server_alone(harness: Place) -> None:
    """MCPServerStdio::new("python").with_tool_filter(filter): only include tools that start with "allowed_"."""
    plain = harness.server()
    filtered = tc.StdioServer(plain.command, plain.args, tool_filter=lambda tool: tool["name"].startswith("ec"))
    async with Hub({"one": filtered, "two": server("two")}) as hub:
        assert await seen(hub) == ["mcp__one__echo", *(f"mcp__two__{tool}" for tool in TOOLS)]
        assert "tool filter" in await refused(hub, "mcp__one__add")
        assert (await hub.call_tool("mcp__one__echo", {"text": "x"})).text == "x"
    assert len(harness.journal.got("tools/call")) == 1


async def test_a_plain_function_sees_the_tool_as_the_server_lists_it() -> None:
    """Fn(&Value) -> bool: tool.get("name"). Here: the hub's own filter sees the qualified name."""
    names: dict[str, list[str]] = {"server": [], "hub": []}

    def noting(where: str) -> Any:
        return lambda tool: names[where].append(tool.name) or True

    async with Hub({"s": (server("s", "a"), {"tool_filter": noting("server")})}, tool_filter=noting("hub")) as hub:
        await hub.list_tools()
    assert {*names["server"]} == {"a"} and {*names["hub"]} == {"mcp__s__a"}


# ---- "StaticToolFilter"


async def test_an_allow_list_lets_only_its_tools_through() -> None:
    """Allow only specific tools: get_weather, search_files; not delete_files."""
    allow = tc.static_filter(allowed=["get_weather", "search_files"])
    async with Hub({"s": (server("s"), {"tool_filter": allow})}) as hub:
        assert await seen(hub) == ["mcp__s__get_weather", "mcp__s__search_files"]
        assert await refused(hub, "mcp__s__delete_files") == allow.describe()
        assert hub.explain("mcp__s__delete_files") == f"hidden by the {allow.describe()}"


async def test_a_block_list_takes_precedence_over_an_allow_list() -> None:
    """Blocked tools take precedence: if a tool appears in both lists, it is blocked."""
    both = tc.static_filter(allowed=["get_weather", "write_file"], blocked=["write_file"])
    async with Hub({"s": (server("s"), {"tool_filter": both})}) as hub:
        assert await seen(hub) == ["mcp__s__get_weather"]
        await refused(hub, "mcp__s__write_file")


async def test_a_static_filter_over_the_whole_hub_names_qualified_tools() -> None:
    """create_static_tool_filter(...). Here: also once for all servers, by the names that the agent sees."""
    async with Hub(
        {"a": server("a"), "b": server("b")}, tool_filter=tc.static_filter(allowed=["mcp__b__get_weather"])
    ) as hub:
        assert await seen(hub) == ["mcp__b__get_weather"]
        await refused(hub, "mcp__a__get_weather")


async def test_a_tool_must_pass_its_servers_filter_and_the_hubs() -> None:
    """Here: one filter cannot bypass the other."""
    own = tc.static_filter(blocked=["write_file"])
    of_all = tc.static_filter(blocked=["mcp__s__delete_files"])
    async with Hub({"s": (server("s"), {"tool_filter": own})}, tool_filter=of_all) as hub:
        assert await seen(hub) == ["mcp__s__get_weather", "mcp__s__search_files"]
        assert await refused(hub, "mcp__s__write_file") == own.describe()
        assert await refused(hub, "mcp__s__delete_files") == of_all.describe()


# ---- "DynamicToolFilter": context-aware filtering with access to agent and server information


def admins_write(context: tc.FilterContext, tool: tc.Tool) -> bool:
    """The document's own: only allow write tools for admin agents."""
    role = (context.agent or {}).get("role", "")
    return role == "admin" if tool["name"].startswith("write_") else True


async def test_only_admin_agents_have_the_write_tools() -> None:
    """create_dynamic_tool_filter(|context, tool| ...): if the name starts with "write_", the role must be "admin"."""
    admins_only = tc.dynamic_filter(admins_write)
    async with Hub({"my_server": (server("s", "write_file", "read_file"), {"tool_filter": admins_only})}) as hub:
        admin, guest = hub.view(agent={"role": "admin"}), hub.view(agent={"role": "guest"})
        assert await seen(admin) == ["mcp__my_server__write_file", "mcp__my_server__read_file"]
        assert await seen(guest) == await seen(hub) == ["mcp__my_server__read_file"]
        assert (await admin.call_tool("mcp__my_server__write_file")).text == "s write_file"
        for outsider in (guest, hub):
            assert "admins_write" in await refused(outsider, "mcp__my_server__write_file")
        assert "admins_write" in guest.explain("mcp__my_server__write_file")
        assert "admins_write" not in admin.explain("mcp__my_server__write_file")


async def test_the_context_has_agent_server_name_and_run_context() -> None:
    """ToolFilterContext::new(agent, server_name, run_context: optional)."""
    contexts: list[tc.FilterContext] = []

    def note(context: tc.FilterContext, tool: tc.Tool) -> bool:
        contexts.append(context)
        return True

    async with Hub({"a": server("a", "t"), "b": server("b", "t")}, tool_filter=tc.dynamic_filter(note)) as hub:
        await hub.view(agent={"role": "admin"}, run_context={"run": 7}).list_tools()
        assert contexts == [
            tc.FilterContext({"role": "admin"}, "a", {"run": 7}),
            tc.FilterContext({"role": "admin"}, "b", {"run": 7}),
        ]
        contexts.clear()
        await hub.call_tool("mcp__b__t", context=tc.FilterContext("somebody"))
        assert contexts and {*map(repr, contexts)} == {repr(tc.FilterContext("somebody", "b", None))}


async def test_a_filter_that_changes_its_mind_holds_at_once() -> None:
    """Context-aware: the run decides. Here: asked for every list and before every call, nothing is remembered."""
    run = {"allowed": False}
    by_run = tc.dynamic_filter(lambda context, tool: context.run_context["allowed"])
    async with Hub({"s": server("s", "t")}, tool_filter=by_run) as hub:
        agent = hub.view(run_context=run)
        assert await seen(agent) == []
        await refused(agent, "mcp__s__t")
        run["allowed"] = True
        assert await seen(agent) == ["mcp__s__t"]
        assert (await agent.call_tool("mcp__s__t")).text == "s t"
        run["allowed"] = False
        await refused(agent, "mcp__s__t")


async def test_a_filter_that_breaks_lets_nothing_through() -> None:
    """context.agent.get("role"): there may be none. Here: what raises is a refusal, never an open door."""
    careless = tc.dynamic_filter(lambda context, tool: context.agent["role"] == "admin")
    async with Hub({"s": server("s", "t")}, tool_filter=careless) as hub:
        assert await seen(hub) == []
        await refused(hub, "mcp__s__t")
        assert await seen(hub.view(agent={"role": "admin"})) == ["mcp__s__t"]


async def test_what_an_agent_does_not_see_it_does_not_find_either() -> None:
    """Here: a search is filtered as a list is, and so is what is deferred."""
    async with Hub({"s": server("s", "write_file", "read_file")}, tool_filter=tc.dynamic_filter(by_admins)) as hub:
        found = await hub.view(agent={"role": "guest"}).search_tools("file")
        assert [tool.name for tool in found] == ["mcp__s__read_file"]
        assert len(await hub.view(agent={"role": "admin"}).search_tools("file")) == 2


def by_admins(context: tc.FilterContext, tool: tc.Tool) -> bool:
    """The same over qualified names: the server's own name of the tool is there too."""
    own = tool.original_name or tool.name
    return (context.agent or {}).get("role") == "admin" if own.startswith("write_") else True


# ---- "Complete example"


async def test_the_complete_example(harness: Place) -> None:
    """A static filter, a stdio config with it and a cache, an HTTP config with a token, both in one list of configs."""
    plain = harness.server()
    stdio = tc.StdioServer(
        plain.command, plain.args, tool_filter=tc.static_filter(allowed=["echo", "add"]), cache_tools_list=True
    )

    def check(headers: Any) -> str | None:
        return "me" if headers.get("authorization") == "Bearer my-token" else None

    async with served(server("tools", "search", "calculate").asgi(auth=check)) as address:
        http = tc.HttpServer(f"{address}/mcp", headers={"Authorization": "Bearer my-token"}, cache_tools_list=True)
        configs: list[tc.ServerConfig] = [stdio, http]
        async with Hub({"stdio": configs[0], "http": configs[1]}, connect_timeout=60, max_retries=5) as hub:
            assert await seen(hub) == [
                "mcp__stdio__echo", "mcp__stdio__add", "mcp__http__search", "mcp__http__calculate",
            ]  # fmt: skip
            assert (await hub.call_tool("mcp__stdio__add", {"a": 1, "b": 2})).data == {"sum": 3}
            assert (await hub.call_tool("mcp__http__search")).text == "tools search"
            await refused(hub, "mcp__stdio__fail")
            assert "my-token" not in repr(hub.list_servers())
