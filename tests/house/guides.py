"""How the tests ask whether a guide has left something out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any


def parameters(function: Any) -> set[str]:
    """The names of a function's parameters, but for `self` and those that stand for any."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind not in kinds} - {"self"}


def public(kind: type) -> set[str]:
    """The names that a class has for its users."""
    return {name for name in dir(kind) if not name.startswith("_")}


def missing(guide: str, names: Iterable[str]) -> list[str]:
    """The names that the guide does not have as code."""
    return [name for name in sorted(names) if not tells(guide, name)]


def tells(guide: str, name: str) -> bool:
    """Whether the guide has the name as code: alone, with a value, called, or of something."""
    return re.search(rf"`(?:[\w.]*\.)?{name}(?:=[^`]*|\([^`]*\))?`|\b{name}=", guide) is not None
