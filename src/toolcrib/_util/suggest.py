"""Similar names for "did you mean", with bounded work.

`difflib` compares two names in quadratic time. Compared with thousands of names it would hold up the event loop for
a second, so only a short list of the most promising names is compared, chosen by a linear scan.
"""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Callable, Collection, Iterable
from typing import Final

MAX_COMPARED: Final = 100
"""Names that are compared character by character."""
MAX_LENGTH: Final = 200
"""Longer names are neither compared nor suggested."""
CUTOFF: Final = 0.6
"""How similar a name must be to be suggested, as `difflib` measures it."""
TYPO_CUTOFF: Final = 0.8
"""How similar a name must be to count as a misspelling if nothing else indicates that it is wrong."""

_MAX_FRAGMENTS: Final = 24
_WORD: Final = re.compile(r"[^\W_]+")


def similar_names(name: str, known: Iterable[str], count: int = 3, *, cutoff: float = CUTOFF) -> tuple[str, ...]:
    """Return the names that are most similar to `name`, at most `count`, best first."""
    short = shortlist(name, known, cutoff=cutoff)
    return tuple(difflib.get_close_matches(name[:MAX_LENGTH], short, count, cutoff))


def did_you_mean(found: Iterable[str], *, given: str = "", separator: str = "; ") -> str:
    """Return the end of a sentence that suggests these names; empty if there are none.

    Args:
        found: The names, as `similar_names` returns them.
        given: The wrong name, for sentences that do not contain it.
        separator: The text before the question; a comma within a list that has semicolons.
    """
    names = " or ".join(map(repr, found))
    instead = f" instead of {given!r}" if given else ""
    return f"{separator}did you mean {names}{instead}?" if names else ""


def suggest(name: str, known: Iterable[str], *, separator: str = "; ") -> str:
    """Return the end of a sentence that suggests the known name most similar to `name`; empty if none is similar."""
    return did_you_mean(similar_names(name, known, 1), separator=separator)


def find_misspelled(names: Iterable[str], known: Collection[str]) -> tuple[str, str] | None:
    """Return the first of the names that looks like a misspelled known one, and that one; `None` if there is none."""
    for name in names:
        found = similar_names(name, known, 1, cutoff=TYPO_CUTOFF) if name not in known else ()
        if found:
            return name, found[0]
    return None


def shortlist(name: str, known: Iterable[str], key: Callable[[str], str] = str, *, cutoff: float = CUTOFF) -> list[str]:
    """Return at most `MAX_COMPARED` of the known names: those whose `key` shares most fragments with `name`.

    Names whose length alone makes them too different are left out. The order of the others is kept.
    """
    name = name[: MAX_LENGTH + 1]
    candidates = [each for each in known if len(each) <= MAX_LENGTH and _lengths_fit(len(name), len(key(each)), cutoff)]
    if len(candidates) <= MAX_COMPARED:
        return candidates
    fragments = _fragments(name.lower())

    def score(place: int) -> int:
        text = key(candidates[place]).lower()
        return sum(fragment in text for fragment in fragments)

    scores = [(score(place), -place) for place in range(len(candidates))]
    best = heapq.nlargest(MAX_COMPARED, (each for each in scores if each[0]))
    return [candidates[-place] for _, place in sorted(best, key=lambda each: -each[1])]


def _lengths_fit(one: int, other: int, cutoff: float) -> bool:
    """Return whether names of these lengths can be similar enough; difflib's measure is 2 * matches / both lengths."""
    return 2 * min(one, other) >= cutoff * (one + other)


def _fragments(name: str) -> list[str]:
    """Return pieces of a name by which similar names are found: beginnings of its words, and groups of three letters.

    The number of groups is limited; a long name has them spread over its whole length.
    """
    words = _WORD.findall(name)
    beginnings = [word[:4] for word in words]
    groups = [word[place : place + 3] for word in words for place in range(len(word) - 2)]
    step = -(-len(groups) // _MAX_FRAGMENTS) or 1
    return [*dict.fromkeys([*words, *beginnings, *groups[::step]])][: 2 * _MAX_FRAGMENTS]
