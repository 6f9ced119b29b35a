"""Patterns over names and URIs, where `*` stands for any run of characters and nothing else is special.

`?` and `[` mean themselves: both are at home in URIs and in tools' names. `*` crosses every separator. A match never
goes back: the pieces between the stars are looked for from left to right, each once, so time is linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Glob:
    """One pattern, taken apart once."""

    pattern: str
    _pieces: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first, *rest = self.pattern.split("*")
        # Stars side by side are one star. The ends are anchors and stay, also where they are empty.
        pieces = (first, *filter(None, rest[:-1]), rest[-1]) if rest else (first,)
        object.__setattr__(self, "_pieces", pieces)

    @property
    def is_exact(self) -> bool:
        """Whether the pattern has no star, and so matches itself alone."""
        return len(self._pieces) == 1

    @property
    def head(self) -> str:
        """What every match begins with."""
        return self._pieces[0]

    @property
    def weight(self) -> tuple[bool, int]:
        """How much the pattern says: a plain name more than any star, then the more characters the more."""
        return (self.is_exact, sum(map(len, self._pieces)))

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` has this form; upper and lower case are different."""
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
    """Several patterns as one value: the order in which they were given, and repetitions, make no difference."""

    __slots__ = ("_exact", "_starred", "patterns")

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        made = sorted(map(Glob, set(patterns)), key=lambda glob: (glob.weight, glob.pattern), reverse=True)
        self.patterns = tuple(glob.pattern for glob in made)
        """All of them, those that say most first."""
        self._exact = {glob.pattern: glob for glob in made if glob.is_exact}
        self._starred = tuple(glob for glob in made if not glob.is_exact)

    def find(self, text: str) -> Glob | None:
        """The pattern that matches, of several the one that says most; None if none does."""
        if (exact := self._exact.get(text)) is not None:
            return exact
        return next((glob for glob in self._starred if glob.matches(text)), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Globs) and self.patterns == other.patterns

    def __hash__(self) -> int:
        return hash(self.patterns)

    def __repr__(self) -> str:
        return f"Globs({list(self.patterns)!r})"
