"""Counts what the limits of strict schemas are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .rules import Limits
from .values import text_of


class _Count:
    """What a schema contains."""

    def __init__(self) -> None:
        self.properties = 0
        self.optional_properties = 0
        self.object_levels = 0
        self.characters = 0
        self.enum_values = 0
        self.unions = 0
        self.longest_enum = (0, 0)  # values, characters

    def add(self, schema: Mapping[str, Any], level: int) -> None:
        properties = schema.get("properties")
        if properties is not None:
            level += 1
            self.object_levels = max(self.object_levels, level)
            self.properties += len(properties)
            self.optional_properties += len(properties.keys() - set(schema.get("required", ())))
            self.characters += sum(map(len, properties))
            for inner in properties.values():
                self.add(inner, level)
        if "enum" in schema:
            size = sum(len(value) if isinstance(value, str) else len(text_of(value)) for value in schema["enum"])
            self.enum_values += len(schema["enum"])
            self.characters += size
            self.longest_enum = max(self.longest_enum, (len(schema["enum"]), size))
        branches = schema.get("anyOf", ())
        self.unions += bool(branches) or isinstance(schema.get("type"), list)
        for inner in (*branches, *([schema["items"]] if "items" in schema else ())):
            self.add(inner, level)
        for name, inner in schema.get("$defs", {}).items():
            self.characters += len(name)
            self.add(inner, 0)


def exceeds(schema: Mapping[str, Any], limits: Limits) -> str | None:
    """Return which limit a strict schema exceeds; None if it keeps all."""
    count = _Count()
    count.add(schema, 0)
    table = (
        ("properties", count.properties, limits.properties),
        ("levels of objects", count.object_levels, limits.object_levels),
        ("characters of names and values", count.characters, limits.characters),
        ("values in enums", count.enum_values, limits.enum_values),
        ("optional properties", count.optional_properties, limits.optional_properties),
        ("unions", count.unions, limits.unions),
    )
    for what, found, limit in table:
        if limit is not None and found > limit:
            return f"more than {limit:,} {what}"
    if limits.long_enum is not None:
        values, characters = limits.long_enum
        if count.longest_enum[0] > values and count.longest_enum[1] > characters:
            return f"an enum of more than {values} values and {characters:,} characters"
    return None
