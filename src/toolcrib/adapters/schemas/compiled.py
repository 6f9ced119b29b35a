"""The result of compiling a schema, and the list of what it does not express."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_LOSSES: Final = 200
"""Losses of one schema that are listed."""

MOVED: Final = "moved into the description"
DROPPED: Final = "dropped"
REPLACED_BY_ANY_OF: Final = "replaced by anyOf"
REPLACED_BY_ANYTHING: Final = "replaced by a schema for any value"
REPLACED_BY_OBJECT: Final = "replaced by an object without properties"
READ_AS_NULL_TYPE: Final = "read as the type null"
AMBIGUOUS: Final = "restored by the first alternative that fits"
RENAMED: Final = "renamed"
NOT_ALL_OFFERED: Final = "some values are not offered"
NOT_LISTED: Final = "further losses are not listed"
NOT_STRICT: Final = "not strict"
"""The beginning of the action of a loss that says why a schema cannot be strict."""

_WIDENING: Final = frozenset(
    {REPLACED_BY_ANY_OF, REPLACED_BY_ANYTHING, REPLACED_BY_OBJECT, READ_AS_NULL_TYPE, AMBIGUOUS, NOT_LISTED}
)
_ASSERTIONS: Final = frozenset(
    {
        *("$ref", "$dynamicRef", "$recursiveRef", "type", "enum", "const", "not", "if", "then", "else"),
        *("anyOf", "oneOf", "allOf", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minLength", "maxLength", "pattern", "format", "items", "prefixItems", "additionalItems", "minItems"),
        *("maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems", "properties"),
        *("patternProperties", "additionalProperties", "propertyNames", "required", "minProperties", "maxProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"),
        *("contentEncoding", "contentMediaType"),
    }
)


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that a compiled schema does not express."""

    pointer: str
    """A JSON pointer to the subschema of the original, with references followed, such as `/properties/a/items`."""
    keyword: str
    """The keyword of JSON Schema, such as `pattern`."""
    action: str
    """The replacement, such as `moved into the description`."""

    @property
    def widens(self) -> bool:
        """Whether the compiled schema may accept arguments that, restored, the original schema rejects."""
        return self.action in _WIDENING or (self.action in (DROPPED, MOVED) and self.keyword in _ASSERTIONS)


def keep_arguments(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments as they are, for a schema that was not changed."""
    return arguments


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema for a target, and the way back for arguments."""

    schema: dict[str, Any] = field(hash=False)
    """The compiled schema."""
    losses: tuple[Loss, ...] = ()
    """Everything that the compiled schema does not express."""
    restore: Callable[[Mapping[str, Any]], Mapping[str, Any]] = keep_arguments
    """Turns arguments that fit the compiled schema into arguments for the original one."""
    strict: bool = False
    """Whether the schema keeps the rules of the target's strict mode."""


class LossList:
    """Collects losses, each once, up to a limit."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Loss, None] = {}

    def copy(self) -> LossList:
        """Return a list with the same losses."""
        other = LossList()
        other._found.update(self._found)
        return other

    def add(self, pointer: str, keyword: str, action: str) -> None:
        """Add a loss."""
        if len(self._found) < MAX_LOSSES:
            self._found[Loss(pointer, keyword, action)] = None
        elif len(self._found) == MAX_LOSSES:
            self._found[Loss("", "", NOT_LISTED)] = None

    def listed(self) -> tuple[Loss, ...]:
        """Return the losses in the order in which they were added."""
        return tuple(self._found)
