"""Bytes to lines: however the stream is split, the lines are the same, in linear time and within the limit."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol.framing import HEAD, LineFramer, Oversized

MIB = 1024 * 1024
STREAMS = st.lists(st.sampled_from([b"a", b"{}", b"\n", b"\r\n", b"\r", b" ", b"\xff", b"long" * 10, b""])).map(
    b"".join
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def fed(framer: LineFramer, chunks: list[bytes]) -> list[bytes | Oversized]:
    return [line for chunk in chunks for line in framer.feed(chunk)]


@given(STREAMS | st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_the_lines_do_not_depend_on_how_the_bytes_are_cut(data: bytes, places: list[int]) -> None:
    whole = fed(LineFramer(), [data])
    assert fed(LineFramer(), cut(data, places)) == whole
    assert fed(LineFramer(), [bytes([byte]) for byte in data]) == whole


@given(st.binary(max_size=300))
def test_lines_are_separated_by_newlines(data: bytes) -> None:
    complete = data.split(b"\n")[:-1]
    assert LineFramer().feed(data) == [line.rstrip(b"\r") for line in complete if line.rstrip(b"\r")]


@given(STREAMS, st.lists(st.integers(0, 300)), st.integers(1, 50))
def test_the_cap_does_not_depend_on_how_the_bytes_are_cut(data: bytes, places: list[int], limit: int) -> None:
    def shape(lines: list[bytes | Oversized]) -> list[bytes | type]:
        return [line if isinstance(line, bytes) else Oversized for line in lines]

    # An oversized line is reported before its newline, so the stream is compared with its last line ended.
    data += b"\n"
    assert shape(fed(LineFramer(limit), cut(data, places))) == shape(fed(LineFramer(limit), [data]))


def test_a_line_of_exactly_the_cap_is_a_line_and_one_byte_more_is_not() -> None:
    assert LineFramer(10).feed(b"x" * 10 + b"\n") == [b"x" * 10]
    assert LineFramer(10).feed(b"x" * 11 + b"\n") == [Oversized(b"x" * 11)]


def test_an_oversized_line_is_reported_once_at_once_and_the_next_line_is_whole() -> None:
    framer = LineFramer(2 * HEAD)
    assert framer.feed(b"a" * 2 * HEAD) == []
    assert framer.feed(b"b") == [Oversized(b"a" * HEAD)]
    assert framer.feed(b"c" * 10_000) == []
    assert framer.feed(b"d\nnext\nrest") == [b"next"]
    assert framer.feed(b"\n") == [b"rest"]


def test_a_flood_without_a_newline_takes_no_memory() -> None:
    framer = LineFramer(1000)
    framer.feed(b"x" * 2000)
    for _ in range(100):
        assert framer.feed(b"x" * MIB) == []
    assert framer.feed(b"\nend\n") == [b"end"]
    assert len(framer._buffer) == 0


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_both_line_endings_and_blank_lines_are_accepted(ending: bytes) -> None:
    data = ending.join([b"", b"one", b"", b"", b"two", b""])
    assert LineFramer().feed(data) == [b"one", b"two"]


def test_a_carriage_return_inside_a_line_stays() -> None:
    assert LineFramer().feed(b"a\rb\n") == [b"a\rb"]


def seconds_for(size: int, chunk: int) -> float:
    """Return the shortest of three times: the machine may be busy."""
    best = float("inf")
    piece = b"x" * chunk
    for _ in range(3):
        framer = LineFramer(limit=2 * size)
        began = time.process_time()
        for _ in range(size // chunk):
            framer.feed(piece)
        lines = framer.feed(b"\n")
        best = min(best, time.process_time() - began)
        assert len(lines[0]) == size  # type: ignore[arg-type]
    return best


@pytest.mark.serial
def test_a_long_line_in_small_pieces_takes_linear_time() -> None:
    """Four times the bytes: four times the work. A quadratic framer takes sixteen times."""
    small, large = seconds_for(2 * MIB, 1024), seconds_for(8 * MIB, 1024)
    assert large < 10 * small
    assert large < 5


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_a_byte_order_mark_at_the_beginning_is_left_out_however_it_is_cut(size: int) -> None:
    data = MARK + b'{"a":1}\r\n' + MARK + b"x\n"
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert fed(LineFramer(), pieces) == [b'{"a":1}', MARK + b"x"]


@pytest.mark.parametrize("data, lines", [(MARK + b"\n\nx\n", [b"x"]), (MARK[:2] + b"x\n", [MARK[:2] + b"x"])])
def test_a_line_with_only_the_byte_order_mark_is_blank_and_half_a_mark_is_text(data: bytes, lines: list[bytes]) -> None:
    assert fed(LineFramer(), [data]) == lines
    assert fed(LineFramer(), [bytes([byte]) for byte in data]) == lines
