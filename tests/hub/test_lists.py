"""Lists of many servers: which servers they wait for, how long, and what is reported for missing ones."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import FAST, Hub, PlayedServer, bad, listing, math_server, names, played, state
from tests.unit.kit import LEGACY, SILENCE, eventually, turns
from toolcrib.hub import servers
from toolcrib.types import ConnectionState

ALL = {**LEGACY, "capabilities": {"tools": {"listChanged": True}, "resources": {"listChanged": True}, "prompts": {}}}


def library(**answers: Any) -> PlayedServer:
    """A server of the legacy era with one of everything."""
    given = {
        "initialize": ALL,
        "resources__list": {"resources": [{"uri": "a://1", "name": "r"}]},
        "resources__templates__list": {"resourceTemplates": []},
        "prompts__list": {"prompts": [{"name": "p"}]},
    }
    return played("t", **{**given, **answers})


# ---- whom a list waits for -----------------------------------------------------------------------------------


async def test_a_list_of_one_server_starts_and_waits_for_that_one_only(tmp_path: Path) -> None:
    other, hangs = bad(tmp_path, "other"), played(initialize=SILENCE)
    servers = {"here": math_server(), "other": other.server(), "hangs": hangs}
    async with Hub(servers, start="lazy", start_timeout=None) as hub, asyncio.timeout(20):
        assert len(await hub.list_tools(server="here")) == 2
        assert len(await hub.resources.list_from_server("here")) == 1
        assert len(await hub.list_resource_templates("here")) == 1
        assert len(await hub.list_prompts("here")) == 1
        assert len(await hub.view().list_tools(server="here")) == 2
        for ask in (hub.list_tools(server="nobody"), hub.list_resources("nobody"), hub.list_prompts("nobody")):
            with pytest.raises(tc.ServerNotFound, match="nobody"):
                await ask
        assert other.record.lives == 0 and hangs.received == []
        assert str(state(hub, "other").status) == "disconnected (not started yet)"


async def test_a_list_of_one_server_of_a_hub_that_was_not_entered_waits_for_that_one_only() -> None:
    hub = Hub({"hangs": played(initialize=SILENCE), "here": math_server()}, start_timeout=None)
    try:
        async with asyncio.timeout(20):
            assert len(await hub.list_tools(server="here")) == 2
        assert state(hub, "hangs").status.state is ConnectionState.CONNECTING
    finally:
        await hub.close()


async def test_by_default_one_that_hangs_is_waited_for_as_long_as_the_well_ones_took_and_a_little_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With servers of this process that little is five seconds (here shorter), not the ten that all slow ones have."""
    assert servers.START_GRACE == 5.0
    monkeypatch.setattr(servers, "START_GRACE", 0.3)
    began = time.monotonic()
    async with Hub({"hangs": played(initialize=SILENCE), "here": math_server()}) as hub:
        assert 0.3 <= time.monotonic() - began < 9
        assert state(hub, "hangs").status.state is ConnectionState.CONNECTING
        asking = asyncio.create_task(hub.list_tools())
        await turns(20)
        assert asking.done() and len(await asking) == 2, "who had its time is waited for no more"


async def test_by_default_servers_that_are_slow_together_are_waited_for(tmp_path: Path) -> None:
    slow, slower = bad(tmp_path, "slow"), bad(tmp_path, "slower")
    async with Hub({"slow": slow.server(delay=0.4), "slower": slower.server(delay=0.8)}) as hub:
        assert {tool.server for tool in await hub.list_tools()} == {"slow", "slower"}
        assert (state(hub, "slow").startup_seconds or 0) >= 0.4
        assert (state(hub, "slower").startup_seconds or 0) >= 0.8


@pytest.mark.parametrize("wrong", ["soon", -1, "10", True, float("nan")])
def test_an_invalid_start_timeout_is_a_config_error(wrong: Any) -> None:
    with pytest.raises(tc.ConfigError) as refused:
        Hub(start_timeout=wrong)
    assert refused.value.key == "start_timeout"


# ---- lists that are missing or come late ---------------------------------------------------------------------


async def test_a_refresh_has_all_lists_anew_when_it_returns() -> None:
    release = asyncio.Event()
    server = library()
    async with Hub({"s": server}) as hub:

        async def late(params: Any) -> Any:
            await release.wait()
            return {"resources": [{"uri": "a://2", "name": "r"}]}

        server.answers["resources/list"] = late
        server.answers["tools/list"] = listing("t", "u")
        refreshing = asyncio.create_task(hub.refresh("s"))
        await eventually(lambda: len(state(hub, "s").tools) == 2)
        await turns()
        assert not refreshing.done(), "its resources are still to come"
        release.set()
        await refreshing
        assert [resource.uri for resource in await hub.list_resources()] == ["a://2"]


async def test_a_refresh_is_not_answered_by_a_list_that_was_asked_for_before_it() -> None:
    asked: list[asyncio.Event] = []
    server = library()

    async def numbered(params: Any) -> Any:
        asked.append(asyncio.Event())
        number = len(asked)
        await asked[-1].wait()
        return listing(f"t{number}")

    async with Hub({"s": server}) as hub:
        server.answers["tools/list"] = numbered
        first = asyncio.create_task(hub.refresh("s"))
        await eventually(lambda: len(asked) == 1)
        second = asyncio.create_task(hub.refresh("s"))
        await turns()
        asked[0].set()
        await first
        await eventually(lambda: len(asked) == 2)
        assert not second.done()
        asked[1].set()
        await second
        assert names(await hub.list_tools()) == ["mcp__s__t2"]


@pytest.mark.parametrize(
    "method, what",
    [
        ("resources/list", "resources"),
        ("resources/templates/list", "resource templates"),
        ("prompts/list", "prompts"),
    ],
)
async def test_a_list_that_failed_is_reported_and_requested_again(method: str, what: str) -> None:
    server = library()
    good = server.answers[method]
    server.answers[method] = tc.RemoteError(-32603, "the database is starting")
    async with Hub({"s": server}, reconnect=FAST) as hub:
        found = state(hub, "s")
        assert str(found.status) == f"degraded (its {what} could not be listed: the database is starting)"
        assert isinstance(found.last_error, tc.RemoteError)
        assert names(await hub.list_tools()) == ["mcp__s__t"], "its tools are here all the same"
        assert (await hub.call_tool("mcp__s__t")).text == "t"
        with pytest.raises(tc.RemoteError):
            await hub.refresh("s")
        server.answers[method] = good
        await eventually(lambda: state(hub, "s").status.state is ConnectionState.CONNECTED)
        assert state(hub, "s").last_error is None
        assert len(await hub.list_resources()) == len(await hub.list_prompts()) == 1


# ---- one event -----------------------------------------------------------------------------------------------


async def test_one_change_of_resources_and_templates_is_one_event() -> None:
    server = library()
    async with Hub({"s": server}) as hub:
        heard: list[tc.events.Event] = []
        hub.on(tc.events.Event, heard.append)
        server.answers["resources/list"] = {"resources": [{"uri": "a://2", "name": "r"}]}
        server.answers["resources/templates/list"] = {"resourceTemplates": [{"uriTemplate": "b://{x}", "name": "b"}]}
        await server.end.send({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"})
        await eventually(lambda: heard)
        assert [resource.uri for resource in await hub.list_resources()] == ["a://2"]
        assert len(await hub.list_resource_templates()) == 1
        await hub.refresh("s")
        assert heard == [tc.events.ResourcesChanged("s")]


async def test_a_listener_that_learns_of_a_servers_tools_finds_it_connected(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "sick")
    sick = faulty.server(first={"exit": {"code": 3}}, first_lives=2)
    found: list[tuple[ConnectionState, Any]] = []
    async with Hub({"sick": sick}, reconnect=FAST) as hub:
        hub.on(
            tc.events.ToolsChanged,
            lambda event: found.append((state(hub, event.server).status.state, state(hub, event.server).last_error)),
        )
        await eventually(lambda: found)
        assert found == [(ConnectionState.CONNECTED, None)]


# ---- notifications of changes-----------------------------------------------------------------------------------


def notes() -> tc.ToolServer:
    server = tc.ToolServer("notes")
    server.add_resource(lambda: "text", uri="note://one", name="one")
    server.add_tool(lambda: "x", name="first")
    return server


async def test_the_changes_of_one_servers_lists_and_resources_can_be_listened_to() -> None:
    server, other = notes(), notes()
    async with Hub({"s": server, "other": other}) as hub:
        async with hub.listen("s", "note://one", prompts=False) as changes, asyncio.timeout(10):
            other.add_tool(lambda: "x", name="unheard")
            server.add_tool(lambda: "x", name="second")
            heard = await anext(aiter(changes))
            assert heard.kind == "tools"
            server.notify_resource_updated("note://one")
            heard = await anext(aiter(changes))
            assert (heard.kind, heard.uri) == ("resource", "note://one")
        with pytest.raises(tc.ServerNotFound, match="nobody"):
            hub.listen("nobody")


async def test_listening_starts_a_lazy_server_and_a_disabled_one_says_so() -> None:
    async with Hub({"s": notes()}, start="lazy") as hub, hub.listen("s"):
        await eventually(lambda: state(hub, "s").connected)
    entry = {"command": "x", "disabled": True}
    async with Hub.from_config({"mcpServers": {"off": entry}}) as hub:
        with pytest.raises(tc.AccessDenied, match="disabled"):
            hub.listen("off")


def test_the_same_without_an_event_loop() -> None:
    server = notes()
    with tc.sync.Hub({"s": server}) as hub:
        with hub.listen("s") as changes:
            server.add_tool(lambda: "x", name="second")
            assert next(iter(changes)).kind == "tools"
        with pytest.raises(tc.ServerNotFound):
            hub.listen("nobody")
        seen: list[str] = []

        def audit(call: tc.ToolCall, proceed: Any) -> Any:
            seen.append(call.tool)
            return proceed(call)

        hub.intercept(audit)
        hub.call_tool("mcp__s__first")
        hub.remove_interceptor(audit)
        hub.call_tool("mcp__s__first")
        assert seen == ["first"]
