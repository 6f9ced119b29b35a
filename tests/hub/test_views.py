"""Views: who asks, what they may see, which deferred tools they have loaded; search, and tools to search with."""

from __future__ import annotations

import json

import pytest

import toolcrib as tc
from tests.hub.kit import Hub, echo_server, math_server, names
from toolcrib.catalog.tokens import estimate_tokens
from toolcrib.hub.toolsets import ToolLoadConfig, Toolset

ADMINS = tc.dynamic_filter(lambda context, tool: not tool.name.startswith("write_") or context.agent["role"] == "admin")


async def test_a_view_sees_what_its_agent_may_see() -> None:
    async with Hub({"fs": (echo_server("read_x", "write_x"), {"tool_filter": ADMINS}), "s": echo_server("a")}) as hub:
        admin, guest = hub.view(agent={"role": "admin"}), hub.view(agent={"role": "guest"})
        assert names(await admin.list_tools()) == ["mcp__fs__read_x", "mcp__fs__write_x", "mcp__s__a"]
        assert names(await guest.list_tools()) == ["mcp__fs__read_x", "mcp__s__a"]
        assert names(await guest.list_tools(server="fs")) == ["mcp__fs__read_x"]
        assert (await admin.call_tool("mcp__fs__write_x", {"a": 1})).data == {"a": 1}
        with pytest.raises(tc.AccessDenied):
            await guest.call_tool("mcp__fs__write_x", {"a": 1})
        assert "hidden by the dynamic filter" in guest.explain("mcp__fs__write_x")
        assert guest.explain("mcp__fs__read_x").startswith("allowed")
        assert names(await guest.search_tools("write x")) == ["mcp__fs__read_x"]


async def test_a_view_reads_resources_and_prompts() -> None:
    async with Hub({"math": math_server()}) as hub:
        view = hub.view(run_context=1)
        assert view.context == tc.FilterContext(run_context=1)
        assert (await view.read_resource("math", "config://app")).text == '{"of": "math"}'
        assert await view.resources.read_text("math", "config://app") == '{"of": "math"}'
        assert [each.uri for each in await view.list_resources()] == ["config://app"]
        assert [each.uri_template for each in await view.list_resource_templates("math")] == ["note:///{name}"]
        (prompt,) = await view.list_prompts()
        assert (await view.get_prompt(prompt.name, {"topic": "x"})).text == "Explain x"
        assert list((await view.complete(prompt, "topic")).values) == []
        assert view.alias("mcp__math__add") == "mcp__math__add"
        async with view.listen("math"):
            pass
        assert "View of <Hub" in repr(view)


VIEWED = {
    "alias",
    "call_tool",
    "complete",
    "context",
    "explain",
    "get_prompt",
    "list_prompts",
    "list_resource_templates",
    "list_resources",
    "list_tools",
    "listen",
    "load_tools",
    "loaded",
    "needs_approval",
    "on_tools_changed",
    "peek_tools",
    "read_resource",
    "resources",
    "search_tools",
    "unload_tools",
}


@pytest.mark.parametrize("kind", [tc.HubView, tc.sync.HubView])
def test_a_view_cannot_manage_the_hub(kind: type) -> None:
    """An agent that is given a view can neither end the hub nor change its servers, rules and interceptors."""
    # The async twin of a view is a view, too.
    assert {name for name in dir(kind) if not name.startswith("_")} - {"async_twin"} == VIEWED
    assert not hasattr(kind, "__getattr__")


async def test_a_deferred_tool_that_is_called_is_loaded_in_that_view() -> None:
    long = "x" * 70
    async with Hub({"db": echo_server("query", "drop", long), "s": echo_server("a")}) as hub:
        hub.toolsets.register(Toolset("db").defer_all())
        view, other = hub.view(), hub.view(meta_tools=True)
        await view.call_tool("mcp__s__a")
        assert view.loaded == (), "this one is not deferred"
        await view.call_tool("mcp__db__query")
        await view.call_tool(hub.alias(f"mcp__db__{long}"))
        assert view.loaded == ("mcp__db__query", f"mcp__db__{long}")
        assert names(await view.list_tools()) == ["mcp__s__a", *view.loaded]
        await other.call_tool("call_tool", {"name": "mcp__db__drop"})
        assert other.loaded == ("mcp__db__drop",)
        with pytest.raises(tc.ToolNotFound):
            await view.call_tool("mcp__db__nothing")
        assert len(view.loaded) == 2
        assert names(await hub.list_tools()) == ["mcp__s__a"]


async def test_deferred_tools_are_listed_only_on_request() -> None:
    async with Hub({"db": echo_server("query", "search_events", "drop"), "s": echo_server("a")}) as hub:
        hub.toolsets.register(Toolset("db").defer_all().keep_loaded("search_events"))
        assert names(await hub.list_tools()) == ["mcp__db__search_events", "mcp__s__a"]
        assert len(await hub.list_tools(deferred=True)) == 4
        assert not (await hub.call_tool("mcp__db__query")).is_error
        assert "deferred by the toolset db" in hub.explain("mcp__db__query")
        assert "deferred" not in hub.explain("mcp__db__search_events")
        hub.toolsets.register(Toolset("s").configure("a", ToolLoadConfig(defer=True)))
        assert names(await hub.list_tools()) == ["mcp__db__search_events"]
        hub.toolsets.remove("db")
        assert len(await hub.list_tools()) == 3


async def test_loading_in_one_view_changes_no_other_views_list() -> None:
    async with Hub({"db": echo_server("query", "drop")}) as hub:
        hub.toolsets.register(Toolset("db").defer_all())
        view, other = hub.view(), hub.view()
        assert names(await view.load_tools("mcp__db__query")) == ["mcp__db__query"]
        assert names(await view.list_tools()) == ["mcp__db__query"]
        assert view.loaded == ("mcp__db__query",)
        assert await other.list_tools() == [] == await hub.list_tools()
        view.unload_tools("mcp__db__query")
        assert await view.list_tools() == []
        with pytest.raises(tc.ToolNotFound):
            await view.load_tools("mcp__db__nothing")


async def test_a_hidden_tool_cannot_be_loaded_and_one_that_is_hidden_later_is_not_listed() -> None:
    seen = True
    async with Hub(
        {"db": echo_server("query", "drop")}, tool_filter=lambda t: seen and t.original_name != "drop"
    ) as hub:
        hub.toolsets.register(Toolset("db").defer_all())
        view = hub.view()
        with pytest.raises(tc.ToolNotFound):
            await view.load_tools("mcp__db__drop")
        await view.load_tools("mcp__db__query")
        seen = False
        assert await view.list_tools() == []


async def test_search_finds_deferred_tools_within_limit_and_budget() -> None:
    server = tc.ToolServer("github")
    for verb in ("create", "close", "list"):
        server.add_tool(
            lambda arguments: "ok",
            name=f"{verb}_issue",
            description=f"{verb} an issue",
            input_schema={"type": "object"},
        )
    async with Hub({"github": server, "s": echo_server("a")}) as hub:
        hub.toolsets.register(Toolset("github").defer_all())
        found = await hub.search_tools("create an issue", limit=2)
        assert found[0].name == "mcp__github__create_issue" and len(found) == 2
        budget = estimate_tokens(found[0])
        assert names(await hub.search_tools("create an issue", token_budget=budget)) == ["mcp__github__create_issue"]
        assert await hub.search_tools("create an issue", token_budget=1) == []
        server.remove_tool("create_issue")
        await hub.refresh("github")
        assert "mcp__github__create_issue" not in names(await hub.search_tools("create an issue"))


async def test_a_model_searches_and_calls_by_two_tools() -> None:
    async with Hub(
        {"db": echo_server("query", "drop"), "s": echo_server("a")}, disallowed_tools=["mcp__db__drop"]
    ) as hub:
        hub.toolsets.register(Toolset("db").defer_all())
        view = hub.view(meta_tools=True)
        assert names(await view.list_tools()) == ["mcp__s__a", "search_tools", "call_tool"]
        assert names(await view.list_tools(server="s")) == ["mcp__s__a"]
        result = await view.call_tool("search_tools", {"query": "query"})
        assert [tool["name"] for tool in json.loads(result.text)] == ["mcp__db__query"]
        assert result.data["tools"][0]["input_schema"] == {"type": "object"}
        assert "mcp__db__query" in names(await view.list_tools())
        assert "mcp__db__query" not in names(await hub.list_tools())
        called = await view.call_tool("call_tool", {"name": "mcp__db__query", "arguments": {"x": 1}}, timeout=5)
        assert called.data == {"x": 1}
        with pytest.raises(tc.AccessDenied):
            await view.call_tool("call_tool", {"name": "mcp__db__drop"})
        unknown = await view.call_tool("call_tool", {"name": "xyzxyzxyz"})
        assert unknown.is_error and unknown.text == "there is no tool 'xyzxyzxyz'; search_tools finds tools by words"
        with pytest.raises(tc.ToolNotFound):
            await hub.call_tool("search_tools", {"query": "x"})


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("search_tools", {}),
        ("search_tools", {"query": "  "}),
        ("search_tools", {"query": "x", "limit": 0}),
        ("search_tools", {"query": "x", "limit": True}),
        ("call_tool", {}),
        ("call_tool", {"name": "call_tool", "arguments": {"name": "call_tool"}}),
        ("call_tool", {"name": "mcp__s__nothing"}),
        ("call_tool", {"name": "mcp__s__a", "arguments": [1]}),
    ],
)
async def test_mistakes_of_a_model_are_reported_to_the_model(name: str, arguments: dict[str, object]) -> None:
    async with Hub({"s": echo_server("a")}) as hub:
        result = await hub.view(meta_tools=True).call_tool(name, arguments)
        assert result.is_error and result.text


async def test_the_hub_without_any_server_lists_nothing() -> None:
    async with Hub() as hub:
        assert await hub.list_tools() == [] == await hub.search_tools("x")
        assert hub.list_servers() == []
        with pytest.raises(tc.ToolNotFound):
            await hub.call_tool("mcp__a__b")
