"""Many servers as one: lists, calls, resources, prompts, events; over every transport."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import DEMO, Hub, bad, echo_server, listing, math_server, names, outcomes, played, state
from tests.serving import served
from tests.unit.kit import LEGACY, eventually
from toolcrib.events import PromptsChanged, ResourcesChanged
from toolcrib.types import ConnectionState


async def test_tools_have_qualified_names_from_the_first_server_on() -> None:
    async with Hub({"math": math_server()}) as hub:
        add, fail = await hub.list_tools()
        assert (add.name, add.server, add.original_name) == ("mcp__math__add", "math", "add")
        assert fail.name == "mcp__math__fail"
        assert add.description == "Add two numbers."


async def test_a_call_goes_to_the_server_of_the_name() -> None:
    async with Hub({"a": echo_server("who"), "b": math_server()}) as hub:
        assert (await hub.call_tool("mcp__b__add", {"a": 1, "b": 2})).data == 3
        assert (await hub.call_tool("mcp__a__who", {"x": 1})).data == {"x": 1}
        assert (await hub.call_tool("mcp__a__who")).data == {}


async def test_a_tools_own_failure_is_a_result() -> None:
    async with Hub({"math": math_server()}) as hub:
        result = await hub.call_tool("mcp__math__fail")
        assert result.is_error and result.text == "as it was told"


async def test_the_options_of_a_call_reach_the_client() -> None:
    server = tc.ToolServer("s")

    @server.tool
    async def work(*, ctx: tc.Context) -> str:
        await ctx.progress(1, 2, "half")
        return "done"

    heard = []
    async with Hub({"s": server}) as hub:
        await hub.call_tool("mcp__s__work", on_progress=lambda *told: heard.append(told), timeout=5)
        assert len(heard) == 1
        with pytest.raises(TypeError, match="no_such_option"):
            await hub.call_tool("mcp__s__work", no_such_option=1)  # type: ignore[call-arg]


async def test_lists_come_in_the_order_of_servers_and_of_their_tools() -> None:
    async with Hub({"z": echo_server("b", "a"), "a": echo_server("c")}) as hub:
        assert names(await hub.list_tools()) == ["mcp__z__b", "mcp__z__a", "mcp__a__c"]
        assert names(await hub.list_tools(server="a")) == ["mcp__a__c"]


async def test_lists_and_calls_ask_no_server_for_its_list_again() -> None:
    server = played("one", "two")
    async with Hub({"s": server}) as hub:
        for _ in range(20):
            assert len(await hub.list_tools()) == 2
            await hub.call_tool("mcp__s__one")
            with pytest.raises(tc.ToolNotFound):
                await hub.call_tool("mcp__s__three")
        assert len(server.named("tools/list")) == 1


async def test_the_state_of_a_server_has_everything_about_it() -> None:
    config = math_server()
    async with Hub({"math": config}) as hub:
        (found,) = hub.list_servers()
        assert (found.name, found.config, found.display_name) == ("math", config, "math")
        assert found.status.state is ConnectionState.CONNECTED and found.connected
        assert found.since == found.status.since > 0
        assert found.server_info is not None and found.server_info.name == "math"
        assert names(list(found.tools)) == ["mcp__math__add", "mcp__math__fail"]
        assert [resource.uri for resource in found.resources] == ["config://app"]
        assert found.last_error is None
        assert found.tokens > 10


async def test_resources_templates_and_prompts_of_all_servers_are_listed_with_their_server() -> None:
    async with Hub({"a": math_server("a"), "b": math_server("b"), "c": echo_server()}) as hub:
        assert [(r.server, r.uri) for r in await hub.list_resources()] == [("a", "config://app"), ("b", "config://app")]
        assert [r.server for r in await hub.list_resources("b")] == ["b"]
        assert await hub.list_resources("c") == []
        assert [t.uri_template for t in await hub.list_resource_templates("a")] == ["note:///{name}"]
        assert [p.name for p in await hub.list_prompts()] == ["mcp__a__explain", "mcp__b__explain"]
        assert (await hub.read_resource("b", "config://app")).text == '{"of": "b"}'
        assert (await hub.read_resource("a", "note:///x")).text == "note x"
        assert (await hub.get_prompt("mcp__a__explain", {"topic": "tea"})).text == "Explain tea"


async def test_completions_go_to_the_server_of_the_prompt_or_template() -> None:
    server = math_server()

    @server.completion("explain", "topic")
    def topics(value: str) -> list[str]:
        return [topic for topic in ("tea", "time", "art") if topic.startswith(value)]

    @server.completion("note:///{name}", "name")
    def notes(value: str) -> list[str]:
        return [f"{value}!"]

    async with Hub({"math": server, "other": echo_server()}) as hub:
        (prompt,), (template,) = await hub.list_prompts(), await hub.list_resource_templates()
        assert (await hub.complete("mcp__math__explain", "topic", "t")).values == ("tea", "time")
        assert (await hub.complete(prompt, "topic", "a")).values == ("art",)
        assert (await hub.complete(template, "name", "x")).values == ("x!",)
        assert (await hub.complete("note:///{name}", "name", "y", server="math")).values == ("y!",)
        with pytest.raises(tc.UsageError, match="server="):
            await hub.complete("note:///{name}", "name", "y")


async def test_unknown_names_are_reported_with_the_nearest_names() -> None:
    async with Hub({"math": math_server()}) as hub:
        with pytest.raises(tc.ToolNotFound, match="did you mean 'mcp__math__add'") as tool:
            await hub.call_tool("mcp__math__ad")
        assert tool.value.nearest[0] == "mcp__math__add"
        with pytest.raises(tc.ToolNotFound, match=r"list_tools\(\) lists the tools"):
            await hub.call_tool("xyzxyzxyz")
        with pytest.raises(tc.ServerNotFound, match="'math'"):
            await hub.read_resource("mat", "config://app")
        with pytest.raises(tc.NotFound, match="mcp__math__explain"):
            await hub.get_prompt("mcp__math__explan")
        with pytest.raises(tc.ServerNotFound):
            await hub.remove_server("nobody")
        with pytest.raises(tc.ServerNotFound):
            await hub.list_tools(server="nobody")
        with pytest.raises(tc.ResourceNotFound):
            await hub.read_resource("math", "config://other")


async def test_a_change_of_a_server_is_in_the_list_when_its_one_event_comes() -> None:
    server = math_server()
    heard: list[tuple[str, list[str]]] = []
    async with Hub({"math": server, "other": echo_server()}) as hub:
        hub.on(tc.events.ToolsChanged, lambda e: heard.append((e.server, names(list(state(hub, e.server).tools)))))
        server.remove_tool("fail")
        await eventually(lambda: heard)
        assert heard == [("math", ["mcp__math__add"])]
        assert names(await hub.list_tools(server="math")) == ["mcp__math__add"]
        with pytest.raises(tc.ToolNotFound):
            await hub.call_tool("mcp__math__fail")


async def test_changes_of_resources_and_prompts_are_reported_too() -> None:
    server = math_server()
    heard: list[tc.events.Event] = []
    async with Hub({"math": server}) as hub:
        hub.on(ResourcesChanged, heard.append)
        hub.on(PromptsChanged, heard.append)
        server.resource("config://more")(lambda: "more")
        await eventually(lambda: heard == [ResourcesChanged("math")])
        assert [resource.uri for resource in await hub.list_resources()] == ["config://app", "config://more"]
        server.prompt(name="hello")(lambda: "hello")
        await eventually(lambda: PromptsChanged("math") in heard)
        assert [prompt.name for prompt in await hub.list_prompts()] == ["mcp__math__explain", "mcp__math__hello"]


async def test_a_change_notification_without_a_change_emits_no_event() -> None:
    server, heard = played("one"), []
    async with Hub({"s": server}) as hub:
        (before,) = await hub.list_tools()
        hub.on(tc.events.ToolsChanged, heard.append)
        await server.end.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await eventually(lambda: len(server.named("tools/list")) == 2)
        server.answers["tools/list"] = listing("one", "two")
        await server.end.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await eventually(lambda: heard)
        assert len(heard) == 1
        assert (await hub.list_tools())[0] is before


async def test_a_burst_of_changes_is_one_look() -> None:
    server = played("one")
    async with Hub({"s": server}) as hub:
        server.answers["tools/list"] = listing("two")
        for _ in range(200):
            await server.end.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await eventually(lambda: names(list(state(hub, "s").tools)) == ["mcp__s__two"])
        assert len(server.named("tools/list")) <= 5


async def test_a_call_to_a_tool_that_is_being_dropped_raises_a_clear_error() -> None:
    server = played("one", "won", tools__call=tc.RemoteError(-32602, "Unknown tool: one"))
    async with Hub({"s": server}) as hub:
        server.answers["tools/list"] = listing("won")
        await server.end.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        with pytest.raises(tc.ToolNotFound, match="mcp__s__won"):
            await hub.call_tool("mcp__s__one")
        await eventually(lambda: names(list(state(hub, "s").tools)) == ["mcp__s__won"])


async def test_refresh_asks_servers_that_send_no_change_notifications() -> None:
    server, other = (played(name, initialize={**LEGACY, "capabilities": {"tools": {}}}) for name in "ab")
    async with Hub({"s": server, "t": other}) as hub:
        server.answers["tools/list"] = other.answers["tools/list"] = listing("new")
        await hub.refresh("s")
        assert names(await hub.list_tools()) == ["mcp__s__new", "mcp__t__b"]
        await hub.refresh()
        assert names(await hub.list_tools()) == ["mcp__s__new", "mcp__t__new"]


async def test_a_broken_list_of_resources_does_not_cost_the_tools() -> None:
    handshake = {**LEGACY, "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}
    server = played("one", initialize=handshake, resources__list=tc.RemoteError(-32603, "broken"), prompts__list={})
    async with Hub({"s": server}) as hub:
        assert names(await hub.list_tools()) == ["mcp__s__one"]
        assert await hub.list_resources() == []
        assert state(hub, "s").status.state is ConnectionState.DEGRADED
        assert state(hub, "s").status.reason.startswith("its prompts could not be listed: ")


async def test_events_of_all_servers_come_with_their_names_until_they_are_stopped() -> None:
    heard: list[tc.events.Event] = []
    async with Hub({"a": echo_server(), "b": echo_server()}) as hub:
        stop = hub.on(tc.events.ToolExecutionCompleted, heard.append)
        await hub.call_tool("mcp__b__echo")
        await hub.call_tool("mcp__a__echo")
        assert [event.server for event in heard] == ["b", "a"]
        stop()
        await hub.call_tool("mcp__a__echo")
        assert len(heard) == 2
        gone: list[str] = []
        hub.on(tc.events.Disconnected, lambda event: gone.append(event.server))
        await hub.remove_server("b")
        assert gone == ["b"]


async def test_a_server_that_is_added_later_is_listened_to_as_well() -> None:
    heard: list[str] = []
    async with Hub({}) as hub:
        hub.on(tc.events.ConnectionCompleted, lambda event: heard.append(event.server))
        await hub.add_server("late", echo_server())
        assert heard == ["late"]


async def test_local_processes_urls_and_functions_work_side_by_side(tmp_path: Path) -> None:
    async with (
        served(math_server("web").asgi()) as url,
        served(math_server("old").asgi(path="/sse", transport="sse")) as old,
    ):
        servers = {
            "demo": tc.StdioServer(sys.executable, [DEMO]),
            "bad": bad(tmp_path, "bad").server(),
            "web": f"{url}/mcp",
            "plain": tc.HttpServer(f"{url}/mcp", streamable=False),
            "old": tc.SseServer(f"{old}/sse"),
            "here": math_server(),
        }
        async with Hub(servers) as hub:
            assert [(each.name, each.last_error) for each in hub.list_servers()] == [(name, None) for name in servers]
            for name in ("web", "plain", "old", "here"):
                assert (await hub.call_tool(f"mcp__{name}__add", {"a": 2, "b": 3})).data == 5
            assert (await hub.call_tool("mcp__bad__echo", {"nonce": "n"})).text == "n"
            tools = names(await hub.list_tools())
            assert {name.split("__")[1] for name in tools} == set(servers)
            results = await outcomes(*(hub.read_resource(name, "config://app") for name in ("web", "old", "here")))
            assert [result.text for result in results] == ['{"of": "web"}', '{"of": "old"}', '{"of": "math"}']


async def test_a_hub_shows_what_it_is_and_is_not_pickled() -> None:
    async with Hub({"math": math_server()}) as hub:
        assert repr(hub) == "<Hub servers=1 tools=2>"
        with pytest.raises(tc.UsageError, match="cannot be pickled"):
            hub.__reduce__()


@pytest.mark.parametrize(
    "use",
    [lambda hub: hub.__aenter__(), lambda hub: hub.list_tools(), lambda hub: hub.close()],
    ids=["enter", "list_tools", "close"],
)
def test_without_an_asyncio_loop_the_error_says_what_to_use(use: Any) -> None:
    """As it is under trio, which runs coroutines without an event loop of asyncio."""
    work = use(tc.Hub({"math": tc.ToolServer("math")}))
    with pytest.raises(tc.UsageError, match=r"no asyncio event loop.*trio.*toolcrib\.sync"):
        work.send(None)
    work.close()


@pytest.mark.parametrize(
    "given, meant",
    [("disallowed", "disallowed_tools"), ("alowed_tools", "allowed_tools"), ("start_timout", "start_timeout")],
)
def test_a_misspelt_option_of_a_hub_is_suggested(given: str, meant: str) -> None:
    with pytest.raises(tc.ConfigError, match=f"a Hub has no option '{given}'; did you mean '{meant}'"):
        tc.Hub({}, **{given: ["mcp__a__b"]})


def test_servers_without_names_are_rejected() -> None:
    with pytest.raises(tc.ConfigError) as caught:
        Hub([tc.StdioServer("x")])  # type: ignore[arg-type]
    assert caught.value.message == (
        "servers: expected a mapping of names to servers, got a list (value hidden). "
        "Write Hub({'name': server}); for a settings file use Hub.from_config(path)"
    )
