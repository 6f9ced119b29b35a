"""One case for each rule of a target: what becomes of a keyword, and which loss is listed.

Longer than 400 lines: tables.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest

from toolcrib.adapters.schemas import Loss, Target, compile_schema
from toolcrib.errors import UsageError

MOVED = "moved into the description"
DROPPED = "dropped"
ANY_OF = "replaced by anyOf"
ANYTHING = "replaced by a schema for any value"
OPEN = "not strict: an open object"
TEXT = {"type": "string"}
OBJECT = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
PLACE = "/properties/p"
TARGETS: tuple[Target, ...] = get_args(Target)
PLAIN: tuple[Target, ...] = ("anthropic", "openai", "bedrock")

Case = tuple[str, tuple[Target, ...], Any, Any, tuple[tuple[str, str, str], ...]]

# Name, targets, schema of the required property `p`, the compiled schema, and the losses.
PROPERTIES: list[Case] = [
    ("kept", PLAIN, {"type": "string", "pattern": "^(?=a)", "minLength": 1, "default": "a", "format": "x"}, ..., ()),
    ("kept conditions", PLAIN, {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}}, ..., ()),
    ("kept unions", PLAIN, {"oneOf": [TEXT, {"type": "integer"}]}, ..., ()),
    ("kept types", PLAIN, {"type": ["string", "integer", "null"]}, ..., ()),
    ("unknown keyword", TARGETS, {"type": "string", "x-hint": 1}, ..., ((PLACE, "x-hint", DROPPED),)),
    ("comment", TARGETS, {"type": "string", "$comment": "x", "$id": "x"}, ..., ()),
    ("wrong value", PLAIN, {"type": "string", "minLength": "1"}, TEXT, ((PLACE, "minLength", DROPPED),)),
    (
        "old tuple",
        ("anthropic",),
        {"items": [TEXT], "additionalItems": False},
        {"prefixItems": [TEXT], "items": {"not": {}}},
        (),
    ),
    ("items", ("openai",), {"type": "array"}, {"type": "array", "items": {}}, ()),
    (
        "merged",
        (*PLAIN, "gemini", "openai-strict", "anthropic-strict"),
        {"allOf": [TEXT, {"description": "x"}]},
        {"type": "string", "description": "x"},
        (),
    ),
    (
        "not merged",
        PLAIN,
        {"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "b"}]},
        {"type": "string", "pattern": "a", "allOf": [{"pattern": "b"}]},
        (),
    ),
    # strict
    (
        "length",
        ("openai-strict", "anthropic-strict"),
        {"type": "string", "minLength": 1},
        {"type": "string", "description": "At least 1 characters"},
        ((PLACE, "minLength", MOVED),),
    ),
    (
        "note after text",
        ("openai-strict",),
        {"type": "string", "description": "A name.", "maxLength": 3},
        {"type": "string", "description": "A name.\n(at most 3 characters)"},
        ((PLACE, "maxLength", MOVED),),
    ),
    (
        "default",
        ("openai-strict", "anthropic-strict", "gemini"),
        {"type": "integer", "default": 5},
        {"type": "integer", "description": "Default: 5"},
        ((PLACE, "default", MOVED),),
    ),
    ("pattern", ("openai-strict",), {"type": "string", "pattern": "^a"}, ..., ()),
    (
        "look-around",
        ("openai-strict",),
        {"type": "string", "pattern": "^(?!a)"},
        {"type": "string", "description": "Pattern: ^(?!a)"},
        ((PLACE, "pattern", MOVED),),
    ),
    ("format", ("openai-strict", "anthropic-strict"), {"type": "string", "format": "uuid"}, ..., ()),
    (
        "format uri",
        ("openai-strict",),
        {"type": "string", "format": "uri"},
        {"type": "string", "description": "Format: uri"},
        ((PLACE, "format", MOVED),),
    ),
    ("format uri", ("anthropic-strict",), {"type": "string", "format": "uri"}, ..., ()),
    ("numbers", ("openai-strict",), {"type": "number", "exclusiveMinimum": 0, "maximum": 5, "multipleOf": 2}, ..., ()),
    (
        "numbers",
        ("anthropic-strict",),
        {"type": "number", "minimum": 1},
        {"type": "number", "description": "At least 1"},
        ((PLACE, "minimum", MOVED),),
    ),
    ("counts", ("openai-strict",), {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 3}, ..., ()),
    ("few items", ("anthropic-strict",), {"type": "array", "items": TEXT, "minItems": 1}, ..., ()),
    (
        "more items",
        ("anthropic-strict",),
        {"type": "array", "items": TEXT, "minItems": 2},
        {"type": "array", "items": TEXT, "description": "At least 2 items"},
        ((PLACE, "minItems", MOVED),),
    ),
    (
        "unique",
        ("openai-strict", "gemini"),
        {"type": "array", "items": TEXT, "uniqueItems": True},
        {"type": "array", "items": TEXT, "description": "Items are unique"},
        ((PLACE, "uniqueItems", MOVED),),
    ),
    (
        "not unique",
        ("openai-strict", "gemini"),
        {"type": "array", "items": TEXT, "uniqueItems": False},
        {"type": "array", "items": TEXT},
        (),
    ),
    ("const", ("openai-strict", "anthropic-strict", "gemini"), {"const": "a"}, {"type": "string", "enum": ["a"]}, ()),
    (
        "disjoint oneOf",
        ("openai-strict", "gemini"),
        {"oneOf": [TEXT, {"type": "integer"}]},
        {"anyOf": [TEXT, {"type": "integer"}]},
        (),
    ),
    (
        "oneOf",
        ("openai-strict", "gemini"),
        {"oneOf": [TEXT, {"type": "string", "description": "x"}]},
        {"anyOf": [TEXT, {"type": "string", "description": "x"}]},
        ((PLACE, "oneOf", ANY_OF),),
    ),
    (
        "allOf",
        ("openai-strict",),
        {"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "b"}]},
        {"type": "string", "pattern": "a", "description": 'AllOf: [{"pattern":"b"}]'},
        ((PLACE, "allOf", MOVED),),
    ),
    ("closed", ("anthropic-strict",), OBJECT, {**OBJECT, "additionalProperties": False}, ()),
    (
        "closed by unevaluated",
        ("openai-strict",),
        {**OBJECT, "unevaluatedProperties": False},
        {**OBJECT, "additionalProperties": False},
        (),
    ),
    (
        "all required",
        ("openai-strict",),
        {"type": "object", "properties": {"a": TEXT}},
        {
            "type": "object",
            "properties": {"a": {"type": ["string", "null"]}},
            "required": ["a"],
            "additionalProperties": False,
        },
        (),
    ),
    (
        "optional enum",
        ("openai-strict",),
        {"type": "object", "properties": {"a": {"enum": ["x"]}}},
        {
            "type": "object",
            "properties": {"a": {"type": ["string", "null"], "enum": ["x", None]}},
            "required": ["a"],
            "additionalProperties": False,
        },
        (),
    ),
    (
        "optional union",
        ("openai-strict",),
        {"type": "object", "properties": {"a": {"anyOf": [TEXT, {"type": "integer"}]}}},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [TEXT, {"type": "integer"}, {"type": "null"}]}},
            "required": ["a"],
            "additionalProperties": False,
        },
        (),
    ),
    ("type lists", ("openai-strict", "gemini"), {"type": ["null", "string"]}, {"type": ["string", "null"]}, ()),
    ("type lists", ("anthropic-strict",), {"type": ["string", "null"]}, {"anyOf": [TEXT, {"type": "null"}]}, ()),
    ("split types", ("openai-strict", "gemini"), {"type": ["string", "integer"], "title": "T", "minimum": 1}, ..., ...),
    (
        "type from properties",
        ("anthropic-strict",),
        {"properties": {"a": TEXT}},
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False},
        (),
    ),
    (
        "base of a union",
        ("anthropic-strict",),
        {**OBJECT, "anyOf": [{"properties": {"b": TEXT}}, {"properties": {"c": TEXT}}]},
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"a": TEXT, "b": TEXT},
                    "required": ["a"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"a": TEXT, "c": TEXT},
                    "required": ["a"],
                    "additionalProperties": False,
                },
            ]
        },
        (),
    ),
    (
        "tuple",
        ("openai-strict",),
        {"type": "array", "prefixItems": [TEXT, {"type": "integer"}]},
        {"type": "array", "items": {"anyOf": [TEXT, {"type": "integer"}]}, "maxItems": 2},
        ((PLACE, "prefixItems", ANY_OF),),
    ),
    # Gemini
    ("title", ("gemini",), {"type": "string", "title": "T"}, TEXT, ((PLACE, "title", DROPPED),)),
    (
        "exclusive integer",
        ("gemini",),
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10.5},
        {"type": "integer", "minimum": 1, "maximum": 10},
        (),
    ),
    (
        "exclusive number",
        ("gemini",),
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "number", "description": "Greater than 0"},
        ((PLACE, "exclusiveMinimum", MOVED),),
    ),
    (
        "pattern",
        ("gemini",),
        {"type": "string", "pattern": "^a"},
        {"type": "string", "description": "Pattern: ^a"},
        ((PLACE, "pattern", MOVED),),
    ),
    ("numbers in enum", ("gemini",), {"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}, ()),
    ("flag in enum", ("gemini",), {"const": True}, {"type": "string", "enum": ["true"]}, ()),
    (
        "null in enum",
        ("gemini",),
        {"enum": ["a", None]},
        {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]},
        (),
    ),
    ("any value", ("gemini",), {}, {}, ()),
    (
        "text",
        ("gemini-openapi",),
        {"type": "string", "minLength": 1, "pattern": "a", "default": "a"},
        {"type": "STRING", "minLength": 1, "pattern": "a", "default": "a"},
        (),
    ),
    (
        "format",
        ("gemini-openapi",),
        {"type": "string", "format": "uri"},
        {"type": "STRING", "description": "Format: uri"},
        ((PLACE, "format", MOVED),),
    ),
    (
        "number format",
        ("gemini-openapi",),
        {"type": "integer", "format": "int64"},
        {"type": "INTEGER", "format": "int64"},
        (),
    ),
    ("nullable", ("gemini-openapi",), {"type": ["string", "null"]}, {"type": "STRING", "nullable": True}, ()),
    (
        "nullable union",
        ("gemini-openapi",),
        {"anyOf": [TEXT, {"type": "integer"}, {"type": "null"}], "description": "x"},
        {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}], "nullable": True, "description": "x"},
        (),
    ),
    (
        "numbers in enum",
        ("gemini-openapi",),
        {"enum": [1, 2.5, None]},
        {"type": "STRING", "enum": ["1", "2.5"], "nullable": True},
        (),
    ),
    (
        "clash in enum",
        ("gemini-openapi",),
        {"enum": ["1", 1]},
        {"type": "STRING", "enum": ["1"]},
        ((PLACE, "enum", "some values are not offered"),),
    ),
    (
        "any value",
        ("gemini-openapi",),
        {},
        {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}]},
        ((PLACE, "type", "some values are not offered"),),
    ),
    (
        "never",
        ("gemini-openapi",),
        {"type": "array", "items": False},
        {
            "type": "ARRAY",
            "maxItems": 0,
            "items": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}]},
        },
        ((f"{PLACE}/items", "type", "some values are not offered"),),
    ),
    # nullable
    (
        "optional",
        ("nullable",),
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}, "b": {"const": 1}}},
        {
            "type": "object",
            "properties": {
                "a": {"type": ["string", "null"], "minLength": 1},
                "b": {"anyOf": [{"const": 1}, {"type": "null"}]},
            },
        },
        (),
    ),
    ("depends on presence", ("nullable",), {"type": "object", "properties": {"a": TEXT}, "minProperties": 1}, ..., ()),
]


def compiled_property(schema: Any, target: Target) -> tuple[Any, Any]:
    compiled = compile_schema({"type": "object", "properties": {"p": schema}, "required": ["p"]}, target)
    return compiled.schema["properties"]["p"], compiled


@pytest.mark.parametrize(
    "targets,schema,expected,losses",
    [case[1:] for case in PROPERTIES],
    ids=[f"{case[0]}-{case[1][0]}" for case in PROPERTIES],
)
def test_a_property_is_written_by_the_rules(
    targets: tuple[Target, ...], schema: Any, expected: Any, losses: Any
) -> None:
    for target in targets:
        found, compiled = compiled_property(schema, target)
        assert compiled.strict == target.endswith("-strict")
        if expected is not ...:
            assert found == expected, target
        elif target != "gemini-openapi" and losses == ():
            dropped = ("$comment", "$id")
            assert found == {key: value for key, value in schema.items() if key not in dropped}, target
        if losses is not ...:
            assert compiled.losses == tuple(Loss(*each) for each in losses), target


STRICT: tuple[Target, ...] = ("anthropic-strict", "openai-strict")

# Name, targets, schema of the property `p`, and the loss that says why the schema is not strict.
NOT_STRICT: list[tuple[str, tuple[Target, ...], Any, tuple[str, str, str]]] = [
    ("map", STRICT, {"type": "object", "additionalProperties": TEXT}, (PLACE, "additionalProperties", OPEN)),
    ("open", STRICT, {**OBJECT, "additionalProperties": True}, (PLACE, "additionalProperties", OPEN)),
    ("free", STRICT, {"type": "object"}, (PLACE, "properties", OPEN)),
    ("patterns", STRICT, {**OBJECT, "patternProperties": {"^x": TEXT}}, (PLACE, "patternProperties", OPEN)),
    (
        "undeclared",
        STRICT,
        {**OBJECT, "required": ["b"]},
        (PLACE, "required", "not strict: a required property without a schema"),
    ),
    ("any value", STRICT, {}, (PLACE, "type", "not strict: a schema without a type")),
    (
        "any items",
        ("openai-strict",),
        {"type": "array"},
        (f"{PLACE}/items", "type", "not strict: a schema without a type"),
    ),
    (
        "any items",
        ("anthropic-strict",),
        {"type": "array"},
        (PLACE, "items", "not strict: an array without a type of its items"),
    ),
    (
        "many values",
        ("openai-strict",),
        {"enum": [str(number) for number in range(1_001)]},
        ("", "", "not strict: more than 1,000 values in enums"),
    ),
    (
        "long enum",
        ("openai-strict",),
        {"enum": [f"{number:0100}" for number in range(300)]},
        ("", "", "not strict: an enum of more than 250 values and 15,000 characters"),
    ),
    (
        "many properties",
        ("openai-strict",),
        {"type": "object", "properties": {f"p{number}": TEXT for number in range(5_000)}},
        ("", "", "not strict: more than 5,000 properties"),
    ),
    (
        "long names",
        ("openai-strict",),
        {"type": "object", "properties": {"p" * 120_000: TEXT}},
        ("", "", "not strict: more than 120,000 characters of names and values"),
    ),
    (
        "optional",
        ("anthropic-strict",),
        {"type": "object", "properties": {f"p{number}": TEXT for number in range(25)}},
        ("", "", "not strict: more than 24 optional properties"),
    ),
    (
        "unions",
        ("anthropic-strict",),
        {
            "type": "object",
            "properties": {f"p{n}": {"type": ["string", "null"]} for n in range(17)},
            "required": [f"p{n}" for n in range(17)],
        },
        ("", "", "not strict: more than 16 unions"),
    ),
]


@pytest.mark.parametrize(
    "targets,schema,loss", [case[1:] for case in NOT_STRICT], ids=[f"{case[0]}-{case[1][0]}" for case in NOT_STRICT]
)
def test_a_schema_that_cannot_be_strict_is_compiled_without(
    targets: tuple[Target, ...], schema: Any, loss: Any
) -> None:
    whole = {"type": "object", "properties": {"p": schema}, "required": ["p"]}
    for target in targets:
        compiled = compile_schema(whole, target)
        plain = compile_schema(whole, "anthropic" if target == "anthropic-strict" else "openai")
        assert not compiled.strict
        assert compiled.losses == (Loss(*loss), *plain.losses)
        assert not compiled.losses[0].widens
        assert (compiled.schema, compiled.restore) == (plain.schema, plain.restore)


def test_levels_of_strict_objects_are_limited() -> None:
    def nested(levels: int) -> dict[str, Any]:
        return {"type": "object", "properties": {"a": nested(levels - 1) if levels > 1 else TEXT}, "required": ["a"]}

    assert compile_schema(nested(10), "openai-strict").strict
    compiled = compile_schema(nested(11), "openai-strict")
    assert compiled.losses == (Loss("", "", "not strict: more than 10 levels of objects"),)


TREE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Tree"}},
    "$defs": {
        "Tree": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    },
}
ITEMS = "/properties/tree/properties/children/items"


@pytest.mark.parametrize("target", ["anthropic", "openai", "openai-strict", "gemini", "bedrock", "nullable"])
def test_schemas_that_contain_themselves_are_kept_as_definitions(target: Target) -> None:
    compiled = compile_schema(TREE, target)
    assert compiled.losses == ()
    assert list(compiled.schema["$defs"]) == ["Tree"]
    assert compiled.strict == (target == "openai-strict")


def test_recursion_is_cut_where_the_target_has_no_references() -> None:
    compiled = compile_schema(TREE, "gemini-openapi")
    assert "$defs" not in compiled.schema
    assert (Loss(f"{ITEMS}/properties/children/items", "$ref", ANYTHING)) in compiled.losses
    strict = compile_schema(TREE, "anthropic-strict")
    assert not strict.strict
    assert strict.losses[0].action == "not strict: a schema that contains itself"


def test_gemini_accepts_recursion_only_below_optional_properties() -> None:
    tree = {**TREE["$defs"]["Tree"], "required": ["children"]}  # type: ignore[index]
    compiled = compile_schema({**TREE, "$defs": {"Tree": tree}}, "gemini")
    assert [loss.action for loss in compiled.losses] == [ANYTHING]


def test_references_are_followed_and_texts_beside_them_are_kept() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A", "description": "mine"}, "b": {"$ref": "#/definitions/A"}},
        "definitions": {"A": {"type": "string", "description": "theirs"}},
    }
    for target in ("anthropic", "openai", "gemini", "bedrock"):
        compiled = compile_schema(schema, target)
        assert compiled.schema == {
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": "mine"},
                "b": {"type": "string", "description": "theirs"},
            },
        }
        assert compiled.losses == ()


# ---- the root ------------------------------------------------------------------------------------------------------

ROOTS: list[tuple[str, Any, Any, tuple[tuple[str, str, str], ...]]] = [
    ("empty", {}, {"type": "object", "properties": {}}, ()),
    ("true", True, {"type": "object", "properties": {}}, ()),
    ("null", None, {"type": "object", "properties": {}}, (("", "", ANYTHING),)),
    ("or null", {"type": ["object", "null"]}, {"type": "object", "properties": {}}, ()),
    (
        "array",
        {"type": "array"},
        {"type": "object", "properties": {}},
        (("", "type", "replaced by an object without properties"),),
    ),
    ("reference", {"$ref": "#/$defs/A", "$defs": {"A": OBJECT}}, OBJECT, ()),
    ("optional object", {"anyOf": [OBJECT, {"type": "null"}]}, OBJECT, ()),
    (
        "required branches",
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "description": "Required: a, or b"},
        (("", "anyOf", MOVED),),
    ),
    (
        "not",
        {**OBJECT, "not": {"required": ["b"]}},
        {**OBJECT, "description": 'Not: {"required":["b"]}'},
        (("", "not", MOVED),),
    ),
    ("enum", {**OBJECT, "enum": [{"a": "x"}]}, {**OBJECT, "description": 'One of: {"a":"x"}'}, (("", "enum", MOVED),)),
    (
        "union",
        {"anyOf": [OBJECT, {"type": "object", "properties": {"b": TEXT}}]},
        {
            "type": "object",
            "required": ["input"],
            "additionalProperties": False,
            "properties": {
                "input": {"type": "object", "anyOf": [OBJECT, {"type": "object", "properties": {"b": TEXT}}]}
            },
        },
        (),
    ),
]


@pytest.mark.parametrize("schema,expected,losses", [case[1:] for case in ROOTS], ids=[case[0] for case in ROOTS])
def test_the_root_is_a_plain_object(schema: Any, expected: Any, losses: Any) -> None:
    for target in PLAIN:
        compiled = compile_schema(schema, target)
        assert compiled.schema == expected
        assert compiled.losses == tuple(Loss(*each) for each in losses)


def test_without_a_target_the_schema_is_copied_with_an_object_at_its_root() -> None:
    schema = {"$schema": "x", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"x-y": [1]}}, "anyOf": [{}]}
    compiled = compile_schema(schema, None)
    assert compiled.schema == {**schema, "type": "object"}
    compiled.schema["$defs"]["A"]["x-y"].append(2)
    assert schema["$defs"]["A"] == {"x-y": [1]}  # type: ignore[index]
    assert compile_schema({"type": "array"}, None).schema == {"type": "object", "properties": {}}
    assert compile_schema(None, None).schema == {"type": "object", "properties": {}}


def test_unknown_targets_are_rejected() -> None:
    with pytest.raises(UsageError, match=r"^target: expected one of anthropic, .*, got 'mistral'"):
        compile_schema({}, "mistral")  # type: ignore[arg-type]


# ---- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target,name,is_kept",
    [
        ("anthropic", "a.b-c", True),
        ("anthropic", "1st", True),
        ("anthropic", "a b", False),
        ("anthropic-strict", "größe", False),
        ("anthropic", "x" * 65, False),
        ("bedrock", "a b", False),
        ("openai", "a b", True),
        ("openai-strict", "größe", True),
        ("gemini", "a_b1", True),
        ("gemini", "a.b-c", False),
        ("gemini-openapi", "1st", False),
        ("gemini", "", False),
        ("nullable", "a b", True),
    ],
)
def test_names_that_the_api_rejects_are_replaced(target: Target, name: str, is_kept: bool) -> None:
    inner = {"type": "object", "properties": {name: TEXT}, "required": [name]}
    schema = {"type": "object", "properties": {"o": inner, name: TEXT}, "required": [name, "o"]}
    compiled = compile_schema(schema, target)
    new = next(each for each in compiled.schema["properties"] if each != "o")
    assert (new == name) is is_kept
    if not is_kept:
        assert len(new) <= 64
        assert new.isascii() and new.replace("_", "a").replace("-", "a").replace(".", "a").isalnum()
        assert Loss(f"/properties/{name}", "properties", "renamed") in compiled.losses
    assert sorted(compiled.schema["required"]) == sorted([new, "o"])
    assert compiled.schema["properties"]["o"]["required"] == [new]
    assert compiled.restore({new: "x", "o": {new: "y"}}) == {name: "x", "o": {name: "y"}}
