"""Event streams for the tests: real ones, ways to cut them, and a plain reading of the HTML standard."""

from __future__ import annotations

import itertools
import re

from toolcrib.protocol.framing import HEAD, Oversized
from toolcrib.protocol.sse import RETRY_DIGITS, SseEvent, SseParser

NO_LIMIT = 1 << 40

REAL = [
    b'event: message\r\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}]}}\r\n\r\n',
    b'data: {"method":"notifications/progress","params":{}}\n\nevent: message\ndata: {"id":2,"result":{}}\n\n',
    b'id: 7_1\r\ndata: \r\n\r\nid: 7_2\r\nretry: 500\r\nevent: message\r\ndata: {"jsonrpc":"2.0"}\r\n\r\n',
    b"event: endpoint\r\ndata: /messages/?session_id=0123456789abcdef\r\n\r\n: ping - 2026-07-28 10:00:00\r\n\r\n",
    b": this is a test stream\n\ndata: some text\n\ndata: another message\ndata: with two lines\n\n",
    b"data: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
    b"data\n\ndata\ndata\n\ndata:",
    b"\xef\xbb\xbfdata: \xe4\xb8\x96 \xf0\x9f\x8c\x8d\r\revent: \xc3\xa9\rid: \x00\rretry: 1x\rdata: \xff\xe4\r\r",
    b"retry: 3000\n\n:\r\n\r\nid: a\n\nunknown: x\nevent\ndata: y\n\n",
]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def fed(stream: SseParser, chunks: list[bytes]) -> list[SseEvent | Oversized]:
    return [event for chunk in chunks for event in stream.feed(chunk)]


def model(data: bytes, limit: int = NO_LIMIT) -> list[SseEvent | Oversized]:
    """Parse the whole stream at once, as the standard describes. A last block over the limit must be ended."""
    text = data.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    events: list[SseEvent | Oversized] = []
    block: list[tuple[str, str]] = []
    for line in re.split("\r\n|\n|\r", text)[:-1]:
        if line:
            name, _, value = line.partition(":")
            block.append((name, value[1:] if value[:1] == " " else value))
        elif block:
            events += parse_block(block, limit)
            block = []
    return events


def parse_block(block: list[tuple[str, str]], limit: int) -> list[SseEvent | Oversized]:
    def values(field: str) -> list[str]:
        return [value for name, value in block if name == field]

    data = "\n".join(values("data"))
    if len(data.encode()) > limit:
        return [Oversized(data.encode()[: min(HEAD, limit + 1)])]
    names = values("event")
    ids = [value for value in values("id") if "\0" not in value]
    times = [value for value in values("retry") if re.fullmatch(f"[0-9]{{1,{RETRY_DIGITS}}}", value)]
    if not (values("data") or ids or times):
        return []
    name = names[-1] if names else ""
    return [SseEvent(name or "message", data, ids[-1] if ids else None, int(times[-1]) if times else None)]
