"""The frozen values: they keep the whole wire object, and no wire object makes them raise."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from base64 import b64encode, encodebytes
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ToolFailed
from toolcrib.types import (
    UNSET,
    AudioContent,
    Completion,
    ConnectionState,
    ConnectionStatus,
    ElicitRequest,
    ElicitResult,
    EmbeddedResource,
    FilterContext,
    GetPromptResult,
    ImageContent,
    Prompt,
    ReadResourceResult,
    ReconnectPolicy,
    Resource,
    ResourceContents,
    ResourceLink,
    ResourceTemplate,
    SamplingRequest,
    ServerInfo,
    TextContent,
    Tool,
    ToolResult,
    UnknownContent,
    block_from_wire,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["text", "image", "audio", "resource_link", "resource", "video", None, 7])
ODD_BLOCKS = st.fixed_dictionaries(
    {"type": KINDS}, optional=dict.fromkeys(("text", "data", "mimeType", "uri", "name", "resource"), JSON)
)
READERS = [Tool, Resource, ResourceTemplate, Prompt, ReadResourceResult, SamplingRequest, ElicitRequest, Completion]


# ---- blocks --------------------------------------------------------------------------------------------------


@given(st.lists(JSON | ODD_BLOCKS, max_size=6))
def test_no_block_is_ever_dropped(blocks: list[Any]) -> None:
    result = ToolResult({"content": blocks})
    assert len(result.content) == len(blocks)
    for wire, block in zip(blocks, result.content, strict=True):
        assert block.to_wire() == (wire if isinstance(wire, dict) else {"value": wire})
        assert repr(block)
    assert isinstance(result.text, str)
    assert repr(result)


@given(JSON)
def test_a_result_of_any_json_can_be_looked_at(content: Any) -> None:
    result = ToolResult({"content": content, "_meta": content, "isError": content, "structuredContent": content})
    assert result.is_error is (content is True)
    assert result.has_data
    assert result.data == content
    assert len(result.content) == (len(content) if isinstance(content, list) else 0)
    assert result.raw["content"] is content


@given(st.binary(max_size=50), st.sampled_from([ImageContent, AudioContent]))
def test_bytes_travel_in_base64(data: bytes, kind: type[ImageContent] | type[AudioContent]) -> None:
    wire = kind(data, "x/y").to_wire()
    assert wire["data"] == b64encode(data).decode()
    read = block_from_wire(wire)
    assert read == kind(data, "x/y")
    assert ResourceContents.from_wire(ResourceContents("u", None, None, data).to_wire()).blob == data


@pytest.mark.parametrize("data", ["a", "\u00e9", 7, None])
def test_an_invalid_picture_is_kept_as_an_unknown_block(data: Any) -> None:
    wire = {"type": "image", "data": data, "mimeType": "image/png"}
    block = block_from_wire(wire)
    assert type(block) is UnknownContent
    assert block.to_wire() == wire
    assert ResourceContents.from_wire({"uri": "u", "blob": data}).blob is None


def test_an_embedded_resource_made_by_hand_is_written_whole() -> None:
    block = EmbeddedResource(ResourceContents("file:///a", "text/plain", "hello"))
    assert block.to_wire() == {
        "type": "resource",
        "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "hello"},
    }


def test_the_repr_of_a_picture_does_not_print_its_bytes() -> None:
    assert "secret" not in repr(ImageContent(b"secret" * 1000))


# ---- results -------------------------------------------------------------------------------------------------


def test_the_texts_are_joined_by_newlines_and_other_blocks_left_out() -> None:
    result = ToolResult.from_blocks([TextContent("a"), ImageContent(b"x"), TextContent("b")])
    assert result.text == "a\nb"
    assert len(result.content) == 3


def test_blocks_are_parsed_when_looked_at_and_once() -> None:
    result = ToolResult({"content": [{"type": "text", "text": "a"}]})
    assert result._content is None
    assert result.content is result.content


@pytest.mark.parametrize("mark", ["schema", "meta"])
def test_a_wrapped_scalar_is_unwrapped_where_it_is_marked(mark: str) -> None:
    wire: dict[str, Any] = {"content": [], "structuredContent": {"result": 42}}
    if mark == "meta":
        wire["_meta"] = {"fastmcp": {"wrap_result": True}}
    assert ToolResult(wire, wrapped=mark == "schema").data == 42
    assert ToolResult({"structuredContent": {"result": 42}}).data == {"result": 42}
    assert ToolResult({"structuredContent": {"result": 1, "more": 2}}, wrapped=True).data == {"result": 1, "more": 2}


@pytest.mark.parametrize("key", ["x-toolcrib-wrap-result", "x-fastmcp-wrap-result"])
def test_a_tool_says_in_its_output_schema_that_it_wraps(key: str) -> None:
    assert Tool.from_wire({"name": "t", "outputSchema": {key: True}}).wraps_result
    assert not Tool.from_wire({"name": "t", "outputSchema": {key: "yes"}}).wraps_result
    assert not Tool("t").wraps_result


def test_a_null_that_means_something_is_data() -> None:
    assert ToolResult({"structuredContent": None}).has_data
    assert not ToolResult({}).has_data
    assert ToolResult.from_blocks([], data=None).has_data
    assert not ToolResult.from_blocks([]).has_data


def test_a_failed_result_raises_itself() -> None:
    result = ToolResult.from_error("out of paper")
    assert result.is_error
    with pytest.raises(ToolFailed, match="out of paper") as caught:
        result.raise_for_error()
    assert caught.value.result is result
    with pytest.raises(ToolFailed, match="without a text"):
        ToolResult({"isError": True}).raise_for_error()


def test_results_are_equal_by_what_came_and_cannot_be_keys() -> None:
    assert ToolResult.from_text("a") == ToolResult({"content": [{"type": "text", "text": "a"}]}, elapsed=3)
    assert ToolResult.from_text("a") != ToolResult.from_error("a")
    with pytest.raises(TypeError):
        hash(ToolResult.from_text("a"))


# ---- all of them ---------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=5), JSON) | ODD_BLOCKS, st.sampled_from(READERS))
def test_any_object_of_the_wire_can_be_read(raw: dict[str, Any], reader: Any) -> None:
    value = reader.from_wire(raw)
    if reader is not Completion:
        assert value.raw is raw
        assert all(value[key] is raw[key] and value.get(key) is raw[key] for key in raw)
        assert value.get("absent", 7) == 7
    assert repr(value)


@given(JSON)
def test_any_prompt_can_be_read(content: Any) -> None:
    raw = {"messages": [{"role": content, "content": content}, content], "description": content}
    result = GetPromptResult.from_wire("p", {"a": "b"}, raw)
    assert isinstance(result.text, str)
    assert (result["name"], result["arguments"]) == ("p", {"a": "b"})


VALUES = [
    Tool.from_wire({"name": "t", "inputSchema": {"type": "object"}}),
    Resource("file:///a"),
    ResourceTemplate("file:///{a}"),
    ReadResourceResult((ResourceContents("u", text="x"),)),
    Prompt("p"),
    GetPromptResult("p", ()),
    Completion(("a",)),
    ServerInfo("s", capabilities={"tools": {}}),
    ConnectionStatus(ConnectionState.FAILED, "why", 1.0),
    ReconnectPolicy(),
    FilterContext("agent"),
    ElicitRequest("m"),
    ElicitResult("accept", {"a": 1}),
    SamplingRequest(({"role": "user"},)),
    TextContent("a"),
    ImageContent(b"a"),
    AudioContent(b"a"),
    ResourceLink("u"),
    UnknownContent("video", {"type": "video"}),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_frozen_and_can_be_hashed_pickled_and_copied(value: Any) -> None:
    hash(value)
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert getattr(pickle.loads(pickle.dumps(value)), "raw", None) == getattr(value, "raw", None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, "other")


def test_a_result_can_be_pickled_and_copied() -> None:
    result = ToolResult({"content": [], "structuredContent": {"result": 1}}, elapsed=1.5, wrapped=True)
    for twin in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert twin == result
        assert (twin.elapsed, twin.data) == (1.5, 1)


def test_an_unset_option_is_one_thing_everywhere() -> None:
    assert pickle.loads(pickle.dumps(UNSET)) is copy.deepcopy(UNSET) is UNSET
    assert repr(UNSET) == "UNSET"


def test_a_status_says_its_reason() -> None:
    assert str(ConnectionStatus(ConnectionState.CONNECTED)) == "connected"
    assert str(ConnectionStatus(ConnectionState.NEEDS_AUTH, "401")) == "needs-auth (401)"


@pytest.mark.parametrize("state", ConnectionState)
def test_a_status_equals_its_state_and_no_other(state: ConnectionState) -> None:
    status = ConnectionStatus(state, "why", 7.0)
    assert (
        [other for other in ConnectionState if status == other]
        == [other for other in ConnectionState if other == status]
        == [state]
    )
    assert status == str(state) and str(state) == status
    assert hash(status) == hash(state) == hash(str(state))
    assert status in {state: 1} and status in {str(state): 1}
    match status:
        case ConnectionState.CONNECTED:
            assert state is ConnectionState.CONNECTED
        case _:
            assert state is not ConnectionState.CONNECTED


def test_statuses_equal_each_other_by_all_their_fields() -> None:
    assert ConnectionStatus(ConnectionState.FAILED, "a", 1.0) == ConnectionStatus(ConnectionState.FAILED, "a", 1.0)
    assert (
        len(
            {
                ConnectionStatus(ConnectionState.FAILED, "a", 1.0),
                ConnectionStatus(ConnectionState.FAILED, "a", 1.0),
                ConnectionStatus(ConnectionState.FAILED, "b", 1.0),
            }
        )
        == 2
    )
    for other in (
        ConnectionStatus(ConnectionState.FAILED),
        ConnectionStatus(ConnectionState.FAILED, "a", 2.0),
        "FAILED",
        "Failed",
        None,
        1,
        ("failed", "a", 1.0),
    ):
        assert ConnectionStatus(ConnectionState.FAILED, "a", 1.0) != other


def test_a_person_who_declines_or_cancels_sends_no_content() -> None:
    assert ElicitResult("accept", {"a": 1}).to_wire() == {"action": "accept", "content": {"a": 1}}
    assert ElicitResult("decline", {"a": 1}).to_wire() == {"action": "decline"}
    assert ElicitResult("cancel").to_wire() == {"action": "cancel"}


def test_a_resource_of_text_and_bytes_gives_both() -> None:
    raw = {"contents": [{"uri": "a", "text": "x"}, {"uri": "b", "blob": b64encode(b"\x00").decode()}, 7]}
    contents = ReadResourceResult.from_wire(raw)
    assert (contents.text, contents.data, len(contents)) == ("x", b"x\x00", 2)
    assert [piece.uri for piece in contents] == ["a", "b"]


@pytest.mark.parametrize("data", ["%%%", "iVBO-_8=", "iVBO!w==", "iVBOw", "aGk=aGk=", "é"])
@pytest.mark.parametrize("kind", ["image", "audio"])
def test_invalid_base64_is_not_guessed_at(kind: str, data: str) -> None:
    raw = {"type": kind, "data": data, "mimeType": "x/y"}
    assert block_from_wire(raw) == UnknownContent(kind)
    assert block_from_wire(raw).to_wire() == raw
    assert ResourceContents.from_wire({"uri": "a", "blob": data}).blob is None


def test_base64_may_be_broken_into_lines() -> None:
    data = bytes(range(256))
    block = block_from_wire({"type": "image", "data": encodebytes(data).decode().replace("\n", "\r\n")})
    assert isinstance(block, ImageContent)
    assert block.data == data
