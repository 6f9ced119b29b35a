"""Oversized lists: 100,000 tools and endless cursors are rejected or truncated in bounded time."""

from __future__ import annotations

import time
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import FaultyServer, either_era
from toolcrib.errors import ProtocolError


async def listed(client: tc.Client) -> list[tc.Tool] | ProtocolError:
    try:
        return list(await client.list_tools())
    except ProtocolError as exc:
        return exc


@pytest.mark.slow
@either_era
@pytest.mark.parametrize(
    "script",
    [
        {"tools": 100_000, "page": 100_100},
        {"tools": 100_000, "page": 1000},
        {"tools": 100_000, "page": 10},
        {"endless": "same", "page": 3},
        {"endless": "new", "page": 3},
    ],
    ids=["one page", "100 pages", "10,000 pages", "same cursor", "new cursors"],
)
async def test_a_list_without_measure_is_bounded_in_tools_pages_and_time(
    faulty: FaultyServer, era: str, script: dict[str, Any]
) -> None:
    async with faulty.client(era=era, **script) as client:
        start = time.monotonic()
        outcome = await listed(client)
        assert time.monotonic() - start < 20
        if isinstance(outcome, list):
            assert 0 < len(outcome) <= 5_000
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x", "the tools themselves go on working"
    assert faulty.record.entries("method").count("tools/list") <= 100
    assert faulty.record.lives == 1


@either_era
async def test_all_pages_of_a_large_honest_list_are_followed(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era, tools=4_000, page=100) as client:
        tools = await client.list_tools()
        names = {tool.name for tool in tools}
    assert len(tools) == len(names) > 4_000
    assert {"echo", "tool_0", "tool_3999"} <= names


async def test_a_server_without_a_capability_gives_empty_lists_and_is_not_asked(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era, capabilities={}) as client:
        assert list(await client.list_tools()) == []
        assert list(await client.list_resources()) == []
        assert list(await client.list_resource_templates()) == []
        assert list(await client.list_prompts()) == []
    assert not {"tools/list", "resources/list", "prompts/list"} & set(faulty.record.entries("method"))


async def test_an_unknown_tool_is_reported_with_the_nearest_names_where_the_list_is_known(
    faulty: FaultyServer, era: str
) -> None:
    async with faulty.client(era=era) as client:
        await client.list_tools()
        with pytest.raises(tc.ToolNotFound) as caught:
            await client.call_tool("ecco", {})
        assert "echo" in caught.value.nearest
        assert "echo" in str(caught.value)
