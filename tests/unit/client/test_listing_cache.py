"""The list cache: which freshness setting applies, with a clock that is an argument."""

from __future__ import annotations

import pytest

from toolcrib.client.listing import TTL, ListCache, Use
from toolcrib.protocol.cache_hints import CacheHint

ITEMS = ("a", "b")
SILENT, STALE, BRIEF = CacheHint(None), CacheHint(0.0), CacheHint(10.0)
LONG = CacheHint(1000.0)


def cached(hint: CacheHint) -> ListCache:
    cache = ListCache("stdio:python:server.py")
    cache.put("tools", ITEMS, hint, now=100.0)
    return cache


def test_the_key_names_the_server_and_the_kind() -> None:
    assert ListCache("stdio:python:server.py").key("tools") == "mcp:stdio:python:server.py:tools"


def test_our_own_life_is_five_minutes() -> None:
    assert TTL == 300.0


@pytest.mark.parametrize(
    "use, hint, life",
    [
        (Use.NEVER, SILENT, 0),
        (Use.NEVER, LONG, 0),
        (Use.HINTED, SILENT, 0),
        (Use.HINTED, STALE, 0),
        (Use.HINTED, BRIEF, 10),
        (Use.HINTED, LONG, 1000),
        (Use.ALWAYS, SILENT, 300),
        (Use.ALWAYS, STALE, 300),
        (Use.ALWAYS, BRIEF, 10),
        (Use.ALWAYS, LONG, 1000),
    ],
)
def test_a_list_lives_as_long_as_the_one_whose_word_counts_says(use: Use, hint: CacheHint, life: float) -> None:
    cache = cached(hint)
    assert cache.get("tools", 100.0, use) == (ITEMS if life else None)
    assert cache.get("tools", 100.0 + life, use) is None
    if life:
        assert cache.get("tools", 100.0 + life - 0.001, use) == ITEMS


def test_an_empty_list_is_a_list() -> None:
    cache = ListCache("s")
    cache.put("tools", (), SILENT, 0.0)
    assert cache.get("tools", 1.0, Use.ALWAYS) == ()


def test_a_new_list_replaces_the_old_one_and_its_life() -> None:
    cache = cached(LONG)
    cache.put("tools", ("c",), BRIEF, 100.0)
    assert cache.get("tools", 109.0, Use.ALWAYS) == ("c",)
    assert cache.get("tools", 111.0, Use.ALWAYS) is None


def test_lists_are_forgotten_by_kind_or_all() -> None:
    cache = cached(LONG)
    cache.put("prompts", ITEMS, LONG, 100.0)
    cache.drop("tools", "resources")
    assert cache.get("tools", 100.0, Use.ALWAYS) is None
    assert cache.get("prompts", 100.0, Use.ALWAYS) == ITEMS
    cache.drop()
    assert cache.get("prompts", 100.0, Use.ALWAYS) is None


def test_two_caches_of_the_same_server_share_nothing() -> None:
    cached(LONG)
    assert ListCache("stdio:python:server.py").get("tools", 100.0, Use.ALWAYS) is None
