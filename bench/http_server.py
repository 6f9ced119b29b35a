"""The HTTP server that every client calls: a bare asyncio protocol, so that the client dominates the result.

It supports both protocol eras, prints its port, and exits when its standard input ends. `--cpu N` pins it to one
processor. The path determines how a call is answered:

    /mcp            as JSON
    /sse-answers    as an event stream whose end is written separately, as real servers do
    .../slow        after 50 ms
    .../guarded     only with the bearer token
"""

import asyncio
import os
import re
import sys
from functools import cache
from typing import Any, NamedTuple

from echo_server import METHODS, dumps, loads

TOKEN = b"bench"
SLOW = 0.05
SESSION = b"Mcp-Session-Id: bench\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
ENDED = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
NO_STREAM = b"HTTP/1.1 405 Method Not Allowed\r\nAllow: POST, DELETE\r\nContent-Length: 0\r\n\r\n"
UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"
EVENTS_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

content_length = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE).search
authorised = re.compile(rb"\r\nauthorization: Bearer %s(?:\r\n|$)" % TOKEN, re.IGNORECASE).search


class Way(NamedTuple):
    """How the server answers calls to a path."""

    events: bool
    slow: bool
    guarded: bool


@cache
def way_of(path: bytes) -> Way:
    words = path.split(b"/")
    return Way(b"sse-answers" in words, b"slow" in words, b"guarded" in words)


def answer(message: dict[str, Any]) -> bytes:
    method = METHODS.get(message["method"])
    if method is None:
        error = {"code": -32601, "message": "Method not found"}
        return dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
    result = method(message.get("params") or {})
    return dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


class Exchanges(asyncio.Protocol):
    """One connection: answers requests that have a `Content-Length`, one after the other."""

    def __init__(self) -> None:
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.write = transport.write

    def data_received(self, data: bytes) -> None:
        data = self.rest + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head = data[:end]
            length = content_length(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(data) < whole:
                break
            verb, path, _ = head.split(b" ", 2)
            self.on_request(verb, way_of(path), head, data[end + 4 : whole])
            data = data[whole:]
        self.rest = data

    def on_request(self, verb: bytes, way: Way, head: bytes, body: bytes) -> None:
        if way.guarded and not authorised(head):
            self.write(UNAUTHORIZED)
        elif verb != b"POST":
            self.write(ENDED if verb == b"DELETE" else NO_STREAM)
        else:
            message = loads(body)
            if "id" not in message:
                self.write(ACCEPTED)
            elif message["method"] != "tools/call":
                self.as_json(answer(message), SESSION if message["method"] == "initialize" else b"")
            else:
                reply = self.as_events if way.events else self.as_json
                if way.slow:
                    asyncio.get_running_loop().call_later(SLOW, reply, answer(message))
                else:
                    reply(answer(message))

    def as_json(self, body: bytes, header: bytes = b"") -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
        self.write(head % (header, len(body)) + body)

    def as_events(self, body: bytes) -> None:
        event = b"event: message\ndata: %s\n\n" % body
        self.write(EVENTS_HEAD + b"%x\r\n%s\r\n" % (len(event), event))
        self.write(LAST_CHUNK)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    left = asyncio.Event()
    loop.add_reader(0, left.set)
    server = await loop.create_server(Exchanges, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await left.wait()
    server.close()


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--cpu":
        os.sched_setaffinity(0, {int(sys.argv[2])})
    asyncio.run(serve())


if __name__ == "__main__":
    sys.exit(main())
