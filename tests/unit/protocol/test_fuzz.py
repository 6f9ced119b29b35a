"""Mutated bytes as input of the parsers: no crash, and the same results as the model, however the input is split.

The seed is fixed, so a failure can be reproduced; it names its input."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.unit.protocol.streams import REAL, cut, fed, model
from toolcrib.errors import ProtocolError
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.framing import LineFramer
from toolcrib.protocol.sse import SseParser

ROUNDS = {"quick": 1_000, "all": 5_000, "nightly": 20_000}
"""Mutations in each tier."""
LONGEST = 400
EVENT_WORDS = [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b":", b" ", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xe4\xb8", b"\xed\xa0\x80"),
    *(b"data", b"data:", b"data: ", b"event: ", b"id: ", b"retry: ", b"0", b"99999999999999999999", b"x" * 50),
]
JSON = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[1,2.5,null,true]}}}',
    b'{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"\\u00e9\\ud83c\\udf0d \xe4\xb8\x96"}]}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no","data":{"a":{"b":[[[[]]]]}}}}',
    b'[{"jsonrpc":"2.0","method":"notifications/initialized"},1e5,-0.0,12345678901234567890]',
]
JSON_WORDS = [
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\u", b"\\ud800", b"null", b"1e999", b"-", b"NaN", b"\xff", b"\0"),
    *(b"[" * 200, b'{"":' * 150, b"9" * 50, b"\n", b"\r\n"),
]


def mutated(rng: random.Random, corpus: list[bytes], words: list[bytes]) -> bytes:
    """Return an input of the corpus with a few changes: flipped bits, inserted words, pieces removed or doubled."""
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.randint(1, 6)):
        at = rng.randint(0, len(data))
        to = min(len(data), at + rng.randint(0, 20))
        match rng.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at:at] = rng.randbytes(1)
            case 2:
                data[at:at] = rng.choice(words)
            case 3:
                del data[at:to]
            case 4:
                data[at:at] = data[at:to] * rng.randint(1, 4)
            case _:
                data[at:] = rng.choice(corpus)[-rng.randint(1, 60) :]
    return bytes(data[:LONGEST])


def cuts(rng: random.Random, data: bytes) -> list[bytes]:
    return cut(data, [rng.randint(0, len(data)) for _ in range(rng.randint(0, 8))])


@contextmanager
def named(data: bytes) -> Iterator[None]:
    """Add the input to any failure."""
    try:
        yield
    except BaseException as exc:
        exc.add_note(f"input: {data!r}")
        raise


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    return ROUNDS[pytestconfig.getoption("tier")]


def fuzz(rounds: int, corpus: list[bytes], words: list[bytes], check: Callable[[random.Random, bytes], None]) -> None:
    rng = random.Random(20260728)
    for _ in range(rounds):
        data = mutated(rng, corpus, words)
        with named(data):
            check(rng, data)


def test_the_event_stream_survives_every_mutation(rounds: int) -> None:
    def check(rng: random.Random, data: bytes) -> None:
        expected = model(data)
        assert fed(SseParser(), [data]) == expected
        assert fed(SseParser(), cuts(rng, data)) == expected
        limit = rng.randint(0, 60)
        assert fed(SseParser(limit), cuts(rng, data)) == fed(SseParser(limit), [data])

    fuzz(rounds, REAL, EVENT_WORDS, check)


def test_the_framer_survives_every_mutation(rounds: int) -> None:
    def check(rng: random.Random, data: bytes) -> None:
        framer = LineFramer()
        lines = [line.rstrip(b"\r") for line in data.split(b"\n")[:-1]]
        assert [line for chunk in cuts(rng, data) for line in framer.feed(chunk)] == [line for line in lines if line]

    fuzz(rounds, JSON, JSON_WORDS, check)


def test_a_message_is_read_or_refused_and_what_is_read_can_be_written(rounds: int) -> None:
    read = 0

    def check(_: random.Random, data: bytes) -> None:
        nonlocal read
        try:
            value = jsonrpc.decode(data)
        except ProtocolError:
            return
        read += 1
        assert jsonrpc.decode(jsonrpc.encode(value)) == value

    fuzz(rounds, JSON, JSON_WORDS, check)
    assert 0 < read < rounds
