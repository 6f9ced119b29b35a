"""Searches tools by words: BM25 over names, titles, descriptions and parameters, in memory.

The index has a part for each server: when one server's tools change, the parts of the others are kept. Statistics over
all servers (the rarity of a word, the average length of a tool's text) are computed when they are needed. The order of
the tools does not matter: equal scores are ordered by server and name.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import inf, log1p
from operator import is_
from typing import Any, Final

from .._util.schema_document import SchemaDocument
from ..errors import UsageError
from ..types import Tool
from .tokens import estimate_tokens

K1: Final = 1.2
"""How quickly repetitions of a word stop counting (BM25's k1)."""
B: Final = 0.6
"""How much a long text lowers the score (BM25's b); less than for prose, because good schemas are long."""

# The weights of words by field; integers, so that sums are exact.
NAME, TITLE, SERVER, PARAMETER, TEXT, HINT = 6, 4, 3, 3, 2, 1

MAX_TEXT: Final = 20_000
"""Characters of one tool that are indexed; a description of 16 MiB would block the event loop."""
MAX_PARAMETERS: Final = 300
MAX_QUERY: Final = 2_000
MAX_TERMS: Final = 32

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_WORD = re.compile(r"[^\W_]{1,64}")
# Compiled on first use: compiling here would take a tenth of a hub's import time.
_SCRIPT = f"[{_CJK}]+|[^{_CJK}]+"
# HTTPServer: http server. createIssue: create issue. v2: v 2.
_CAMEL = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. Scores are comparable within one search only."""

    tool: Tool
    score: float


def terms_of(text: str) -> list[str]:
    """Return the search terms of a text: split at punctuation and camelCase, in lower case, without endings."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
        text = unicodedata.normalize("NFC", text)
    return list(chain.from_iterable(map(_terms, _WORD.findall(text))))


@lru_cache(maxsize=10_000)
def _terms(word: str) -> tuple[str, ...]:
    return tuple(term for piece in re.findall(_SCRIPT, word) for term in _piece_terms(piece))


def _piece_terms(piece: str) -> list[str]:
    if re.match(f"[{_CJK}]", piece):
        # These scripts have no spaces between words: every two adjacent characters are a term.
        return [piece[i : i + 2] for i in range(max(1, len(piece) - 1))]
    humps = re.findall(_CAMEL, piece) if piece.isascii() else []
    # GitHub becomes git, hub and github, because others write it as one word.
    return [_stem(word.casefold()) for word in ([*humps, piece] if len(humps) > 1 else [piece])]


def _stem(word: str) -> str:
    """Return a word without its English ending: creates, created and creating become creat.

    At least four letters are left, so `string` and `used` stay. Tested in `test_search.py` by the words that must
    become equal and by the table of queries with the tool that must come first: without it "creating issues" and
    "deleted branches" find another tool, and with plurals alone "deleted branches" still does.
    """
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


_COMMON: Final = frozenset(
    _stem(word)
    for line in (
        "a an and are as at be by can for from given if in into is it its may of on or",
        "that the their them then there these this to was when where which will with you your",
    )
    for word in line.split()
)
"""Stop words, which count only in names."""


class _ServerIndex:
    """The tools of one server, by name, and the postings of each term."""

    __slots__ = ("by_name", "costs", "given", "lengths", "postings", "tools")

    def __init__(self, given: tuple[Tool, ...]) -> None:
        self.given = given
        self.tools = sorted(given, key=lambda tool: tool.name)
        self.costs = [estimate_tokens(tool) for tool in self.tools]
        self.by_name: dict[str, int] = {}
        self.lengths: list[int] = []
        postings: defaultdict[str, list[int]] = defaultdict(list)
        for place, tool in enumerate(self.tools):
            counts = _counted(tool)
            self.lengths.append(sum(counts.values()))
            for term, count in counts.items():
                postings[term] += (place, count)
            for name in (tool.name, tool.original_name):
                if name:
                    self.by_name.setdefault(name.casefold(), place)
        # Place and count alternate: an object for each pair would take ten times the memory.
        self.postings = {term: array("I", posting) for term, posting in postings.items()}


class SearchIndex:
    """An immutable index of these tools; `updated` returns a new one."""

    def __init__(self, tools: Iterable[Tool] = (), _known: Mapping[str, _ServerIndex] | None = None) -> None:
        servers: defaultdict[str, list[Tool]] = defaultdict(list)
        for tool in tools:
            servers[tool.server or ""].append(tool)
        known = {} if _known is None else _known
        self._parts = {server: _part(tuple(servers[server]), known.get(server)) for server in sorted(servers)}
        parts = self._parts.values()
        self._tools = [tool for part in parts for tool in part.tools]
        self._costs = [cost for part in parts for cost in part.costs]
        self._cheapest = min(self._costs, default=0)
        lengths = [length for part in parts for length in part.lengths]
        average = max(1.0, sum(lengths) / max(1, len(lengths)))
        self._norms = [K1 * (1 - B + B * length / average) for length in lengths]

    def __len__(self) -> int:
        return len(self._tools)

    def updated(self, tools: Iterable[Tool]) -> SearchIndex:
        """Return an index of these tools. Servers whose tools are the same objects are not indexed again."""
        return SearchIndex(tools, self._parts)

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        token_budget: int | None = None,
        allowed: Callable[[Tool], bool] | None = None,
    ) -> list[Hit]:
        """Return the best matches, best first; a tool whose name equals the query comes first.

        `token_budget` limits their total cost (`estimate_tokens`): a tool that no longer fits is skipped. `allowed` is
        called only for tools that would be returned.
        """
        _check(query, limit, token_budget)
        left = inf if token_budget is None else token_budget
        hits: list[Hit] = []
        scores = self._scores(query[:MAX_QUERY])
        # Sorting is stable: equal scores stay by server and name.
        for place in sorted(sorted(scores), key=scores.__getitem__, reverse=True):
            if len(hits) == limit or left < self._cheapest:
                break
            tool, cost = self._tools[place], self._costs[place]
            if cost <= left and (allowed is None or allowed(tool)):
                left -= cost
                hits.append(Hit(tool, scores[place]))
        return hits

    def _scores(self, query: str) -> dict[int, float]:
        """Return the scores of all tools with one of the terms, by the tool's index."""
        weights = [(term, weight) for term in _query_terms(query) if (weight := self._weight(term))]
        # No BM25 score reaches this sum, so a tool with that name comes first.
        by_name = sum(weight for _, weight in weights) + 1
        name = query.strip().casefold()
        norms, scores = self._norms, dict[int, float]()
        start = 0
        for part in self._parts.values():
            for term, weight in weights:
                posting = part.postings.get(term, ())
                for local, count in zip(posting[::2], posting[1::2], strict=True):
                    place = start + local
                    scores[place] = scores.get(place, 0.0) + weight * count / (count + norms[place])
            if name in part.by_name:
                place = start + part.by_name[name]
                scores[place] = scores.get(place, 0.0) + by_name
            start += len(part.tools)
        return scores

    def _weight(self, term: str) -> float:
        """Return the highest score that a term can contribute: more for rarer terms, 0 if no tool has it."""
        having = sum(len(part.postings.get(term, ())) // 2 for part in self._parts.values())
        rarity = log1p((len(self._tools) - having + 0.5) / (having + 0.5))
        return (K1 + 1) * rarity if having else 0.0


def _part(given: tuple[Tool, ...], known: _ServerIndex | None) -> _ServerIndex:
    if known is not None and len(given) == len(known.given) and all(map(is_, given, known.given)):
        return known
    return _ServerIndex(given)


def _query_terms(query: str) -> list[str]:
    """Return the terms of a query, sorted, so that sums do not depend on the order of the words."""
    words = list(dict.fromkeys(terms_of(query)))
    telling = [word for word in words if word not in _COMMON] or words
    return sorted(telling[:MAX_TERMS])


def _counted(tool: Tool) -> dict[str, int]:
    """Return the weighted counts of a tool's terms; the weight depends on the field."""
    parameters = list(_parameters(tool.input_schema))
    hints = [schema.get(key) for _, schema in parameters for key in ("title", "description")]
    texts = (
        (NAME, [tool.original_name or tool.name]),
        (TITLE, [tool.title]),
        (SERVER, [tool.server]),
        (PARAMETER, [name for name, _ in parameters]),
        (TEXT, [tool.description]),
        (HINT, hints),
    )
    counts: defaultdict[str, int] = defaultdict(int)
    left = MAX_TEXT
    for weight, pieces in texts:
        # Servers may send values of any type; only strings are indexed.
        text = "\n".join(piece for piece in pieces if isinstance(piece, str))[:left]
        left -= len(text)
        for term, times in Counter(terms_of(text)).items():
            if weight > TEXT or term not in _COMMON:
                counts[term] += weight * times
    return counts


_NESTING: Final = frozenset({"$ref", "allOf", "anyOf", "items", "oneOf", "properties"})
"""Keywords of a schema under which there may be more parameters."""


def _parameters(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield parameters and nested ones, level by level, at most `MAX_PARAMETERS`; each schema once."""
    document = SchemaDocument(schema)
    waiting, entered, count = [schema], set[int](), 0
    for current in waiting:
        for plain in document.alternatives(current):
            properties, items = plain.get("properties"), plain.get("items")
            if isinstance(items, dict) and id(items) not in entered:
                entered.add(id(items))
                waiting.append(items)
            if not isinstance(properties, dict) or id(properties) in entered:
                continue
            entered.add(id(properties))
            for name, below in properties.items():
                if count == MAX_PARAMETERS:
                    return
                count += 1
                below = below if isinstance(below, dict) else {}
                yield name, below
                if not _NESTING.isdisjoint(below):
                    waiting.append(below)


def _check(query: object, limit: object, token_budget: object) -> None:
    if not isinstance(query, str):
        raise UsageError(f"query: expected a string, got {query!r}")
    for name, value in (("limit", limit), ("token_budget", 0 if token_budget is None else token_budget)):
        if not isinstance(value, int) or value < 0:
            raise UsageError(f"{name}: expected a whole number, 0 or more, got {value!r}")
