"""Broken, slow or wrong event streams: resumed if the era allows it, otherwise `OutcomeUnknown`; never run twice."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

import pytest

from tests.faults.http_kit import Provider, Web
from tests.faults.http_server import BadWebServer
from tests.faults.kit import Ledger, either_era, eventually, succeeded
from toolcrib.errors import OutcomeUnknown, ProtocolError, UnansweredTimeout

GOOD = '{"jsonrpc": "2.0", "id": $ID, "result": {"content": [{"type": "text", "text": "fine"}]}}'
NEWS = '{"jsonrpc": "2.0", "method": "notifications/x", "params": {}}'


def resumptions(server: BadWebServer) -> list[str]:
    return [one.header("last-event-id") or "" for one in server.received("GET") if one.header("last-event-id")]


# ---- cut


@pytest.mark.parametrize("then", ["end", "fin", "reset"])
@pytest.mark.parametrize(
    "text",
    ["", f"data: {NEWS}\n\n", f"data: {GOOD[:50]}", f"data: {GOOD}\n", f"data: {GOOD}"],
    ids=["nothing", "after an event", "in mid-event", "before the blank line", "before the end of the line"],
)
async def test_a_stream_cut_without_an_event_id_is_an_unknown_outcome_at_once(
    web: Web, era: str, text: str, then: str
) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        start = time.monotonic()
        outcome = await ledger.call(client, "events", text=text, then=then, timeout=20)
        assert type(outcome) is OutcomeUnknown, outcome
        assert time.monotonic() - start < 2
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert resumptions(server) == []


async def test_a_modern_stream_is_never_resumed_though_its_events_have_ids(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="modern")
    async with web.client(server) as client:
        outcome = await ledger.call(client, "events", text=f"id: 1-1\nretry: 10\ndata: {NEWS}\n\n", timeout=20)
        assert type(outcome) is OutcomeUnknown
    ledger.check(server.executed)
    assert server.received("GET") == []


@pytest.mark.parametrize("then", ["end", "fin", "reset"])
@pytest.mark.parametrize("mid", [False, True], ids=["between events", "in mid-event"])
async def test_a_stream_of_a_session_is_resumed_where_it_broke(web: Web, then: str, mid: bool) -> None:
    ledger, server, ticks = Ledger(), await web.server(era="legacy"), []
    async with web.client(server, progress_handler=lambda progress, *_: ticks.append(progress)) as client:
        outcome = await ledger.call(client, "resumed", retry=10, ticks=3, then=then, mid=mid)
        assert succeeded(outcome), outcome
        assert ticks == [1, 2, 3], "each once"
        assert len(resumptions(server)) == 1
        assert resumptions(server)[0].endswith("-4"), "after the priming event and three ticks"
    ledger.check(server.executed)
    assert len(server.received("tools/call")) == 1


async def test_many_streams_broken_at_once_are_all_resumed_and_nothing_crosses(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        how: list[dict[str, Any]] = [{"then": then, "retry": 10} for then in ("end", "fin", "reset")] * 15
        outcomes = await asyncio.gather(*(ledger.call(client, "resumed", **each) for each in how))
        assert all(map(succeeded, outcomes))
    ledger.check(server.executed)
    assert len(server.received("tools/call")) == 45
    assert len(server.received("initialize")) == 1


async def test_an_answer_that_is_not_ready_when_the_stream_is_resumed_is_waited_for(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        assert succeeded(await ledger.call(client, "resumed", retry=10, seconds=0.4))
    ledger.check(server.executed)
    assert len(resumptions(server)) == 1


@pytest.mark.parametrize("do", [{"do": "status", "status": 500}, {"do": "die"}, {"do": "status", "status": 405}])
async def test_two_failed_resumptions_are_an_unknown_outcome(web: Web, do: dict[str, Any]) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    server.gate("resume", **do)
    async with web.client(server) as client:
        outcome = await ledger.call(client, "resumed", retry=10, timeout=20)
        assert type(outcome) is OutcomeUnknown, outcome
        # Two tries; the HTTP engine repeats a GET by itself if the kept connection was reset under it.
        assert len(resumptions(server)) in ((2, 3, 4) if do["do"] == "die" else (2,))
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


async def test_one_failed_resumption_is_tolerated(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    server.gate("resume", "status", status=502, times=1)
    async with web.client(server) as client:
        assert succeeded(await ledger.call(client, "resumed", retry=10))
        assert len(resumptions(server)) == 2
    ledger.check(server.executed)


async def test_a_session_that_expired_meanwhile_leaves_the_outcome_unknown_and_the_client_of_use(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        call = asyncio.create_task(ledger.call(client, "resumed", retry=200, seconds=30))
        await eventually(lambda: server.executed["n0"])
        server.expire()
        assert type(await call) is OutcomeUnknown
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert len(server.received("initialize")) == 2


async def test_a_stream_whose_resumption_needs_a_new_token_is_resumed(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy", tokens={"t1"})
    provider = Provider("t1", "t2")
    async with web.client(server, auth=provider) as client:
        await ledger.call(client)
        task = asyncio.create_task(ledger.call(client, "resumed", retry=100))
        await eventually(lambda: server.executed["n1"])
        server.tokens = {"t2"}
        assert succeeded(await task)
        assert provider.refreshes == 1
    ledger.check(server.executed)


async def test_a_stream_whose_resumption_is_refused_for_want_of_a_token_is_an_unknown_outcome(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy", tokens={"t1"})
    async with web.client(server, auth=Provider("t1")) as client:
        await ledger.call(client)
        task = asyncio.create_task(ledger.call(client, "resumed", retry=100))
        await eventually(lambda: server.executed["n1"])
        server.tokens = {"other"}
        assert type(await task) is OutcomeUnknown, "it was executed: a refusal would say that it was not"
        server.tokens = {"t1"}
    ledger.check(server.executed)


async def test_the_servers_retry_field_says_when_the_stream_is_asked_for_again(web: Web) -> None:
    async def pause_after(retry: str | None) -> float:
        server = await web.server(era="legacy")
        async with web.client(server) as client:
            start = time.monotonic()
            await client.call_tool("resumed", {} if retry is None else {"retry": retry}, timeout=20)
            return time.monotonic() - start

    assert await pause_after("10") < 0.9
    pauses = await asyncio.gather(*map(pause_after, ("300", "soon", "-1", None)))
    assert pauses[0] > 0.25
    assert min(pauses[1:]) > 0.9, "without a sensible word it is a second"
    assert max(pauses) < 5


async def test_the_deadline_holds_while_a_server_asks_to_be_left_alone_for_long(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        start = time.monotonic()
        outcome = await ledger.call(client, "resumed", retry=10**12, timeout=0.4)
        assert type(outcome) is UnansweredTimeout, outcome
        assert time.monotonic() - start < 4
        await eventually(lambda: server.cancelled == ["n0"], what="the server is notified")
    ledger.check(server.executed)


# ---- messages on a stream

WELL_FORMED = {
    "CR": f"data: {GOOD}\r\r",
    "CRLF": f"data: {GOOD}\r\n\r\n",
    "mixed ends": f"event: message\rdata: {GOOD}\r\n\n",
    "no space": f"data:{GOOD}\n\n",
    "comments": f": keep-alive\n\n:\n\n: x\ndata: {GOOD}\n: y\n\n",
    "a BOM": f"\ufeffdata: {GOOD}\n\n",
    "several data lines": "data: " + GOOD.replace(", ", ",\ndata: ") + "\n\n",
    "an empty event": f"\n\n\ndata: {GOOD}\n\n",
    "a priming event": f"id: 1\ndata:\n\nid: 2\ndata: {GOOD}\n\n",
    "a priming event without data": f"id: 1\n\nid: 2\ndata: {GOOD}\n\n",
    "unknown fields": f"colour: red\nnonsense\ndata: {GOOD}\n\n",
    "a named event": f"event: message\ndata: {GOOD}\n\n",
    "ids of odd shape": f"id: \u00e9 \U0001f600\ndata: {NEWS}\n\nid\ndata: {GOOD}\n\n",
    "a retry of odd shape": f"retry: -5\nretry: 1e3\nretry: \nretry: 99999999999999999999\ndata: {GOOD}\n\n",
    "a text id": f"data: {GOOD.replace('$ID', chr(34) + '$ID' + chr(34))}\n\n",
}


@either_era
@pytest.mark.parametrize("name", WELL_FORMED)
async def test_every_form_of_an_event_is_understood(web: Web, era: str, name: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        assert (await client.call_tool("events", {"text": WELL_FORMED[name]}, timeout=5)).text == "fine"
        assert client.counters.malformed == 0


GARBAGE = {
    "no JSON": "data: hello\n\n",
    "numbers and lists": "data: 42\n\ndata: []\n\ndata: null\n\ndata: {}\n\n",
    "an odd notification": 'data: {"jsonrpc": "2.0", "method": 7}\n\n',
    "too deep": f"data: {'[' * 500}{']' * 500}\n\n",
}


@either_era
@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_events_are_counted_and_the_answer_behind_them_arrives(web: Web, era: str, name: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        result = await client.call_tool("events", {"text": f"{GARBAGE[name]}data: {GOOD}\n\n"}, timeout=5)
        assert result.text == "fine"
        assert client.counters.malformed >= GARBAGE[name].count("data")


@either_era
async def test_bytes_that_are_not_utf8_are_counted_and_the_answer_behind_them_arrives(web: Web, era: str) -> None:
    server = await web.server(era=era)
    bad = b'data: "\xff\xfe\x80"\n\ndata: ' + GOOD.encode() + b"\n\n"
    async with web.client(server) as client:
        text = "base64:" + base64.b64encode(bad).decode()
        assert (await client.call_tool("events", {"text": text}, timeout=5)).text == "fine"
        assert client.counters.malformed == 1


async def test_half_of_the_answer_in_a_whole_event_fails_its_call_at_once(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        start = time.monotonic()
        outcome = await ledger.call(client, "events", text=f"data: {GOOD[:60]}\n\n", then="hang", timeout=20)
        assert isinstance(outcome, ProtocolError), outcome
        assert time.monotonic() - start < 2
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("others", ["999999", '"nobody"', "null", "true", "1.5", "-1"])
async def test_answers_to_unknown_ids_are_dropped_and_counted(web: Web, era: str, others: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        text = f"data: {GOOD.replace('$ID', others).replace('fine', 'crossed')}\n\n" * 5 + f"data: {GOOD}\n\n"
        assert (await client.call_tool("events", {"text": text}, timeout=5)).text == "fine"
        assert client.counters.unmatched == 5


@either_era
async def test_a_doubled_answer_is_one_answer(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        for _ in range(20):
            text = f"data: {GOOD}\n\ndata: {GOOD.replace('fine', 'doubled')}\n\n"
            assert (await client.call_tool("events", {"text": text}, timeout=5)).text == "fine"
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


async def test_a_late_answer_reaches_no_caller(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        await eventually(lambda: server.standing)
        outcome = await ledger.call(client, "slow", timeout=0.1)
        assert isinstance(outcome, UnansweredTimeout)
        ident = server.received("tools/call")[0].message["id"]
        server.push({"id": ident, "result": {"content": []}})
        await eventually(lambda: client.counters.unmatched == 1)
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


async def test_an_answer_on_the_standing_stream_finds_its_call(web: Web) -> None:
    ledger, server = Ledger(), await web.server(era="legacy")
    async with web.client(server) as client:
        outcomes = await asyncio.gather(*(ledger.call(client, "elsewhere") for _ in range(20)))
        assert all(map(succeeded, outcomes))
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("then", ["hang", "reset", "fin"])
async def test_a_stream_that_goes_on_or_breaks_after_the_answer_costs_nothing(web: Web, era: str, then: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        start = time.monotonic()
        results = await asyncio.gather(
            *(client.call_tool("events", {"text": f"data: {GOOD}\n\n", "then": then}, timeout=20) for _ in range(20))
        )
        assert {result.text for result in results} == {"fine"}
        assert time.monotonic() - start < 2
