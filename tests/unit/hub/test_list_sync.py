"""The lists of one server: when they are fetched and published, and which callers wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, Clock, PlayedServer, eventually, turns
from toolcrib.hub.list_sync import KINDS, ListSync, as_toolcrib_error

ALL = {**LEGACY, "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}


def library(**answers: Any) -> PlayedServer:
    return PlayedServer(
        **{
            "initialize": ALL,
            "tools__list": {"tools": [{"name": "t"}]},
            "resources__list": {"resources": []},
            "resources__templates__list": {"resourceTemplates": []},
            "prompts__list": {"prompts": []},
            **answers,
        }
    )


@contextlib.asynccontextmanager
async def connected(server: PlayedServer) -> AsyncIterator[tuple[tc.Client, ListSync, list[str]]]:
    published: list[str] = []
    lists = ListSync("s", lambda kind, _: published.append(kind), retry_delay=60)
    async with tc.Client(server, name="s", mode="legacy", max_attempts=1) as client:
        yield client, lists, published
        lists.stop(tc.ConnectionLost("over"))
        await lists.wait_until_stopped()


async def test_everything_is_fetched_first_and_then_only_what_may_have_changed() -> None:
    server = library()
    async with connected(server) as (client, lists, published):
        assert await lists.fetch_stale(client) is None
        assert sorted(published) == sorted(KINDS)
        published.clear()
        lists.mark_stale(["prompts"])
        await lists.wait_until_stale()
        assert await lists.fetch_stale(client) is None
        assert published == ["prompts"]
        assert await lists.fetch_stale(client) is None
        assert published == ["prompts"], "nothing was stale"


async def test_a_new_connection_makes_everything_stale_unless_the_server_is_transient() -> None:
    server = library()
    async with connected(server) as (client, lists, published):
        await lists.fetch_stale(client)
        published.clear()
        lists.mark_connected(transient=True)
        await lists.fetch_stale(client)
        assert published == []
        lists.mark_connected(transient=False)
        await lists.fetch_stale(client)
        assert sorted(published) == sorted(KINDS)


async def test_while_it_listens_the_announced_changes_decide() -> None:
    server = library()
    async with connected(server) as (client, lists, published):
        await lists.fetch_stale(client)
        published.clear()
        lists.listen_for_changes(client)
        await turns()
        lists.mark_connected(transient=False)
        await lists.fetch_stale(client)
        assert published == []
        waiting = asyncio.ensure_future(lists.wait_until_stale())
        await server.end.send({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
        await waiting
        await lists.fetch_stale(client)
        assert published == ["prompts"]


async def test_callers_of_one_fetch_share_its_outcome_and_later_ones_wait_for_the_next() -> None:
    release = asyncio.Event()

    async def late(params: Any) -> Any:
        await release.wait()
        return {"tools": []}

    async with connected(library(tools__list=late)) as (client, lists, _):
        tools, everything = lists.request_tools(), lists.request_all()
        assert lists.request_tools() is tools
        fetching = asyncio.ensure_future(lists.fetch_stale(client))
        await turns()
        later = lists.request_all()
        release.set()
        await fetching
        assert tools.done() and everything.done() and not later.done()
        await lists.wait_until_stale()
        await lists.fetch_stale(client)
        assert later.done()


async def test_without_its_tools_a_fetch_fails_for_all_waiting_callers() -> None:
    server = library(tools__list=tc.RemoteError(-32603, "no tools today"))
    async with connected(server) as (client, lists, published):
        tools, everything = lists.request_tools(), lists.request_all()
        error = await lists.fetch_stale(client)
        assert isinstance(error, tc.RemoteError) and error.server == "s"
        assert lists.errors == {"tools": error}
        assert tools.exception() is error and everything.exception() is error
        assert sorted(published) == ["prompts", "resources"]
        server.answers["tools/list"] = {"tools": []}
        assert await lists.fetch_stale(client) is None, "what failed is still stale"
        assert lists.errors == {}


async def test_what_is_missing_is_fetched_again_after_the_delay() -> None:
    clock = Clock()
    server = library(prompts__list=tc.RemoteError(-32603, "no"))
    async with connected(server) as (client, lists, published):
        assert await lists.fetch_stale(client) is None
        assert list(lists.errors) == ["prompts"]
        waiting = asyncio.ensure_future(lists.wait_until_stale())
        await clock.advance(59)
        assert not waiting.done()
        await clock.advance(2)
        await eventually(waiting.done)
        published.clear()
        await lists.fetch_stale(client)
        assert published == ["prompts"]


async def test_lists_that_change_all_the_time_are_fetched_after_a_pause_but_at_once_for_a_caller() -> None:
    clock = Clock()
    async with connected(library()) as (client, lists, _):
        await lists.fetch_stale(client)
        lists.mark_stale(["tools"])
        waiting = asyncio.ensure_future(lists.wait_until_stale())
        await turns()
        assert not waiting.done()
        await clock.advance(0.2)
        await eventually(waiting.done)
        await lists.fetch_stale(client)
        lists.request_all()
        waiting = asyncio.ensure_future(lists.wait_until_stale())
        await turns()
        assert waiting.done()


async def test_stopping_ends_all_waiting_callers() -> None:
    lists = ListSync("s", lambda kind, _: None, retry_delay=60)
    tools, everything = lists.request_tools(), lists.request_all()
    lists.stop(tc.ConnectionLost("the server was removed"))
    await lists.wait_until_stopped()
    for future in (tools, everything):
        with pytest.raises(tc.ConnectionLost):
            await future


def test_a_foreign_exception_becomes_a_connect_error_of_one_printable_line() -> None:
    known = tc.ConnectionLost("lost")
    assert as_toolcrib_error(known, "s") is known
    error = as_toolcrib_error(ValueError("two\nlines"), "s")
    assert isinstance(error, tc.ConnectError) and (error.message, error.server) == ("ValueError: two lines", "s")
    assert isinstance(error.__cause__, ValueError)
