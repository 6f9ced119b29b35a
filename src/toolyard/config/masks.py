"""Showing configs without what can be a secret.

Such are values of headers and variables, user info and query values of URLs, and what a settings file takes from the
environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self, TypeVar

MASK = "<masked>"

V = TypeVar("V")

_URL = re.compile(
    # The length of a scheme is bounded, or a long text without any URL would take quadratic time.
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,31}://)(?P<authority>[^\s/?#]*)(?P<path>[^\s?#]*)(?P<query>\?[^\s#]*)?(?P<rest>#\S*)?"
)

_SECRET_NAME: Final = re.compile(
    r"(?:^|[^a-z])(?:api_?key|access_?key|private_?key|key|token|secret|passw(?:or)?d|passphrase|pat|credentials?|"
    r"authorization|auth|cookie|dsn)$",
    re.IGNORECASE,
)


class Expanded(str):
    """A text in which variables were replaced. It is shown as it was written: what they stand for may be a secret."""

    __slots__ = ("written",)

    written: str

    def __new__(cls, text: str, written: str) -> Self:
        made = super().__new__(cls, text)
        made.written = written
        return made

    def __repr__(self) -> str:
        return repr(mask_urls(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Expanded, (str(self), self.written))


def mask_urls(text: str) -> str:
    """The text with the user info, query values and fragments of all URLs in it masked."""
    if not isinstance(text, Expanded):
        return _URL.sub(_masked_url, text)
    plain, written = str(text), mask_urls(text.written)
    # A variable can hide that what is written behind it belongs to a URL.
    return MASK if written == text.written and mask_urls(plain) != plain else written


def _masked_url(url: re.Match[str]) -> str:
    _, at, host = url["authority"].rpartition("@")
    user = f"{MASK}@" if at else ""
    query = "?" + re.sub(r"[^&]+", _masked_pair, url["query"][1:]) if url["query"] else ""
    rest = f"#{MASK}" if url["rest"] else ""
    return f"{url['scheme']}{user}{host}{url['path']}{query}{rest}"


def _masked_pair(pair: re.Match[str]) -> str:
    name, _, value = pair[0].partition("=")
    # `?dG9rZW4=` is a token with its padding, not a name without a value.
    return f"{name}={MASK}" if value.strip("=") else MASK


class MaskedMapping(Mapping[str, V]):
    """A read-only mapping that shows its names, never its values."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, V]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> V:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"[{', '.join(f'{name}={MASK}' for name in self._values)}]"


def identifier(*parts: str) -> str:
    # It goes to logs and cache keys, so it must not hold a secret; and nothing in it may steer a terminal.
    text = ":".join(map(mask_urls, parts))
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(value: Any) -> str:
    match value:
        case str():
            return repr(mask_urls(value))
        case tuple():
            return f"[{', '.join(map(shown, value))}]"
        case frozenset():
            return shown(tuple(sorted(value)))
        case _ if callable(value):
            # Not its repr: a partial shows its arguments.
            return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"
        case _:
            return repr(value)


def names_a_secret(name: str) -> bool:
    """Whether what has this name, a variable or a header, is a secret by it."""
    return _SECRET_NAME.search(name) is not None
