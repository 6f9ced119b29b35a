"""Lists: complete, cached only while fresh, and never shared with another caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import WEB, Clock, Place, eventually, soon
from tests.interaction.marks import MODERN, OLDER, client_side, only, per_protocol
from tests.interaction.reference_server_trials import TOOLS
from toolcrib.client.listing import ListCache, Use
from toolcrib.protocol.cache_hints import CacheHint

Lists = Callable[[tc.Client], Callable[..., Awaitable[list[Any]]]]
LISTS: dict[str, Lists] = {
    "tools/list": lambda c: c.list_tools,
    "resources/list": lambda c: c.list_resources,
    "resources/templates/list": lambda c: c.list_resource_templates,
    "prompts/list": lambda c: c.list_prompts,
}


def asked(harness: Place, method: str = "tools/list") -> int:
    return len(harness.journal.got(method))


@per_protocol
async def test_a_tool_answers_by_attribute_and_by_the_wires_own_names(harness: Place) -> None:
    async with harness.client() as c:
        tools = {tool.name: tool for tool in await c.list_tools()}
    assert list(tools) == list(TOOLS)
    add = tools["add"]
    assert (add["name"], add.get("inputSchema"), add.get("none", 7)) == ("add", add.input_schema, 7)
    assert add.input_schema["required"] == ["a", "b"]
    assert add.output_schema is not None
    assert add.output_schema["required"] == ["sum"]
    assert (tools["echo"].title, tools["echo"].annotations) == ("Echo", {"readOnlyHint": True})


@per_protocol
@pytest.mark.parametrize("page", [1, 2, 7])
@pytest.mark.parametrize("method", LISTS)
async def test_all_pages_are_followed_also_from_an_empty_cursor(harness: Place, method: str, page: int) -> None:
    async with harness.client() as c, harness.client(server_options={"page": page}) as paged:
        whole = await LISTS[method](c)()
        assert await LISTS[method](paged)() == whole
    cursors = [message.get("params", {}).get("cursor") for message in harness.journal.got(method)]
    pages = -(-len(whole) // page)
    assert len(cursors) == 1 + pages
    assert cursors[1:4] == [None, "", "page 2"][:pages]


@per_protocol
@pytest.mark.parametrize("method", LISTS)
async def test_a_server_without_the_capability_gives_an_empty_list_and_is_not_asked(
    harness: Place, method: str
) -> None:
    async with harness.client(server_options={"capabilities": {}}) as c:
        assert await LISTS[method](c)() == []
    assert asked(harness, method) == 0


@per_protocol
async def test_a_server_without_completions_completes_nothing(harness: Place) -> None:
    async with harness.client(server_options={"capabilities": {}}) as c:
        assert (await c.complete("greet", "name", "A")).values == ()
    assert asked(harness, "completion/complete") == 0


@per_protocol
@pytest.mark.parametrize("method", LISTS)
async def test_by_default_each_listing_asks_the_server(harness: Place, method: str) -> None:
    async with harness.client() as c:
        assert await LISTS[method](c)() == await LISTS[method](c)()
    assert asked(harness, method) == 2


@per_protocol
@pytest.mark.parametrize("method", LISTS)
async def test_use_cache_true_takes_what_is_there_and_false_asks(harness: Place, method: str) -> None:
    async with harness.client() as c:
        listing = LISTS[method](c)
        first = await listing(use_cache=True)
        assert asked(harness, method) == 1, "nothing was there yet"
        assert await listing(use_cache=True) == first
        assert asked(harness, method) == 1
        assert await listing(use_cache=False) == first
        assert asked(harness, method) == 2


@per_protocol
async def test_cache_tools_list_keeps_the_list_of_tools_for_300_seconds(harness: Place, clock: Clock) -> None:
    async with harness.client(cache_tools_list=True) as c:
        await c.list_tools()
        clock.advance(299)
        await c.list_tools()
        assert asked(harness) == 1
        clock.advance(2)
        await c.list_tools()
        assert asked(harness) == 2
        await c.list_tools(use_cache=False)
        assert asked(harness) == 3


@only(ways=["stdio", *WEB])
async def test_a_config_can_ask_for_the_cache_and_a_keyword_overrules_it(harness: Place) -> None:
    config = replace(harness.server(), cache_tools_list=True)
    async with tc.Client(config, mode=harness.mode) as c:
        await c.list_tools()
        await c.list_tools()
        assert asked(harness) == 1
    async with tc.Client(config, mode=harness.mode, cache_tools_list=False) as c:
        await c.list_tools()
        await c.list_tools()
        assert asked(harness) == 3


@client_side
async def test_what_is_given_out_can_be_changed_without_harm_to_the_cache(harness: Place) -> None:
    async with harness.client(cache_tools_list=True) as c:
        (await c.list_tools()).clear()
        assert len(await c.list_tools()) == len(TOOLS)
    assert asked(harness) == 1


async def test_a_list_is_never_shared_between_clients(harness: Place) -> None:
    server = harness.server()
    options = {"mode": harness.mode, "cache_tools_list": True, "name": "same"}
    async with tc.Client(server, **options) as one, tc.Client(server, **options) as two:
        await one.list_tools()
        await two.list_tools()
    assert asked(harness) == 2


async def test_a_list_does_not_outlive_its_connection(harness: Place) -> None:
    async with harness.client(cache_tools_list=True) as c:
        await c.list_tools()
        await c.disconnect()
        await c.list_tools()
    assert asked(harness) == 2


@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
async def test_the_news_of_a_changed_list_makes_it_stale(harness: Place, kind: str) -> None:
    async with harness.client(cache_tools_list=True) as c, c.listen() as changes:
        listing = LISTS[f"{kind}/list"](c)
        before = await listing(use_cache=True)
        await c.call_tool("grow", {"kind": kind})
        await soon(anext(changes))  # over HTTP the news may come after the answer
        after = await listing(use_cache=True)
        assert len(after) == len(before) + 1
        assert after[-1].name == "grown"


async def test_the_news_of_one_list_leaves_the_others_fresh(harness: Place) -> None:
    async with harness.client(cache_tools_list=True) as c, c.listen() as changes:
        await c.list_tools()
        await c.call_tool("grow", {"kind": "prompts"})
        await soon(anext(changes))
        await c.list_tools()
    assert asked(harness) == 1


@pytest.mark.transport
async def test_a_list_is_updated_without_listening_for_changes(harness: Place) -> None:
    received: list[tc.events.ToolsChanged] = []
    async with harness.client(cache_tools_list=True) as c:
        c.on(tc.events.ToolsChanged, received.append)
        before = await c.list_tools()
        await c.call_tool("grow")
        await eventually(lambda: received)
        assert len(await c.list_tools()) == len(before) + 1


@client_side
@MODERN
@pytest.mark.parametrize("method", LISTS)
async def test_the_servers_own_hint_is_honoured(harness: Place, clock: Clock, method: str) -> None:
    async with harness.client(server_options={"ttl": 60_000, "page": 2}) as c:
        listing = LISTS[method](c)
        whole = await listing()
        once = asked(harness, method)
        clock.advance(59)
        assert await listing() == whole
        assert asked(harness, method) == once
        clock.advance(2)
        assert await listing() == whole
        assert asked(harness, method) == 2 * once


@client_side
@MODERN
async def test_the_servers_hint_beats_our_own_life_of_a_list(harness: Place, clock: Clock) -> None:
    async with harness.client(server_options={"ttl": 600_000}, cache_tools_list=True) as c:
        await c.list_tools()
        clock.advance(599)
        await c.list_tools()
    assert asked(harness) == 1


@client_side
@MODERN
@pytest.mark.parametrize("ttl", [0, -5])
async def test_a_list_that_is_stale_at_once_is_kept_only_if_the_user_asks_for_it(harness: Place, ttl: int) -> None:
    async with harness.client(server_options={"ttl": ttl}) as c:
        await c.list_tools()
        await c.list_tools()
        assert asked(harness) == 2
        await c.list_tools(use_cache=True)
        assert asked(harness) == 2, "the caller's choice beats the server's hint"
    async with harness.client(server_options={"ttl": ttl}, cache_tools_list=True) as c:
        before = asked(harness)
        await c.list_tools()
        await c.list_tools()
        assert asked(harness) == before + 1, "so does the option of the client"


@per_protocol
@OLDER
async def test_an_older_server_has_no_hints(harness: Place) -> None:
    async with harness.client(server_options={"ttl": 60_000}) as c:
        await c.list_tools()
        await c.list_tools()
    assert asked(harness) == 2


def test_the_shortest_life_of_the_pages_counts() -> None:
    joined = CacheHint(60.0, "public").joined(CacheHint(5.0, "public"))
    assert joined == CacheHint(5.0, "public")
    cache = ListCache("stdio:x")
    cache.put("tools", (1,), joined, now=100.0)
    assert cache.get("tools", 104.9, Use.HINTED) == (1,)
    assert cache.get("tools", 105.0, Use.HINTED) is None


async def test_many_lists_at_once_do_not_mix(harness: Place) -> None:
    async with harness.client(server_options={"page": 1}) as c:
        together = await asyncio.gather(*(listing(c)() for listing in LISTS.values() for _ in range(3)))
        alone = [await listing(c)() for listing in LISTS.values() for _ in range(3)]
    assert together == alone
