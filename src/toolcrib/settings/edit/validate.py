"""Validates an entry before it is written, whether or not its variables are set."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ..documents import Document
from ..entries import Reading, make_entry
from ..formats import FORMATS, Section
from ..keys import EXPANDED, own_name
from ..load import known_names
from ..variables import Reference, parse


@dataclass(frozen=True, slots=True)
class Check:
    """The remarks about valid values."""

    unset: tuple[str, ...]
    """Variables that are not set now; the server cannot be used before they are."""
    warnings: tuple[str, ...] = ()
    """Warnings about keys that have no effect."""


def check_values(name: str, values: Any, format: str, source: Path | None = None) -> Check:
    """Check that these values are a valid server in a file of this format; raise `ConfigError` if not."""
    reading = Reading(Document(source), FORMATS[format], dict(os.environ))
    reading.known = known_names(reading, Path.cwd())
    unset = tuple(dict.fromkeys(_unset(values, reading.known))) if isinstance(values, Mapping) else ()
    # An unset variable may get any value, so the entry is valid if it is valid with one of these.
    trials = [dict.fromkeys(unset, text) for text in ("1", "http://localhost")] if unset else [{}]
    faults = []
    for stand_ins in trials:
        reading.environ = {**os.environ, **stand_ins}
        entry = make_entry(reading, Section((), {name: values}), name, name)
        if entry.error is None:
            return Check(unset, tuple(reading.warnings.values()))
        faults.append(entry.error)
    raise faults[0]


def _unset(values: Mapping[str, Any], known: Container[str]) -> Iterator[str]:
    env = values.get("env")
    own = env if isinstance(env, Mapping) else {}
    for key, value in values.items():
        if own_name(key) not in EXPANDED:
            continue
        for inside, text in value.items() if isinstance(value, Mapping) else [("", value)]:
            # An entry of env may refer to another one, not to itself.
            there = {*os.environ, *own} - ({inside} - set(os.environ) if key == "env" else set())
            yield from (each.name for each in _needed(text) if each.name not in there and each.name not in known)


def _needed(value: Any) -> Iterator[Reference]:
    """Yield the variables without a default; malformed texts are skipped."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _needed(item)
    elif isinstance(value, str):
        try:
            pieces = parse(value)
        except ConfigError:  # reported when the entry is read
            return
        yield from (piece for piece in pieces if isinstance(piece, Reference) and piece.default is None)
