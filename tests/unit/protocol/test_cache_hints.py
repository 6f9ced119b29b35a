"""Cache hints: the shortest lifetime and the narrowest scope of all pages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol.cache_hints import CacheHint, cache_hint

HINTS = st.builds(
    CacheHint,
    st.none() | st.floats(0, 1e9, allow_nan=False),
    st.sampled_from(["public", "private"]),
)


@pytest.mark.parametrize("ttl, seconds", [(300_000, 300.0), (1, 0.001), (0, 0.0), (-5, 0.0), (1.5, 0.0015)])
def test_a_lifetime_is_in_milliseconds_and_never_negative(ttl: Any, seconds: float) -> None:
    assert cache_hint({"ttlMs": ttl}).ttl == pytest.approx(seconds)


@pytest.mark.parametrize("ttl", [None, True, "300", [], {}])
def test_a_non_number_is_ignored(ttl: Any) -> None:
    assert cache_hint({"ttlMs": ttl}).ttl is None
    assert cache_hint({}).ttl is None


@pytest.mark.parametrize(
    "scope, understood", [("public", "public"), ("private", "private"), (None, "private"), ("shared", "private")]
)
def test_only_the_very_word_makes_an_answer_public(scope: Any, understood: str) -> None:
    assert cache_hint({"cacheScope": scope}).scope == understood


@given(HINTS, HINTS, HINTS)
def test_the_order_of_the_pages_does_not_matter(a: CacheHint, b: CacheHint, c: CacheHint) -> None:
    assert a.joined(b) == b.joined(a)
    assert a.joined(b).joined(c) == a.joined(b.joined(c))
    assert a.joined(a) == a


@given(HINTS, HINTS)
def test_joined_pages_are_never_fresher_nor_more_public_than_one_of_them(a: CacheHint, b: CacheHint) -> None:
    both = a.joined(b)
    for one in (a, b):
        assert one.ttl is None or (both.ttl is not None and both.ttl <= one.ttl)
        assert both.scope == "private" or one.scope == "public"
