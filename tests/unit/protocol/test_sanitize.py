"""Untrusted text in errors and logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol.limits import SAMPLE
from toolcrib.protocol.sanitize import one_line, printable


@pytest.mark.parametrize(
    "evil",
    ["\x1b[31m", "\x07", "\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041", "\x00", "\x9b", "\u2028"],
    ids=["ansi", "bell", "bidi override", "bidi isolate", "zero width", "bom", "tag", "nul", "csi", "line separator"],
)
def test_what_could_fool_a_reader_or_a_terminal_is_replaced(evil: str) -> None:
    assert evil[0] not in printable(f"a{evil}b")
    assert printable(f"a{evil}b") == f"a\N{REPLACEMENT CHARACTER}{evil[1:]}b"
    assert evil[0] not in one_line(f"a{evil}b".encode())


def test_newlines_and_tabs_stay_unless_one_line_is_wanted() -> None:
    assert printable("a\n\tb") == "a\n\tb"
    assert one_line("  a\n\n\t b  ") == "a b"


def test_ordinary_text_of_any_language_stays() -> None:
    text = "na\u00efve \u65e5\u672c\u8a9e \u0639\u0631\u0628\u064a \U0001f600"
    assert printable(text) == printable(text.encode()) == text


def test_bytes_that_are_not_utf8_are_shown_as_far_as_possible() -> None:
    assert printable(b"ok \xff\xfe end") == "ok \ufffd\ufffd end"


@given(st.text() | st.binary(), st.integers(0, 300))
def test_it_is_always_short_and_printable(text: str | bytes, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    assert one_line(text).isprintable()
    assert len(one_line(text)) <= SAMPLE
