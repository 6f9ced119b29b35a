"""Behaviour specific to HTTP: broken and resumed streams, expired sessions, headers, and older servers."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import FAST, Place, eventually, fan, soon
from tests.interaction.marks import only

STREAMABLE = ["http", "plain"]
SESSIONS = only(STREAMABLE, ["older", "legacy"])
STANDING = only(["http"], ["older", "legacy"])
MODERN_WEB = only(STREAMABLE, ["modern"])
WEB = only([*STREAMABLE, "sse"])
# `plain` once: there the client has no standing stream, and the server's refusals have no JSON-RPC body.
pytestmark = [
    pytest.mark.fan([*fan(["http", "sse"]), ("plain", "older")]),
    pytest.mark.usefixtures("lucky"),
]


def requests(harness: Place, verb: str) -> list[dict[str, Any]]:
    """Return the HTTP requests of this kind, in the order of arrival."""
    return [request for request in harness.journal.entries("web") if request["verb"] == verb]


def resumed(harness: Place) -> list[str]:
    """Return the event ids from which streams were resumed."""
    return [
        request["headers"]["Last-Event-ID"]
        for request in requests(harness, "GET")
        if "Last-Event-ID" in request["headers"]
    ]


# ---- streams that break


@SESSIONS
@pytest.mark.parametrize("manner", ["end", "abort", "middle"])
async def test_a_stream_that_breaks_in_mid_call_goes_on_where_it_broke(harness: Place, manner: str) -> None:
    received: list[float] = []
    async with harness.client(server_options={"web": {"cuts": [manner]}}) as c:
        result = await c.call_tool("slow", {"steps": 3}, on_progress=lambda progress, *_: received.append(progress))
        assert (result.text, received) == ("done", [1, 2, 3])
    assert len(resumed(harness)) == 1
    assert harness.journal.calls == ["slow"]


@SESSIONS
async def test_a_call_goes_on_while_its_stream_is_broken(harness: Place) -> None:
    """The call is not cancelled: its answer waits for the resumption."""
    async with harness.client(server_options={"web": {"cuts": ["middle"]}}) as c:
        call = asyncio.create_task(c.call_tool("sleeper", on_progress=lambda *_: None))
        await eventually(lambda: harness.journal.calls)
        await c.call_tool("nudge")
        await eventually(lambda: resumed(harness))
        await c.call_tool("wake")
        assert (await soon(call)).text == "good morning"
    assert harness.journal.calls.count("sleeper") == 1


@SESSIONS
async def test_a_stream_is_given_up_after_two_tries_in_vain(harness: Place) -> None:
    async with harness.client(server_options={"web": {"cuts": ["end", "end", "abort"]}}) as c:
        with pytest.raises(tc.OutcomeUnknown):
            await c.call_tool("slow", {"steps": 3}, on_progress=lambda *_: None)
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert len(resumed(harness)) == 2
    assert harness.journal.calls == ["slow", "echo"]


@MODERN_WEB
@pytest.mark.parametrize("manner", ["end", "abort", "middle"])
async def test_a_modern_stream_that_breaks_is_lost_and_nothing_runs_twice(harness: Place, manner: str) -> None:
    async with harness.client(server_options={"web": {"cuts": [manner]}}) as c:
        with pytest.raises(tc.OutcomeUnknown) as caught:
            await c.call_tool("slow", {"steps": 3}, on_progress=lambda *_: None)
        assert caught.value.sent is True
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert harness.journal.calls == ["slow", "echo"]


@STANDING
async def test_messages_sent_while_the_get_stream_is_broken_are_received_when_it_is_back(harness: Place) -> None:
    async with harness.client() as c, c.listen() as changes:
        news = {"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}
        harness.at_the_front(lambda front: front.lose_standing(news))
        assert await soon(anext(changes)) == tc.Change("prompts")
        assert len(resumed(harness)) == 1
    assert harness.journal.lives == 1


@STANDING
async def test_a_server_without_a_standing_stream_says_all_with_its_answers(harness: Place) -> None:
    options = {"sampling_handler": lambda request: "4", "elicitation_handler": lambda request: {"ok": True}}
    async with harness.client(server_options={"web": {"standing": False}}, **options) as c, c.listen() as changes:
        assert '"4"' in (await c.call_tool("sample")).text
        assert '"accept"' in (await c.call_tool("elicit")).text
        await c.call_tool("grow")
        assert await soon(anext(changes)) == tc.Change("tools")
    assert len(requests(harness, "GET")) == 1


@STANDING
async def test_an_answer_that_comes_on_another_stream_finds_its_call(harness: Place) -> None:
    async with harness.client(server_options={"web": {"astray": True}}) as c:
        results = await soon(asyncio.gather(*(c.call_tool("echo", {"text": str(n)}) for n in range(5))))
        assert [result.text for result in results] == [str(n) for n in range(5)]
        with pytest.raises(tc.RemoteError, match="not today"):
            await soon(c.call_tool("refuse"))
    assert c.counters.unmatched == 0


# ---- sessions


@SESSIONS
async def test_an_expired_session_is_renewed_once_for_all_and_no_call_is_lost_or_doubled(harness: Place) -> None:
    async with harness.client() as c:
        harness.at_the_front(lambda front: front.forget())
        texts = [f"n{n}" for n in range(20)]
        results = await soon(asyncio.gather(*(c.call_tool("echo", {"text": text}) for text in texts)))
        assert [result.text for result in results] == texts
        assert c.connected
    assert len(harness.journal.got("initialize")) == 2
    assert sorted(call["params"]["arguments"]["text"] for call in harness.journal.got("tools/call")) == sorted(texts)


@SESSIONS
async def test_an_expired_session_costs_a_call_none_of_its_attempts(harness: Place) -> None:
    async with harness.client(max_attempts=1) as c:
        for text in ("a", "b"):
            harness.at_the_front(lambda front: front.forget())
            assert (await c.call_tool("echo", {"text": text})).text == text


@SESSIONS
async def test_after_an_expired_session_subscriptions_are_asked_for_again(harness: Place) -> None:
    async with harness.client() as c, c.listen("memo://text") as changes:
        harness.at_the_front(lambda front: front.forget())
        await c.list_prompts()
        received = [await soon(anext(changes)) for _ in range(4)]
        assert tc.Change("resource", "memo://text") in received
        await c.call_tool("touch", {"uri": "memo://text"})
        assert await soon(anext(changes)) == tc.Change("resource", "memo://text")


@only([*STREAMABLE, "sse"], ["older", "legacy"])
async def test_nothing_overtakes_the_word_that_the_client_is_ready(harness: Place) -> None:
    """The server records a fault for requests that arrive before `initialized`."""
    async with harness.client(server_options={"web": {"ponder": 0.05}}, log_level="info") as c:
        results = await asyncio.gather(*(c.call_tool("echo", {"text": str(n)}) for n in range(3)))
        assert [result.text for result in results] == ["0", "1", "2"]


@SESSIONS
async def test_a_client_that_leaves_ends_its_session(harness: Place) -> None:
    async with harness.client() as c:
        await c.disconnect()
        assert len(requests(harness, "DELETE")) == 1
        await c.list_prompts()
    ended = [request["headers"]["Mcp-Session-Id"] for request in requests(harness, "DELETE")]
    assert len({*ended}) == 2


# ---- headers


@MODERN_WEB
@pytest.mark.parametrize(
    "arguments",
    [
        {"region": "us-west1", "count": 42, "urgent": True, "place": {"city": "Ulm"}},
        {"region": "Grüße, 世界", "count": -7, "urgent": False},
        {"region": " padded ", "place": {"city": ""}},
        {"region": "one\nX-Other: two", "place": {}},
        {"region": "=?base64?literal?="},
        {"region": None, "count": 0, "place": None},
        {},
    ],
    ids=["plain", "beyond ASCII", "padded", "two lines", "as if encoded", "null", "none"],
)
async def test_arguments_that_a_tool_wants_in_headers_are_there(harness: Place, arguments: dict[str, Any]) -> None:
    async with harness.client(clean_arguments="never") as c:
        assert json.loads((await c.call_tool("mirrored", arguments)).text) == arguments
    assert harness.journal.entries("unlike") == []
    headers = [request["headers"] for request in requests(harness, "POST")]
    assert not any("X-Other" in each for each in headers)


@MODERN_WEB
async def test_a_tool_that_wants_more_in_headers_than_its_list_said_is_listed_again(harness: Place) -> None:
    async with harness.client(server_options={"web": {"blind": 1}}) as c:
        await c.list_tools()
        assert json.loads((await c.call_tool("mirrored", {"region": "r"})).text) == {"region": "r"}
    assert len(harness.journal.entries("unlike")) == 1
    assert len(harness.journal.got("tools/list")) == 2
    assert harness.journal.calls == ["mirrored"]


@pytest.mark.transport
async def test_a_tool_with_arguments_for_headers_is_like_any_other_elsewhere(harness: Place) -> None:
    async with harness.client() as c:
        assert json.loads((await c.call_tool("mirrored", {"region": "r"})).text) == {"region": "r"}


@WEB
async def test_names_that_no_header_can_carry_as_they_are_arrive(harness: Place) -> None:
    async with harness.client() as c:
        assert (await c.read_resource("memo://people/Jürgen 世")).text == "This is Jürgen 世."
        with pytest.raises(tc.RemoteError, match="Größe"):
            await c.get_prompt("Größe")
        with pytest.raises(tc.ToolNotFound):
            await c.call_tool("näme\n")


@WEB
async def test_headers_of_the_config_are_on_every_request_and_asked_for_each_time(harness: Place) -> None:
    turns = itertools.count()

    async def turn() -> str:
        await asyncio.sleep(0)
        return f"turn {next(turns)}"

    server = replace(harness.server(), headers={"X-Fixed": "yes", "X-Turn": turn, "X-Plain": lambda: "now"})
    async with tc.Client(server, mode=harness.mode) as c:
        await c.call_tool("echo", {"text": "x"})
    sent = [request["headers"] for request in harness.journal.entries("web")]
    assert {headers.get("X-Fixed") for headers in sent} == {"yes"}
    assert {headers.get("X-Plain") for headers in sent} == {"now"}
    assert len({headers["X-Turn"] for headers in sent}) == len(sent)


# ---- detecting the transport


@only(["sse"])
async def test_a_url_that_turns_out_to_speak_http_sse_is_spoken_to_in_that_way(harness: Place) -> None:
    url = harness.server().url
    async with tc.Client(tc.HttpServer(url), mode=harness.mode, reconnect=FAST) as c:
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
        refused = len([request for request in requests(harness, "POST") if request["path"] == "/sse"])
        await c.disconnect()
        assert (await c.call_tool("echo", {"text": "y"})).text == "y"
    again = len([request for request in requests(harness, "POST") if request["path"] == "/sse"])
    assert again == refused > 0, "it is remembered"


@only(["http"])
async def test_a_url_alone_is_a_server(harness: Place) -> None:
    async with tc.Client(harness.server().url, mode=harness.mode) as c:
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"


@only(STREAMABLE)
async def test_with_few_connections_all_calls_are_answered(harness: Place) -> None:
    async with tc.Client(replace(harness.server(), max_connections=2), mode=harness.mode) as c:
        results = await soon(asyncio.gather(*(c.call_tool("echo", {"text": str(n)}) for n in range(30))))
        assert [result.text for result in results] == [str(n) for n in range(30)]
