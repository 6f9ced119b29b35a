"""Helpers that find names missing from a guide."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any


def parameters(function: Any) -> set[str]:
    """Return the names of a function's parameters, without `self`, `*args` and `**kwargs`."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind not in kinds} - {"self"}


def public(kind: type) -> set[str]:
    """Return the public names of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def missing(guide: str, names: Iterable[str]) -> list[str]:
    """Return the names that do not appear as code in the guide."""
    return [name for name in sorted(names) if not mentions(guide, name)]


def mentions(guide: str, name: str) -> bool:
    """Return whether the guide has the name as code: alone, with a value, called, or as an attribute."""
    return re.search(rf"`(?:[\w.]*\.)?{name}(?:=[^`]*|\([^`]*\))?`|\b{name}=", guide) is not None
