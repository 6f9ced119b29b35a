"""Invalid and wrong requests: the right code and status, the id where it can be read, nothing executed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.faults.server_kit import Place, Tools, serving
from tests.faults.server_wire import (
    ACCEPTED,
    INFO,
    LEGACY,
    MODERN,
    Line,
    call,
    head_of,
    message,
    meta,
    modern,
    modern_headers,
)
from tests.serving import served

ADD = call("add", {"a": 1, "b": 2})
MIB = 1024 * 1024


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Place]:
    async with serving() as place:
        yield place


@pytest_asyncio.fixture(loop_scope="module")
async def place(server: Place) -> AsyncIterator[Place]:
    """A server. Whatever the test sends, no tool runs and nothing is logged. It still works afterwards."""
    server.ran.clear()
    yield server
    assert not server.ran
    assert server.faults == []
    await server.quiet()
    assert (await server.post(modern("tools/call", ADD))).text == "3"


async def in_era(place: Place, era: str) -> dict[str, str]:
    return await place.session() if era == "legacy" else modern_headers(modern("tools/call", ADD))


def request_of(era: str, params: Any, method: str = "tools/call", id: Any = 1) -> dict[str, Any]:
    return modern(method, params, id) if era == "modern" else message(method, params, id)


# ---- no JSON -------------------------------------------------------------------------------------------------

GOOD = json.dumps(modern("tools/call", ADD)).encode()
DEEP = 200_000
NO_JSON = {
    "nothing": b"",
    "words": b"add one and two",
    "cut": GOOD[:-1],
    "two values": GOOD + GOOD,
    "two lines": GOOD + b"\n" + GOOD,
    "single quotes": GOOD.replace(b'"', b"'"),
    "a comma too many": GOOD[:-1] + b",}",
    "NaN": GOOD.replace(b'"a": 1', b'"a": NaN'),
    "Infinity": GOOD.replace(b'"a": 1', b'"a": Infinity'),
    "-Infinity": GOOD.replace(b'"a": 1', b'"a": -Infinity'),
    "a number beyond doubles": GOOD.replace(b'"a": 1', b'"a": 1e999'),
    "an integer of 5,000 digits": GOOD.replace(b'"a": 1', b'"a": ' + b"9" * 5_000),
    "a leading zero": GOOD.replace(b'"a": 1', b'"a": 01'),
    "half a surrogate pair": GOOD.replace(b'"add"', b'"\\ud800"'),
    "the other half": GOOD.replace(b'"add"', b'"\\udc00"'),
    "half a pair as a key": GOOD.replace(b'"a": 1', b'"\\ud800": 1'),
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "UTF-32": GOOD.decode().encode("utf-32"),
    "Latin-1": GOOD.replace(b"add", b"\xe4dd"),
    "an overlong form": GOOD.replace(b"add", b"\xc0\xaf"),
    "a surrogate as UTF-8": GOOD.replace(b"add", b"\xed\xa0\x80"),
    "a raw control character": GOOD.replace(b"add", b"a\x00d"),
    "a raw newline in a text": GOOD.replace(b"add", b"a\nd"),
    "gzip": b"\x1f\x8b\x08\x00" + GOOD,
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep arguments": GOOD.replace(b'"a": 1', b'"a": ' + b"[" * 129 + b"]" * 129),
    "unclosed depth": b"[" * 4_000_000,
    "a form": b"jsonrpc=2.0&id=1&method=tools/call",
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
async def test_non_json_is_a_parse_error(place: Place, body: bytes, era: str) -> None:
    headers = await in_era(place, era)
    began = time.monotonic()
    answer = await place.send(body, headers)
    assert (answer.status, answer.code) == (400, -32700)
    assert answer.header("content-type") == "application/json"
    assert answer.json.get("id") is None
    assert len(answer.body) < 1_000
    assert time.monotonic() - began < 1


# ---- no message ----------------------------------------------------------------------------------------------

NO_MESSAGE: list[Any] = [
    *(None, True, 0, 1.5, "tools/call", {}),
    *({"jsonrpc": "2.0"}, {"id": 1, "method": "tools/list"}),
    *({**message("tools/call", ADD), "jsonrpc": wrong} for wrong in ("1.0", 2.0, 2, None, ["2.0"])),
    *({**message("tools/call", ADD), "method": wrong} for wrong in (None, 5, ["tools/call"], {"tools": "call"}, True)),
    *(message("tools/call", ADD, wrong) for wrong in (None, True, False, 1.5, [1], {"id": 1})),
    {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "both"}},
    {"jsonrpc": "2.0", "id": 1},
    {"jsonrpc": "2.0", "result": {}},
]


@pytest.mark.parametrize("body", NO_MESSAGE, ids=repr)
async def test_a_non_message_is_an_invalid_request(place: Place, body: Any, era: str) -> None:
    headers = await in_era(place, era)
    answer = await place.post(body, headers)
    assert (answer.status, answer.code) == (400, -32600)
    if isinstance(body, dict) and body.get("id") == 1 and "method" in body and body.get("jsonrpc") == "2.0":
        assert answer.json.get("id") == (None if body["id"] is True else 1)


@pytest.mark.parametrize("params", [None, 5, "x", [], [1, 2], True], ids=repr)
async def test_params_that_are_not_an_object_are_refused(place: Place, params: Any, era: str) -> None:
    headers = await in_era(place, era)
    answer = await place.post({"jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": params}, headers)
    assert (answer.status, answer.code, answer.json["id"]) == (400, -32602, "seven")


@pytest.mark.parametrize(
    "id", [0, -1, 7, "7", "", "x" * 10_000, "\u202e\x00", 2**63 - 1, -(2**63), 2**70], ids=lambda v: repr(v)[:9]
)
async def test_an_id_comes_back_as_it_was(place: Place, id: Any, era: str) -> None:
    headers = await in_era(place, era)
    answer = await place.post(request_of(era, {"name": "nothing of the kind"}, id=id), headers | {"Mcp-Name": "x"})
    assert answer.json["id"] == id
    assert type(answer.json["id"]) is type(id)
    assert answer.code in (-32602, -32020)


WRONG_CALLS: dict[str, Any] = {
    "no name": {"arguments": {"a": 1, "b": 2}},
    **{f"name {wrong!r}": {**ADD, "name": wrong} for wrong in (None, 5, True, ["add"], {"add": 1})},
    **{f"arguments {wrong!r}": {**ADD, "arguments": wrong} for wrong in (5, "a=1", [1, 2], True)},
}


@pytest.mark.parametrize("params", WRONG_CALLS.values(), ids=WRONG_CALLS)
async def test_a_call_of_the_wrong_types_has_invalid_params(place: Place, params: Any, era: str) -> None:
    headers = await in_era(place, era)
    answer = await place.post(request_of(era, params), headers)
    assert (answer.status, answer.code, answer.json["id"]) == (400 if era == "modern" else 200, -32602, 1)


@pytest.mark.parametrize("wrong", [5, "x", [1], True], ids=repr)
async def test_a_meta_that_is_not_an_object_is_refused(place: Place, wrong: Any, era: str) -> None:
    headers = await in_era(place, era)
    answer = await place.post(message("tools/call", {**ADD, "_meta": wrong}), headers)
    assert (answer.code, answer.json["id"]) == (-32602, 1)


WRONG_META: dict[str, Any] = {
    "no version": {INFO: {"name": "x", "version": "1"}},
    "a number as version": meta(version=2026),
    "no capabilities": {k: v for k, v in meta().items() if not k.endswith("Capabilities")},
    "a list of capabilities": meta(capabilities=["elicitation"]),
    "a list as client": {**meta(), INFO: ["raw"]},
}


@pytest.mark.parametrize("wrong", WRONG_META.values(), ids=WRONG_META)
async def test_a_modern_request_identifies_the_client_and_the_version(place: Place, wrong: Any) -> None:
    headers = modern_headers(modern("tools/call", ADD))
    answer = await place.post(message("tools/call", {**ADD, "_meta": wrong}), headers)
    assert (answer.status, answer.code, answer.json["id"]) == (400, -32602, 1)


@pytest.mark.parametrize("tool", ["add", "ask"])
@pytest.mark.parametrize("wrong", [5, "x", [ACCEPTED], {"go": 5}, {"go": [1]}, {"go": None}], ids=repr)
async def test_input_responses_are_an_object_of_objects(place: Place, wrong: Any, tool: str) -> None:
    answer = await place.post(modern("tools/call", call(tool, {}, inputResponses=wrong)))
    assert (answer.status, answer.code, answer.json["id"]) == (400, -32602, 1)


@pytest.mark.parametrize("wrong", [5, "x", [1], {"a": 1}], ids=repr)
async def test_an_unknown_cursor_is_refused(place: Place, wrong: Any, era: str) -> None:
    headers = await in_era(place, era)
    request = request_of(era, {"cursor": wrong}, "tools/list")
    answer = await place.post(request, headers | (modern_headers(request) if era == "modern" else {}))
    assert answer.code == -32602


async def test_wrong_arguments_are_a_result_that_names_them(place: Place, era: str) -> None:
    headers = await in_era(place, era)
    answer = await place.post(request_of(era, call("add", {"a": "one", "c": 3})), headers)
    assert (answer.status, answer.json["result"]["isError"]) == (200, True)
    for name in ("a", "b", "c"):
        assert f"{name}: " in answer.text


async def test_an_integer_that_no_64_bits_hold_is_never_rounded(era: str) -> None:
    async with serving() as place:
        headers = await in_era(place, era)
        answer = await place.post(request_of(era, call("add", {"a": 2**70 + 1, "b": 0})), headers)
        assert answer.json["result"]["structuredContent"] == {"result": 2**70 + 1}


async def test_an_unknown_tool_is_reported_with_the_nearest_names(place: Place, era: str) -> None:
    headers = await in_era(place, era)
    request = request_of(era, call("ad"))
    answer = await place.post(request, headers | {"Mcp-Name": "ad"})
    assert (answer.status, answer.code) == (400 if era == "modern" else 200, -32602)
    assert answer.error["message"] == "Unknown tool: ad; did you mean 'add'?"


async def test_an_unknown_name_of_megabytes_is_neither_compared_nor_repeated(place: Place) -> None:
    headers = await place.session()
    began = time.monotonic()
    for method, params in (("tools/call", call("x" * 3 * MIB)), ("prompts/get", {"name": "x" * 3 * MIB})):
        answer = await place.post(message(method, params), headers)
        assert answer.code == -32602
        assert len(answer.body) < 2_000
    answer = await place.post(message("x" * 3 * MIB), headers)
    assert answer.code == -32601
    assert len(answer.body) < 2_000
    assert time.monotonic() - began < 1.5


async def test_an_unknown_name_is_repeated_without_control_characters(place: Place) -> None:
    headers = await place.session()
    answer = await place.post(message("tools/call", call("\x1b[31mred\u202e\u200b")), headers)
    assert answer.code == -32602
    assert not any(ord(each) < 32 or each in "\u202e\u200b" for each in answer.error["message"])


@pytest.mark.parametrize("method", ["tools/cal", "", "initialized", "__class__", "tools/call/", "server/discover\n"])
async def test_an_unknown_method_is_not_found(place: Place, method: str, era: str) -> None:
    headers = await in_era(place, era)
    request = request_of(era, ADD, method)
    answer = await place.post(request, headers | {"Mcp-Method": method.strip()})
    if method.strip() != method and era == "modern":
        assert (answer.status, answer.code) == (400, -32020)
    else:
        assert (answer.status, answer.code) == (404 if era == "modern" else 200, -32601)


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe"])
async def test_methods_that_the_modern_era_removed_are_not_found(place: Place, method: str) -> None:
    before = place.sessions
    answer = await place.post(modern(method, {"level": "debug", "uri": "config://app"}))
    assert (answer.status, answer.code, place.sessions) == (404, -32601, before)


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
async def test_what_the_legacy_era_has_not_yet_is_not_found(place: Place, method: str) -> None:
    answer = await place.post(message(method, {"notifications": {}}), await place.session())
    assert answer.code == -32601


# ---- batches -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [MODERN, LEGACY, "2025-06-18"])
@pytest.mark.parametrize("size", [0, 1, 3])
async def test_a_batch_is_refused_in_eras_without_batches(place: Place, version: str, size: int) -> None:
    headers = {"Mcp-Protocol-Version": MODERN} if version == MODERN else await place.session(version)
    answer = await place.post(
        [request_of("modern" if version == MODERN else "", ADD, id=n) for n in range(size)], headers
    )
    assert (answer.status, answer.code) == (400, -32600)


async def test_a_batch_of_2025_03_26_answers_each_by_itself(place: Place) -> None:
    headers = await place.session("2025-03-26")
    said = [5, None, [message("ping")], message("ping", {}, 7), message("tools/call", {"name": 5}, "8"), {"id": 9}]
    answer = await place.post(said, headers)
    assert answer.status == 200
    assert [(each.get("id"), each.get("error", {}).get("code")) for each in answer.json] == [
        *((None, -32600), (None, -32600), (None, -32600), (7, None), ("8", -32602)),
        (None, -32600),
    ]
    assert (await place.post([], headers)).status == 400
    assert (await place.post([message("ping", {}, n) for n in range(10_000)], headers)).status == 400


# ---- bodies --------------------------------------------------------------------------------------------------

LARGE = json.dumps(modern("tools/call", call("echo", {"text": "x" * 5 * MIB}))).encode()
ECHO = modern_headers(modern("tools/call", call("echo")))


async def test_a_body_of_5_mib_is_too_large(place: Place) -> None:
    answer = await place.send(LARGE, ECHO)
    assert (answer.status, answer.code, answer.header("connection")) == (413, -32600, "close")


async def test_a_body_that_says_it_is_too_large_is_not_waited_for(place: Place) -> None:
    line = await place.open(b"", {**ECHO, "Content-Length": str(5 * MIB)})
    assert (await line.answer()).status == 413
    assert await line.ended()


async def test_a_client_that_asks_before_sending_too_much_is_refused_at_once(place: Place) -> None:
    line = await place.line()
    pairs = place.pairs({**ECHO, "Content-Length": str(5 * MIB), "Expect": "100-continue"}, None)
    line.writer.write(head_of("POST", "/mcp", pairs))
    async with asyncio.timeout(5):
        assert (await line.reader.readline()).startswith(b"HTTP/1.1 413")


async def test_a_body_without_a_length_is_cut_at_the_limit(place: Place) -> None:
    line = await place.line()
    pairs = place.pairs({**ECHO, "Transfer-Encoding": "chunked"}, None)
    await line.say(head_of("POST", "/mcp", pairs))
    answering = asyncio.create_task(line.answer())
    sent = 0
    while not answering.done() and sent < 64 * MIB:
        piece = LARGE[sent % len(LARGE) :][: 256 * 1024]
        await line.say(b"%x\r\n%s\r\n" % (len(piece), piece))
        sent += len(piece)
        await asyncio.sleep(0)
    assert (await answering).status == 413
    assert sent < 64 * MIB


async def test_a_body_that_arrives_byte_by_byte_blocks_no_other_request_and_is_accepted(place: Place) -> None:
    line = await place.line()
    body = json.dumps(modern("tools/call", call("nothing"))).encode()
    pairs = place.pairs({**ECHO, "Mcp-Name": "nothing", "Content-Length": str(len(body))}, None)
    data = head_of("POST", "/mcp", pairs) + body
    for at in range(len(data) - 1):
        await line.say(data[at : at + 1])
        if at % 100 == 0:
            assert (await place.post(modern("tools/list"))).status == 200
    await line.say(data[-1:])
    assert (await line.answer()).code == -32602


async def test_a_body_that_trickles_in_has_a_time_limit() -> None:
    async with serving(body_timeout=0.3) as place:
        headers = {**modern_headers(modern("tools/call", ADD)), "Content-Length": "1000"}
        line = await place.open(b"", headers)
        trickling = asyncio.create_task(_trickle(line))
        answer = await line.answer()
        trickling.cancel()
        assert (answer.status, answer.header("connection")) == (408, "close")
        assert "0.3 seconds" in answer.error["message"]
        assert await line.ended()
        assert not place.ran
        assert (await place.post(modern("tools/call", ADD))).text == "3"


async def test_each_body_has_its_own_time_and_a_client_that_leaves_needs_none() -> None:
    async with serving(body_timeout=0.5) as place:
        headers = {**modern_headers(modern("tools/call", ADD)), "Content-Length": str(len(GOOD))}
        lines = []
        for _ in range(3):
            lines.append(await place.open(b"", headers))
            await lines[-1].say(GOOD[:5])
            await asyncio.sleep(0.1)
        await lines[1].say(GOOD[5:])
        assert (await lines[1].answer()).text == "3"
        lines.append(await place.open(b"", headers))
        lines[-1].cut()
        assert [(await lines[at].answer()).status for at in (0, 2)] == [408, 408]
        late = await place.open(b"", headers)  # the timer starts again
        assert (await late.answer()).status == 408


async def test_a_body_that_trickles_in_over_http_sse_has_a_time_limit() -> None:
    async with served(Tools().server.asgi(transport="sse", path="/sse", body_timeout=0.3)) as url:
        place = Place(Tools(), None, url)
        stream = await place.open(b"", {}, "GET", "/sse")
        await stream.head()
        endpoint = (await stream.event())["data"]
        line = await place.open(b"", {"Content-Length": "1000"}, path=endpoint)
        trickling = asyncio.create_task(_trickle(line))
        assert (await line.answer()).status == 408
        trickling.cancel()
        for each in place.lines:
            await each.close()


async def _trickle(line: Line) -> None:
    while True:
        await line.say(b" ")
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("cut", [1, 20, len(GOOD) - 1])
async def test_a_client_that_leaves_in_mid_body_has_said_nothing(place: Place, cut: int) -> None:
    line = await place.open(b"", {**modern_headers(modern("tools/call", ADD)), "Content-Length": str(len(GOOD))})
    await line.say(GOOD[:cut])
    line.cut()
    await place.quiet()


@pytest.mark.parametrize(
    "kind",
    [
        *(None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"),
        *("text/json", "application/json-patch+json", "application/ json", "text/plain; application/json"),
    ],
)
async def test_a_body_of_another_type_is_refused_unread(place: Place, kind: str | None, era: str) -> None:
    headers = await in_era(place, era)
    answer = await place.post(request_of(era, ADD), {**headers, "Content-Type": kind})
    assert (answer.status, answer.code) == (415, -32600)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip", "x"])
async def test_a_compressed_body_is_refused_unread(place: Place, coding: str) -> None:
    answer = await place.post(modern("tools/call", ADD), {"Content-Encoding": coding})
    assert answer.status == 415


@pytest.mark.parametrize("kind", ["application/json;charset=utf-8", "Application/JSON", "application/json ; a=b"])
async def test_the_type_may_be_written_in_other_ways(kind: str) -> None:
    async with serving() as place:
        assert (await place.post(modern("tools/call", ADD), {"Content-Type": kind})).text == "3"


async def test_of_a_key_that_comes_twice_the_headers_must_name_the_one_that_counts(place: Place) -> None:
    twice = GOOD.replace(b'"name": "add"', b'"name": "who", "name": "add"')
    assert b'"who"' in twice
    headers = modern_headers(modern("tools/call", ADD))
    assert (await place.send(twice, headers | {"Mcp-Name": "who"})).code == -32020
    twice = GOOD.replace(b'"method": "tools/call"', b'"method": "tools/list", "method": "tools/call"')
    assert (await place.send(twice, headers | {"Mcp-Method": "tools/list"})).code == -32020


async def test_a_client_that_takes_only_json_gets_json(era: str) -> None:
    async with serving() as place:
        place.tools.release.set()
        headers = await in_era(place, era)
        answer = await place.post(
            request_of(era, call("talk")), {**headers, "Mcp-Name": "talk", "Accept": "application/json"}
        )
        assert answer.header("content-type") == "application/json"
        assert answer.text == "released"
