"""Values from the wire are mappings by the protocol's names, next to their attributes."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from toolcrib import types as t

TOOL = {
    "name": "search",
    "title": "Search",
    "description": "Search the web",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "_meta": {"x": 1},
    "icons": [{"src": "https://example.com/a.png"}],
}
PROMPT = {"name": "greet", "description": "Greet", "arguments": [{"name": "who", "required": True, "title": "Who"}]}
MESSAGES = [{"role": "user", "content": {"type": "text", "text": "Hello"}}]
VALUES: list[tuple[Any, dict[str, Any]]] = [
    (t.Tool.from_wire, TOOL),
    (
        t.Resource.from_wire,
        {"uri": "a://b", "name": "b", "mimeType": "text/plain", "size": 0, "annotations": {"priority": 1}},
    ),
    (t.ResourceTemplate.from_wire, {"uriTemplate": "a://{b}", "name": "b", "x-more": True}),
    (t.Prompt.from_wire, PROMPT),
    (lambda raw: t.GetPromptResult.from_wire("greet", {"who": "me"}, raw), {"messages": MESSAGES}),
    (t.SamplingRequest.from_wire, {"messages": MESSAGES, "maxTokens": 5, "systemPrompt": "Be kind"}),
    (t.ElicitRequest.from_wire, {"message": "Sure?", "requestedSchema": {"type": "object"}, "mode": "form"}),
    (
        t.SamplingResult.from_wire,
        {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m", "stopReason": "endTurn"},
    ),
    (t.Root.from_wire, {"uri": "file:///a", "name": "a"}),
    (t.ToolResult, {"content": [{"type": "text", "text": "5"}], "structuredContent": {"sum": 5}, "_meta": {}}),
]


@pytest.fixture(params=VALUES, ids=lambda pair: str(pair[1])[:24])
def pair(request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any]]:
    make, raw = request.param
    value = make(raw)
    if isinstance(value, t.GetPromptResult):  # the answer of a server has neither: the client adds what it asked for
        raw = {**raw, "name": "greet", "arguments": {"who": "me"}}
    return value, raw


def test_a_value_is_a_mapping_of_all_that_the_server_sent(pair: tuple[Any, dict[str, Any]]) -> None:
    value, raw = pair
    assert isinstance(value, Mapping)
    assert dict(value) == value.to_dict() == {**value} == raw
    assert sorted(value) == sorted(value.keys()) == sorted(raw)
    assert sorted(map(repr, value.values())) == sorted(map(repr, raw.values()))
    assert dict(value.items()) == raw
    assert len(value) == len(raw)
    for key in raw:
        assert key in value
        assert value[key] == value.get(key) == raw[key]


def test_a_field_that_the_server_did_not_send_is_not_in_the_mapping(pair: tuple[Any, dict[str, Any]]) -> None:
    value, _ = pair
    assert "nope" not in value
    assert 0 not in value
    assert value.get("nope") is None
    assert value.get("nope", 7) == 7
    with pytest.raises(KeyError):
        value["nope"]


def test_a_value_can_be_written_as_json(pair: tuple[Any, dict[str, Any]]) -> None:
    value, raw = pair
    assert json.loads(json.dumps(value.to_dict())) == raw


def test_to_dict_returns_a_new_dict(pair: tuple[Any, dict[str, Any]]) -> None:
    value, raw = pair
    value.to_dict().clear()
    assert value.to_dict() == raw


def test_a_value_is_true_even_if_it_is_empty() -> None:
    assert t.Tool.from_wire({})
    assert t.ToolResult({})
    assert t.SamplingRequest(())


def test_a_value_can_be_matched_as_a_mapping_and_as_its_class() -> None:
    match t.Tool.from_wire(TOOL):
        case {"name": name, "inputSchema": {"type": kind}, **rest}:
            assert (name, kind, rest["icons"]) == ("search", "object", TOOL["icons"])
        case _:
            pytest.fail("not a mapping")
    match t.Tool.from_wire(TOOL):
        case t.Tool("search", title):
            assert title == "Search"
        case _:
            pytest.fail("not a Tool")


def test_values_compare_and_hash_by_their_attributes_as_before() -> None:
    tool, same = t.Tool.from_wire(TOOL), t.Tool.from_wire({**TOOL, "icons": []})
    assert tool == same and hash(tool) == hash(same)  # `raw` is not compared
    assert tool != replace(tool, name="other")
    assert tool != TOOL
    assert len({tool, same}) == 1
    assert t.Tool("a", raw={"name": "a"}) == t.Tool("a")
    with pytest.raises(TypeError):
        hash(t.ToolResult({}))


def test_values_stay_frozen() -> None:
    tool: Any = t.Tool.from_wire(TOOL)
    with pytest.raises(FrozenInstanceError):
        tool.name = "other"
    with pytest.raises(TypeError):
        tool["name"] = "other"
    assert not hasattr(tool, "__dict__")


def test_values_can_be_copied_and_pickled() -> None:
    for value in (t.Tool.from_wire(TOOL), t.ToolResult({"content": []}), t.Prompt.from_wire(PROMPT)):
        assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value


def test_pydantic_sees_the_attributes_as_before() -> None:
    tool = t.Tool.from_wire(TOOL)
    assert TypeAdapter(t.Tool).dump_python(tool)["input_schema"] == TOOL["inputSchema"]
    assert to_jsonable_python(tool)["input_schema"] == TOOL["inputSchema"]


# ---- attributes that were changed, and values made by hand


def test_an_attribute_that_was_replaced_is_what_the_mapping_says() -> None:
    tool = replace(t.Tool.from_wire(TOOL), name="mcp__web__search", description="Short", original_name="search")
    assert (tool["name"], tool.get("name"), tool["description"]) == ("mcp__web__search", "mcp__web__search", "Short")
    assert tool.to_dict() == dict(tool) == {**TOOL, "name": "mcp__web__search", "description": "Short"}
    assert tool.raw == TOOL
    prompt = replace(t.Prompt.from_wire(PROMPT), name="mcp__web__greet")
    assert prompt.to_dict() == {**PROMPT, "name": "mcp__web__greet"}


@pytest.mark.parametrize(
    "value,wire",
    [
        (t.Tool("a", input_schema={"type": "object"}), {"name": "a", "inputSchema": {"type": "object"}}),
        (t.Resource("a://b", "b", size=0), {"uri": "a://b", "name": "b", "size": 0}),
        (t.ResourceTemplate("a://{b}", mime_type="text/plain"), {"uriTemplate": "a://{b}", "mimeType": "text/plain"}),
        (
            t.Prompt("p", arguments=(t.PromptArgument("x", "An x", True), t.PromptArgument("y"))),
            {"name": "p", "arguments": [{"name": "x", "description": "An x", "required": True}, {"name": "y"}]},
        ),
        (
            t.GetPromptResult("p", (t.PromptMessage("user", t.TextContent("Hello")),), {"x": "1"}),
            {"name": "p", "messages": MESSAGES, "arguments": {"x": "1"}},
        ),
        (t.SamplingRequest(tuple(MESSAGES), max_tokens=3), {"messages": MESSAGES, "maxTokens": 3}),
        (t.ElicitRequest("Sure?"), {"message": "Sure?", "mode": "form"}),
        (
            t.SamplingResult("assistant", (t.TextContent("Hi"),), "m"),
            {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"},
        ),
        (t.Root("file:///a"), {"uri": "file:///a"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_made_by_hand_has_the_protocols_form_too(value: Any, wire: dict[str, Any]) -> None:
    assert value.to_dict() == dict(value) == wire
    assert type(value).__name__ and all(value[key] == wire[key] for key in wire)


# ---- content, and values that are not mappings


@pytest.mark.parametrize(
    "value,wire",
    [
        (t.TextContent("a"), {"type": "text", "text": "a"}),
        (t.ImageContent(b"a"), {"type": "image", "data": "YQ==", "mimeType": "image/png"}),
        (t.AudioContent(b"a"), {"type": "audio", "data": "YQ==", "mimeType": "audio/wav"}),
        (t.ResourceLink("a://b", "b"), {"type": "resource_link", "uri": "a://b", "name": "b"}),
        (
            t.EmbeddedResource(t.ResourceContents("a://b", text="x")),
            {"type": "resource", "resource": {"uri": "a://b", "text": "x"}},
        ),
        (t.ResourceContents("a://b", blob=b"a"), {"uri": "a://b", "blob": "YQ=="}),
        (t.block_from_wire({"type": "new", "x": 1}), {"type": "new", "x": 1}),
        (t.PromptMessage("user", t.TextContent("a")), {"role": "user", "content": {"type": "text", "text": "a"}}),
        (t.ReadResourceResult((t.ResourceContents("a://b", text="x"),)), {"contents": [{"uri": "a://b", "text": "x"}]}),
        (t.Completion(("a",), 3, True), {"completion": {"values": ["a"], "hasMore": True, "total": 3}}),
        (t.ElicitResult("accept", {"a": 1}), {"action": "accept", "content": {"a": 1}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_content_and_other_values_have_to_dict(value: Any, wire: dict[str, Any]) -> None:
    assert value.to_dict() == json.loads(json.dumps(value.to_dict())) == wire


def test_contents_of_a_resource_iterate_over_their_pieces() -> None:
    raw = {"contents": [{"uri": "a://b", "text": "x"}], "_meta": {"y": 1}}
    contents = t.ReadResourceResult.from_wire(raw)
    assert [piece.text for piece in contents] == ["x"]
    assert len(contents) == 1
    assert (contents["_meta"], contents.get("nope"), contents.to_dict()) == ({"y": 1}, None, raw)
    assert not isinstance(contents, Mapping)


def test_to_dict_of_content_does_not_hand_out_what_came() -> None:
    block = t.block_from_wire({"type": "text", "text": "a"})
    block.to_dict()["text"] = "b"
    assert block.to_dict() == {"type": "text", "text": "a"}
