"""Invalid answers: each fails one call with a typed error, and the next call works.

Every bad answer comes after the call was executed, so sending it again would be seen: its nonce would have run twice.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import Web
from tests.faults.kit import Ledger, outcome_of, succeeded
from toolcrib.errors import OutcomeUnknown, ProtocolError, RemoteError, ToolcribError

JSON = "application/json"
ERROR = '{"jsonrpc": "2.0", "id": $ID, "error": {"code": -32055, "message": "no", "data": [1]}}'
ANONYMOUS = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32055, "message": "no"}}'
BAD_UTF8 = "base64:eyJqc29ucnBjIjoiMi4wIiwiaWQiOjMsInJlc3VsdCI6eyJhIjoi//4iLCJiIjoxfX0="
CHUNKED = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
HTML = "<html><h1>Sorry</h1></html>"
GOOD = '{"jsonrpc": "2.0", "id": $ID, "result": {"content": [{"type": "text", "text": "fine"}]}}'


def answer(status: int, body: str = "", kind: str | None = JSON, **headers: str) -> dict[str, Any]:
    return {"status": status, "body": body, "type": kind if body else None, "headers": headers}


Case = tuple[dict[str, Any], type[ToolcribError], dict[str, Any]]
CASES: dict[str, Case] = {
    "500": (answer(500), OutcomeUnknown, {"status": 500, "sent": True}),
    "500 with HTML": (answer(500, HTML, "text/html"), OutcomeUnknown, {"status": 500}),
    "500 with a JSON-RPC error": (answer(500, ERROR), RemoteError, {"code": -32055, "data": [1]}),
    "500 with JSON that is not JSON-RPC": (answer(500, '{"detail": "x"}'), OutcomeUnknown, {"status": 500}),
    "502": (answer(502, HTML, "text/html"), OutcomeUnknown, {"status": 502}),
    "503 without Retry-After": (answer(503), OutcomeUnknown, {"status": 503}),
    "504": (answer(504), OutcomeUnknown, {"status": 504}),
    "599": (answer(599), OutcomeUnknown, {"status": 599}),
    "400": (answer(400), ProtocolError, {"status": 400}),
    "400 with HTML": (answer(400, HTML, "text/html"), ProtocolError, {"status": 400, "content_type": "text/html"}),
    "400 with a JSON-RPC error": (answer(400, ERROR), RemoteError, {"code": -32055}),
    "400 with an error without an id": (answer(400, ANONYMOUS), RemoteError, {"code": -32055}),
    "405": (answer(405, Allow="GET"), ProtocolError, {"status": 405}),
    "406": (answer(406, "no", "text/plain"), ProtocolError, {"status": 406, "sample": "no"}),
    "413": (answer(413), ProtocolError, {"status": 413}),
    "451": (answer(451), ProtocolError, {"status": 451}),
    "202": (answer(202), ProtocolError, {"status": 202}),
    "204": ({"status": 204, "headers": {"Transfer-Encoding": "identity"}}, ProtocolError, {"status": 204}),
    "200 with HTML": (
        answer(200, HTML, "text/html; charset=utf-8"),
        ProtocolError,
        {"status": 200, "content_type": "text/html", "sample": HTML},
    ),
    "200 with text": (answer(200, GOOD, "text/plain"), ProtocolError, {"content_type": "text/plain"}),
    "200 without a type": (answer(200, GOOD, None), ProtocolError, {"status": 200}),
    "200 with nothing": ({"status": 200, "type": JSON}, ProtocolError, {}),
    "truncated JSON": (answer(200, GOOD[:40]), ProtocolError, {}),
    "JSON and more": (answer(200, GOOD + GOOD), ProtocolError, {}),
    "bad UTF-8": (
        answer(200, "base64:eyJqc29ucnBjIjoiMi4wIiwiaWQiOjMsInJlc3VsdCI6eyJhIjoi//4iLCJiIjoxfX0="),
        ProtocolError,
        {},
    ),
    "an empty list": (answer(200, "[]"), ProtocolError, {}),
    "a number": (answer(200, "42"), ProtocolError, {}),
    "null": (answer(200, "null"), ProtocolError, {}),
    "an empty object": (answer(200, "{}"), ProtocolError, {}),
    "a string": (answer(200, '"x"'), ProtocolError, {}),
    "only a notification": (answer(200, '{"jsonrpc": "2.0", "method": "notifications/x"}'), ProtocolError, {}),
    "another's id": (answer(200, GOOD.replace("$ID", "999999")), ProtocolError, {}),
    "no id": (answer(200, GOOD.replace("$ID", "null")), ProtocolError, {}),
    "true as id": (answer(200, GOOD.replace("$ID", "true")), ProtocolError, {}),
    "a result that is a number": (answer(200, '{"jsonrpc": "2.0", "id": $ID, "result": 7}'), ProtocolError, {}),
    "a result that is a list": (answer(200, '{"jsonrpc": "2.0", "id": $ID, "result": []}'), ProtocolError, {}),
    "neither result nor error": (answer(200, '{"jsonrpc": "2.0", "id": $ID}'), ProtocolError, {}),
    "an error without a code": (answer(200, '{"jsonrpc": "2.0", "id": $ID, "error": {}}'), ProtocolError, {}),
    "an error that is a text": (answer(200, '{"jsonrpc": "2.0", "id": $ID, "error": "x"}'), ProtocolError, {}),
    "NaN": (answer(200, GOOD.replace('"fine"', "NaN")), ProtocolError, {}),
    "an unknown encoding": (answer(200, GOOD, **{"Content-Encoding": "x-crib"}), ProtocolError, {}),
    "gzip that is none": (answer(200, GOOD, **{"Content-Encoding": "gzip"}), ToolcribError, {}),
    "brotli that is none": (answer(200, GOOD, **{"Content-Encoding": "br"}), ToolcribError, {}),
}


@pytest.mark.parametrize("name", CASES)
async def test_an_invalid_answer_is_one_typed_error_of_one_call(web: Web, era: str, name: str) -> None:
    how, kind, attributes = CASES[name]
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        outcome = await ledger.call(client, "status", **how)
        assert isinstance(outcome, kind), f"{type(outcome).__name__}: {outcome}"
        assert not isinstance(outcome, TimeoutError)
        assert {key: getattr(outcome, key) for key in attributes} == attributes
        assert (outcome.tool, outcome.server) == ("status", client.name)
        assert len(str(outcome)) < 1000
        assert succeeded(await ledger.call(client)), "the next call is as good as ever"
    ledger.check(server.executed)
    assert len(server.received("initialize")) == (era == "legacy"), "one failed POST does not cause a reconnect"


@pytest.mark.parametrize("body, kind", [("", ProtocolError), (ERROR, RemoteError)], ids=["bodiless", "JSON-RPC"])
async def test_a_404_without_a_session_is_not_an_expiry(web: Web, era: str, body: str, kind: type[Exception]) -> None:
    ledger, server = Ledger(), await web.server(era=era, gives_session=False)
    async with web.client(server) as client:
        outcome = await ledger.call(client, "status", **answer(404, body))
        assert isinstance(outcome, kind)
        assert getattr(outcome, "status", 404) == 404
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert len(server.received("initialize")) == (era == "legacy")


RAW = {
    "not HTTP": "SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "bytes": "base64:AAECAwQF/////w==",
    "a broken status line": "HTTP/1.1 abc What\r\n\r\n",
    "a broken header": "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
    "a header of a megabyte": "HTTP/1.1 200 OK\r\nX: " + "x" * (1 << 20) + "\r\n\r\n",
    "a hundred thousand headers": "HTTP/1.1 200 OK\r\n" + "X: y\r\n" * 100_000 + "\r\n",
    "half a head": "HTTP/1.1 200 OK\r\nContent-Type: applica",
    "a broken chunk": CHUNKED + "xyz\r\n{}\r\n",
    "half a body": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    "half a chunked body": CHUNKED + "5\r\n{",
    "two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a negative length": "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "nothing": "",
}


@pytest.mark.parametrize("then", ["fin", "reset"])
@pytest.mark.parametrize("name", RAW)
async def test_bytes_that_are_not_http_are_a_typed_error_and_never_unsent(
    web: Web, era: str, name: str, then: str
) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        outcome = await ledger.call(client, "raw", bytes=RAW[name], then=then, timeout=20)
        assert isinstance(outcome, OutcomeUnknown | ProtocolError), f"{type(outcome).__name__}: {outcome}"
        assert not isinstance(outcome, TimeoutError)
        assert len(str(outcome)) < 1000
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


GOOD_ONES = {
    "charset": answer(200, GOOD, "application/json; charset=utf-8"),
    "upper case": answer(200, GOOD, "APPLICATION/JSON"),
    "a text id": answer(200, GOOD.replace("$ID", '"$ID"')),
    "white space around": answer(200, f"\r\n \t{GOOD}\n\n"),
    "an error field of null": answer(200, GOOD.replace('"result"', '"error": null, "result"')),
    "201": answer(201, GOOD),
}


@pytest.mark.parametrize("name", GOOD_ONES)
async def test_answers_that_are_odd_and_good_are_taken(web: Web, era: str, name: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        assert (await client.call_tool("status", GOOD_ONES[name], timeout=10)).text == "fine"
    assert server.breaches == []


async def test_hints_before_the_answer_are_passed_over(web: Web, era: str) -> None:
    server = await web.server(era=era)
    hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 3
    body = GOOD.replace("$ID", "")
    length = len(body) + 1
    raw = f"{hints}HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{GOOD}"
    async with web.client(server) as client:
        assert (await client.call_tool("raw", {"bytes": raw, "then": "fin"}, timeout=10)).text == "fine"


async def test_a_list_is_asked_for_again_where_a_call_is_not(web: Web, era: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        server.gate("tools/list", "status", times=1, **answer(500))
        assert await client.list_tools()
        assert len(server.received("tools/list")) == 2
        server.gate("tools/list", "status", times=1, **answer(400))
        with pytest.raises(ProtocolError):
            await client.list_tools()
        assert len(server.received("tools/list")) == 3, "a refusal stays a refusal"


async def test_what_the_operator_calls_safe_is_sent_again_after_a_500(web: Web, era: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        server.gate("tools/call", "status", times=1, **answer(500))
        result = await client.call_tool("echo", {"nonce": "safe"}, retry_safe=True, timeout=20)
        assert result.text == "safe"
        server.gate("tools/call", "status", times=1, **answer(500))
        assert isinstance(await outcome_of(client.call_tool("echo", {"nonce": "unsafe"})), OutcomeUnknown)
    assert server.executed == {"safe": 1}


async def test_one_bad_answer_among_fifty_calls_is_one_failed_call(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        good = [asyncio.create_task(ledger.call(client, "slow")) for _ in range(50)]
        bad = [await ledger.call(client, "status", **case[0]) for case in CASES.values()]
        assert not any(map(succeeded, bad))
        server.release.set()
        assert all(map(succeeded, await asyncio.gather(*good)))
    ledger.check(server.executed)


VERSION = "io.modelcontextprotocol/protocolVersion"


@pytest.mark.parametrize(
    "method, params, headers",
    [
        ("tools/list\r\nX-Evil: 1", {}, None),
        ("\x00", {}, None),
        ("\ud800", {}, None),
        ("tools/list", {}, {"X-Mine": "a\r\nX-Evil: 1"}),
        ("tools/list", {}, {"X-Mine\r\nX-Evil": "1"}),
        ("tools/list", {}, {"X-Mine": 5}),
        ("tools/list", {}, {"X-Mine": "a\x00"}),
    ],
)
async def test_what_cannot_be_a_header_is_a_usage_error_and_nothing_is_sent(
    web: Web, method: str, params: dict[str, Any], headers: Any
) -> None:
    server = await web.server(era="modern")
    async with web.client(server) as client:
        seen = len(server.requests)
        with pytest.raises(tc.UsageError) as caught:
            await client.request(method, params, headers=headers, timeout=3)
        assert caught.value.sent is False
        assert len(server.requests) == seen
        assert (await client.call_tool("echo", {"nonce": "well"})).text == "well"


async def test_a_version_of_the_callers_own_that_cannot_be_a_header_is_a_usage_error(web: Web) -> None:
    server = await web.server(era="legacy")
    async with web.client(server) as client:
        for version in ("1\r\nX-Evil: 1", 5, ["x"]):
            with pytest.raises(tc.UsageError):
                await client.request("tools/list", {"_meta": {VERSION: version}}, timeout=3)
