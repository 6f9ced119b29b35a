"""Names of arguments that a model API accepts, for those that it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from .merging import Node
from .rules import NameRule

_HASH_DIGITS: Final = 8
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas")


def rename(nodes: Iterable[Node], rule: NameRule) -> dict[str, str]:
    """Return the new name of each argument whose name the rule does not accept.

    A new name ends with a hash of the original, so it does not depend on the other names, except that it never equals
    one of them.
    """
    names: dict[str, None] = {}
    for node in nodes:
        names.update(dict.fromkeys(_names_in(node)))
    renamed: dict[str, str] = {}
    taken = set(names)
    for name in names:
        if rule.valid.fullmatch(name):
            continue
        count = 0
        new = name
        while new in taken:
            digest = sha256(f"{name}{count or ''}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
            base = rule.invalid_character.sub("_", name)[: rule.max_length - _HASH_DIGITS - 2]
            base = base if rule.first_character.match(base) else f"_{base}"
            new = f"{base}_{digest}"
            count += 1
        renamed[name] = new
        taken.add(new)
    return renamed


def _names_in(node: Node) -> Iterator[str]:
    """Yield the names of all properties in a schema, at every depth."""
    waiting: list[Any] = [node]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            continue
        yield from each.get("required", ())
        yield from each.get("properties", ())
        for name, names in each.get("dependentRequired", {}).items():
            yield name
            yield from names
        yield from each.get("dependentSchemas", ())
        for keyword, value in each.items():
            if keyword in _MAPS:
                waiting += value.values()
            elif keyword not in _DATA:
                waiting += value if isinstance(value, list) else (value,)


_DATA: Final = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired"})
