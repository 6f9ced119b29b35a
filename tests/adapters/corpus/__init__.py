"""Schemas of tools: those of real servers, and hard ones made by hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@cache
def load_corpus() -> dict[str, Any]:
    """Return the recorded schemas by `SERVER/TOOL`."""
    found = {}
    for file in sorted(FOLDER.glob("*.json")):
        for name, schema in json.loads(file.read_text())["tools"].items():
            found[f"{file.stem}/{name}"] = schema
    return found


def hard_schemas() -> dict[str, Any]:
    """Return schemas that some API refuses, or that are not valid, by a name for each."""
    text = {"type": "string"}
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}, "value": text},
        "required": ["value"],
    }
    return {
        f"hard/{name}": schema
        for name, schema in {
            "true": True,
            "false": False,
            "null": None,
            "list": [{"type": "object"}],
            "number": 3,
            "empty": {},
            "array at the root": {"type": "array", "items": text},
            "wrong types": {"type": 7, "properties": ["a"], "required": "a", "anyOf": {}, "enum": 3, "minLength": "x"},
            "reference to itself": {"$ref": "#"},
            "references in a circle": {
                "$ref": "#/$defs/A",
                "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
            },
            "reference to nothing": {"type": "object", "properties": {"a": {"$ref": "#/$defs/None"}}},
            "reference to another document": {"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}},
            "tree": {"type": "object", "properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}},
            "required tree": {
                "type": "object",
                "properties": {"tree": {"$ref": "#/$defs/Tree"}},
                "required": ["tree"],
                "$defs": {"Tree": {**tree, "required": ["children"]}},
            },
            "root is a tree": {"type": "object", "properties": {"next": {"$ref": "#"}, "value": text}},
            "reference with a description": {
                "type": "object",
                "properties": {
                    "a": {"$ref": "#/$defs/A", "description": "text"},
                    "b": {"allOf": [{"$ref": "#/$defs/A"}]},
                },
                "$defs": {"A": {"type": "string", "enum": ["x", "y"]}},
            },
            "required branches at the root": {
                "type": "object",
                "properties": {"a": text, "b": text},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            "union at the root": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "a"}, "size": {"type": "integer"}},
                        "required": ["kind"],
                    },
                    {"type": "object", "properties": {"kind": {"const": "b"}, "name": text}, "required": ["kind"]},
                ]
            },
            "union of all": {
                "type": "object",
                "properties": {"input": text},
                "anyOf": [{"properties": {"arguments": text}}, {"properties": {"size": {"type": "integer"}}}],
            },
            "names": {
                "type": "object",
                "properties": {
                    "größe": text,
                    "a b": text,
                    "": text,
                    "x" * 200: text,
                    "$filter": text,
                    "1st": text,
                    "a.b-c": text,
                    "nested": {"type": "object", "properties": {"a b": text, "a_b": text}, "required": ["a b"]},
                },
                "required": ["a b"],
            },
            "values": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer", "enum": [1, 2, 3]},
                    "mixed": {"enum": ["1", 1, 2.5, True, None, {"a": 1}]},
                    "flag": {"const": True},
                    "nothing": {"const": None},
                    "empty": {"enum": []},
                    "bounded": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1.5, "multipleOf": 0.5},
                    "whole": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10.5},
                    "text": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^(?=a)", "format": "uri"},
                },
            },
            "arrays": {
                "type": "object",
                "properties": {
                    "untyped": {"type": "array"},
                    "pair": {"type": "array", "items": [text, {"type": "integer"}], "additionalItems": False},
                    "tuple": {
                        "type": "array",
                        "prefixItems": [text, {"type": "integer"}],
                        "items": {"type": "boolean"},
                    },
                    "none": {"type": "array", "items": False},
                    "some": {"type": "array", "items": text, "minItems": 2, "maxItems": 5, "uniqueItems": True},
                    "contains": {"type": "array", "items": text, "contains": {"const": "a"}},
                },
            },
            "types": {
                "type": ["object", "null"],
                "properties": {
                    "any": {},
                    "anything": True,
                    "never": False,
                    "several": {"type": ["string", "integer", "null"], "minLength": 1, "minimum": 2},
                    "nullable": {"type": "string", "nullable": True},
                    "untyped": {"properties": {"a": text}},
                    "optional": {
                        "anyOf": [{"type": "integer"}, {"type": "null"}],
                        "default": None,
                        "title": "Optional",
                    },
                    "union": {"oneOf": [text, {"type": "array", "items": text}]},
                    "merged": {"allOf": [{"type": "object", "properties": {"a": text}}, {"properties": {"b": text}}]},
                    "not merged": {"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"},
                },
            },
            "objects": {
                "type": "object",
                "properties": {
                    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "free": {"type": "object"},
                    "open": {"type": "object", "properties": {"a": text}, "additionalProperties": True},
                    "closed": {"type": "object", "properties": {"a": text}, "unevaluatedProperties": False},
                    "patterns": {"type": "object", "patternProperties": {"^x-": text}},
                    "counted": {"type": "object", "properties": {"a": text}, "minProperties": 1, "maxProperties": 2},
                    "dependent": {"type": "object", "properties": {"a": text, "b": text}, "dependencies": {"a": ["b"]}},
                },
            },
            "conditions": {
                "type": "object",
                "properties": {"a": {"type": "boolean"}, "b": text},
                "if": {"properties": {"a": {"const": True}}},
                "then": {"required": ["b"]},
                "not": {"required": ["c"]},
                "enum": [{"a": True}],
            },
            "strict": {
                "type": "object",
                "properties": {
                    "a": text,
                    "b": {"type": "integer", "default": 5},
                    "c": {"type": "array", "items": {"type": "object", "properties": {"d": text}}},
                    "e": {"type": "string", "enum": ["x", "y"]},
                    "f": {"anyOf": [text, {"type": "object", "properties": {"g": text}, "required": ["g"]}]},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
            "large enum": {"type": "object", "properties": {"a": {"enum": [f"value {i}" for i in range(1200)]}}},
            "deep": _nested(15),
            "too deep": _nested(300),
            "many": {"type": "object", "properties": {f"p{i}": text for i in range(6000)}},
            "growing": {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/n0"}},
                "$defs": {
                    **{
                        f"n{i}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/n{i + 1}"} for k in "abcd"}}
                        for i in range(30)
                    },
                    "n30": text,
                },
            },
        }.items()
    }


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema
