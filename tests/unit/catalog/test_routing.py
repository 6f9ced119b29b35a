"""The snapshot of all lists and the table of routes: pure functions that change only what differs."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.routing import Catalog, Route
from toolcrib.tool_names import ALIAS_LIMIT
from toolcrib.types import Prompt, Resource, ResourceTemplate, Tool


def tools(*names: str, **more: Any) -> list[Tool]:
    return [Tool.from_wire({"name": name, "inputSchema": {"type": "object"}, **more}) for name in names]


def catalog(**servers: list[Tool]) -> tuple[Catalog[str], list[str]]:
    judged: list[str] = []
    made: Catalog[str] = Catalog(lambda route: judged.append(route.tool.name))
    for name, listed in servers.items():
        made.add(name, f"owner of {name}")
        made.put(name, "tools", listed)
    return made, judged


def names_of(routes: tuple[Route[str], ...]) -> list[str]:
    return [route.tool.name for route in routes]


def test_a_route_knows_both_names_of_the_tool_and_its_server() -> None:
    made, _ = catalog(fs=tools("read", title="Read"))
    route = made.routes["mcp__fs__read"]
    assert (route.owner, route.original) == ("owner of fs", "read")
    assert (route.tool.name, route.tool.server, route.tool.original_name) == ("mcp__fs__read", "fs", "read")
    assert (route.source.name, route.source.server) == ("read", "fs")
    assert route.tool.title == "Read" and route.tool.raw["name"] == "read"


def test_the_order_is_that_of_servers_and_of_their_lists() -> None:
    made, _ = catalog(z=tools("b", "a"), a=tools("c"))
    assert names_of(made.tools) == ["mcp__z__b", "mcp__z__a", "mcp__a__c"]
    assert made.tools is made.tools, "put together once"


def test_only_a_list_that_differs_is_a_change() -> None:
    made, judged = catalog(fs=tools("read", "write"))
    version, before = made.version, made.tools
    assert made.put("fs", "tools", tools("read", "write")) is False
    assert (made.version, made.tools) == (version, before)
    assert made.put("fs", "tools", tools("read", "move")) is True
    assert made.version == version + 1
    assert made.routes["mcp__fs__read"] is before[0], "what stayed the same is the same, decisions and all"
    assert judged == ["mcp__fs__read", "mcp__fs__write", "mcp__fs__move"]
    assert "mcp__fs__write" not in made.routes
    assert made.put("fs", "tools", tools("read", "move", description="new")) is True
    assert made.routes["mcp__fs__read"] is not before[0]


def test_a_first_list_that_is_empty_is_not_a_change() -> None:
    made, _ = catalog(fs=[])
    assert made.version == 0
    assert made.put("fs", "prompts", []) is False
    made.put("fs", "tools", tools("a"))
    assert made.put("fs", "tools", []) is True


def test_a_removed_server_lists_nothing() -> None:
    made, _ = catalog(a=tools("x", "long" * 20), b=tools("x"))
    made.put("a", "prompts", [Prompt("hello", raw={"name": "hello"})])
    assert set(made.drop("a")) == {"tools", "prompts"}
    assert made.drop("a") == ()
    assert list(made.routes) == ["mcp__b__x"]
    assert made.prompts == {} and made.aliases == {}
    assert made.put("a", "tools", tools("y")) is False, "an answer that comes too late"
    assert made.tools_of("a") == ()


def test_resources_templates_and_prompts_carry_their_server() -> None:
    made, _ = catalog(a=[], b=[])
    made.put("a", "resources", [Resource("x://1", raw={"uri": "x://1"})])
    made.put("b", "resources", [Resource("x://1", raw={"uri": "x://1"})])
    made.put("a", "resource_templates", [ResourceTemplate("x://{y}", raw={"uriTemplate": "x://{y}"})])
    made.put("b", "prompts", [Prompt("hi", raw={"name": "hi"})])
    assert [(r.uri, r.server) for r in made.resources()] == [("x://1", "a"), ("x://1", "b")]
    assert [r.server for r in made.resources("b")] == ["b"]
    assert made.resources("c") == []
    assert [t.server for t in made.resource_templates()] == ["a"]
    assert [p.name for p in made.prompts_of("b")] == ["mcp__b__hi"]
    route = made.prompts["mcp__b__hi"]
    assert (route.owner, route.original, route.prompt.server) == ("owner of b", "hi", "b")


def test_nameless_and_repeated_tools_are_left_out() -> None:
    made, _ = catalog(a=[*tools("x", ""), *tools("x", title="second")])
    (route,) = made.tools
    assert (route.tool.name, route.tool.title) == ("mcp__a__x", None)


def test_an_alias_leads_to_the_same_route() -> None:
    odd = "read.file"
    made, _ = catalog(a=tools(odd, "plain"))
    (alias,) = made.aliases
    assert made.alias(f"mcp__a__{odd}") == alias
    assert made.routes[alias] is made.routes[f"mcp__a__{odd}"]
    assert made.alias("mcp__a__plain") == "mcp__a__plain"
    assert made.alias("unknown") == "unknown"


def test_a_real_name_that_comes_later_takes_its_place_back_from_an_alias() -> None:
    made, _ = catalog(a=tools("read.file"))
    (alias,) = made.aliases
    short = alias.removeprefix("mcp__a__")
    made.put("a", "tools", tools("read.file", short))
    assert made.routes[alias].original == short
    other = made.alias("mcp__a__read.file")
    assert other != alias and made.routes[other].original == "read.file"
    made.put("a", "tools", tools("read.file"))
    assert made.alias("mcp__a__read.file") == alias, "and it is as it was"


NAMES = st.text(st.sampled_from("ab_.-é"), min_size=1, max_size=70)


@given(st.lists(st.tuples(st.sampled_from(["a", "a_b", "a-b"]), st.lists(NAMES, max_size=5)), max_size=6))
def test_every_name_and_every_alias_leads_to_one_tool_after_any_changes(
    steps: list[tuple[str, list[str]]],
) -> None:
    made, _ = catalog(a=[], a_b=[])
    made.add("a-b", "owner of a-b")
    lists: dict[str, list[str]] = {}
    for server, listed in steps:
        lists[server] = list(dict.fromkeys(listed))
        made.put(server, "tools", tools(*listed))
    expected = [(server, tool) for server in ("a", "a_b", "a-b") for tool in lists.get(server, [])]
    assert [(route.tool.server, route.original) for route in made.tools] == expected
    assert len({made.alias(route.tool.name) for route in made.tools}) == len(expected)
    for route in made.tools:
        alias = made.alias(route.tool.name)
        assert len(alias) <= ALIAS_LIMIT and alias.isascii()
        assert made.routes[route.tool.name] is route is made.routes[alias]
    assert len(made.routes) == len(expected) + len(made.aliases)


@pytest.mark.serial
def test_a_start_of_many_servers_does_not_cost_their_square() -> None:
    def filled(count: int) -> float:
        listed = tools(*(f"tool_{n}" for n in range(20)))
        began = time.perf_counter()
        made, _ = catalog(**{f"s{n}": listed for n in range(count)})
        assert len(made.tools) == 20 * count
        return time.perf_counter() - began

    filled(20)
    few = min(filled(50) for _ in range(3))
    assert min(filled(400) for _ in range(3)) < 3 * 8 * few


def test_names_that_cannot_be_used_are_one_line_of_the_log_for_a_whole_list(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, forged = [0.0], "\x1b[2Jx\nforged"
    monkeypatch.setattr("toolcrib.catalog.routing.monotonic", lambda: clock[0])
    made, _ = catalog(s=[])
    names = [*(f"t{number}" for number in range(9)), forged, ""]
    with caplog.at_level(logging.WARNING, "toolcrib.hub"):
        made.put("s", "tools", tools(*names * 1000))
        (line,) = caplog.messages
        assert line == "s: 10990 tools with empty or duplicate names are ignored: '', 't0', 't1', 't2', 't3'"
        assert [each.tool.name for each in made.tools] == [f"mcp__s__{name}" for name in names if name]

        for number in range(100):  # a server whose list changes all the time
            made.put("s", "tools", tools("a", "a", f"b{number}"))
        assert len(caplog.messages) == 1
        clock[0] += 60
        made.put("s", "tools", tools("a", "a", forged, forged))
        assert caplog.messages[1:] == ["s: 2 tools with empty or duplicate names are ignored: 'a', '\ufffd[2Jx forged'"]
        clock[0] += 60
        made.put("s", "tools", tools("c"))
        made.put("s", "tools", tools("a", "a", forged, forged))
        assert len(caplog.messages) == 2, "the same names are not reported again"
