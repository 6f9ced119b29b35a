"""Patterns with stars: what they match, and that they do so in linear time."""

from __future__ import annotations

import pickle
import time
from fnmatch import fnmatchcase
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.globs import Glob, Globs

# Where fnmatch has no other special signs, and few letters, so that patterns often match.
texts = st.text(st.sampled_from("aab/\n"), max_size=8)
patterns = st.text(st.sampled_from("aab/\n***"), max_size=8)
anything = st.text(max_size=20)


@pytest.mark.parametrize(
    "pattern,matching,other",
    [
        ("mcp__fs__read_*", "mcp__fs__read_file", "mcp__fs__write_file"),
        ("mcp__fs__read_*", "mcp__fs__read_", "mcp__fs__read"),
        ("*__delete_*", "mcp__github__delete_repo", "mcp__github__undelete_repo"),
        ("file://*", "file:///a/b/c.txt", "http://file://"),
        ("*.txt", "a/b.txt", "a/b.txt.gz"),
        ("a*a", "aa", "a"),
        ("a*b*c", "a-b-c", "a-c-b"),
        ("*ab*ab", "abab", "ab"),
        ("*a*a*", "aa", "a"),
        ("", "", "a"),
        ("a", "a", "A"),
        ("a?c", "a?c", "abc"),
        ("a[b]c", "a[b]c", "abc"),
        ("a\\*c", "a\\xc", "a*c"),
    ],
)
def test_a_star_stands_for_any_run_of_characters_and_nothing_else_is_special(
    pattern: str, matching: str, other: str
) -> None:
    assert Glob(pattern).matches(matching)
    assert not Glob(pattern).matches(other)


@given(patterns, texts)
def test_a_glob_matches_what_fnmatch_matches(pattern: str, text: str) -> None:
    assert Glob(pattern).matches(text) == fnmatchcase(text, pattern)


@given(st.lists(texts, min_size=1, max_size=5), st.lists(texts, min_size=4, max_size=4))
def test_whatever_the_stars_are_filled_with_matches(pieces: list[str], filling: list[str]) -> None:
    text = pieces[0] + "".join(fill + piece for fill, piece in zip(filling, pieces[1:], strict=False))
    assert Glob("*".join(pieces)).matches(text)
    assert fnmatchcase(text, "*".join(pieces))


@given(anything)
def test_a_text_without_a_star_matches_itself_alone(text: str) -> None:
    text = text.replace("*", "")
    assert Glob(text).is_exact
    assert Glob(text).matches(text)
    assert not Glob(text).matches(f"{text}x")
    assert Glob("*").matches(text) and Glob(f"{text}*").matches(text) and Glob(f"*{text}*").matches(text)


@pytest.mark.serial
@pytest.mark.parametrize(
    "pattern,text",
    [
        ("*a" * 2_000 + "b", "a" * 200_000),
        ("a*" * 2_000 + "b", "a" * 200_000 + "c"),
        ("*" * 100_000, "a" * 100_000),
        ("*" + "a" * 20_000 + "b*", "a" * 400_000),
        ("*" + "ab" * 10_000 + "c*d", "ab" * 200_000 + "d"),
    ],
)
def test_no_pattern_takes_long_on_any_text(pattern: str, text: str) -> None:
    """A backtracking matcher would practically never finish on these."""
    began = time.perf_counter()
    Glob(pattern).matches(text)
    assert time.perf_counter() - began < 5


def test_a_glob_is_a_value() -> None:
    assert Glob("a*b") == Glob("a*b") != Glob("a*c")
    assert pickle.loads(pickle.dumps(Glob("a*b"))).matches("axb")
    assert {Glob("a*b"): 1}[Glob("a*b")] == 1
    with pytest.raises(AttributeError):
        Glob("a").pattern = "b"  # type: ignore[misc]


def test_of_several_patterns_the_one_that_says_most_is_named() -> None:
    globs = Globs(["*", "mcp__fs__*", "mcp__fs__read_*", "mcp__fs__read_file"])
    assert globs.find("mcp__fs__read_file") == Glob("mcp__fs__read_file")
    assert globs.find("mcp__fs__read_x") == Glob("mcp__fs__read_*")
    assert globs.find("mcp__fs__write") == Glob("mcp__fs__*")
    assert globs.find("mcp__db__query") == Glob("*")


@given(st.lists(patterns, max_size=8), texts, st.randoms(use_true_random=False))
def test_many_patterns_match_what_one_of_them_matches_in_any_order(given_: list[str], text: str, order: Random) -> None:
    shuffled = given_ * 2
    order.shuffle(shuffled)
    found, again = Globs(given_).find(text), Globs(shuffled).find(text)
    assert (found is not None) == any(fnmatchcase(text, pattern) for pattern in given_)
    assert found == again
    assert Globs(given_) == Globs(shuffled)
    assert hash(Globs(given_)) == hash(Globs(shuffled))


def test_no_patterns_match_nothing() -> None:
    assert Globs().find("") is None
    assert Globs().find("a") is None
    assert Globs() != Globs(["a"])
