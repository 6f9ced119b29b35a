"""Behaviours of the bad web server: ANSWERS fail before or after a call is executed, TOOLS do what a tool may do.

The first line of a docstring describes the behaviour and its values. In texts, `$ID` is the id of the request.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import zlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.http_mcp import Request

Behaviour = Callable[["Request", dict[str, Any]], Awaitable[None]]

ANSWERS: dict[str, Behaviour] = {}
TOOLS: dict[str, Behaviour] = {}
BLOCK = 64 * 1024


def entry(table: dict[str, Behaviour]) -> Callable[[Behaviour], Behaviour]:
    def put(function: Behaviour) -> Behaviour:
        table[function.__name__.rstrip("_")] = function
        return function

    return put


def filled(request: Request, value: str | None) -> bytes:
    """Return the text as bytes; `base64:...` encodes any bytes."""
    text = value or ""
    data = base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()
    return data.replace(b"$ID", json.dumps(request.id).encode())


async def leave(request: Request, how: str) -> None:
    """End a body: "end" complete, "fin" or "reset" in the middle, "hang" never."""
    if how == "end":
        await request.end()
    elif how == "fin":
        request.connection.close()
    elif how == "reset":
        request.connection.reset()
    else:
        await asyncio.Event().wait()


# --- ANSWERS


@entry(ANSWERS)
async def status(request: Request, how: dict[str, Any]) -> None:
    """any answer: {"status", "type", "headers", "body"}"""
    headers = dict(how.get("headers") or {})
    if how.get("type"):
        headers["Content-Type"] = how["type"]
    await request.respond(how.get("status", 200), headers, filled(request, how.get("body")))


@entry(ANSWERS)
async def raw(request: Request, how: dict[str, Any]) -> None:
    """bytes that need not be HTTP: {"bytes", "then": "hang" | "fin" | "reset"}"""
    await request.raw(filled(request, how["bytes"]))
    await leave(request, how.get("then", "fin"))


@entry(ANSWERS)
async def events(request: Request, how: dict[str, Any]) -> None:
    """an event stream of this text: {"text", "then": "end" | "fin" | "reset" | "hang"}"""
    await request.head(200, {"Content-Type": "text/event-stream"}, chunked=True)
    if how.get("text"):
        await request.part(filled(request, how["text"]))
    await leave(request, how.get("then", "end"))


@entry(ANSWERS)
async def silent(request: Request, how: dict[str, Any]) -> None:
    """never sends a head; or a head and no body: {"head": bool}"""
    if how.get("head"):
        await request.head(200, {"Content-Type": "application/json", "Content-Length": "100"})
    await asyncio.Event().wait()


@entry(ANSWERS)
async def die(request: Request, how: dict[str, Any]) -> None:
    """ends the connection: {"then": "fin" | "reset", "after": "nothing" | "head" | "body"}"""
    whole = json.dumps(request.texts(request.nonce)).encode()
    if how.get("after") in ("head", "body"):
        await request.head(200, {"Content-Type": "application/json", "Content-Length": str(len(whole))})
    if how.get("after") == "body":
        await request.raw(whole[:-10])
    await leave(request, how.get("then", "reset"))


@entry(ANSWERS)
async def drip(request: Request, how: dict[str, Any]) -> None:
    """a correct answer, one byte every `every` seconds: {"every", "of": "head" | "body" | "event"}"""
    if how.get("of") == "event":
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        body = f"data: {json.dumps(request.texts(request.nonce))}\n\n"
    else:
        body = json.dumps(request.texts(request.nonce))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    at_once, slowly = ("", head + body) if how.get("of") == "head" else (head, body)
    await request.raw(at_once.encode())
    for byte in slowly.encode():
        await request.raw(bytes([byte]))
        await asyncio.sleep(how.get("every", 0.2))


@entry(ANSWERS)
async def redirect(request: Request, how: dict[str, Any]) -> None:
    """a redirect: {"to", "status"}"""
    await request.respond(how.get("status", 307), {"Location": how["to"]} if how.get("to") else {})


def frame(request: Request, shape: str) -> tuple[bytes, bytes]:
    """Return the parts before and after the padding of a large answer."""
    before, after = json.dumps(request.complete({"content": [], "pad": "|"})).split("|")
    if shape == "event":
        return b"data: " + before.encode(), after.encode() + b"\n\n"
    if shape == "lines":  # many data lines of one event, so that no single line is long
        return b"data: " + before.encode() + b'", "pads": [', b'""]' + after.encode()[1:] + b"\n\n"
    return before.encode(), after.encode()


def blocks(size: int | None) -> Iterator[int]:
    left = size
    while left is None or left > 0:
        yield BLOCK if left is None else min(BLOCK, left)
        left = None if left is None else left - BLOCK


@entry(ANSWERS)
async def huge(request: Request, how: dict[str, Any]) -> None:
    """this many bytes (none: endless): {"size", "as": json | event | lines | comment, "length", "status", "type"}"""
    shape = how.get("as", "json")
    before, after = frame(request, shape)
    kind = {"Content-Type": how.get("type") or ("application/json" if shape == "json" else "text/event-stream")}
    status = how.get("status", 200)
    if how.get("length"):
        await request.head(status, {**kind, "Content-Length": str(len(before) + how["size"] + len(after))})
    else:
        await request.head(status, kind, chunked=True)
    await request.part(b": " if shape == "comment" else before)
    for size in blocks(how.get("size")):
        await request.part(b'"%s",\ndata: ' % (b"a" * (size - 10)) if shape == "lines" else b"a" * size)
        await asyncio.sleep(0)  # the kernel may take it all: others must get their turn
    await request.part(b"\n\n" + b"".join(frame(request, "event")) if shape == "comment" else after)
    await request.end()


@entry(ANSWERS)
async def bomb(request: Request, how: dict[str, Any]) -> None:
    """an answer that expands: {"encoding": "gzip" | "deflate", "size", "as": "json" | "event"}"""
    shape, encoding = how.get("as", "json"), how.get("encoding", "gzip")
    before, after = frame(request, shape)
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)

    def squeezed(data: bytes) -> bytes:
        return squeeze.compress(data) + squeeze.flush(zlib.Z_FULL_FLUSH)

    # After a full flush nothing refers back, so the same few bytes expand again and again.
    start = b"\x1f\x8b\x08\0\0\0\0\0\0\x03" if encoding == "gzip" else b"\x78\xda"
    start += squeezed(before)
    mega = squeezed(b"a" * (1 << 20))
    kind = "application/json" if shape == "json" else "text/event-stream"
    await request.head(200, {"Content-Type": kind, "Content-Encoding": encoding}, chunked=True)
    await request.part(start)
    for _ in range(how["size"] >> 20):
        await request.part(mega)
    await request.part(squeezed(after))
    await request.end()


@entry(ANSWERS)
async def squeezed(request: Request, how: dict[str, Any]) -> None:
    """a correct answer, compressed: {"encoding": "gzip" | "deflate" | "raw-deflate", "as": "json" | "event"}"""
    whole = json.dumps(request.texts(request.nonce)).encode()
    kind = "application/json"
    if how.get("as") == "event":
        whole, kind = b"data: " + whole + b"\n\n", "text/event-stream"
    bits = {"gzip": 31, "deflate": 15, "raw-deflate": -15}[how["encoding"]]
    squeeze = zlib.compressobj(9, zlib.DEFLATED, bits)
    headers = {"Content-Type": kind, "Content-Encoding": how["encoding"].removeprefix("raw-")}
    await request.respond(200, headers, squeeze.compress(whole) + squeeze.flush())


@entry(ANSWERS)
async def deep(request: Request, how: dict[str, Any]) -> None:
    """an answer with `depth` levels of nesting: {"depth", "as": "json" | "event"}"""
    depth = how["depth"]
    nested = '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)
    before, after = json.dumps(request.complete({"content": [], "structuredContent": "|"})).split('"|"')
    whole = (before + nested + after).encode()
    if how.get("as") == "event":
        return await request.respond(200, {"Content-Type": "text/event-stream"}, b"data: " + whole + b"\n\n")
    await request.respond(200, {"Content-Type": "application/json"}, whole)


def numbered(text: str, first: int, size: int) -> tuple[bytes, int]:
    """Return `size` bytes of events with this data, and their count; `$N` in it is the number of the event."""
    count = max(1, size // len(text))
    events = [b"data: %s\n\n" % text.replace("$N", str(first + n)).encode() for n in range(count)]
    if not text.startswith("{"):  # a message between them, or there would be too many in a row
        events.append(b'data: {"jsonrpc": "2.0", "method": "notifications/message"}\n\n')
    return b"".join(events), count


@entry(ANSWERS)
async def deluge(request: Request, how: dict[str, Any]) -> None:
    """many events with the same data, then the answer to a call; `$N` is their number: {"text", "size"}

    A GET starts sending when the test sets `release`. Over HTTP+SSE the events go to the session's stream.
    """
    out = request.session.listener if request.session is not None and request.session.listener else request
    if out is request:
        await request.head(200, {"Content-Type": "text/event-stream"}, chunked=True)
    else:
        await request.respond(202)
    if request.method == "GET":
        await request.server.release.wait()
    sent, count = 0, 0
    while sent < how["size"]:
        block, more = numbered(how["text"], count, BLOCK)
        await out.part(block)
        sent, count = sent + len(block), count + more
        await asyncio.sleep(0)  # the kernel may take it all: others must get their turn
    request.server.executed["deluge"] += 1
    if request.method == "GET":
        await asyncio.Event().wait()
    await out.part(b"data: %s\n\n" % json.dumps(request.texts("survived")).encode())
    if out is request:
        await request.end()


# --- TOOLS


@entry(TOOLS)
async def echo(request: Request, arguments: dict[str, Any]) -> None:
    """answers the nonce: the tool without a fault; {"as": "event"} in an event stream"""
    if arguments.get("as") == "event":
        await request.open_stream()
    await request.text(request.nonce)


@entry(TOOLS)
async def fail(request: Request, arguments: dict[str, Any]) -> None:
    """a tool's own error"""
    await request.result({"content": [{"type": "text", "text": str(request.nonce)}], "isError": True})


@entry(TOOLS)
async def refuse(request: Request, arguments: dict[str, Any]) -> None:
    """a JSON-RPC error: {"code", "status"}"""
    code = arguments.get("code", -32603)
    await request.error(code, "refused", {"nonce": request.nonce}, status=arguments.get("status", 200))


@entry(TOOLS)
async def slow(request: Request, arguments: dict[str, Any]) -> None:
    """answers after this many seconds, or when the test releases it: {"seconds"}"""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(arguments.get("seconds", 60)):
            await request.server.release.wait()
    await request.text(request.nonce)


@entry(TOOLS)
async def flood(request: Request, arguments: dict[str, Any]) -> None:
    """`count` notifications (none: endless), then the answer: {"count", "method"}"""
    method = arguments.get("method", "notifications/message")
    params = {"progressToken": request.meta.get("progressToken"), "progress": 1, "level": "info", "data": "x"}
    for _ in range(arguments["count"]) if arguments.get("count") else itertools.repeat(None):
        await request.notify(method, params)
        await asyncio.sleep(0)
    await request.text(request.nonce)


@entry(TOOLS)
async def tick(request: Request, arguments: dict[str, Any]) -> None:
    """progress every `every` seconds, `count` times, then the answer: {"every", "count"}"""
    for done in range(arguments["count"]):
        params = {"progressToken": request.meta.get("progressToken"), "progress": done + 1}
        await request.notify("notifications/progress", params)
        await asyncio.sleep(arguments["every"])
    await request.text(request.nonce)


@entry(TOOLS)
async def resumed(request: Request, arguments: dict[str, Any]) -> None:
    """cuts its stream, keeps its answer: {"retry", "then", "ticks", "seconds", "mid": within an event}"""
    await request.open_stream(ids=True)
    if "retry" in arguments:
        await request.part(f"retry: {arguments['retry']}\n\n".encode())
    for done in range(arguments.get("ticks", 0)):
        params = {"progressToken": request.meta.get("progressToken"), "progress": done + 1}
        await request.notify("notifications/progress", params)
    if arguments.get("mid"):
        await request.part(b'id: 9-9\ndata: {"jsonrpc": "2.0", "id": %d, "resu' % request.id)
    await leave(request, arguments.get("then", "end"))
    request.cut = True

    async def go_on() -> None:
        await asyncio.sleep(arguments.get("seconds", 0))
        await request.text(request.nonce)

    request.server.beside(go_on())


@entry(TOOLS)
async def elsewhere(request: Request, arguments: dict[str, Any]) -> None:
    """sends the answer on the standalone stream, keeps this one open: {"late": seconds}"""
    await request.open_stream()
    request.server.push(request.texts(request.nonce))
    await asyncio.Event().wait()


@entry(TOOLS)
async def ask(request: Request, arguments: dict[str, Any]) -> None:
    """sends a request to the client and answers its reply: {"method", "params"}"""
    method, params = arguments["method"], arguments.get("params", {})
    if request.modern:
        if "inputResponses" in request.params:
            return await request.text(json.dumps(request.params["inputResponses"]["it"]))
        wanted = {"it": {"method": method, "params": params}}
        return await request.result({"resultType": "input_required", "inputRequests": wanted, "requestState": "state"})
    assert request.session is not None
    ident = f"ask-{request.id}"
    request.session.asked[ident] = asyncio.get_running_loop().create_future()
    await request.say({"id": ident, "method": method, "params": params})
    answer = await request.session.asked[ident]
    await request.text(json.dumps(answer.get("result", answer.get("error"))))
