"""ASGI helpers: bodies and their limits, refusals, the parts of a message, significant headers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.kit import Clock, eventually, turns
from tests.unit.server.serving.asgi_kit import In, Out, scope
from toolcrib.server.serving import asgi
from toolcrib.server.serving.asgi import (
    AsgiApp,
    ClientDisconnected,
    Receive,
    Refused,
    Scope,
    Send,
    check_duplicates,
    parts,
    path_of,
    read_body,
    takes_events,
    text_headers,
    wait_for_disconnect,
)

# ---- bodies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [(b"",), (b"abc",), (b"a", b"", b"bc"), (b"abcde", b"fghij"), (b"0123456789", b"")])
async def test_a_body_is_whole_however_it_comes(sent: tuple[bytes, ...]) -> None:
    assert await read_body(In(*sent), {}, 10) == b"".join(sent)


async def test_an_event_without_a_body_is_an_empty_part() -> None:
    receive = In(b"abc", ends=False)
    receive.events.append({"type": "http.request"})
    assert await read_body(receive, {}, 10) == b"abc"


@pytest.mark.parametrize("sent", [(b"x" * 11,), (b"x" * 10, b"x"), (b"x", b"x" * 10)])
async def test_a_body_above_the_limit_is_refused_when_it_has_been_read(sent: tuple[bytes, ...]) -> None:
    receive = In(*sent, b"more", b"and more")
    with pytest.raises(Refused) as caught:
        await read_body(receive, {}, 10)
    assert (caught.value.status, caught.value.headers) == (413, ((b"connection", b"close"),))
    assert receive.events == [], "a client that still writes would not read the answer"


async def test_a_complete_body_is_not_waited_for() -> None:
    receive = In(b"x" * 5, b"y" * 6)
    with pytest.raises(Refused):
        await read_body(receive, {}, 10)
    assert receive.asked == 2


async def test_a_body_that_says_it_is_too_large_is_thrown_away_unread() -> None:
    for length, status in ((b"10", 0), (b"11", 413), (b"9" * 30, 413)):
        receive = In(b"x" * 5, b"y" * 5)
        if not status:
            assert await read_body(receive, {b"content-length": length}, 10) == b"xxxxxyyyyy"
            continue
        with pytest.raises(Refused) as caught:
            await read_body(receive, {b"content-length": length}, 10)
        assert caught.value.status == status
        assert receive.events == []


async def test_a_length_of_thousands_of_digits_is_too_large_and_no_fault() -> None:
    with pytest.raises(Refused) as caught:
        await read_body(In(), {b"content-length": b"9" * 5_000}, 10)
    assert caught.value.status == 413


@pytest.mark.parametrize("length", [b"", b"-1", b"1e3", b"\xb2", b"ten", b"+5"])
async def test_an_invalid_length_decides_nothing(length: bytes) -> None:
    assert await read_body(In(b"abc"), {b"content-length": length}, 10) == b"abc"
    with pytest.raises(Refused):
        await read_body(In(b"x" * 11), {b"content-length": length}, 10)


async def test_a_client_that_asks_before_sending_too_much_is_not_waited_for() -> None:
    receive = In(ends=False)
    with pytest.raises(Refused):
        await read_body(receive, {b"content-length": b"11", b"expect": b"100-continue"}, 10)
    assert receive.asked == 0


async def test_the_patience_with_a_body_too_large_ends_with_time() -> None:
    clock = Clock()
    reading = asyncio.create_task(read_body(In(b"x" * 11, ends=False), {}, 10))
    await turns()
    assert not reading.done()
    await clock.advance(asgi.LINGER_SECONDS + 0.1)
    with pytest.raises(Refused):
        await reading


async def test_the_patience_with_a_body_too_large_ends_with_its_size() -> None:
    receive = In(*([b"x" * 10] * 20), ends=False)
    with pytest.raises(Refused):
        await read_body(receive, {}, 10)
    assert len(receive.events) == 20 - 2 - 4


async def test_a_client_that_leaves_before_it_has_said_everything_is_gone() -> None:
    receive = In(b"abc", ends=False)
    receive.left.set()
    with pytest.raises(ClientDisconnected):
        await read_body(receive, {}, 10)
    receive = In(b"x" * 11, ends=False)
    receive.left.set()
    with pytest.raises(Refused):  # it had said too much already
        await read_body(receive, {}, 10)


async def test_only_a_disconnect_means_that_a_client_has_gone() -> None:
    receive = In(b"more", b"and more")
    waiting = asyncio.create_task(wait_for_disconnect(receive))
    await eventually(lambda: receive.asked == 3)
    assert not waiting.done()
    receive.left.set()
    await waiting


# ---- answers -------------------------------------------------------------------------------------------------


async def test_a_whole_response_has_a_length_and_a_type_only_if_there_is_a_body() -> None:
    out = Out()
    await asgi.reply(out, 200, b"{}", (b"mcp-session-id", b"x"))
    assert (out.status, out.body, out.ended) == (200, b"{}", True)
    assert (out.header("content-type"), out.header("content-length")) == ("application/json", "2")
    assert out.header("mcp-session-id") == "x"
    empty = Out()
    await asgi.reply(empty, 202)
    assert (empty.status, empty.body, empty.ended) == (202, b"", True)
    assert (empty.header("content-type"), empty.header("content-length")) == (None, "0")


async def test_a_refusal_is_an_error_of_json_rpc_that_names_its_request_if_there_is_one() -> None:
    out = Out()
    await Refused(400, "no", code=-5, id=7, headers=((b"allow", b"POST"),)).reply(out)
    assert (out.status, out.header("allow")) == (400, "POST")
    assert out.json == {"jsonrpc": "2.0", "id": 7, "error": {"code": -5, "message": "no"}}
    nameless = Out()
    await Refused(421, "no").reply(nameless)
    assert nameless.json == {"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}}


async def test_where_no_mcp_is_spoken_a_refusal_is_plain_text() -> None:
    out = Out()
    await Refused(404, "nothing is here", plain=True, headers=((b"allow", b"POST"),)).reply(out)
    assert (out.status, out.body) == (404, b"nothing is here\n")
    assert (out.header("content-type"), out.header("allow")) == ("text/plain; charset=utf-8", "POST")


# ---- an app --------------------------------------------------------------------------------------------------


class Small(AsgiApp):
    """An app that raises a given exception, or answers."""

    def __init__(self, raises: BaseException | None = None) -> None:
        self.raises = raises
        self.closed = 0

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.raises is not None:
            raise self.raises
        await asgi.reply(send, 200, scope["path"].encode())

    async def drain(self, seconds: float) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed += 1


async def test_an_app_answers_refuses_and_sends_nothing_to_a_client_that_has_gone() -> None:
    out = Out()
    await Small()(scope(), In(), out)
    assert out.body == b"/mcp"
    refused = Out()
    await Small(Refused(418, "no"))(scope(), In(), refused)
    assert refused.status == 418
    gone = Out()
    await Small(ClientDisconnected())(scope(), In(), gone)
    assert gone.events == []
    with pytest.raises(ZeroDivisionError):
        await Small(ZeroDivisionError())(scope(), In(), Out())


async def test_a_life_span_closes_the_app_before_it_is_over() -> None:
    app, said = Small(), []
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Any:
        return events.pop(0)

    async def send(event: Any) -> None:
        said.append((event["type"], app.closed))

    await app({"type": "lifespan"}, receive, send)
    assert said == [("lifespan.startup.complete", 0), ("lifespan.shutdown.complete", 1)]


async def test_a_websocket_is_closed() -> None:
    said: list[Any] = []

    async def send(event: Any) -> None:
        said.append(event)

    await Small()({"type": "websocket"}, In(), send)
    assert said == [{"type": "websocket.close", "code": 1000}]


@pytest.mark.parametrize(
    "path, root, below",
    [
        *(
            ("/mcp", "", "/mcp"),
            ("/crib/mcp", "/crib", "/mcp"),
            ("/crib/mcp", "/crib/", "/mcp"),
            ("/crib", "/crib", ""),
        ),
        *(("/mcp", "/crib", "/mcp"), ("/cribx/mcp", "/crib", "/cribx/mcp"), ("/crib/crib", "/crib", "/crib")),
    ],
)
def test_the_path_is_the_one_below_the_place_where_the_app_is_mounted(path: str, root: str, below: str) -> None:
    assert path_of({"path": path, "root_path": root}) == below
    assert root or path_of({"path": path}) == below


# ---- headers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept",
    [None, "*/*", "text/*", "text/event-stream", "application/json, text/event-stream;q=0.9", "Text/Event-Stream"],
)
def test_a_client_that_takes_event_streams_gets_them(accept: str | None) -> None:
    assert takes_events({} if accept is None else {b"accept": accept.encode()})


@pytest.mark.parametrize("accept", ["", "application/json", "application/*", "text/html, image/*"])
def test_a_client_that_does_not_take_event_streams_gets_none(accept: str) -> None:
    assert not takes_events({b"accept": accept.encode()})


def test_headers_are_text_of_latin_1() -> None:
    assert text_headers({b"a": b"1", b"b": b"\xe9\xff"}) == {"a": "1", "b": "\xe9\xff"}


@pytest.mark.parametrize(
    "name",
    [
        "host",
        "origin",
        "authorization",
        "content-type",
        "content-length",
        "last-event-id",
        "mcp-session-id",
        "mcp-param-x",
    ],
)
@pytest.mark.parametrize("value", [b"1", b"2"])
def test_of_a_header_that_decides_there_is_one(name: str, value: bytes) -> None:
    every = [(b"accept", b"*/*"), (name.encode(), b"1"), (b"cookie", b"c"), (name.encode(), value)]
    with pytest.raises(Refused, match=f"{name}: sent more than once") as caught:
        check_duplicates(every, dict(every))
    assert (caught.value.status, caught.value.code) == (400, -32020)


def test_other_headers_may_come_more_than_once() -> None:
    every = [(name, b"x") for name in (b"accept", b"cookie", b"accept", b"x-forwarded-for", b"cookie", b"host")]
    check_duplicates(every, dict(every))


# ---- messages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message, said",
    [
        ({"id": 1, "method": "m"}, (1, "m", {})),
        ({"id": "x", "method": "m", "params": {"a": 1}}, ("x", "m", {"a": 1})),
        ({"id": 0, "method": "", "params": {"_meta": {}}}, (0, "", {"_meta": {}})),
        ({"method": "m"}, (None, "m", {})),
        ({"id": 1, "result": {}}, (1, None, {})),
        ({"id": "1", "error": {"code": 1, "message": "x"}}, ("1", None, {})),
    ],
)
def test_a_message_has_an_id_a_method_and_params(message: Any, said: Any) -> None:
    assert parts({"jsonrpc": "2.0", **message}) == said


@pytest.mark.parametrize(
    "message, code, id",
    [
        *((wrong, -32600, None) for wrong in (None, 5, "x", [], {}, {"jsonrpc": "1.0", "id": 1, "method": "m"})),
        *(({"jsonrpc": "2.0", "id": wrong, "method": "m"}, -32600, None) for wrong in (None, True, 1.5, [1], {})),
        *(({"jsonrpc": "2.0", "id": 1, "method": wrong}, -32600, 1) for wrong in (None, 5, ["m"], {})),
        *(({"jsonrpc": "2.0", "id": 1, "method": "m", "params": wrong}, -32602, 1) for wrong in (None, 5, [], "x")),
        *(
            ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"_meta": wrong}}, -32602, 1)
            for wrong in (None, 5, [])
        ),
        ({"jsonrpc": "2.0"}, -32600, None),
        ({"jsonrpc": "2.0", "id": 1}, -32600, None),
        ({"jsonrpc": "2.0", "result": {}}, -32600, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, -32600, None),
    ],
)
def test_a_non_message_is_refused(message: Any, code: int, id: Any) -> None:
    with pytest.raises(Refused) as caught:
        parts(message)
    assert (caught.value.status, caught.value.code, caught.value.id) == (400, code, id)
