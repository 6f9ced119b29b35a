"""Says in words what a schema cannot express, for the description that a model reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .values import text_of

MAX_NOTE: Final = 120
"""Characters of one note."""
MAX_NOTES: Final = 400
"""Characters of all notes of one description."""


def note(keyword: str, value: Any) -> str:
    """Return a short text for a keyword and its value."""
    describe = _TEXTS.get(keyword)
    text = f"{keyword}: {text_of(value)}" if describe is None else describe(value)
    return text if len(text) <= MAX_NOTE else f"{text[: MAX_NOTE - 3]}..."


def describe_with(description: str | None, notes: list[str]) -> str | None:
    """Return a description with notes after it."""
    if not notes:
        return description
    text = "; ".join(notes)
    if len(text) > MAX_NOTES:
        text = f"{text[: MAX_NOTES - 3]}..."
    return f"{description}\n({text})" if description else text[0].upper() + text[1:]


def _template(text: str) -> Callable[[Any], str]:
    return text.format


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else text_of(value)


def _listed(name: str) -> Callable[[Any], str]:
    return lambda values: f"{name}: " + ", ".join(_plain(value) for value in values[:20])


def _dependent(value: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{name} requires {', '.join(names)}" for name, names in list(value.items())[:20])


def _branches(value: list[Any]) -> str:
    """Return the text of a union, or of its names if it only says what is required."""
    if all(isinstance(each, dict) and each.keys() <= {"required"} for each in value):
        return "required: " + ", or ".join(" and ".join(each.get("required", ())) for each in value[:20])
    return f"one of: {text_of(value)}"


_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "minLength": _template("at least {} characters"),
    "maxLength": _template("at most {} characters"),
    "pattern": _template("pattern: {}"),
    "format": _template("format: {}"),
    "minItems": _template("at least {} items"),
    "maxItems": _template("at most {} items"),
    "uniqueItems": lambda value: "items are unique" if value else "items may repeat",
    "minProperties": _template("at least {} properties"),
    "maxProperties": _template("at most {} properties"),
    "minimum": _template("at least {}"),
    "maximum": _template("at most {}"),
    "exclusiveMinimum": _template("greater than {}"),
    "exclusiveMaximum": _template("less than {}"),
    "multipleOf": _template("a multiple of {}"),
    "minContains": _template("at least {} matching items"),
    "maxContains": _template("at most {} matching items"),
    "default": lambda value: f"default: {text_of(value)}",
    "examples": _listed("examples"),
    "enum": _listed("one of"),
    "const": lambda value: f"always {text_of(value)}",
    "dependentRequired": _dependent,
    "anyOf": _branches,
    "oneOf": _branches,
    "deprecated": lambda value: "deprecated" if value else "not deprecated",
    "readOnly": lambda value: "read only" if value else "not read only",
    "writeOnly": lambda value: "write only" if value else "not write only",
}
