"""Patterns for names and URIs, in which `*` matches any run of characters and no other character is special.

`?` and `[` are literal, because URIs and tool names contain them. `*` matches separators too. Matching does not
backtrack: the pieces between the stars are searched from left to right, each once, so time is linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Glob:
    """One pattern, split into its pieces."""

    pattern: str
    _pieces: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first, *rest = self.pattern.split("*")
        # Adjacent stars are one star. The first and last piece are anchors and stay even if they are empty.
        pieces = (first, *filter(None, rest[:-1]), rest[-1]) if rest else (first,)
        object.__setattr__(self, "_pieces", pieces)

    @property
    def is_exact(self) -> bool:
        """Whether the pattern has no star, and so matches only itself."""
        return len(self._pieces) == 1

    @property
    def head(self) -> str:
        """The text that every match begins with."""
        return self._pieces[0]

    @property
    def weight(self) -> tuple[bool, int]:
        """How specific the pattern is: an exact name is more specific than any star, then more characters count."""
        return (self.is_exact, sum(map(len, self._pieces)))

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole text; case matters."""
        pieces = self._pieces
        if len(pieces) == 1:
            return text == self.pattern
        head, tail = pieces[0], pieces[-1]
        end = len(text) - len(tail)
        place = len(head)
        if place > end or not text.startswith(head) or not text.endswith(tail):
            return False
        for piece in pieces[1:-1]:
            found = text.find(piece, place, end)
            if found < 0:
                return False
            place = found + len(piece)
        return True


class Globs:
    """A set of patterns; order and duplicates make no difference."""

    __slots__ = ("_exact", "_starred", "patterns")

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        made = sorted(map(Glob, set(patterns)), key=lambda glob: (glob.weight, glob.pattern), reverse=True)
        self.patterns = tuple(glob.pattern for glob in made)
        """All patterns, the most specific ones first."""
        self._exact = {glob.pattern: glob for glob in made if glob.is_exact}
        self._starred = tuple(glob for glob in made if not glob.is_exact)

    def find(self, text: str) -> Glob | None:
        """Return the most specific pattern that matches; None if none does."""
        if (exact := self._exact.get(text)) is not None:
            return exact
        return next((glob for glob in self._starred if glob.matches(text)), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Globs) and self.patterns == other.patterns

    def __hash__(self) -> int:
        return hash(self.patterns)

    def __repr__(self) -> str:
        return f"Globs({list(self.patterns)!r})"
