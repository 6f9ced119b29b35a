"""Reads the challenges in `WWW-Authenticate` headers (RFC 9110, RFC 6750, RFC 9728)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

MAX_HEADER_CHARACTERS: Final = 16 * 1024

# Possessive: a long header without any match must not take quadratic time.
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_SEPARATOR: Final = re.compile(r"[\s,]*")
_PARAMETER: Final = re.compile(rf'({_TOKEN})\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]*)', re.DOTALL)
_SCHEME: Final = re.compile(rf"({_TOKEN})(?=[\s,]|$)")
_UNKNOWN: Final = re.compile(rf"{_TOKEN}|.", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Challenge:
    """The `Bearer` challenge of a response."""

    resource_metadata: str | None = None
    scope: tuple[str, ...] = ()
    error: str | None = None
    error_description: str | None = None


def parse_challenges(values: Iterable[str]) -> Challenge | None:
    """Return the first `Bearer` challenge in the values of these headers; None if there is none."""
    for value in values:
        for scheme, parameters in _split(value[:MAX_HEADER_CHARACTERS]):
            if scheme == "bearer":
                return Challenge(
                    parameters.get("resource_metadata") or None,
                    tuple(dict.fromkeys(parameters.get("scope", "").split())),
                    parameters.get("error") or None,
                    parameters.get("error_description") or None,
                )
    return None


def _split(value: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the challenges of one header: the scheme in lower case, and the parameters."""
    scheme: str | None = None
    parameters: dict[str, str] = {}
    at = 0
    while at < len(value):
        separator = _SEPARATOR.match(value, at)
        at = separator.end() if separator is not None else at
        if (found := _PARAMETER.match(value, at)) is not None:
            # The first value counts: a server that repeats a parameter must not change it.
            parameters.setdefault(found[1].lower(), _unquoted(found[2]))
        elif (found := _SCHEME.match(value, at)) is not None:
            if scheme is not None:
                yield scheme, parameters
            scheme, parameters = found[1].lower(), {}
        else:
            found = _UNKNOWN.match(value, at)
        at = found.end() if found is not None else len(value)
    if scheme is not None:
        yield scheme, parameters


def _unquoted(value: str) -> str:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value.startswith('"') else value
