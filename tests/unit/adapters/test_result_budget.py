"""The budget of a result: what is cut, and what is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.adapters import ContentPart, ToolAnswer
from toolcrib.adapters.result_budget import KeptResults, answer_read_more, limit_answer
from toolcrib.catalog.tokens import BYTES_PER_TOKEN


def text(value: str) -> ContentPart:
    return ContentPart("text", value)


def test_kept_results_are_bounded_in_number_and_size() -> None:
    kept = KeptResults(max_results=3, max_bytes=1000)
    handles = [kept.add(text(f"{n}")) for n in range(4)]
    assert [kept.get(handle) is not None for handle in handles] == [False, True, True, True]
    assert kept.get(handles[1]) is not None  # used last
    large = kept.add(ContentPart("file", data=b"x" * 995))
    assert kept.get(large) is not None and kept.get(handles[1]) is not None and kept.get(handles[2]) is None
    assert kept.add(ContentPart("file", data=b"x" * 1001)) is None
    assert kept.get(None) is None


def test_what_fits_is_unchanged() -> None:
    answer = ToolAnswer((text("a" * 35), ContentPart("link", "l", uri="u:")))
    assert limit_answer(answer, 100, KeptResults()) is answer
    assert limit_answer(answer, None, KeptResults()) is answer


def test_what_is_too_large_to_be_kept_says_so() -> None:
    answer = limit_answer(ToolAnswer((text("a" * 1000),)), 10, KeptResults(max_bytes=10))
    assert "too large to be kept" in answer.text and "read_more" not in answer.text


def test_order_and_errors_are_kept() -> None:
    file = ContentPart("file", data=b"x" * 1000, mime_type="application/pdf", uri="file:///a.pdf")
    answer = limit_answer(ToolAnswer((text("one"), file, text("two")), is_error=True), 100, KeptResults())
    assert answer.is_error and [part.text[:3] for part in answer.parts] == ["one", "[fi", "two"]


@pytest.mark.parametrize("offset", [-1, 10_000, "2", True, 1.5])
def test_wrong_offsets_are_errors(offset: object) -> None:
    kept = KeptResults()
    handle = kept.add(text("abc"))
    answer = answer_read_more({"handle": handle, "offset": offset}, None, kept)
    assert answer.is_error and "expected a number from 0 to 2" in answer.text
    assert answer_read_more({"handle": handle, "offset": None}, None, kept).text == "abc"


@given(st.text(min_size=1, max_size=300), st.integers(1, 40))
def test_the_pieces_of_any_text_fit_and_make_the_whole(whole: str, budget: int) -> None:
    kept = KeptResults()
    handle, read, pieces = kept.add(text(whole)), "", 0
    while len(read) < len(whole):
        found = answer_read_more({"handle": handle, "offset": len(read)}, budget, kept).text
        piece = found.rpartition("\n[Cut: characters ")[0] if found != whole[len(read) :] else found
        assert piece and len(piece.encode("utf-8", "replace")) <= max(4, budget * BYTES_PER_TOKEN)
        read += piece
        pieces += 1
    assert read == whole


def test_many_parts_are_limited_in_linear_time() -> None:
    """Comparing each part with each other took minutes."""
    images = [ContentPart("image", data=b"x" * 2000, mime_type="image/tiff", uri=f"file:///{n}") for n in range(20_000)]
    texts = [text(f"line {n}") for n in range(20_000)]
    answer = limit_answer(ToolAnswer((*texts, *images)), 100, KeptResults())
    assert len(answer.parts) == 20_001 and "[Cut:" in answer.parts[0].text
