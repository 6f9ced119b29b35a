"""The schema languages of the model APIs, as tables: what each accepts of JSON Schema.

Sources are the documentation and the SDKs of the providers; `scripts/frameworks oracles` checks the results against
the SDKs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Target = Literal[
    "anthropic", "anthropic-strict", "openai", "openai-strict", "gemini", "gemini-openapi", "bedrock", "nullable"
]
"""A model API, and the variant of its schema language.

`nullable` is plain JSON Schema whose optional properties allow null, for frameworks that validate the arguments by the
offered schema before the call: models write null for what they leave out, and `restore` removes it.
"""

_STRUCTURE: Final = frozenset(
    {"type", "title", "description", "enum", "properties", "required", "items", "anyOf", "additionalProperties"}
)
_ALL: Final = _STRUCTURE | {
    *("$ref", "const", "default", "examples", "deprecated", "readOnly", "writeOnly", "not", "if", "then", "else"),
    *("oneOf", "allOf", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "pattern", "format", "prefixItems", "minItems", "maxItems"),
    *("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems", "patternProperties"),
    *("propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"),
    *("unevaluatedProperties", "contentEncoding", "contentMediaType"),
}


@dataclass(frozen=True, slots=True)
class NameRule:
    """Which names of arguments an API accepts."""

    valid: re.Pattern[str]
    invalid_character: re.Pattern[str]
    first_character: re.Pattern[str]
    max_length: int = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a strict schema may be."""

    properties: int | None = None
    object_levels: int | None = None
    characters: int | None = None
    """Characters of all names and values of enums."""
    enum_values: int | None = None
    long_enum: tuple[int, int] | None = None
    """An enum of more values than the first number has at most this number of characters."""
    optional_properties: int | None = None
    unions: int | None = None


@dataclass(frozen=True, slots=True)
class TargetRules:
    """What a target accepts."""

    provider: str
    keywords: frozenset[str] = _ALL
    formats: frozenset[str] | None = None
    """Formats that are accepted; all, if None."""
    type_lists: Literal["any", "null", "none"] = "any"
    """Which lists of types are accepted: any, those of one type and null, or none."""
    enum_types: frozenset[str] | None = None
    """Types of values in `enum`; the others become text. All, if None."""
    references: Literal["any", "optional", "none"] = "any"
    """Where `$ref` is accepted: anywhere, only below an optional property, or nowhere."""
    names: NameRule | None = None
    restricts_root: bool = True
    """The root is a plain object: without `anyOf`, `oneOf`, `allOf`, `enum`, `const` and `not`."""
    pure_unions: bool = False
    """Only annotations are accepted beside `anyOf`, and beside `$ref`."""
    infers_types: bool = False
    """A schema without a type gets the one that its keywords are about, and loses keywords for other types."""
    untyped: Literal["keep", "limit", "refuse"] = "keep"
    """What becomes of a schema for any value: it is kept, limited to plain values, or cannot be strict."""
    needs_items: bool = False
    """Each array has `items`."""
    min_items: int | None = None
    """The largest value of `minItems` that is accepted; any, if None."""
    look_around: bool = True
    """Patterns may contain look-around."""
    openapi: bool = False
    """Types are in upper case, and `nullable` replaces the type null."""
    closes: bool = False
    """Objects are closed: the schema is strict."""
    requires_all: bool = False
    """All properties are required: optional ones allow null instead."""
    optional_nulls: bool = False
    """Optional properties allow null and stay optional."""
    recursive: bool = True
    """Schemas that contain themselves are accepted."""
    limits: Limits | None = None
    fallback: Target | None = None
    """The target for schemas that cannot be strict."""


_ANTHROPIC_NAMES: Final = NameRule(
    re.compile(r"[a-zA-Z0-9_.-]{1,64}"), re.compile(r"[^a-zA-Z0-9_.-]+"), re.compile(r"[a-zA-Z0-9_.-]")
)
_GEMINI_NAMES: Final = NameRule(
    re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"), re.compile(r"[^A-Za-z0-9_]+"), re.compile(r"[A-Za-z_]")
)
_COMMON_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

RULES: Final[Mapping[Target, TargetRules]] = {
    "anthropic": TargetRules("anthropic", names=_ANTHROPIC_NAMES),
    "anthropic-strict": TargetRules(
        "anthropic",
        keywords=_STRUCTURE | {"format", "minItems"},
        formats=_COMMON_FORMATS | {"uri"},
        type_lists="none",
        references="none",
        names=_ANTHROPIC_NAMES,
        pure_unions=True,
        infers_types=True,
        untyped="refuse",
        min_items=1,
        closes=True,
        recursive=False,
        limits=Limits(optional_properties=24, unions=16),
        fallback="anthropic",
    ),
    "openai": TargetRules("openai", needs_items=True),
    "openai-strict": TargetRules(
        "openai",
        keywords=_STRUCTURE
        | {"$ref", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
        | {"minItems", "maxItems"},
        formats=_COMMON_FORMATS,
        type_lists="null",
        pure_unions=True,
        infers_types=True,
        untyped="refuse",
        needs_items=True,
        look_around=False,
        closes=True,
        requires_all=True,
        limits=Limits(
            properties=5_000, object_levels=10, characters=120_000, enum_values=1_000, long_enum=(250, 15_000)
        ),
        fallback="openai",
    ),
    "gemini": TargetRules(
        "gemini",
        keywords=(_STRUCTURE - {"title"})
        | {"$ref", "format", "prefixItems", "minItems", "maxItems", "minimum", "maximum"},
        formats=frozenset({"date-time", "date", "time"}),
        type_lists="null",
        enum_types=frozenset({"string", "integer", "number"}),
        references="optional",
        names=_GEMINI_NAMES,
        pure_unions=True,
        infers_types=True,
        needs_items=True,
    ),
    "gemini-openapi": TargetRules(
        "gemini",
        keywords=_STRUCTURE
        | {"format", "default", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern"}
        | {"minProperties", "maxProperties"},
        formats=frozenset({"date-time", "int32", "int64", "float", "double"}),
        type_lists="none",
        enum_types=frozenset({"string"}),
        references="none",
        names=_GEMINI_NAMES,
        pure_unions=True,
        infers_types=True,
        untyped="limit",
        needs_items=True,
        openapi=True,
    ),
    "bedrock": TargetRules("bedrock", names=_ANTHROPIC_NAMES),
    "nullable": TargetRules("nullable", restricts_root=False, optional_nulls=True),
}
