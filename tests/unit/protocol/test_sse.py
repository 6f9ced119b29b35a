"""Bytes to events: as the HTML standard describes, however the stream is split, in linear time and within limits."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol.streams import REAL, cut, fed, model
from toolcrib.protocol.framing import HEAD, Oversized
from toolcrib.protocol.sse import MAX_FIELD, SseEvent, SseParser

KIB = 1024
MIB = KIB * KIB
PIECES = st.sampled_from(
    [
        *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n"),
        *(b":", b" ", b": ", b"\0", b"\t", b"", b"\xef\xbb\xbf", b"\xef", b"\xc3\xa9", b"\xff", b"\xe4\xb8"),
        *(b"data", b"data:", b"data: ", b"event: ", b"id: ", b"retry: ", b"retry:12", b"event", b"id", b"retry"),
        *(b"message", b"{}", b"7", b"12345678901234567890", b"long" * 10, b"dat", b"Data: x", b"unknown: y"),
    ]
)
STREAMS = st.lists(PIECES, max_size=40).map(b"".join) | st.binary(max_size=300)
CUTS = st.lists(st.integers(0, 300))


def one(data: bytes) -> SseEvent:
    (event,) = SseParser().feed(data)
    assert isinstance(event, SseEvent)
    return event


@given(STREAMS)
def test_the_events_are_those_of_the_standard(data: bytes) -> None:
    assert SseParser().feed(data) == model(data)


@pytest.mark.parametrize("data", REAL, ids=range(len(REAL)))
def test_real_streams_are_read_as_the_standard_says_at_every_cut(data: bytes) -> None:
    expected = model(data)
    assert len(expected) >= 1
    for place in range(len(data) + 1):
        assert fed(SseParser(), cut(data, [place])) == expected
    assert fed(SseParser(), [bytes([byte]) for byte in data]) == expected


@given(STREAMS, CUTS)
def test_the_events_do_not_depend_on_how_the_bytes_are_cut(data: bytes, places: list[int]) -> None:
    whole = fed(SseParser(), [data])
    assert fed(SseParser(), cut(data, places)) == whole
    assert fed(SseParser(), [bytes([byte]) for byte in data]) == whole


@given(STREAMS, CUTS, st.integers(0, 50))
def test_the_cap_does_not_depend_on_how_the_bytes_are_cut(data: bytes, places: list[int], limit: int) -> None:
    whole = fed(SseParser(limit), [data])
    assert fed(SseParser(limit), cut(data, places)) == whole
    assert fed(SseParser(limit), [bytes([byte]) for byte in data]) == whole


@given(st.lists(PIECES.filter(bytes.isascii), max_size=40).map(b"".join), st.integers(0, 50))
def test_text_beyond_the_cap_is_reported_in_its_place_and_nothing_else_is_lost(data: bytes, limit: int) -> None:
    data += b"\n\n"
    assert SseParser(limit).feed(data) == model(data, limit)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_all_three_line_endings_end_lines(ending: bytes) -> None:
    data = ending.join([b"event: e", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert SseParser().feed(data) == [SseEvent("e", "1\n2", None, None), SseEvent("message", "3", None, None)]


def test_a_carriage_return_at_the_end_of_a_chunk_delays_no_event() -> None:
    stream = SseParser()
    assert stream.feed(b"data: x\r\n\r") == [SseEvent("message", "x", None, None)]
    assert stream.feed(b"") == []
    assert stream.feed(b"\ndata: y\r\n\r\n") == [SseEvent("message", "y", None, None)]


def test_a_line_feed_that_ends_a_cut_crlf_ends_no_second_line() -> None:
    stream = SseParser()
    assert stream.feed(b"data: x\r") == []
    assert stream.feed(b"\n") == []
    assert stream.feed(b"\n") == [SseEvent("message", "x", None, None)]


def test_only_one_byte_order_mark_at_the_very_start_is_left_out() -> None:
    bom = b"\xef\xbb\xbf"
    assert one(bom + b"data: x\n\n").data == "x"
    assert SseParser().feed(bom + bom + b"data: x\n\n") == []
    assert SseParser().feed(b"\n" + bom + b"data: x\n\n") == []
    assert fed(SseParser(), [b"\xef", b"\xbb", b"\xbf", b"data: x\n\n"]) == [one(b"data: x\n\n")]
    assert fed(SseParser(), [b"\xef", b"\xbb", b"data: x\n\n"]) == []


def test_exactly_one_space_after_the_colon_is_removed() -> None:
    assert one(b"data:x\n\n").data == "x"
    assert one(b"data: x\n\n").data == "x"
    assert one(b"data:  x \n\n").data == " x "
    assert one(b"data:\tx\n\n").data == "\tx"
    assert one(b"data::x\n\n").data == ":x"


def test_a_field_without_a_colon_is_an_empty_field() -> None:
    assert one(b"data\n\n") == SseEvent("message", "", None, None)
    assert one(b"data\ndata\n\n").data == "\n"
    assert one(b"event: e\nevent\ndata: x\n\n").event == "message"
    assert one(b"id\ndata: x\n\n").id == ""


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert SseParser().feed(b": ping\n\n:\n\nfoo: bar\n\nfoo\n\n Data: x\n\n") == []
    assert one(b": c\ndata: x\n:data: y\nDATA: z\ndata-: w\n\n").data == "x"


def test_a_block_with_an_id_or_a_retry_and_no_data_primes_the_stream() -> None:
    assert one(b"id: 1\n\n") == SseEvent("message", "", "1", None)
    assert one(b"id: 1\ndata:\n\n") == SseEvent("message", "", "1", None)
    assert one(b"retry: 500\n\n") == SseEvent("message", "", None, 500)
    assert SseParser().feed(b"event: e\n\n\n\n") == []


def test_each_event_has_only_what_its_own_block_said() -> None:
    first, second = SseParser().feed(b"event: e\nid: 1\nretry: 5\ndata: x\n\ndata: y\n\n")
    assert first == SseEvent("e", "x", "1", 5)
    assert second == SseEvent("message", "y", None, None)


def test_a_name_without_data_does_not_stick_to_the_next_event() -> None:
    assert one(b"event: e\n\ndata: x\n\n").event == "message"


def test_an_id_that_holds_nul_is_not_an_id() -> None:
    assert one(b"id: a\0b\ndata: x\n\n").id is None
    assert one(b"id: a\nid: \0\ndata: x\n\n").id == "a"


@pytest.mark.parametrize("value", [b"", b"-1", b"1.5", b"1x", b"0x10", b" 5 ", "٣".encode(), "²".encode(), b"9" * 5000])
def test_a_retry_that_is_not_a_few_ascii_digits_is_ignored(value: bytes) -> None:
    assert one(b"data: x\nretry: " + value + b"\n\n").retry is None


@pytest.mark.parametrize("value, milliseconds", [(b"0", 0), (b"007", 7), (b"3000", 3000), (b"9" * 18, 10**18 - 1)])
def test_a_retry_is_milliseconds(value: bytes, milliseconds: int) -> None:
    assert one(b"retry:" + value + b"\n\n").retry == milliseconds


def test_non_utf8_is_replaced() -> None:
    assert one(b"event: \xff\nid: \xe4\xb8\ndata: a\xc3\ndata: \xa9b\n\n") == SseEvent("�", "a�\n�b", "�", None)


@pytest.mark.parametrize("data", [b"data: x", b"data: x\n", b"data: x\r\n", b"id: 1\ndata: x\n:c"])
def test_an_incomplete_event_is_dropped(data: bytes) -> None:
    assert SseParser().feed(data) == []


def test_data_of_exactly_the_cap_is_an_event_and_one_byte_more_is_not() -> None:
    assert SseParser(10).feed(b"data: " + b"x" * 10 + b"\n\n") == [SseEvent("message", "x" * 10, None, None)]
    assert SseParser(10).feed(b"data: " + b"x" * 11 + b"\n\n") == [Oversized(b"x" * 11)]
    assert SseParser(3).feed(b"data: a\ndata: b\n\n") == [SseEvent("message", "a\nb", None, None)]
    assert SseParser(2).feed(b"data: a\ndata: b\n\n") == [Oversized(b"a\nb")]


def test_an_oversized_event_is_reported_once_at_once_and_the_next_event_is_whole() -> None:
    stream = SseParser(2 * HEAD)
    assert stream.feed(b"id: 1\ndata: " + b"a" * 2 * HEAD) == []
    assert stream.feed(b"b") == [Oversized(b"a" * HEAD)]
    assert stream.feed(b"c" * 10_000 + b"\ndata: more\nid: 2\n") == []
    assert stream.feed(b"event: e\n\ndata: next\n\n") == [SseEvent("message", "next", None, None)]


def test_lines_of_data_are_judged_together_as_they_come() -> None:
    stream = SseParser(10)
    assert stream.feed(b"data: 12345\n") == []
    assert stream.feed(b"data: 6789") == []
    assert stream.feed(b"0") == [Oversized(b"12345\n67890")]
    assert stream.feed(b"\n\ndata: next\n\n") == [SseEvent("message", "next", None, None)]


@pytest.mark.parametrize("name", [b"event: ", b"id: ", b"retry: "])
def test_an_endless_field_is_reported_and_its_event_passed_over(name: bytes) -> None:
    fits, over = name + b"1" * (MAX_FIELD - len(name)), name + b"1" * (MAX_FIELD - len(name) + 1)
    for chunks in ([fits + b"\ndata: x\n\n"], [fits, b"\ndata: x\n\n"]):
        assert [event.data for event in fed(SseParser(), chunks) if isinstance(event, SseEvent)] == ["x"]
    for chunks in ([over + b"\ndata: x\n\n"], [over, b"\ndata: x\n\n"]):
        assert fed(SseParser(), chunks) == [Oversized(over[:HEAD])]
    stream = SseParser()
    assert stream.feed(b"data: x\n" + over) == [Oversized(over[:HEAD])]
    assert stream.feed(b"11\n\ndata: next\n\n") == [SseEvent("message", "next", None, None)]


@pytest.mark.parametrize("start", [b":", b"unknown: ", b"unknown", b"database"])
def test_an_endless_line_that_says_nothing_harms_no_event(start: bytes) -> None:
    stream = SseParser(100)
    assert stream.feed(b"data: x\n" + start + b"y" * MIB) == []
    assert stream.feed(b"y" * MIB) == []
    assert stream.feed(b"\n\n") == [SseEvent("message", "x", None, None)]
    assert stream.feed(b"data: x\n" + start + b"y" * MIB + b"\n\n") == [SseEvent("message", "x", None, None)]


# What an attacker may send for ever: how it begins, and what is repeated.
FLOODS = {
    "one line of data": (b"data: ", b"x" * 64),
    "one comment": (b":", b"x" * 64),
    "one name": (b"event: ", b"x" * 64),
    "one id": (b"id: ", b"x" * 64),
    "one unknown field": (b"", b"x" * 64),
    "lines of data": (b"", b"data: 0123456789\n"),
    "empty lines of data": (b"", b"data\n"),
    "ids": (b"", b"id: 0123456789\n"),
    "comments": (b"", b":\n"),
    "blank lines": (b"", b"\n"),
    "carriage returns": (b"", b"\r"),
    "nothing but colons": (b"", b":" * 64),
    "events": (b"", b"data: 0123456789\n\n"),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_no_flood_takes_memory(flood: str) -> None:
    start, piece = FLOODS[flood]
    chunk = piece * (4 * KIB // len(piece))
    stream = SseParser(limit=64 * KIB)
    stream.feed(start)
    tracemalloc.start()
    try:
        for _ in range(150):
            stream.feed(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # About 600 KiB have come. Held are the cap, what a growing buffer reserves, and the pieces of one chunk.
    assert peak < 384 * KIB


def seconds_for(size: int, feeding: Callable[[int], list[bytes]]) -> float:
    """Return the shortest of three CPU times: the machine may be busy."""
    chunks = feeding(size)
    best = float("inf")
    for _ in range(3):
        stream = SseParser(limit=2 * size)
        began = time.process_time()
        for chunk in chunks:
            stream.feed(chunk)
        stream.feed(b"\n\n")
        best = min(best, time.process_time() - began)
    return best


CHUNKS = {"bytes": 1, "kilobytes": 1024, "one chunk": 1 << 30}
REPRESENTATIVE = {
    ("one line of data", "bytes"),
    ("lines of data", "bytes"),
    ("one comment", "kilobytes"),
    ("carriage returns", "kilobytes"),
    ("blank lines", "one chunk"),
    ("events", "one chunk"),
}


@pytest.mark.serial
@pytest.mark.parametrize(
    "flood, chunks",
    [
        pytest.param(flood, chunks, marks=() if (flood, chunks) in REPRESENTATIVE else pytest.mark.nightly)
        for flood in FLOODS
        for chunks in CHUNKS
    ],
)
def test_four_times_the_bytes_take_four_times_the_work(flood: str, chunks: str) -> None:
    """A quadratic parser takes sixteen times as long. Very short times are compared with a floor."""
    (start, piece), chunk = FLOODS[flood], CHUNKS[chunks]

    def feeding(size: int) -> list[bytes]:
        data = start + piece * (size // len(piece))
        return [data[at : at + chunk] for at in range(0, len(data), chunk)]

    size = (32 if chunk == 1 else 128) * KIB
    small, large = seconds_for(size, feeding), seconds_for(4 * size, feeding)
    assert large < max(10 * small, 0.02)
    assert large < 5


@pytest.mark.serial
def test_a_long_line_in_small_pieces_takes_linear_time() -> None:
    def feeding(size: int) -> list[bytes]:
        return [b"data: ", *[b"x" * KIB] * (size // KIB)]

    small, large = seconds_for(2 * MIB, feeding), seconds_for(8 * MIB, feeding)
    assert large < 10 * small
    assert large < 5


def test_a_long_event_in_single_bytes_comes_out_whole() -> None:
    stream = SseParser()
    for byte in b"data: " + b"x" * 256 * KIB + b"\n":
        stream.feed(bytes([byte]))
    assert stream.feed(b"\n") == [SseEvent("message", "x" * 256 * KIB, None, None)]
