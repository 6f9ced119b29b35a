"""Compiles JSON Schemas of tools for the model APIs, each of which accepts only a part of JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Target = Literal[
    "anthropic", "anthropic-strict", "openai", "openai-strict", "gemini", "gemini-openapi", "bedrock", "nullable"
]
"""A model API, and the variant of its schema language.

`nullable` is plain JSON Schema whose optional properties allow null, for frameworks that validate the arguments by the
offered schema before the call: models write null for what they leave out, and `restore` removes it.
"""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a compiled schema does not express: where (a JSON pointer), which keyword, and what was done instead."""

    pointer: str
    keyword: str
    action: str


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema for a target. `restore` turns arguments that fit it into arguments for the original schema."""

    schema: dict[str, Any] = field(hash=False)
    losses: tuple[Loss, ...] = ()
    restore: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda arguments: arguments
    strict: bool = False
    """Whether the schema keeps the rules of the target's strict mode."""


def compile_schema(schema: Any, target: Target | None) -> CompiledSchema:  # noqa: ARG001  # to be built
    """Return the schema in the language of a target; without one, only with an object at its root."""
    compiled = {"type": "object", "properties": {}, **schema}
    return CompiledSchema(compiled)
