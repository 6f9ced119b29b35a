"""key=value, typed by a schema."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli.exit_codes import CliError, Exit
from toolcrib.cli.key_values import described, merged, missing, parameters, refused, unknown, usage

ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "number": {"type": "integer"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer", "minimum": 0},
        "share": {"type": "number"},
        "deep": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "address": ADDRESS,
        "home": {"$ref": "#/$defs/Address"},
        "colour": {"enum": ["red", "green", 3]},
        "digit": {"enum": ["1", "2"]},
        "size": {"type": "string", "enum": ["1", "2"]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "note": {"type": ["string", "null"]},
        "either": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "several": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "whole": {"allOf": [{"type": "integer"}, {"minimum": 1}]},
        "any": {},
        "dotted.name": {"type": "integer"},
        "free": {"type": "object", "additionalProperties": {"type": "integer"}},
        "code": {"anyOf": [{"type": "integer", "minimum": 100}, {"type": "string", "pattern": "^0?[0-9]{1,3}$"}]},
        "filter": {"anyOf": [{"type": "object", "required": ["x"]}, {"type": "string"}]},
        "inherited": {"$ref": "#inherited"},
        "optional": {"type": "integer", "nullable": True},
    },
    "required": ["text"],
    "$defs": {
        "Address": ADDRESS,
        "Inherited": {"$anchor": "inherited", "allOf": [{"properties": {"a": {"type": "integer"}}}, ADDRESS]},
    },
}


@pytest.mark.parametrize(
    "words, expected",
    [
        (["text=5"], {"text": "5"}),
        (["text="], {"text": ""}),
        (["text=a=b:=c"], {"text": "a=b:=c"}),
        (["text=null"], {"text": "null"}),
        (["count=5"], {"count": 5}),
        (["count=-5"], {"count": -5}),
        (["count=5.0"], {"count": 5}),
        (["count=123456789012345678901234567890"], {"count": 123456789012345678901234567890}),
        (["share=0.5"], {"share": 0.5}),
        (["share=1e3"], {"share": 1000.0}),
        (["share=7"], {"share": 7}),
        (["share=.5"], {"share": 0.5}),
        (["share=+5."], {"share": 5.0}),
        (["count=+5"], {"count": 5}),
        (["any=NaN"], {"any": "NaN"}),
        (["address.number=7", 'address={"street": "Elm"}'], {"address": {"street": "Elm", "number": 7}}),
        (["deep=true"], {"deep": True}),
        (["deep=False"], {"deep": False}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a,b"], {"tags": ["a,b"]}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["tags="], {"tags": []}),
        (["numbers=1,2, 3"], {"numbers": [1, 2, 3]}),
        (["numbers=1", "numbers=2"], {"numbers": [1, 2]}),
        (['address={"number": 7}'], {"address": {"number": 7}}),
        (["address.street=Elm", "address.number=7"], {"address": {"street": "Elm", "number": 7}}),
        (["home.number=7"], {"home": {"number": 7}}),
        (["colour=red"], {"colour": "red"}),
        (["colour=3"], {"colour": 3}),
        (["digit=1"], {"digit": "1"}),
        (["size=1"], {"size": "1"}),
        (["limit=5"], {"limit": 5}),
        (["limit=null"], {"limit": None}),
        (["note=null"], {"note": "null"}),
        (["note:=null"], {"note": None}),
        (["either=5"], {"either": 5}),
        (["either=five"], {"either": "five"}),
        (["several=a"], {"several": "a"}),
        (["several=a", "several=b"], {"several": ["a", "b"]}),
        (["whole=5"], {"whole": 5}),
        (["any=5"], {"any": 5}),
        (["any=x"], {"any": "x"}),
        (["any={}"], {"any": {}}),
        (["any=1", "any=x"], {"any": [1, "x"]}),
        (["dotted.name=5"], {"dotted.name": 5}),
        (["free.x=5"], {"free": {"x": 5}}),
        (["text:=5"], {"text": 5}),
        (['address:={"street": null}'], {"address": {"street": None}}),
        (["strange=5"], {"strange": 5}),
        (["code=500"], {"code": 500}),
        (["code=50"], {"code": "50"}),
        (["code=5000"], {"code": 5000}),
        (["filter=abc"], {"filter": "abc"}),
        (["filter={}"], {"filter": {}}),
        (["inherited.a=1", "inherited.street=1"], {"inherited": {"a": 1, "street": "1"}}),
        (["optional=null"], {"optional": None}),
        (["any=1e999"], {"any": "1e999"}),
    ],
)
def test_a_value_becomes_what_the_schema_wants(words: list[str], expected: dict[str, Any]) -> None:
    assert merged(words, SCHEMA, {}) == (expected, [])


@pytest.mark.parametrize(
    "words, problem",
    [
        (["count=many"], "count: expected integer, got 'many'"),
        (["count=0.5"], "count: expected integer, got '0.5'"),
        (["share=NaN"], "share: expected number, got 'NaN'"),
        (["share=1e999"], "share: expected number, got '1e999'"),
        (["share:=NaN"], "share: expected JSON, got 'NaN'"),
        (["share:=1e999"], "share: expected JSON, got '1e999'"),
        (["share=true"], "share: expected number, got 'true'"),
        (["deep=yes"], "deep: expected boolean, got 'yes'"),
        (["numbers=1,x"], "numbers: expected array of integer, got '1,x'"),
        (["colour=blue"], "colour: expected red|green|3, got 'blue'"),
        (["limit=x"], "limit: expected integer or null, got 'x'"),
        (["address=Elm"], "address: expected object, got 'Elm'"),
        (["address.number=x"], "address.number: expected integer, got 'x'"),
        (["text=a", "text=b"], "text: given 2 times, expected one string"),
        (["text:={"], "text: expected JSON, got '{'"),
        (["any=5", "any.b=5"], "any.b: given twice, once as a whole"),
        (["count=" + "9" * 100 + "x"], f"count: expected integer, got '{'9' * 60}...'"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_what_was_expected(words: list[str], problem: str) -> None:
    _, problems = merged(words, SCHEMA, {})
    assert len(problems) == 1 and problems[0].startswith(problem)


def test_all_mistakes_are_reported_at_once() -> None:
    values, problems = merged(["count=x", "deep=x", "text=a"], SCHEMA, {})
    assert values == {"text": "a"} and len(problems) == 2


def test_words_go_on_top_of_given_arguments_and_leave_them_alone() -> None:
    base = {"text": "a", "address": {"street": "Elm"}}
    assert merged(["address.number=1"], SCHEMA, base)[0]["address"] == {"street": "Elm", "number": 1}
    assert base == {"text": "a", "address": {"street": "Elm"}}


def test_a_file_gives_its_text_or_its_json(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\nlines", "utf-8")
    (tmp_path / "a.json").write_text('{"number": 7}', "utf-8")
    words = [f"text=@{tmp_path}/a.txt", f"address:=@{tmp_path}/a.json"]
    assert merged(words, SCHEMA, {})[0] == {"text": "two\nlines", "address": {"number": 7}}


def test_a_file_that_cannot_be_read_is_reported_with_the_escape_for_literal_text(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, reason in (("none", "No such file"), ("binary", "it is not UTF-8 text")):
        with pytest.raises(CliError, match=reason) as caught:
            merged([f"text=@{tmp_path}/{name}"], SCHEMA, {})
        assert caught.value.code is Exit.USAGE and "text:=" in caught.value.hint


@pytest.mark.parametrize("word", ["text", "=a", ""])
def test_a_word_without_a_key_is_not_an_argument(word: str) -> None:
    with pytest.raises(CliError, match="expected key=value"):
        merged([word], SCHEMA, {})


def test_missing_arguments_are_named_with_their_type() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a", "b", 5]}
    assert missing({}, schema) == ["missing a (number)", "missing b (any)"]


def test_an_unknown_argument_is_reported_with_the_nearest_one() -> None:
    assert unknown({"txet": "a", "count": 1}, SCHEMA) == ["txet is not an argument of it, did you mean 'text'?"]
    assert unknown({"anything": 1}, {"type": "object"}) == []


def test_several_unknown_arguments_are_reported_with_one_question() -> None:
    problems = unknown({"txet": "a", "textt": "b", "cuont": 1}, SCHEMA)
    assert problems == ["txet, textt, cuont are not arguments of it, did you mean 'text' or 'count'?"]


def test_the_schema_is_asked_for_the_rest() -> None:
    (problem,) = refused({"text": "a", "count": -1}, SCHEMA)
    assert problem.startswith("count:") and "minimum" in problem


@pytest.mark.parametrize("schema", [{"type": 5}, {"$ref": "http://127.0.0.1:9/never"}, {"properties": [1]}])
def test_a_non_schema_refuses_nothing_and_fetches_nothing(schema: dict[str, Any]) -> None:
    assert refused({"a": 1}, schema) == []
    assert merged(["a=1"], schema, {})[0] == {"a": 1}


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"$ref": "#/properties/a"}, "b": {"anyOf": []}}}
    schema["properties"]["b"]["anyOf"] = [{"$ref": "#/properties/b"}] * 60
    assert merged(["a=1", "b=2"], schema, {}) == ({"a": 1, "b": 2}, [])


def test_usage_and_parameters_show_how_to_type_them() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number", "description": "first"}, "b": {"enum": ["x", "y"]}, "c": True},
        "required": ["a"],
    }
    assert usage(schema) == "a=<number> [b=<x|y>] [c=<any>]"
    assert parameters(schema) == [
        ("a", "number", True, "first"),
        ("b", "x|y", False, ""),
        ("c", "any", False, ""),
    ]


def test_what_a_schema_wants_is_said_in_few_words() -> None:
    shown = {key: described(each, SCHEMA) for key, each in SCHEMA["properties"].items()}
    assert shown["tags"] == "array of string" and shown["limit"] == "integer or null" and shown["home"] == "object"
    assert described(False, SCHEMA) == "nothing" and described({"const": {"a": 1}}, SCHEMA) == json.dumps({"a": 1})


@pytest.mark.serial
def test_a_schema_that_branches_without_end_costs_little() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}] * 60}}}
    began = time.monotonic()
    assert merged(["a=1"], schema, {}) == ({"a": 1}, [])
    assert time.monotonic() - began < 10


def test_json_that_is_nested_too_deeply_is_reported() -> None:
    _, problems = merged(["a:=" + "[" * 100_000], {"properties": {"a": {}}}, {})
    assert problems and "nested too deeply" in problems[0]


@pytest.mark.parametrize(
    "words, required, hint",
    [
        (["a note"], ["path"], "name each argument, such as 'path=a note'; it takes path=<string> [depth=<integer>]"),
        (["path=x", "a"], ["path"], "name each argument, such as depth=a; it takes path=<string> [depth=<integer>]"),
        (["path=x", "depth=1", "a"], [], "name each argument, such as a=2; "),
    ],
)
def test_a_word_without_a_key_gets_the_tools_own_argument(words: list[str], required: list[str], hint: str) -> None:
    properties = {"path": {"type": "string"}, "depth": {"type": "integer"}}
    with pytest.raises(CliError, match="expected key=value") as caught:
        merged(words, {"type": "object", "properties": properties, "required": required}, {})
    assert caught.value.hint.startswith(hint)


def test_a_word_for_a_tool_without_arguments_is_reported() -> None:
    with pytest.raises(CliError) as caught:
        merged(["a"], {"type": "object"}, {})
    assert caught.value.hint == "it takes no arguments"
