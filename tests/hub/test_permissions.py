"""Who may see and call what: a tool that is hidden is not callable, and `explain` says why."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolcrib as tc
from tests.hub.kit import Hub, echo_server, listing, math_server, names, played
from tests.unit.kit import SILENCE
from toolcrib.hub.interceptors import ToolCall


async def refused(hub: Any, name: str) -> tc.AccessDenied:
    with pytest.raises(tc.AccessDenied) as denied:
        await hub.call_tool(name, {})
    return denied.value


async def test_the_tour_of_permissions() -> None:
    asked: list[ToolCall] = []

    def ask_a_person(call: ToolCall) -> bool:
        asked.append(call)
        return call.tool == "create_issue"

    servers = {
        "fs": echo_server("read_file", "write_file"),
        "github": echo_server("create_issue", "create_repo", "delete_repo", "list_repos"),
    }
    async with Hub(
        servers,
        allowed_tools=["mcp__fs__read_*", "mcp__github__*"],
        disallowed_tools=["mcp__github__delete_*"],
        require_approval={"mcp__github__create_*": "always"},
        approve=ask_a_person,
    ) as hub:
        listed = names(await hub.list_tools())
        assert "mcp__github__delete_repo" not in listed and len(listed) == 5
        assert hub.explain("mcp__github__delete_repo") == "denied by disallowed_tools: mcp__github__delete_*"
        assert hub.explain("mcp__github__delete_all_of_it") == "denied by disallowed_tools: mcp__github__delete_*"
        denied = await refused(hub, "mcp__github__delete_repo")
        assert denied.rule == "disallowed_tools: mcp__github__delete_*"
        assert (denied.server, denied.tool) == ("github", "delete_repo")
        assert asked == []
        assert (await hub.call_tool("mcp__github__list_repos", {"a": 1})).data == {"a": 1}
        assert asked == []
        assert (await hub.call_tool("mcp__github__create_issue", {"a": 1})).data == {"a": 1}
        assert (asked[0].server, asked[0].tool, asked[0].name, asked[0].arguments) == (
            "github",
            "create_issue",
            "mcp__github__create_issue",
            {"a": 1},
        )
        assert (await refused(hub, "mcp__github__create_repo")).rule == "require_approval: mcp__github__create_*"
        # Outside of allowed_tools: it needs approval, which this approver does not give.
        assert (await refused(hub, "mcp__fs__write_file")).rule == "allowed_tools"
        assert [call.tool for call in asked] == ["create_issue", "create_repo", "write_file"]


async def test_tools_that_need_approval_are_neither_listed_nor_callable_without_an_approver() -> None:
    async with Hub(
        {"s": echo_server("free", "asks", "outside")},
        allowed_tools=["mcp__s__free", "mcp__s__asks"],
        require_approval=["mcp__s__asks"],
    ) as hub:
        assert names(await hub.list_tools(deferred=True)) == ["mcp__s__free"]
        denied = await refused(hub, "mcp__s__asks")
        assert denied.rule == "require_approval: mcp__s__asks"
        assert "but the hub has no approve= function" in str(denied)
        assert (await refused(hub, "mcp__s__outside")).rule == "allowed_tools"
        assert "the hub has no approve= function" in hub.explain("mcp__s__outside")
        assert await hub.search_tools("outside") == []


@pytest.mark.parametrize("allowed, seen", [(None, 2), ([], 0), (["mcp__s"], 2), (["*"], 2)])
async def test_an_empty_list_allows_none_and_none_allows_all(allowed: list[str] | None, seen: int) -> None:
    async with Hub({"s": echo_server("a", "b")}, allowed_tools=allowed) as hub:
        assert len(await hub.list_tools()) == seen


async def test_the_approver_may_edit_the_call_and_what_it_edited_is_sent() -> None:
    async def edit(call: ToolCall) -> ToolCall:
        await asyncio.sleep(0)
        return replace(call, arguments={**call.arguments, "safe": True})

    async with Hub({"s": echo_server("a")}, require_approval="always", approve=edit) as hub:
        assert (await hub.call_tool("mcp__s__a", {"x": 1})).data == {"x": 1, "safe": True}


async def test_an_edited_call_can_go_to_another_tool_but_not_to_a_hidden_one() -> None:
    target = "other"

    def reroute(call: ToolCall) -> ToolCall:
        return replace(call, tool=target, name=f"mcp__s__{target}")

    async with Hub(
        {"s": echo_server("a", "other", "hidden")},
        require_approval=["mcp__s__a"],
        disallowed_tools=["mcp__s__hidden"],
        approve=reroute,
    ) as hub:
        assert (await hub.call_tool("mcp__s__a", {"x": 1})).data == {"x": 1}
        target = "hidden"
        assert (await refused(hub, "mcp__s__a")).rule == "disallowed_tools: mcp__s__hidden"
        target = "nothing"
        with pytest.raises(tc.ToolNotFound):
            await hub.call_tool("mcp__s__a")


async def test_a_call_whose_name_and_tool_disagree_is_a_mistake_of_the_code() -> None:
    async with Hub(
        {"s": echo_server("a", "b")}, require_approval="always", approve=lambda call: replace(call, tool="b")
    ) as hub:
        with pytest.raises(tc.UsageError, match="mcp__s__a"):
            await hub.call_tool("mcp__s__a")


@pytest.mark.parametrize("verdict", [False, None, "yes", 1, 0, "no", [True]])
async def test_nothing_but_true_opens_the_door(verdict: Any) -> None:
    async with Hub({"s": echo_server("a")}, require_approval="always", approve=lambda call: verdict) as hub:
        await refused(hub, "mcp__s__a")


async def test_an_approver_that_breaks_refuses() -> None:
    def broken(call: ToolCall) -> bool:
        raise ValueError("oh")

    async with Hub({"s": echo_server("a")}, require_approval="always", approve=broken) as hub:
        denied = await refused(hub, "mcp__s__a")
        assert isinstance(denied.__cause__, ValueError)
        assert "ValueError" in str(denied)


async def test_a_person_has_all_the_time_they_want() -> None:
    """The time of a call is that of its execution."""
    said = asyncio.Event()

    async def think(call: ToolCall) -> bool:
        await said.wait()
        return True

    async with Hub({"s": echo_server("a")}, require_approval="always", approve=think) as hub:
        calling = asyncio.create_task(hub.call_tool("mcp__s__a", timeout=0.2))
        done, _ = await asyncio.wait([calling], timeout=0.3)
        assert not done
        said.set()
        assert not (await calling).is_error


async def test_arguments_are_cleaned_once_before_the_approver_is_asked() -> None:
    server = tc.ToolServer("s")
    got: list[Any] = []
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "tags": {"type": ["array", "null"]}}}

    async def search(arguments: dict[str, Any]) -> str:
        got.append(arguments)
        return "ok"

    server.add_tool(search, name="search", input_schema=schema)
    seen: list[Any] = []

    def approve(call: ToolCall) -> ToolCall:
        seen.append(dict(call.arguments))
        return replace(call, arguments={"tags": None})

    given = {"q": None, "tags": None}
    async with Hub({"s": server}, require_approval="always", approve=approve) as hub:
        await hub.call_tool("mcp__s__search", given)
        assert seen == [{"tags": None}]
        assert got == [{"tags": None}], "what the approver wrote is sent as it is"
        assert given == {"q": None, "tags": None}
    for mode, sent in (("always", {}), ("never", given), ("schema", {"tags": None})):
        got.clear()
        async with Hub({"s": server}, clean_arguments=mode) as hub:
            try:
                await hub.call_tool("mcp__s__search", given)
            except tc.ToolcribError:
                assert mode == "never"
            else:
                assert got == [sent] or mode == "never"


async def test_a_servers_own_filter_sees_its_own_names_and_the_hubs_filter_qualified_ones() -> None:
    seen: set[str] = set()

    def hub_wide(tool: tc.Tool) -> bool:
        seen.add(tool.name)
        return tool.original_name != "b"

    one = (echo_server("a", "b", "c"), {"tool_filter": tc.static_filter(allowed=["a", "b"])})
    async with Hub({"one": one, "two": echo_server("c")}, tool_filter=hub_wide) as hub:
        assert names(await hub.list_tools()) == ["mcp__one__a", "mcp__two__c"]
        assert all(name.startswith("mcp__") for name in seen)
        assert (await refused(hub, "mcp__one__c")).rule == "static filter: allowed 'a', 'b'"
        assert hub.explain("mcp__one__c") == "hidden by the static filter: allowed 'a', 'b'"
        assert "hub_wide" in str((await refused(hub, "mcp__one__b")).rule)
        assert "hub_wide" in hub.explain("mcp__one__b")


async def test_the_filter_of_a_config_holds_in_a_hub() -> None:
    played_server = played("a", "b")
    config = tc.HttpServer("http://127.0.0.1:9/mcp", tool_filter=tc.static_filter(blocked=["a"]))
    hub = Hub({"s": config})
    plan = hub._servers.by_name["s"].spec
    assert plan.tool_filter == config.tool_filter and plan.settings.tool_filter is None
    async with Hub({"s": (played_server, {"tool_filter": tc.static_filter(blocked=["a"])})}) as second:
        assert names(await second.list_tools()) == ["mcp__s__b"]
    await hub.close()


async def test_dynamic_filters_receive_the_caller() -> None:
    contexts: list[tc.FilterContext] = []

    def by_role(context: tc.FilterContext, tool: tc.Tool) -> bool:
        contexts.append(context)
        return bool(context.agent and context.agent["role"] == "admin")

    async with Hub({"s": (echo_server("a"), {"tool_filter": tc.dynamic_filter(by_role)})}) as hub:
        assert await hub.list_tools() == []
        await refused(hub, "mcp__s__a")
        admin = tc.FilterContext(agent={"role": "admin"}, run_context="run")
        assert names(await hub.list_tools(context=admin)) == ["mcp__s__a"]
        assert not (await hub.call_tool("mcp__s__a", context=admin)).is_error
        assert contexts[-1] == tc.FilterContext({"role": "admin"}, "s", "run")
        assert await hub.search_tools("a") == []
        assert names(await hub.search_tools("a", context=admin)) == ["mcp__s__a"]
        assert "dynamic filter" in hub.explain("mcp__s__a")
        assert "allowed" in hub.explain("mcp__s__a", context=admin)
        with pytest.raises(tc.ToolNotFound) as unknown:
            await hub.call_tool("mcp__s__aa")
        assert unknown.value.nearest == (), "what a filter may hide is not given away"


async def test_a_filter_that_changes_its_mind_is_asked_each_time() -> None:
    open_ = True
    async with Hub({"s": echo_server("a")}, tool_filter=lambda tool: open_) as hub:
        assert len(await hub.list_tools()) == 1
        open_ = False
        assert await hub.list_tools() == []
        await refused(hub, "mcp__s__a")


async def test_a_filter_that_breaks_hides() -> None:
    async with Hub({"s": echo_server("a")}, tool_filter=lambda tool: tool["nothing"]) as hub:
        assert await hub.list_tools() == []
        await refused(hub, "mcp__s__a")


async def test_a_refused_call_reaches_no_server_and_is_sent_to_listeners() -> None:
    server, heard = played("a"), []
    async with Hub({"s": server}, disallowed_tools=["mcp__s__a"]) as hub:
        hub.on(tc.events.ToolExecutionFailed, heard.append)
        await refused(hub, "mcp__s__a")
        assert server.named("tools/call") == []
        assert [(event.server, event.tool, type(event.error)) for event in heard] == [("s", "a", tc.AccessDenied)]


async def test_rules_hold_for_tools_that_come_later() -> None:
    server = played("a")
    async with Hub({"s": server}, disallowed_tools=["mcp__s__b*"]) as hub:
        changed = asyncio.Event()
        hub.on(tc.events.ToolsChanged, lambda event: changed.set())
        server.answers["tools/list"] = listing("a", "b1", "c")
        await server.end.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        async with asyncio.timeout(10):
            await changed.wait()
        assert names(await hub.list_tools()) == ["mcp__s__a", "mcp__s__c"]


async def test_explain_names_the_status_where_that_decides() -> None:
    async with Hub({"math": math_server(), "hangs": played("t", initialize=SILENCE)}, start_timeout=0) as hub:
        await hub.refresh("math")
        assert hub.explain("mcp__hangs__t") == "hangs has not listed its tools yet; its status is connecting"
        assert hub.explain("mcp__math__add") == "allowed (no rule applies)"
        assert hub.explain("mcp__math__ad").startswith("math does not list this tool; did you mean 'mcp__math__add'")
        assert "its servers: math, hangs" in hub.explain("mcp__nobody__t")
        assert "its servers" in hub.explain("add")


TOOLS = ("a", "b", "ab", "read_x", "read_y")
PATTERNS = st.sampled_from(
    ["mcp__s__a", "mcp__s__*", "mcp__s__read_*", "mcp__s__*b", "mcp__t", "mcp__s", "*", "mcp__*y"]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    allowed=st.none() | st.lists(PATTERNS, max_size=3),
    disallowed=st.lists(PATTERNS, max_size=2),
    asks=st.lists(PATTERNS, max_size=2),
    own=st.none() | st.frozensets(st.sampled_from(TOOLS)),
    wide=st.frozensets(st.sampled_from(TOOLS)),
    can_ask=st.booleans(),
)
async def test_hidden_is_not_callable_and_listed_is_whatever_the_rules(
    allowed: Any, disallowed: Any, asks: Any, own: Any, wide: Any, can_ask: bool
) -> None:
    server = (echo_server(*TOOLS), {"tool_filter": None if own is None else tc.static_filter(allowed=own)})
    async with Hub(
        {"s": server},
        allowed_tools=allowed,
        disallowed_tools=disallowed,
        require_approval=asks,
        approve=(lambda call: True) if can_ask else None,
        tool_filter=lambda tool: tool.original_name not in wide,
    ) as hub:
        listed = set(names(await hub.list_tools()))
        for tool in TOOLS:
            name = f"mcp__s__{tool}"
            if name in listed:
                await hub.call_tool(name)
            else:
                assert (await refused(hub, name)).rule
