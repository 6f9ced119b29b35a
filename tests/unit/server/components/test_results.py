"""Conversion of return values to results."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import inspect
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NewType

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, computed_field

from tests.unit.server.functions_kit import Color, Item, Odd, Options, Pair, Point, json_values, text_of
from toolcrib.errors import ConfigError
from toolcrib.protocol import jsonrpc
from toolcrib.server.components.results import BLOB_URI, WRAP_MARK, BadReturn, Output, to_wire
from toolcrib.server.functions.type_hints import readable
from toolcrib.types import (
    AudioContent,
    Block,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    Tool,
    ToolResult,
    UnknownContent,
)

PNG = b"\x89PNG"
PNG_WIRE = {"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}


class Area(BaseModel):
    side: Annotated[int, Field(serialization_alias="a")]

    @computed_field
    def size(self) -> int:
        return self.side**2


def output_of(annotation: Any) -> Output:
    made = Output.of(readable(annotation))
    assert made is not None
    return made


# ---- without a schema


def test_text_is_one_block_and_nothing_says_error() -> None:
    assert to_wire("hi") == {"content": [{"type": "text", "text": "hi"}]}
    assert to_wire("") == {"content": [{"type": "text", "text": ""}]}


def test_none_is_empty_content() -> None:
    assert to_wire(None) == {"content": []}


@pytest.mark.parametrize(
    "value, text",
    [
        (5, "5"),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (["a", "b"], '["a","b"]'),
        ([], "[]"),
        ((1, 2), "[1,2]"),
        ({1: "x"}, '{"1":"x"}'),
        (10**30, "1" + "0" * 30),
        (Point(1, 2), '{"x":1,"y":2}'),
        (Item(title="t"), '{"title":"t","count":1,"parts":[]}'),
        ([Item(title="t")], '[{"title":"t","count":1,"parts":[]}]'),
        (Color.RED, "red"),
        (enum.StrEnum("Kind", {"ONE": "one"}).ONE, "one"),
        (dt.date(2020, 1, 2), "2020-01-02"),
        ({"day": dt.date(2020, 1, 2)}, '{"day":"2020-01-02"}'),
        (Pair(1), '[1,"r"]'),
        ("grüße", "grüße"),
    ],
)
def test_any_other_value_is_compact_json_and_a_string_itself(value: Any, text: str) -> None:
    assert to_wire(value) == {"content": [{"type": "text", "text": text}]}


@pytest.mark.parametrize("value", [Odd(), [Odd()], float("nan"), {"a": float("inf")}, ["\ud800"]])
def test_what_json_cannot_say_is_an_exception(value: Any) -> None:
    with pytest.raises((BadReturn, ValueError)):
        to_wire(value)


def test_a_circle_is_an_exception() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="Circular"):
        to_wire(circle)


def test_half_a_surrogate_pair_does_not_spoil_the_answer() -> None:
    assert to_wire("a\udcff") == {"content": [{"type": "text", "text": "a?"}]}
    forced = Output.of(str, structured=True)
    assert to_wire("a\udcff", output=forced)["structuredContent"] == {"result": "a?"}


# ---- blocks


@pytest.mark.parametrize(
    "block",
    [
        TextContent("t"),
        ImageContent(PNG),
        AudioContent(b"a"),
        ResourceLink("file:///a"),
        EmbeddedResource(ResourceContents("a:b", text="x")),
        UnknownContent("odd", {"type": "odd", "x": 1}),
    ],
)
def test_a_block_is_the_content(block: Block) -> None:
    assert to_wire(block) == {"content": [block.to_wire()]}
    assert to_wire([block, "text"]) == {"content": [block.to_wire(), {"type": "text", "text": "text"}]}
    assert to_wire(("text", block)) == {"content": [{"type": "text", "text": "text"}, block.to_wire()]}


def test_a_piece_of_a_resource_is_embedded() -> None:
    assert to_wire(ResourceContents("a:b", text="x")) == {
        "content": [{"type": "resource", "resource": {"uri": "a:b", "text": "x"}}]
    }


def test_blocks_among_other_values_are_not_content() -> None:
    assert to_wire([TextContent("t"), 5])["content"][0]["type"] == "text"
    assert json.loads(text_of(to_wire([TextContent("t"), 5])))[1] == 5


@pytest.mark.parametrize("value", [PNG, bytearray(PNG), memoryview(PNG)])
def test_bytes_are_what_their_mime_type_says(value: Any) -> None:
    data = b64encode(PNG).decode()
    assert to_wire(value, mime_type="image/png") == {"content": [PNG_WIRE]}
    assert to_wire(value, mime_type="audio/wav") == {
        "content": [{"type": "audio", "data": data, "mimeType": "audio/wav"}]
    }
    for given_type, shown in (("application/pdf", "application/pdf"), (None, "application/octet-stream")):
        assert to_wire(value, mime_type=given_type) == {
            "content": [{"type": "resource", "resource": {"uri": BLOB_URI, "mimeType": shown, "blob": data}}]
        }


def test_bytes_may_be_mixed_with_texts() -> None:
    assert to_wire(["look:", PNG], mime_type="image/png") == {"content": [{"type": "text", "text": "look:"}, PNG_WIRE]}


# ---- results as they are


def test_a_result_goes_as_it_is() -> None:
    raw = {"content": [PNG_WIRE, {"type": "odd"}], "structuredContent": [1], "_meta": {"k": 1}, "isError": True}
    assert to_wire(ToolResult(raw), output=output_of(int)) == raw
    assert to_wire(ToolResult.from_error("no")) == {"content": [{"type": "text", "text": "no"}], "isError": True}


def test_a_result_without_an_error_does_not_speak_of_one_and_always_has_content() -> None:
    assert to_wire(ToolResult({"structuredContent": {}, "isError": False})) == {"content": [], "structuredContent": {}}


def test_the_same_result_may_be_given_twice() -> None:
    result = ToolResult.from_text("x")
    to_wire(result)["resultType"] = "complete"
    assert to_wire(result) == {"content": [{"type": "text", "text": "x"}]}


# ---- output schemas


@pytest.mark.parametrize(
    "annotation",
    [
        *(inspect.Signature.empty, Any, object, None, type(None), str, bytes, str | None, Annotated[str, "note"]),
        *(
            NewType("Id", str),
            TextContent,
            ImageContent,
            ToolResult,
            list[Block],
            list[TextContent | str],
            tuple[TextContent, ImageContent],
            ImageContent | None,
        ),
        *(Odd, list[Odd], Callable[[], int], dict[str, bytes], ResourceContents),
    ],
)
def test_texts_blocks_and_what_cannot_be_described_have_no_output_schema(annotation: Any) -> None:
    assert Output.of(annotation) is None


WRAPPED: list[tuple[Any, Any, Any, Any]] = [
    (int, 5, {"type": "integer"}, 5),
    (bool, True, {"type": "boolean"}, True),
    (float, 5, {"type": "number"}, 5.0),
    (list[str], ["a"], {"type": "array", "items": {"type": "string"}}, ["a"]),
    (int | None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
    (Literal["a", "b"], "a", {"type": "string", "enum": ["a", "b"]}, "a"),
    (dt.date, dt.date(2020, 1, 2), {"type": "string", "format": "date"}, "2020-01-02"),
    (Color, Color.RED, {"type": "string", "enum": ["red", "blue"]}, "red"),
    (int | str, "x", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x"),
    (set[int], {1}, {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1]),
]


@pytest.mark.parametrize("annotation, value, schema, data", WRAPPED)
def test_a_non_object_is_wrapped_in_one(annotation: Any, value: Any, schema: Any, data: Any) -> None:
    output = output_of(annotation)
    assert output.schema == {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
        "x-toolcrib-wrap-result": True,
    }
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    assert to_wire(value, output=output) == {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"result": data},
        "_meta": {"dev.toolcrib/wrapped": True},
    }


def test_a_client_unwraps_by_the_mark_of_the_schema_or_of_the_result() -> None:
    output = output_of(int)
    tool = Tool.from_wire({"name": "add", "outputSchema": output.schema})
    wire = to_wire(5, output=output)
    assert ToolResult(wire).data == 5
    del wire["_meta"]
    assert ToolResult(wire, wrapped=tool.wraps_result).data == 5


@pytest.mark.parametrize(
    "annotation",
    [list, tuple, list[Any], tuple[Any, ...], list[object], Sequence[Any], list[Any] | None, list[Any | int]],
)
def test_a_list_of_anything_is_content_or_data_by_its_value(annotation: Any) -> None:
    assert Output.of(annotation) is None
    assert to_wire(["look:", ImageContent(PNG)])["content"] == [{"type": "text", "text": "look:"}, PNG_WIRE]
    assert to_wire(["look:", 1]) == {"content": [{"type": "text", "text": '["look:",1]'}]}


@pytest.mark.parametrize(
    "annotation, value, data",
    [
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, str], {1: "x"}, {"1": "x"}),
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (Options, {"size": 1}, {"size": 1}),
        (Area, Area(side=3), {"a": 3, "size": 9}),
        (Item, Item(title="t", parts=[]), {"title": "t", "count": 1, "parts": []}),
        (Item, {"title": "t"}, {"title": "t", "count": 1, "parts": []}),
    ],
)
def test_objects_are_structured_content_as_they_are(annotation: Any, value: Any, data: Any) -> None:
    output = output_of(annotation)
    assert output.schema["type"] == "object" and WRAP_MARK not in output.schema
    assert to_wire(value, output=output) == {
        "content": [{"type": "text", "text": json.dumps(data, separators=(",", ":"))}],
        "structuredContent": data,
    }
    jsonschema_rs.validate(output.schema, data)


def test_the_definitions_of_a_wrapped_schema_are_found_from_its_root() -> None:
    output = output_of(list[Item])
    assert output.schema["properties"]["result"] == {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    wire = to_wire([Item(title="t")], output=output)
    jsonschema_rs.validate(output.schema, wire["structuredContent"])


def test_structured_false_opts_out_and_true_forces() -> None:
    assert Output.of(int, structured=False) is None
    for annotation, schema in ((str, {"type": "string"}), (Any, {}), (inspect.Signature.empty, {})):
        forced = Output.of(annotation, structured=True)
        assert forced is not None and forced.schema["properties"]["result"] == schema
        assert to_wire("x", output=forced)["structuredContent"] == {"result": "x"}


def test_structured_output_that_cannot_be_made_is_an_error_if_it_was_requested() -> None:
    with pytest.raises(ConfigError, match="cannot make an output schema for"):
        Output.of(Odd, structured=True)


@pytest.mark.parametrize(
    "annotation, value, message",
    [
        (int, "x", "the returned str does not match the annotation: .*valid integer"),
        (int, None, "the returned NoneType"),
        (Item, {"count": 1}, "title: Field required"),
        (list[int], [1, "x"], "1: Input should be a valid integer"),
        (float, float("nan"), "NaN and infinity are not JSON numbers"),
    ],
)
def test_what_was_not_promised_is_not_sent(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(BadReturn, match=message):
        to_wire(value, output=output_of(annotation))


def test_a_given_schema_is_kept_and_the_value_checked() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    output = Output.given(schema)
    assert output.schema == schema and output.schema is not schema
    assert to_wire({"n": 1}, output=output)["structuredContent"] == {"n": 1}
    assert to_wire(dataclasses.make_dataclass("N", ["n"])(2), output=output)["structuredContent"] == {"n": 2}
    with pytest.raises(BadReturn, match='does not fit the output schema: n: "x" is not of type "integer"'):
        to_wire({"n": "x"}, output=output)


def test_a_given_schema_of_something_else_is_wrapped() -> None:
    output = Output.given({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}})
    assert output.schema[WRAP_MARK] is True and output.schema["$defs"] == {"n": {"type": "integer"}}
    wire = to_wire([1], output=output)
    assert wire["structuredContent"] == {"result": [1]} and text_of(wire) == "[1]"
    jsonschema_rs.validate(output.schema, wire["structuredContent"])


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"$ref": "https://example.com/s.json"}, [], 5])
def test_an_invalid_given_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError, match="output_schema"):
        Output.given(schema)


# ---- properties


@given(json_values)
def test_every_json_value_can_be_read_again_from_its_text(value: Any) -> None:
    wire = to_wire(value)
    jsonrpc.encode(wire)
    if value is None:
        assert wire == {"content": []}
    elif isinstance(value, str):
        assert text_of(wire) == value
    else:
        assert json.loads(text_of(wire)) == value
    assert wire.keys() == {"content"}


@given(
    st.sampled_from([int, list[int], dict[str, Any], Point, Item, Options, Color, int | str, bool | None]), json_values
)
def test_structured_content_fits_its_schema_or_is_not_sent(annotation: Any, value: Any) -> None:
    output, before = output_of(annotation), copy.deepcopy(value)
    try:
        wire = to_wire(value, output=output)
    except BadReturn:
        wire = {"content": []}
    else:
        assert jsonschema_rs.validator_for(output.schema).is_valid(wire["structuredContent"])
        assert jsonrpc.encode(wire)
    assert value == before


@given(st.integers() | st.booleans())
def test_the_short_way_of_plain_numbers_gives_what_the_long_one_gives(value: int) -> None:
    short, long = Output.of(type(value)), Output.of(type(value))
    assert short is not None and long is not None
    long.exact = None
    assert to_wire(value, output=short) == to_wire(value, output=long)
