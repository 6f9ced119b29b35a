"""Content for model APIs: types of images, names of documents, data beside text."""

from __future__ import annotations

import pytest

from toolcrib.adapters import ContentPart, ToolAnswer
from toolcrib.adapters.model_content import describe, file_name, is_image, media_type, shown_parts, split_data
from toolcrib.types import UNSET, TextContent, ToolResult


@pytest.mark.parametrize(
    "data, given, found",
    [
        (b"\xff\xd8\xff\xe0", "image/png", "image/jpeg"),
        (b"GIF89a", "image/png", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/png", "image/webp"),
        (b"?", "image/JPG; q=1", "image/jpeg"),
        (b"?", "image/bmp", "image/bmp"),
    ],
)
def test_the_type_of_an_image(data: bytes, given: str, found: str) -> None:
    part = ContentPart("image", data=data, mime_type=given)
    assert media_type(part) == found
    assert is_image(part) is (found != "image/bmp")


def test_an_image_that_is_too_large_or_empty_is_none() -> None:
    assert not is_image(ContentPart("image", data=b"GIF89a", mime_type="image/gif"), 5)
    assert not is_image(ContentPart("image", mime_type="image/gif"))


def test_names_of_files() -> None:
    names = {"": "document.pdf", "file:///a/b%20c.pdf": "b c.pdf", "db://x/y/": "y.pdf", "urn:x": "x.pdf"}
    assert {uri: file_name(ContentPart("file", uri=uri), "pdf") for uri in names} == names


def test_bytes_that_are_no_text_are_described() -> None:
    part = ContentPart("file", data=b"\xff\xfe", mime_type="text/csv", uri="file:///t.csv")
    assert describe(part) == "[file:///t.csv: text/csv, 2 bytes]"
    assert describe(ContentPart("file", data=b"{}", mime_type="application/ld+json")) == "{}"


@pytest.mark.parametrize(
    "texts, data, repeated",
    [
        (["3"], 3, True),
        (["hello"], "hello", True),
        (['{"a": 1}'], {"a": 1}, True),
        (["a", "1"], ["a", 1], True),
        (["sum"], {"a": 1}, False),
        (["a"], ["a", "b"], False),
    ],
)
def test_data_is_shown_once(texts: list[str], data: object, repeated: bool) -> None:
    answer = ToolAnswer.from_result(ToolResult.from_blocks(map(TextContent, texts), data=data))
    assert len(shown_parts(answer)) == len(texts) + (not repeated)
    parts, found = split_data(answer)
    assert (len(parts), found) == (0 if repeated else len(texts), data)


def test_an_error_with_data_is_shown_as_text() -> None:
    answer = ToolAnswer.from_result(ToolResult.from_blocks([TextContent("no")], data={"code": 5}, is_error=True))
    parts, found = split_data(answer)
    assert found is UNSET and [part.text for part in parts] == ["no", '{"code": 5}']
