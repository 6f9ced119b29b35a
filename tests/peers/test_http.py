"""Behaviour specific to HTTP: sessions, standalone streams, stateless and JSON servers, restarts, requests sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.peers.forking import ForkServer
from tests.peers.kit import (
    HTTP_PEERS,
    LEGACY,
    MODERN,
    SDK1,
    SDK2_LEGACY,
    SDK2_MODERN,
    SERVERS,
    SSE_PEERS,
    WEB_PEERS,
    Chosen,
    Peer,
    first,
    over_http,
    over_sse,
)
from tests.peers.web import Relay, Watched, WebServer, framework_server, sessions
from toolcrib import sync

WebOf = Callable[[Peer], WebServer]
ServerOf = Callable[..., Any]
HTTP = Chosen(HTTP_PEERS, over_http(SDK1, SDK2_MODERN, SDK2_LEGACY), over_http(SDK2_MODERN, SDK2_LEGACY))
LEGACIES = pytest.mark.peers(HTTP.where(lambda peer: not peer.is_modern))
MODERNS = pytest.mark.peers(HTTP.where(lambda peer: peer.is_modern))
BOTH_ERAS = pytest.mark.peers(Chosen(HTTP_PEERS, over_http(SDK1, SDK2_MODERN), over_http(SDK2_MODERN)))


# ---- the life of a session


@LEGACIES
async def test_a_session_is_opened_used_and_deleted(peer: Peer, web: WebOf, server_of: ServerOf) -> None:
    watched = Watched(web(peer), "/stateful")

    async with tc.Client(server_of(peer), mode=peer.mode) as client:
        await client.call_tool("echo", {"text": "hi"})

    steps, requests = watched.steps, watched.requests
    begin = steps.index("POST initialize")
    assert steps[begin:] == ["POST initialize", "GET", "POST notifications/initialized", "POST tools/call", "DELETE"]
    assert [entry["status"] for entry in requests[begin:]] == [200, 200, 202, 200, 200]
    assert requests[begin]["session"] is None
    assert len(sessions(requests)) == 1 and all(entry["session"] for entry in requests[begin + 1 :])
    assert {entry["version"] for entry in requests[begin + 1 :]} == {LEGACY}


@MODERNS
async def test_a_modern_server_sees_nothing_but_requests(peer: Peer, web: WebOf, server_of: ServerOf) -> None:
    watched = Watched(web(peer), "/stateful")

    async with tc.Client(server_of(peer)) as client:
        await client.list_tools()
        await client.call_tool("echo", {"text": "hi"})

    requests = watched.requests
    steps = [step for step in watched.steps if step != "POST subscriptions/listen"]
    assert steps == ["POST server/discover", "POST tools/list", "POST tools/call"]
    assert {(entry["session"], entry["version"]) for entry in requests} == {(None, MODERN)}
    (call,) = [entry["headers"] for entry in requests if entry["rpc"] == "tools/call"]
    assert (call["mcp-method"], call["mcp-name"]) == ("tools/call", "echo")


@LEGACIES
async def test_two_clients_have_two_sessions(peer: Peer, web: WebOf, server_of: ServerOf) -> None:
    watched = Watched(web(peer), "/stateful")

    async with tc.Client(server_of(peer), mode=peer.mode) as one, tc.Client(server_of(peer), mode=peer.mode) as other:
        await asyncio.gather(*(client.call_tool("echo", {"text": "hi"}) for client in (one, other)))

    assert len(sessions(watched.requests)) == 2


@pytest.mark.slow
async def test_an_older_server_cannot_be_made_modern(server_of: ServerOf) -> None:
    client = tc.Client(server_of(HTTP_PEERS[0]), mode=MODERN, max_attempts=1)
    try:
        with pytest.raises(tc.ConnectError) as refusal:
            await client.connect()
        assert refusal.value.permanent
    finally:
        await client.close()


@pytest.mark.slow
@pytest.mark.parametrize("revision, path", [("2025-06-18", "stateful/mcp"), ("2024-11-05", "sse")])
async def test_a_server_of_an_older_revision_is_taken_as_it_is(revision: str, path: str) -> None:
    server = framework_server("sdk1", "sdk1", revision)
    try:
        async with tc.Client(server.start().url(path)) as client:
            assert client.server_info is not None and client.server_info.protocol_version == revision
            assert (await client.call_tool("echo", {"text": "old"})).text == "old"
        later = [entry for entry in server.journal("/stateful")[1] if entry["session"]]
        assert {entry["version"] for entry in later} <= {revision}
    finally:
        server.close()


@MODERNS
async def test_a_reset_probe_does_not_decide_the_era(peer: Peer, web: WebOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.0)  # no time between the tries
    async with Relay(web(peer).port, resets=1) as relay:
        client = tc.Client(relay.url("stateful/mcp"))
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        assert client.server_info is not None and client.server_info.protocol_version == MODERN
        await client.close()


async def test_headers_are_sent_and_asked_for_at_each_request(web: WebOf) -> None:
    server, turns = web(SDK2_LEGACY), iter(range(100))
    watched = Watched(server, "/stateful")

    async def turn() -> str:
        return f"turn {next(turns)}"

    config = tc.HttpServer(server.url("stateful/mcp"), headers={"X-Crib": "north", "X-Turn": turn})
    async with tc.Client(config, mode="legacy") as client:
        await client.call_tool("echo", {"text": "hi"})

    headers = [entry["headers"] for entry in watched.requests]
    assert {entry["x-crib"] for entry in headers} == {"north"}
    assert len({entry["x-turn"] for entry in headers}) == len(headers)


# ---- servers that keep no session, that answer in JSON alone, and clients that open no stream


@pytest.mark.parametrize("manner", ["stateless", "json"])
@BOTH_ERAS
async def test_a_server_of_another_manner_is_met_like_any_other(peer: Peer, manner: str, web: WebOf) -> None:
    server = web(peer)
    watched = Watched(server, f"/{manner}")
    steps: list[float] = []

    async with tc.Client(server.url(f"{manner}/mcp"), mode=peer.mode) as client:
        assert client.server_info is not None and client.server_info.protocol_version == peer.version
        assert "echo" in [tool.name for tool in await client.list_tools()]
        sums = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 1}) for n in range(50)))
        counted = await client.call_tool("count", {"steps": 3}, on_progress=lambda step, *_: steps.append(step))
        read = await client.read_resource("crib://greeting")
        prompt = await client.get_prompt("explain", {"topic": "bees"})
        done = await client.complete({"type": "ref/prompt", "name": "explain"}, "topic", "be")

    assert [result.text for result in sums] == [str(n + 1) for n in range(50)]
    assert counted.text == "counted 3"
    assert steps == ([1, 2, 3] if manner == "stateless" else [])  # a JSON answer has no room for them
    assert (read.text, prompt.text) == ("good day", "Explain bees in a kind tone.")
    assert done.values == ("bees", "beans")
    has_session = manner == "json" and not peer.is_modern
    assert len(sessions(watched.requests)) == has_session
    assert ("DELETE" in watched.steps) == has_session


@MODERNS
async def test_a_modern_server_may_ask_although_it_answers_in_json(peer: Peer, web: WebOf) -> None:
    server = tc.HttpServer(web(peer).url("json/mcp"))
    async with tc.Client(server, elicitation_handler=lambda _: {"name": "Ann"}) as client:
        assert (await client.call_tool("ask_user", {"question": "who?"})).text == "hello Ann"


@BOTH_ERAS
async def test_without_streaming_no_stream_is_opened(peer: Peer, web: WebOf) -> None:
    server = web(peer)
    watched = Watched(server, "/stateful")
    steps: list[float] = []

    async with tc.Client(tc.HttpServer(server.url("stateful/mcp"), streamable=False), mode=peer.mode) as client:
        await client.call_tool("count", {"steps": 2}, on_progress=lambda step, *_: steps.append(step))
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        await client.list_tools()

    assert "GET" not in watched.steps
    assert steps == [1, 2]


# ---- many at once


@pytest.mark.peers(
    Chosen(WEB_PEERS, [*over_http(SDK1, SDK2_MODERN), *over_sse(SDK1, SDK2_MODERN)], over_http(SDK2_MODERN))
)
async def test_fifty_calls_at_once_get_each_its_own_answer(peer: Peer, server_of: ServerOf) -> None:
    async with tc.Client(server_of(peer), mode=peer.mode) as client:
        for _ in range(2):  # the second time over connections that are there
            results = await asyncio.gather(*(client.call_tool("echo", {"text": f"call {n}"}) for n in range(50)))
            assert [result.text for result in results] == [f"call {n}" for n in range(50)]


# ---- a server that is started anew


SERVER_MODULES = {"sdk1": "mcp.server.fastmcp", "sdk2": "mcp.server.mcpserver"}


@pytest.fixture(scope="module", params=[SDK1, SDK2_MODERN], ids=lambda peer: str(peer.framework))
def mortal(request: pytest.FixtureRequest, python_of: Callable[[str], str]) -> Iterator[tuple[Peer, WebServer]]:
    """A server that the test may kill. A fork server starts it quickly."""
    peer = request.param
    modules = (SERVER_MODULES[peer.framework], "mcp.server.sse", "uvicorn.protocols.http.auto", "uvicorn.lifespan.on")
    with (
        closing(ForkServer(Path(python_of(peer.environment)), *modules, options=("-W", "ignore"))) as forks,
        closing(WebServer(forks.command(str(SERVERS / "web.py"), str(SERVERS / peer.script)))) as server,
    ):
        yield peer, server.start()


# The SDK 2.x is met in the modern era; in the other one the old server stands for it.
LEGACY_MORTAL = pytest.mark.parametrize(
    "mortal",
    [SDK1, pytest.param(SDK2_MODERN, marks=pytest.mark.nightly)],
    ids=lambda peer: str(peer.framework),
    indirect=True,
)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("path", ["stateful/mcp", "sse"])
async def test_a_call_after_a_restart_works(mortal: tuple[Peer, WebServer], path: str, mode: str) -> None:
    _, server = mortal
    config = tc.SseServer(server.url(path)) if path == "sse" else tc.HttpServer(server.url(path))
    async with tc.Client(config, mode=mode) as client:
        assert (await client.call_tool("echo", {"text": "one"})).text == "one"
        await asyncio.to_thread(server.restart)
        assert (await client.call_tool("echo", {"text": "two"})).text == "two"


@pytest.mark.slow
@LEGACY_MORTAL
async def test_a_restart_with_many_callers_makes_one_new_session(mortal: tuple[Peer, WebServer]) -> None:
    _, server = mortal
    async with tc.Client(server.url("stateful/mcp"), mode="legacy") as client:
        await client.call_tool("echo", {"text": "before"})
        await asyncio.to_thread(server.restart)
        results = await asyncio.gather(*(client.call_tool("echo", {"text": str(n)}) for n in range(30)))

    assert [result.text for result in results] == [str(n) for n in range(30)]
    steps = [(entry["rpc"], entry["status"]) for entry in server.journal("/stateful")[1]]
    assert steps.count(("initialize", 200)) == 1
    assert steps.count(("tools/call", 200)) == 30


@pytest.mark.slow
@LEGACY_MORTAL
async def test_a_new_session_is_not_a_retry(mortal: tuple[Peer, WebServer]) -> None:
    _, server = mortal
    async with tc.Client(server.url("stateful/mcp"), mode="legacy", max_attempts=1) as client:
        await asyncio.to_thread(server.restart)
        assert (await client.call_tool("echo", {"text": "once"})).text == "once"


@pytest.mark.slow
@pytest.mark.usefixtures("short_waits")
async def test_listeners_are_notified_of_changes_after_a_restart(mortal: tuple[Peer, WebServer]) -> None:
    peer, server = mortal
    client = tc.Client(server.url("stateful/mcp"), mode=peer.mode)
    async with client, client.listen(prompts=False, resources=False) as changes:
        await asyncio.to_thread(server.restart)
        assert await first(changes) == tc.Change("tools")  # what may have been missed
        await client.call_tool("grow")
        assert await first(changes) == tc.Change("tools")


@pytest.mark.slow
@LEGACY_MORTAL
async def test_while_the_server_is_gone_a_call_fails_as_never_sent(
    mortal: tuple[Peer, WebServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = mortal
    monkeypatch.setattr("random.random", lambda: 0.0)  # no time between the tries
    async with tc.Client(server.url("stateful/mcp"), mode="legacy") as client:
        await asyncio.to_thread(server.stop)
        try:
            with pytest.raises(tc.TransportError) as refusal:
                await client.call_tool("echo", {"text": "anybody?"})
            assert not refusal.value.sent
        finally:
            await asyncio.to_thread(server.start)
        assert (await client.call_tool("echo", {"text": "back"})).text == "back"


# ---- a URL of an unknown transport


@pytest.mark.peers(Chosen(SSE_PEERS, over_sse(SDK1, SDK2_MODERN), over_sse(SDK2_MODERN)))
async def test_an_sse_server_is_found_behind_a_plain_url(peer: Peer, web: WebOf) -> None:
    async with tc.Client(web(peer).url("sse"), mode=peer.mode) as client:
        assert client.server_info is not None and client.server_info.name == f"{peer.framework}-crib"
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        await client.disconnect()
        assert (await client.call_tool("echo", {"text": "again"})).text == "again"


async def test_a_url_without_a_server_is_refused_for_good(web: WebOf) -> None:
    client = tc.Client(web(SDK2_MODERN).url("nowhere/mcp"))
    try:
        with pytest.raises(tc.ConnectError) as refusal:
            await client.connect()
        assert (refusal.value.permanent, refusal.value.status) == (True, 404)
    finally:
        await client.close()


# ---- without an event loop


@pytest.mark.peers(Chosen(WEB_PEERS, [*over_http(SDK2_MODERN), *over_sse(SDK1)], over_http(SDK2_MODERN)))
def test_the_sync_client_is_at_home_over_http(peer: Peer, server_of: ServerOf) -> None:
    steps: list[float] = []
    with sync.Client(server_of(peer), mode=peer.mode, elicitation_handler=lambda _: {"name": "Ann"}) as client:
        assert client.server_info is not None and client.server_info.protocol_version == peer.version
        assert client.call_tool("echo", {"text": "hi"}).text == "hi"
        client.call_tool("count", {"steps": 3}, on_progress=lambda step, *_: steps.append(step))
        assert client.call_tool("ask_user", {"question": "who?"}).text == "hello Ann"
        assert client.read_resource("crib://greeting").text == "good day"
    assert steps == [1, 2, 3]
