"""Streams that end before the answer: a client gets the rest only from servers with an event store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

import toolcrib as tc
from tests.peers.kit import FASTMCP_LEGACY, SDK1, SDK2_LEGACY, SDK2_MODERN, Chosen, Peer, eventually, first
from tests.peers.web import Relay, Watched, WebServer

WebOf = Callable[[Peer], WebServer]
# Servers that keep the events of their streams.
KEEPERS = pytest.mark.peers(Chosen([SDK1, SDK2_LEGACY, FASTMCP_LEGACY], [SDK1, SDK2_LEGACY], [SDK2_LEGACY]))
OLD = pytest.mark.peers(Chosen([SDK1], [SDK1]))
MODERN = pytest.mark.peers(Chosen([SDK2_MODERN], [SDK2_MODERN]))


@pytest_asyncio.fixture
async def relay(peer: Peer, web: WebOf) -> AsyncIterator[Relay]:
    async with Relay(web(peer).port) as opened:
        yield opened


def resumed(watched: Watched) -> list[dict[str, Any]]:
    return [entry for entry in watched.requests if entry["last_event_id"] is not None]


async def asleep(client: tc.Client, seconds: float = 60, **options: Any) -> asyncio.Task[tc.ToolResult]:
    """Start a call of `nap`, and wait until the server has begun it."""
    began = asyncio.Event()
    call = asyncio.create_task(
        client.call_tool("nap", {"seconds": seconds}, on_progress=lambda *_: began.set(), **options)
    )
    async with asyncio.timeout(20):
        await began.wait()
    return call


async def naps(client: tc.Client) -> list[str]:
    answer = await client.call_tool("nap_log")
    entries: list[str] = answer.raw["structuredContent"]["result"]
    return entries


@KEEPERS
async def test_a_server_that_hangs_up_on_a_call_sends_the_rest_after_a_reconnect(peer: Peer, web: WebOf) -> None:
    server, seen = web(peer), list[float]()
    watched = Watched(server, "/resumable")

    async with tc.Client(server.url("resumable/mcp"), mode="legacy") as client:
        result = await client.call_tool("detach", on_progress=lambda step, *_: seen.append(step))

    assert result.text == "finished apart"
    assert seen == [1, 2]
    (again,) = resumed(watched)
    assert (again["http"], again["status"]) == ("GET", 200)


@pytest.mark.slow
@KEEPERS
async def test_each_of_several_calls_gets_its_own_rest(peer: Peer, web: WebOf) -> None:
    server = web(peer)
    watched = Watched(server, "/resumable")
    seen: dict[int, list[float]] = {n: [] for n in range(5)}

    async with tc.Client(server.url("resumable/mcp"), mode="legacy") as client:
        results = await asyncio.gather(
            *(client.call_tool("detach", on_progress=lambda step, *_, n=n: seen[n].append(step)) for n in seen)
        )

    assert [result.text for result in results] == ["finished apart"] * 5
    assert seen == {n: [1, 2] for n in seen}
    assert len(resumed(watched)) == 5


@KEEPERS
async def test_a_cut_connection_is_taken_up_again_and_nothing_runs_twice(peer: Peer, relay: Relay) -> None:
    async with tc.Client(relay.url("resumable/mcp"), mode="legacy") as client:
        before = len(await naps(client))
        call = await asleep(client, 0.5)
        relay.cut()
        assert (await call).text == "rested"
        assert (await naps(client))[before:] == ["started", "rested"]


@pytest.mark.slow
@KEEPERS
async def test_a_call_can_be_cancelled_while_its_stream_is_cut(peer: Peer, relay: Relay) -> None:
    async with tc.Client(relay.url("resumable/mcp"), mode="legacy") as client:
        before = len(await naps(client))
        call = await asleep(client)
        relay.cut()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        async def ended() -> bool:
            return (await naps(client))[before:] == ["started", "cancelled"]

        await eventually(ended, what="the server was notified")


@KEEPERS
@pytest.mark.usefixtures("short_waits")
async def test_the_standing_stream_is_opened_again_after_a_cut(peer: Peer, web: WebOf, relay: Relay) -> None:
    client = tc.Client(relay.url("stateful/mcp"), mode="legacy")
    async with client, client.listen(prompts=False, resources=False) as changes:
        watched = Watched(web(peer), "/stateful")
        relay.cut()

        def streams() -> list[dict[str, Any]]:
            return [entry for entry in watched.requests if (entry["http"], entry["status"]) == ("GET", 200)]

        async def opened_again() -> bool:
            return bool(await asyncio.to_thread(streams))

        await eventually(opened_again, what="another GET was served")
        await client.call_tool("grow")
        assert (await first(changes)).kind == "tools"


@pytest.mark.slow
@OLD
@pytest.mark.usefixtures("short_waits")
async def test_a_call_outlives_a_standing_stream_that_cannot_be_opened_again(peer: Peer, relay: Relay) -> None:
    async with tc.Client(relay.url("stateful/mcp"), mode="legacy") as client:
        call = await asleep(client, 1)
        relay.refuse()
        relay.cut("GET")
        assert (await call).text == "rested"
        await relay.open()
        assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"


@pytest.mark.slow
@KEEPERS
async def test_without_kept_events_a_cut_call_has_an_unknown_outcome_and_the_next_works(relay: Relay) -> None:
    async with tc.Client(relay.url("stateful/mcp"), mode="legacy") as client:
        call = await asleep(client)
        relay.cut()
        with pytest.raises(tc.OutcomeUnknown) as lost:
            await call
        assert lost.value.sent and lost.value.tool == "nap"
        assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"


@pytest.mark.slow
@MODERN
async def test_in_the_modern_era_a_cut_call_ends_on_both_sides(peer: Peer, relay: Relay) -> None:
    async with tc.Client(relay.url("resumable/mcp")) as client:
        before = len(await naps(client))
        call = await asleep(client)
        relay.cut()
        with pytest.raises(tc.OutcomeUnknown):
            await call

        async def ended() -> bool:
            return (await naps(client))[before:] == ["started", "cancelled"]

        await eventually(ended, what="the server saw that the client stopped waiting")


@pytest.mark.slow
@MODERN
@pytest.mark.usefixtures("short_waits")
async def test_in_the_modern_era_a_listening_that_is_cut_is_opened_again(peer: Peer, web: WebOf, relay: Relay) -> None:
    watched = Watched(web(peer), "/stateful")
    client = tc.Client(relay.url("stateful/mcp"))
    async with client, client.listen(prompts=False, resources=False) as changes:
        relay.cut()
        assert await first(changes) == tc.Change("tools")  # what may have been missed
        await client.call_tool("grow")
        assert await first(changes) == tc.Change("tools")

    assert watched.steps.count("POST subscriptions/listen") == 2
