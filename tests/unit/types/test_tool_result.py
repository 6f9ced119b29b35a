"""`ToolResult.to_tool_result`: the structure that Bedrock's Converse API and Strands take."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.types import (
    AudioContent,
    Block,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResult,
    UnknownContent,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["text", "image", "audio", "resource_link", "resource", "video", None, 7])
PIECES = st.fixed_dictionaries({}, optional=dict.fromkeys(("uri", "mimeType", "text", "blob"), JSON))
ODD_BLOCKS = st.fixed_dictionaries(
    {"type": KINDS},
    optional={**dict.fromkeys(("text", "data", "mimeType", "uri", "name", "description"), JSON), "resource": PIECES},
)


def content_of(*blocks: Block) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = ToolResult.from_blocks(blocks).to_tool_result("t")["content"]
    return content


def test_a_result_has_a_status_an_id_and_content() -> None:
    assert ToolResult.from_text("3").to_tool_result("tool-123") == {
        "status": "success",
        "toolUseId": "tool-123",
        "content": [{"text": "3"}],
    }


def test_a_tools_own_error_has_the_status_error() -> None:
    assert ToolResult.from_error("no").to_tool_result("t") == {
        "status": "error",
        "toolUseId": "t",
        "content": [{"text": "no"}],
    }


@pytest.mark.parametrize(
    "mime_type, known",
    [
        ("image/png", "png"),
        ("image/jpeg", "jpeg"),
        ("image/jpg", "jpeg"),
        ("image/gif", "gif"),
        ("image/webp", "webp"),
        ("IMAGE/PNG", "png"),
        ("image/png; charset=binary", "png"),
    ],
)
def test_a_picture_has_its_format_and_its_bytes(mime_type: str, known: str) -> None:
    wire = {"type": "image", "data": b64encode(b"\x89PNG").decode(), "mimeType": mime_type}
    (block,) = ToolResult({"content": [wire]}).to_tool_result("t")["content"]
    assert block == {"image": {"format": known, "source": {"bytes": b"\x89PNG"}}}


@pytest.mark.parametrize("mime_type", ["image/tiff", "", "png"])
def test_a_picture_that_models_do_not_accept_is_described_in_words(mime_type: str) -> None:
    """Models reject the whole request if an image is declared as PNG and is not."""
    (block,) = content_of(ImageContent(b"1234", mime_type))
    assert block == {"text": f"[image: {mime_type or 'unknown type'}, 4 bytes]"}


def test_the_order_of_the_blocks_is_kept() -> None:
    blocks = content_of(TextContent("a"), ImageContent(b"x"), TextContent("b"))
    assert [next(iter(block)) for block in blocks] == ["text", "image", "text"]
    assert blocks[2] == {"text": "b"}


@pytest.mark.parametrize(
    "block, text",
    [
        (AudioContent(b"12345", "audio/wav"), "[audio: audio/wav, 5 bytes]"),
        (ResourceLink("file:///a", "a.txt", "text/plain", "A file"), "a.txt: A file <file:///a>"),
        (ResourceLink("file:///a", "a.txt"), "a.txt <file:///a>"),
        (ResourceLink("file:///a"), "file:///a"),
        (EmbeddedResource(ResourceContents("file:///a", "text/plain", "hello")), "hello"),
        (EmbeddedResource(ResourceContents("file:///a", "text/plain", "")), ""),
        (
            EmbeddedResource(ResourceContents("zip://a", "application/zip", blob=b"P")),
            "[zip://a: application/zip, 1 bytes]",
        ),
        (EmbeddedResource(ResourceContents("", blob=b"PK")), "[resource: unknown type, 2 bytes]"),
        (EmbeddedResource(ResourceContents("a:", "text/csv", blob="1;\u00e9".encode())), "1;\u00e9"),
        (EmbeddedResource(ResourceContents("a:", "application/json", blob=b"{}")), "{}"),
        (EmbeddedResource(ResourceContents("a:", "text/plain", blob=b"\xff")), "[a:: text/plain, 1 bytes]"),
        (ImageContent(b"<svg/>", "image/svg+xml"), "<svg/>"),
        (UnknownContent("video", {"type": "video", "url": "\u00e9"}), '{"type": "video", "url": "\u00e9"}'),
    ],
    ids=lambda value: getattr(type(value), "__name__", None) if not isinstance(value, str) else value[:20],
)
def test_other_blocks_are_converted_to_text(block: Block, text: str) -> None:
    assert content_of(block) == [{"text": text}]


def test_a_picture_inside_a_resource_is_a_picture() -> None:
    (block,) = content_of(EmbeddedResource(ResourceContents("file:///a.gif", "image/gif", blob=b"GIF89a")))
    assert block == {"image": {"format": "gif", "source": {"bytes": b"GIF89a"}}}


def test_data_without_a_block_is_converted_to_json() -> None:
    result = ToolResult({"content": [], "structuredContent": {"sum": 3}})
    (block,) = result.to_tool_result("t")["content"]
    assert json.loads(block["text"]) == {"sum": 3}
    assert ToolResult({"content": []}).to_tool_result("t")["content"] == []


def test_data_beside_blocks_is_not_repeated() -> None:
    assert ToolResult.from_blocks([TextContent('{"sum": 3}')], data={"sum": 3}).to_tool_result("t")["content"] == [
        {"text": '{"sum": 3}'}
    ]


@given(st.lists(JSON | ODD_BLOCKS, max_size=6))
def test_whatever_came_there_is_one_item_of_a_known_form_for_each_block(blocks: list[Any]) -> None:
    made = ToolResult({"content": blocks}).to_tool_result("t")["content"]
    assert len(made) == len(blocks)
    for item in made:
        ((kind, value),) = item.items()
        if kind == "text":
            assert isinstance(value, str)
        else:
            assert kind == "image" and value["format"] in ("png", "jpeg", "gif", "webp")
            assert isinstance(value["source"]["bytes"], bytes)
