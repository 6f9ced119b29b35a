"""Servers that quote the secrets they were given: in errors, broken answers, challenges, redirects and on stderr."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import Provider, Web
from tests.faults.http_sse import BadSseServer
from tests.faults.kit import FAST, FaultyServer, outcome_of
from tests.faults.test_canaries import texts_of
from toolcrib import events
from toolcrib.errors import ToolcribError

CANARY = "c4n4ry-1f6b03" + "-and-more" * 20
EVIL = "\x1b]0;owned\x07\n2026-01-01 CRITICAL forged \u202e\u200b\U000e0041"
HEAD = CANARY[:8]
"""A part of the secret that would be enough to find it."""


def all_of(error: BaseException) -> str:
    """Return everything that can be read from an error and its causes."""
    found, rest = [], [error]
    while rest:
        one = rest.pop()
        found += [texts_of(one), repr(one.args), repr(vars(one))]
        rest += [each for each in (one.__cause__,) if each is not None]
    return "\n".join(found)


def check(outcomes: list[Any], client: tc.Client, seen: list[str], caplog: pytest.LogCaptureFixture) -> None:
    errors = [one for one in outcomes if isinstance(one, ToolcribError)]
    assert len(errors) == len(outcomes), outcomes
    records = [record for record in caplog.records if not record.name.startswith("tests.")]
    texts = [*map(all_of, errors), *seen, *map(logging.Formatter().format, records)]
    texts += [repr(client.status), str(client.status), client.status.reason or "", client.counters.last_malformed]
    assert [text[:600] for text in texts if HEAD in text] == []
    assert any("<masked>" in text for text in texts), "the server did say it"


# ---- HTTP


def at(place: int, text: str) -> str:
    """Return the text after padding, so that a cut would split it."""
    return "." * place + text


ANSWERS: dict[str, dict[str, Any]] = {
    "body": {"status": 400, "type": "text/plain", "body": f"no: {CANARY}"},
    "body at the cut": {"status": 400, "type": "text/plain", "body": at(190, CANARY)},
    "body of a 500": {"status": 500, "type": "text/plain", "body": at(192, CANARY)},
    "body of a 429": {"status": 429, "type": "text/plain", "body": at(70, CANARY), "headers": {"Retry-After": "99"}},
    "wrong content type": {"status": 200, "type": "text/plain", "body": at(190, CANARY)},
    "broken JSON": {"status": 200, "type": "application/json", "body": at(190, CANARY)},
    "JSON that is not an answer": {"status": 200, "type": "application/json", "body": json.dumps([at(180, CANARY)])},
    "error": {
        "type": "application/json",
        "body": json.dumps(
            {"jsonrpc": "2.0", "id": "$ID", "error": {"code": 5, "message": CANARY, "data": {CANARY: [f"x{CANARY}"]}}}
        ).replace('"$ID"', "$ID"),
    },
    "error of a 400": {
        "status": 400,
        "type": "application/json",
        "body": json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": 5, "message": at(198, CANARY)}}),
    },
    "error without a code": {
        "type": "application/json",
        "body": json.dumps({"id": "$ID", "error": {"x": at(180, CANARY)}}).replace('"$ID"', "$ID"),
    },
    "challenge": {"status": 401, "headers": {"WWW-Authenticate": f'Bearer error="{at(170, CANARY)}"'}},
    "challenge of a 403": {"status": 403, "headers": {"WWW-Authenticate": f"Bearer {CANARY}"}},
    "redirect": {"status": 302, "headers": {"Location": f"https://other.invalid/{at(170, CANARY)}"}},
    "encoding": {"status": 200, "type": "application/json", "headers": {"Content-Encoding": at(30, CANARY)}},
}
RAW = {
    "reason": f"HTTP/1.1 400 {CANARY}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "not HTTP": f"{CANARY}\r\n\r\n",
    "broken head": f"HTTP/1.1 200 OK\r\n{CANARY}\r\n\r\n",
    "event": f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {at(190, CANARY)}\n\n",
}
PLACES: dict[str, dict[str, Any]] = {
    "header": {"headers": {"Authorization": f"Bearer {CANARY}"}},
    "function": {"headers": {"X-Api-Key": lambda: CANARY}},
    "cookie": {"headers": {"Cookie": f"session={CANARY}; a=b"}},
    "provider": {"auth": True},
    "query": {},
    "user": {},
}


@pytest.mark.parametrize("place", PLACES)
async def test_a_secret_that_a_web_server_quotes_is_masked_everywhere(
    web: Web, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server, seen = await web.server(era="legacy"), list[str]()
    url = {"query": f"{server.url}?api_key={CANARY}", "user": server.url.replace("//", f"//me:{CANARY}@")}
    options = {**PLACES[place], **({"auth": Provider(CANARY)} if place == "provider" else {})}
    client = web.client(url.get(place, server.url), max_attempts=1, **options)
    client.on(events.Event, lambda event: seen.append(repr(event)))
    outcomes = []
    for how in (*ANSWERS.values(), *({"bytes": text} for text in RAW.values())):
        server.gate("tools/call", "raw" if "bytes" in how else "status", times=1, **how)
        outcomes.append(await outcome_of(client.call_tool("echo", {}, timeout=3)))
    check(outcomes, client, seen, caplog)


async def test_a_secret_that_a_server_quotes_when_it_refuses_to_connect_is_masked(
    web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for how in ANSWERS.values():
        server, seen = await web.server(), list[str]()
        server.gate("any", "status", **how)
        client = web.client(server, headers={"Authorization": f"Bearer {CANARY}"}, max_attempts=1)
        client.on(events.Event, lambda event, seen=seen: seen.append(repr(event)))  # type: ignore[misc]
        check([await outcome_of(client.connect())], client, seen, caplog)  # type: ignore[arg-type]


async def test_a_secret_that_a_server_of_http_and_sse_quotes_is_masked(
    web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = BadSseServer()
    web.servers.append(await server.start())
    client = tc.Client(tc.SseServer(server.url, headers={"X-Api-Key": CANARY}), reconnect=FAST, max_retries=1)
    web.clients.append(client)
    await client.connect()
    outcomes = []
    for how in [*ANSWERS.values()][:3]:
        server.gate("tools/call", "status", times=1, **how)
        outcomes.append(await outcome_of(client.call_tool("echo", {}, timeout=3)))
    (session,) = server.sessions.values()
    call = [outcome_of(client.call_tool("silent", {}, timeout=0.3))]
    assert session.listener is not None
    await session.listener.part(f"data: {at(190, CANARY)}\n\n".encode())
    await session.listener.part(f"data: {json.dumps([at(190, CANARY)])}\n\n".encode())
    outcomes += [await one for one in call]
    check(outcomes, client, [], caplog)
    server.endpoint = f"https://elsewhere.invalid/{CANARY}"
    await client.disconnect()
    check([await outcome_of(client.connect())], client, [], caplog)  # type: ignore[arg-type]


# ---- stdio


STDIO = """
import json, os, sys
secret = os.environ["API_TOKEN"]
print("starting with", secret, file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    name = asked.get("params", {}).get("name")
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        print(json.dumps({**answer, "result": result}), flush=True)
    elif name is None:
        print(json.dumps({**answer, "error": {"code": -32601, "message": ""}}), flush=True)
    elif name == "error":
        text = "bad token " + secret + sys.argv[1]
        print(json.dumps({**answer, "error": {"code": 7, "message": text, "data": [secret]}}), flush=True)
    elif name == "broken":
        print('{"jsonrpc": "2.0", "id": %d, "result": ' % asked["id"] + "." * 150 + secret, flush=True)
    elif name == "no answer":
        print(json.dumps([["." * 185 + secret]]), flush=True)
        print(json.dumps({**answer, "result": ["." * 185 + secret]}), flush=True)
    elif name == "huge":
        print("." * 180 + secret + "." * 17_000_000, flush=True)
        print(json.dumps({**answer, "result": 5}), flush=True)
    elif name == "exit":
        print("." * 490, secret, "." * 400, file=sys.stderr, flush=True)
        sys.exit(3)
"""


async def test_a_secret_that_a_process_quotes_is_masked_everywhere(
    faulty: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    config = tc.StdioServer(
        sys.executable, ["-S", "-E", "-c", STDIO, "", str(faulty.record.path)], env={"API_TOKEN": CANARY}
    )
    client = tc.Client(config, name="leaky", reconnect=FAST, max_retries=1, stderr_handler=seen.append)
    client.on(events.Event, lambda event: seen.append(repr(event)))
    names = ["error", "broken", "no answer", "huge", "exit"]
    outcomes = [await outcome_of(client.call_tool(name, {}, timeout=5)) for name in names]
    await client.close()
    check(outcomes, client, seen, caplog)
    assert "starting with <masked>" in seen


# ---- control characters


async def test_the_message_of_a_remote_error_has_no_control_characters_and_is_bounded(faulty: FaultyServer) -> None:
    arguments = ["-S", "-E", "-c", STDIO, EVIL + "x" * 50_000, str(faulty.record.path)]
    config = tc.StdioServer(sys.executable, arguments, env={"API_TOKEN": "t"})
    async with tc.Client(config, name="evil", reconnect=FAST) as client:
        outcome = await outcome_of(client.call_tool("error", {}, timeout=5))
    assert isinstance(outcome, tc.RemoteError)
    assert all(c.isprintable() or c == "\n" for c in outcome.message)
    assert "\n2026-01-01 CRITICAL forged" in outcome.message, "newlines stay in the message"
    assert "\n" not in str(outcome)
    assert len(outcome.message) <= 4_000


async def test_the_message_of_a_remote_error_over_http_has_no_control_characters(web: Web) -> None:
    server = await web.server()
    error = {"jsonrpc": "2.0", "id": "$ID", "error": {"code": 5, "message": EVIL, "data": EVIL}}
    how = {"type": "application/json", "body": json.dumps(error).replace('"$ID"', "$ID")}
    async with web.client(server) as client:
        outcome = await outcome_of(client.call_tool("status", how, timeout=5))
    assert isinstance(outcome, tc.RemoteError)
    assert all(c.isprintable() or c == "\n" for c in outcome.message)
    assert outcome.data == EVIL, "data stays as it came"
