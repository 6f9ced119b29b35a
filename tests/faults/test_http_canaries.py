"""No header, token, URL secret or session id is in any text of Toolcrib, nor sent to another server."""

from __future__ import annotations

import asyncio
import logging
import pickle
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import Certificates, Provider, Web, closed_port
from tests.faults.kit import FAST, Outcome, either_era, lucky, outcome_of
from tests.faults.test_canaries import texts_of
from toolcrib import events
from toolcrib.errors import ToolcribError

CANARY = "c4n4ry-9b7e24"

FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {}),
    ("silent", {"nonce": "s"}),
    ("die", {}),
    ("die", {"after": "body"}),
    ("status", {"status": 500, "body": "oops", "type": "text/html"}),
    ("status", {"status": 400}),
    ("status", {"status": 401, "headers": {"WWW-Authenticate": "Bearer"}}),
    ("status", {"status": 403}),
    ("status", {"status": 429, "headers": {"Retry-After": "99"}}),
    ("status", {"status": 202}),
    ("status", {"status": 302, "headers": {"Location": "http://other.invalid/"}}),
    ("raw", {"bytes": "not HTTP\r\n\r\n"}),
    ("raw", {"bytes": "HTTP/1.1 200 OK\r\nbroken\r\n\r\n"}),
    ("events", {"text": "data: junk\n\n", "then": "reset"}),
    ("huge", {}),
    ("refuse", {}),
]


async def provoke(client: tc.Client, seen: list[str]) -> list[Outcome]:
    """Make one call of each outcome, and collect every text of the client."""
    client.on(events.Event, lambda event: seen.append(repr(event)))
    outcomes = []
    for tool, how in FAULTS:
        outcomes.append(await outcome_of(client.call_tool(tool, how, timeout=0.3 if tool == "silent" else 5)))
        seen += [repr(client), str(client), repr(client.status), str(client.status), repr(client.server_info)]
    outcomes.append(await outcome_of(client.list_tools()))  # type: ignore[arg-type]
    await client.close()
    seen += [repr(client), str(client.status)]
    seen += [texts_of(one) for one in outcomes if isinstance(one, ToolcribError)]
    assert sum(isinstance(one, ToolcribError) for one in outcomes) >= 14
    return outcomes


def everywhere(seen: list[str], caplog: pytest.LogCaptureFixture) -> list[str]:
    records = [record for record in caplog.records if not record.name.startswith("tests.")]
    formatted = [logging.Formatter().format(record) for record in records]
    return [text[:2000] for text in (*seen, *formatted) if CANARY in text]


@either_era
@pytest.mark.parametrize("place", ["a header", "a header function", "an async header function", "the provider"])
async def test_a_secret_on_the_wire_is_in_no_repr_log_event_or_traceback(
    web: Web, era: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server, seen = await web.server(era=era, tokens={CANARY}), []

    async def later() -> str:
        return f"Bearer {CANARY}"

    options: dict[str, Any] = {
        "a header": {"headers": {"Authorization": f"Bearer {CANARY}"}},
        "a header function": {"headers": {"Authorization": lambda: f"Bearer {CANARY}"}},
        "an async header function": {"headers": {"Authorization": later}},
        "the provider": {"auth": Provider(CANARY)},
    }[place]
    client = web.client(server, **options)
    outcomes = await provoke(client, seen)
    assert isinstance(outcomes[0], tc.ToolResult), "the server itself has it"
    assert everywhere(seen, caplog) == []
    assert all(CANARY not in one.target for one in server.requests), "never in a URL"
    assert all(one.header("authorization") == f"Bearer {CANARY}" for one in server.requests), "on every request"


@either_era
async def test_a_secret_in_the_url_is_in_no_repr_log_event_or_traceback(
    web: Web, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server, seen = await web.server(era=era), []
    client = web.client(f"{server.url}?api_key={CANARY}&x=1")
    outcomes = await provoke(client, seen)
    assert isinstance(outcomes[0], tc.ToolResult)
    assert CANARY in server.requests[0].target, "the server itself has it"
    assert everywhere(seen, caplog) == []
    assert CANARY not in client.name


async def test_a_secret_of_a_server_that_cannot_be_reached_is_in_no_text(
    web: Web, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    safe = await web.server(ssl=certificates.server_context("own"))
    proxy = await web.proxy(refusal=407)
    secret = {"Authorization": f"Bearer {CANARY}"}
    servers = [
        tc.HttpServer(f"http://127.0.0.1:{closed_port()}/?token={CANARY}", headers=secret),
        tc.HttpServer(f"http://user:{CANARY}@127.0.0.1:{closed_port()}/", headers=secret),
        tc.HttpServer(f"http://nobody.invalid/?token={CANARY}", headers=secret),
        tc.HttpServer(f"{safe.url}?token={CANARY}", headers=secret),
        tc.HttpServer(f"{safe.url}?token={CANARY}", proxy=proxy.origin.replace("//", f"//user:{CANARY}@")),
        tc.HttpServer(f"http://127.0.0.1:9/?token={CANARY}", proxy=f"http://user:{CANARY}@127.0.0.1:{closed_port()}"),
    ]
    seen: list[str] = []

    def note(event: events.Event) -> None:
        seen.append(repr(event))

    for server in servers:
        client = tc.Client(server, reconnect=FAST, max_retries=1)
        client.on(events.Event, note)
        outcome = await outcome_of(client.call_tool("echo", {}, timeout=5))
        assert isinstance(outcome, ToolcribError)
        seen += [texts_of(outcome), repr(client), str(client.status), client.name]
        seen += [repr(server), str(server), server.server_identifier]
        await client.close()
    assert everywhere(seen, caplog) == []


async def test_a_header_function_that_raises_its_secret_does_not_show_it(
    web: Web, era: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    caplog.set_level(logging.DEBUG)
    server = await web.server(era=era)

    def broken() -> str:
        raise RuntimeError("could not refresh")

    client = web.client(server, headers={"X-Key": CANARY, "Authorization": broken})
    outcome = await outcome_of(client.call_tool("echo", {}, timeout=3))
    assert isinstance(outcome, ToolcribError)
    assert everywhere([str(outcome), repr(outcome), repr(client)], caplog) == []
    assert server.requests == []


async def test_texts_of_a_server_are_shown_without_control_characters(
    web: Web, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server, evil = await web.server(era=era), "\x1b[31mred\x07\u202e\u200b"
    async with web.client(server) as client:
        outcomes = [
            await outcome_of(client.call_tool("status", {"status": status, "body": evil, "type": kind}))
            for status, kind in ((500, "text/html"), (400, "text/plain"), (200, "text/html"), (200, "application/json"))
        ]
        text = f"data: {evil}\n\n"
        outcomes.append(await outcome_of(client.call_tool("events", {"text": text, "then": "fin"})))
        challenge = {"WWW-Authenticate": "Bearer \x1b[31m"}
        outcomes.append(await outcome_of(client.call_tool("status", {"status": 401, "headers": challenge})))
        last_malformed = client.counters.last_malformed
    texts = [str(one) + str(getattr(one, "sample", "")) for one in outcomes] + caplog.messages + [last_malformed]
    assert [text for text in texts if any(sign in text for sign in ("\x1b", "\x07", "\u202e", "\u200b"))] == []


async def test_errors_of_http_pickle_and_keep_what_they_say(web: Web) -> None:
    server = await web.server()
    async with web.client(server) as client:
        for tool, how in FAULTS[1:]:
            outcome = await outcome_of(client.call_tool(tool, how, timeout=0.3))
            assert isinstance(outcome, ToolcribError)
            again = pickle.loads(pickle.dumps(outcome))
            assert (type(again), str(again)) == (type(outcome), str(outcome))
            assert vars(again) == vars(outcome)


async def test_two_clients_share_no_cookie_no_token_and_no_session(web: Web, era: str) -> None:
    server = await web.server(era=era)
    server.gate("tools/list", "status", status=400, headers={"Set-Cookie": f"id={CANARY}; Path=/"}, times=1)
    async with web.client(server, headers={"X-Who": "a"}) as one, web.client(server, headers={"X-Who": "b"}) as two:
        await outcome_of(one.list_tools())  # type: ignore[arg-type]
        await asyncio.gather(*(client.call_tool("echo", {}) for client in (one, two)))
    theirs = [received.raw for received in server.requests if received.header("x-who") == "b"]
    assert theirs
    assert all(CANARY not in text for text in theirs)
    sessions = {(one.header("x-who"), one.header("mcp-session-id")) for one in server.received("tools/call")}
    assert len(sessions) == 2
