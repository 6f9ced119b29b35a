"""Names: qualified from the first server on, never in each other's way, repaired where they must be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolcrib as tc
from tests.hub.kit import Hub, echo_server, names, played, state
from toolcrib.hub.servers import name_servers
from toolcrib.tool_names import is_server_name


async def test_servers_whose_names_and_tools_look_alike_do_not_collide() -> None:
    servers = {"a": echo_server("b__c"), "a_b": echo_server("c"), "a-b": echo_server("c")}
    async with Hub(servers) as hub:
        listed = names(await hub.list_tools())
        assert listed == ["mcp__a__b__c", "mcp__a_b__c", "mcp__a-b__c"]
        for name in listed:
            assert (await hub.call_tool(name, {"said": name})).data == {"said": name}


async def test_a_server_with_two_underscores_gets_a_slug() -> None:
    async with Hub({"a__b": echo_server("c"), "a": echo_server("b__c")}) as hub:
        assert names(await hub.list_tools()) == ["mcp__a_b__c", "mcp__a__b__c"]


async def test_a_free_display_name_gets_a_unique_slug_that_the_state_shows() -> None:
    servers = {"My Server": echo_server("x"), "My-Server": echo_server("y"), "Größe!": echo_server("z")}
    async with Hub(servers) as hub:
        found = {each.display_name: each.name for each in hub.list_servers()}
        assert (found["My Server"], found["My-Server"]) == ("My-Server-2", "My-Server")
        assert is_server_name(found["Größe!"])
        added = await hub.add_server("My Server?", echo_server("w"))
        assert (added.name, added.display_name) == ("My-Server-3", "My Server?")
        assert (await hub.call_tool("mcp__My-Server-3__w", {"a": 1})).data == {"a": 1}
        await hub.remove_server("My Server?")
        with pytest.raises(tc.ServerNotFound):
            await hub.remove_server("My Server?")


async def test_a_name_that_is_taken_is_refused() -> None:
    async with Hub({"a": echo_server(), "Free Name": echo_server()}) as hub:
        for taken in ("a", "Free Name", "Free-Name"):
            with pytest.raises(tc.ConfigError, match="already") as refused:
                await hub.add_server(taken, echo_server())
            assert refused.value.key == "name"
        assert len(hub.list_servers()) == 2


async def test_a_tool_whose_name_is_too_long_or_odd_has_an_alias_that_can_be_called() -> None:
    odd, long = "read.file/ä", "x" * 80
    async with Hub({"fs": played(odd, long, "plain")}) as hub:
        for tool in (odd, long):
            name = f"mcp__fs__{tool}"
            alias = hub.alias(name)
            assert alias != name and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", alias)
            assert hub.alias(name) == alias
            assert (await hub.call_tool(alias)).text == tool
            assert (await hub.call_tool(name)).text == tool
            assert alias in hub.explain(name) and name in hub.explain(alias)
        assert hub.alias("mcp__fs__plain") == "mcp__fs__plain"
        assert names(await hub.list_tools()) == [f"mcp__fs__{tool}" for tool in (odd, long, "plain")]


async def test_an_alias_is_the_same_in_every_hub_and_goes_with_its_tool() -> None:
    server = echo_server("a.b", "a_b")
    async with Hub({"s": server}) as hub, Hub({"other": echo_server(), "s": echo_server("a.b")}) as second:
        alias = hub.alias("mcp__s__a.b")
        assert alias == second.alias("mcp__s__a.b") != "mcp__s__a_b"
        await hub.remove_server("s")
        with pytest.raises(tc.ToolNotFound):
            await hub.call_tool(alias)


async def test_what_is_denied_by_name_is_denied_by_alias() -> None:
    async with Hub({"s": echo_server("a.b")}, disallowed_tools=["mcp__s__a.b"]) as hub:
        alias = hub.alias("mcp__s__a.b")
        assert alias != "mcp__s__a.b"
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool(alias)
        assert hub.explain(alias) == "denied by disallowed_tools: mcp__s__a.b"


async def test_an_alias_never_takes_the_name_of_a_real_tool() -> None:
    server = echo_server("a.b")
    async with Hub({"s": server}) as hub:
        alias = hub.alias("mcp__s__a.b")
        await hub.add_server("t", echo_server("x"))
        rogue = echo_server("a.b", alias.removeprefix("mcp__s__"))
        await hub.remove_server("s")
        await hub.add_server("s", rogue)
        assert state(hub, "s").tools[1].name == alias
        other = hub.alias("mcp__s__a.b")
        assert other != alias
        assert hub._catalog.routes[other].original == "a.b"
        assert hub._catalog.routes[alias].original == alias.removeprefix("mcp__s__")


@given(st.lists(st.text(min_size=1).filter(str.strip), unique=True, max_size=8))
def test_all_display_names_get_different_legal_names_whatever_their_order(displays: list[str]) -> None:
    found = name_servers(dict.fromkeys(displays))
    assert [display for _, display, _ in found] == displays
    assert len({name for name, _, _ in found}) == len(displays)
    assert all(is_server_name(name) for name, _, _ in found)
    assert all(name == display for name, display, _ in found if is_server_name(display))
