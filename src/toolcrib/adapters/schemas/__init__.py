"""Compiles JSON Schemas of tools for the model APIs, each of which accepts only a part of JSON Schema.

A schema goes through these steps: `normalizing` makes a small, well-formed schema of it, `rooting` an object of its
root, `argument_names` finds new names where the API needs them, `fitting` writes it by the `rules` of the target, and
`size_limits` decides whether it may be strict. `restoring` is the way back for the arguments of a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._util.schema_document import SchemaDocument
from ...errors import UsageError
from .argument_names import rename
from .compiled import NOT_STRICT, REPLACED_BY_ANYTHING, REPLACED_BY_OBJECT, CompiledSchema, Loss, LossList
from .fitting import Fitter, NotStrictError
from .normalizing import normalize
from .restoring import Restorer
from .rooting import object_root, wrapper_of
from .rules import RULES, Target, TargetRules
from .size_limits import exceeds
from .values import TooDeep, copy_json

__all__ = ["CompiledSchema", "Loss", "Target", "compile_schema"]


def compile_schema(schema: Any, target: Target | None) -> CompiledSchema:
    """Return the schema in the language of a target; without one, only with an object at its root.

    `schema` may be any JSON value, as servers send it. Raises `UsageError` for an unknown target, and nothing else.
    """
    if target is None:
        return _copy(schema)
    rules = RULES.get(target)
    if rules is None:
        raise UsageError(f"target: expected one of {', '.join(RULES)}, got {target!r}")
    losses = LossList()
    normal = normalize(schema, losses)
    root = object_root(normal, losses)
    wrapper = wrapper_of(root) if rules.restricts_root else None
    definitions = normal.definitions
    names = rename((root, *definitions.values()), rules.names) if rules.names is not None else {}
    document = SchemaDocument({"$defs": definitions})

    def fit(rules: TargetRules, losses: LossList) -> dict[str, Any]:
        fitted = Fitter(rules, document, definitions, names, losses).fit(root, wrapper)
        if rules.limits is not None and (reason := exceeds(fitted, rules.limits)) is not None:
            raise NotStrictError("", "", reason)
        return fitted

    first_losses = losses.copy()
    strict = rules.closes
    try:
        fitted = fit(rules, losses)
    except NotStrictError as exc:
        assert rules.fallback is not None
        losses, strict = first_losses, False
        losses.add(exc.pointer, exc.keyword, f"{NOT_STRICT}: {exc.reason}")
        fitted = fit(RULES[rules.fallback], losses)
    old_names = {new: old for old, new in names.items()}
    restorer = Restorer(root, definitions, wrapper, old_names, rules.provider == "gemini")
    return CompiledSchema(fitted, losses.listed(), restorer, strict)


def _copy(schema: Any) -> CompiledSchema:
    """Return a copy of a schema with an object at its root."""
    losses = LossList()
    if not isinstance(schema, Mapping):
        losses.add("", "", REPLACED_BY_OBJECT)
        schema = {}
    copied: dict[str, Any] = {}
    for keyword, value in schema.items():
        try:
            copied[str(keyword)] = copy_json(value)
        except TooDeep:
            losses.add("", str(keyword), REPLACED_BY_ANYTHING)
    if copied.get("type", "object") != "object":
        losses.add("", "type", REPLACED_BY_OBJECT)
    properties = copied.get("properties", {})
    fitted = {**copied, "type": "object", "properties": properties if isinstance(properties, dict) else {}}
    return CompiledSchema(fitted, losses.listed())
